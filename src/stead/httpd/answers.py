"""The bytes of an answer's head. Source: RFC 9112, section 6, and RFC 9110, section 6.6.1."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache

_BODILESS = ("1", "204", "304")
_WITHOUT_LENGTH = ("1", "204")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def has_no_body(status: str) -> bool:
    """Whether answers of *status* end after their head (RFC 9112, section 6.3).

    A client would read a body as the beginning of the next answer.
    """
    return status.startswith(_BODILESS)


def head_of(
    status: str,
    headers: list[tuple[str, str]],
    *,
    length: int | None,
    closes: bool,
    keeps_1_0: bool = False,
    chunked: bool = False,
) -> bytes:
    """Status line and header fields, with the empty line after them.

    Args:
        length: of the body in bytes; None if there is none, if it is not known before its end, or if the application
            alone knows it, as in answers to HEAD.
        closes: the connection ends after the answer.
        keeps_1_0: a client of HTTP/1.0 asked to keep the connection, and it is kept.
        chunked: the body comes in chunks.

    Raises:
        ValueError: a field has a line break in it, with which it could forge another.
    """
    lines = [f"HTTP/1.1 {status}"]
    for name, value in headers:
        lowered = name.lower()
        if lowered in ("connection", "transfer-encoding", "date"):
            continue  # they are the server's business
        if lowered == "content-length" and (length is not None or chunked or status.startswith(_WITHOUT_LENGTH)):
            continue
        lines.append(f"{name}: {value}")
    if chunked:
        lines.append("transfer-encoding: chunked")
    elif length is not None:
        lines.append(f"content-length: {length}")
    if closes:
        lines.append("connection: close")
    elif keeps_1_0:
        lines.append("connection: keep-alive")
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
        raise ValueError("a header field of an answer has a line break")
    return text.encode("latin-1") + b"\r\ndate: " + _date(int(time.time())) + b"\r\n\r\n"


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
