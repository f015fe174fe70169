"""Ambiguous and rare HTTP messages: streams of bytes that readers of HTTP/1.1 have read in different ways.

Each stream is a function of its number, so that a number that failed can be given again.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INNER = b"GET /inner HTTP/1.1\r\nHost: a\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n"

METHODS = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "CONNECT",
    "PATCH",
    "PRI",
    "get",
    "G@T",
    "GET\t",
    "X" * 40,
]
TARGETS = [
    "/a", "/a?b=c", "/a%20b?c%20d", "*", "http://a/x", "http://a", "http://a?x", "HTTP://a/x", "http://b:80/x", "a:80",
    "//b/x", "/a#f", "/é", "/a\x00b", "/a\x7fb", "/a\tb", "", "x", "/a b", "/../b", "https://u@a/x", "/\x85",
]  # fmt: skip
VERSIONS = (
    ["HTTP/1.1"] * 8 + ["HTTP/1.0"] * 3 + ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/01.1", ""]
)
ENDS = ["\r\n"] * 12 + ["\n", "\r", "\r\r\n", " \r\n"]
HOSTS = ["Host: a"] * 10 + [
    "",
    "Host: a\r\nHost: a",
    "Host: a\r\nHost: b",
    "Host: a b",
    "Host:",
    "host:a",
    "Host : a",
    "Host: a/b",
]
LENGTHS = ["{n}"] * 6 + [
    "+{n}", "0{n}", "{n}, {n}", " {n} ", "0x{n}", "{n}\t", "{n};", "-{n}", "", "{n}_0", "{n} {n}", "{n}.0", "{n}e0",
    "\x0b{n}", "99999999999999999999", "{less}", "{more}", "0", "{n},", "٣",
]  # fmt: skip
LENGTH_NAMES = ["Content-Length"] * 8 + [
    "content-length", "Content_Length", "Content-Length ", "Content-Length\t", "X-Content-Length", "Content\x00-Length",
]  # fmt: skip
CODINGS = ["chunked"] * 6 + [
    "Chunked", "CHUNKED", " chunked ", "\tchunked", "xchunked", "chunked, identity", "identity", "gzip, chunked",
    "chunked, chunked", "\x0bchunked", '"chunked"', "chunked;q=1", "", "identity, chunked", "chunked\x00", ",chunked",
    "chunked,",
]  # fmt: skip
CODING_NAMES = ["Transfer-Encoding"] * 8 + [
    "transfer-encoding", "Transfer_Encoding", "Transfer-Encoding ", "Transfer-Encoding\t", " Transfer-Encoding", "TE",
    "Transfer\x00-Encoding", "X: y\n Transfer-Encoding",
]  # fmt: skip
OTHERS = [
    "Connection: close", "Connection: keep-alive", "Connection: Upgrade\r\nUpgrade: x",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ", "Upgrade: websocket",
    "Connection: upgrade, close\r\nUpgrade: x", "Connection: Content-Length", "Connection: Transfer-Encoding",
    "Expect: 100-continue", "Expect: x", "Expect: 100-Continue", "X: a\r\n b", "X: a\r\n\tb", "X: a\rb", "X: a\nb",
    "X: \x00", "X: \x7f", "X:", "X", ": x", "X Y: z", "X: é", "X\x00: y", "Trailer: X", "TE: trailers",
    "Proxy-Connection: close",
]  # fmt: skip
SIZES = ["{x}"] * 10 + [
    "0{x}",
    "{X}",
    "0x{x}",
    "{x} ",
    " {x}",
    "+{x}",
    "-{x}",
    "{x}\t",
    "fffffffffffffffff{x}",
    "",
    "{x}h",
    "{x}_0",
]
EXTENSIONS = [""] * 10 + [
    ";a=b",
    '; a="b"',
    ";a",
    " ;a",
    ';a="b\r\nc"',
    ";a=b\n",
    ";\r",
    ";a\x00",
    '; a = "b;c"',
    ";" + "x" * 500,
]
CHUNK_ENDS = ["\r\n"] * 12 + ["\n", "\r", "", "\r\n\r\n", "x\r\n"]
TRAILERS = ["\r\n"] * 10 + [
    "X: y\r\n\r\n",
    "Content-Length: 5\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "\n",
    "",
    "X\r\n\r\n",
    " X: y\r\n\r\n",
    "X: y\n\n",
]
LEADS = [""] * 16 + ["\r\n", "\n", "\r\n\r\n", " ", "\x00"]
BODIES = [b"", b"x", b"{}", INNER, b"0\r\n\r\n" + INNER, b"\r\n" + INNER, b"5\r\nabcde\r\n0\r\n\r\n", b"abc" * 50]


def stream_of(number: int) -> bytes:
    """One to three messages that are ambiguous in one to three places, and a plain one behind them."""
    random = Random(number)
    return b"".join(_message(random) for _ in range(random.choice((1, 1, 1, 2, 3)))) + LAST


def _message(random: Random) -> bytes:

    def pick(values: Sequence[str]) -> str:
        """Any of *values* in one of ten places, and the first, which is usual, in the others."""
        return random.choice(values) if random.random() < 0.1 else values[0]

    body = random.choice(BODIES)
    framing = random.choice(("length", "chunks", "chunks", "none", "both", "twice"))
    method = pick(["POST", *METHODS])
    line = f"{method} {pick(TARGETS)} {pick(VERSIONS)}"
    fields = [host] if (host := pick(HOSTS)) else []
    sizes = {"n": len(body), "less": max(0, len(body) - 1), "more": len(body) + 1}
    if framing in ("length", "both", "twice"):
        fields.append(f"{pick(LENGTH_NAMES)}: {pick(LENGTHS).format(**sizes)}")
    if framing == "twice":
        fields.append(f"{pick(LENGTH_NAMES)}: {pick(LENGTHS).format(**sizes)}")
    if framing in ("chunks", "both"):
        fields.append(f"{pick(CODING_NAMES)}: {pick(CODINGS)}")
    if random.random() < 0.5:
        fields.append(random.choice(OTHERS))
    random.shuffle(fields)
    end = pick(ENDS)
    head = pick(LEADS) + line + end + "".join(field + pick(ENDS) for field in fields) + end
    sent = body if framing not in ("chunks", "both") else _chunks(random, body, pick)
    return head.encode("latin-1", "replace") + sent


def _chunks(random: Random, body: bytes, pick: Callable[[Sequence[str]], str]) -> bytes:
    parts = [body] if random.random() < 0.6 or not body else [body[:1], body[1:]]
    text = b""
    for part in filter(None, parts):
        size = pick(SIZES).format(x=f"{len(part):x}", X=f"{len(part):X}")
        text += (
            (size + pick(EXTENSIONS) + pick(CHUNK_ENDS)).encode("latin-1") + part + pick(CHUNK_ENDS).encode("latin-1")
        )
    last = random.choice(("0", "0", "0", "0", "00", "000", "0;a", "0 ", "-0", "+0"))
    return text + (last + pick(CHUNK_ENDS) + pick(TRAILERS)).encode("latin-1")
