"""Heads of requests: what HTTP/1.1 requires beyond the grammar. Pure functions.

The parser rejects what breaks the grammar: folded lines, bare line feeds, conflicting lengths, invalid bytes in
fields. Source: RFC 9112, sections 2 to 6, and RFC 9110, sections 7.2 and 10.1.1.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import unquote_to_bytes, urlsplit

from stead.httpd.refusals import Refusal, Refused, bad_request

_HOST = re.compile(r"(\[[0-9A-Fa-f:.%A-Za-z]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(:[0-9]*)?")
_SCHEMES = ("http", "https")
_DIGITS_OF_A_LENGTH = 18


def split_target(method: str, target: bytes) -> tuple[str, str, str | None]:
    """Path, decoded to Latin-1 as WSGI has it; query; and the authority of an absolute target.

    Raises:
        Refused: it is not the target of an HTTP resource.
    """
    text, authority = target.decode("latin-1"), None
    if not text.startswith("/") and (text != "*" or method != "OPTIONS"):  # `*` is for OPTIONS alone
        text, authority = _absolute(text)
    path, _, query = text.partition("?")
    if "#" in text:
        raise Refused(bad_request("the request target has a fragment"))
    return unquote_to_bytes(path).decode("latin-1") if "%" in path else path, query, authority


def _absolute(text: str) -> tuple[str, str]:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in _SCHEMES or not parts.netloc or not _HOST.fullmatch(parts.netloc):
        raise Refused(bad_request("malformed request target"))
    rest = text[text.index("://") + 3 + len(parts.netloc) :]
    return rest if rest.startswith("/") else "/" + rest, parts.netloc


def require_version(version: str) -> None:
    """Refuse all versions except HTTP/1.0 and 1.1."""
    if version not in ("1.1", "1.0"):
        detail = f"HTTP/{version} is not supported; use HTTP/1.1"
        raise Refused(Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "bad_request", detail))


def require_host(fields: dict[str, str], *, is_1_0: bool) -> None:
    """Refuse a head without exactly one Host field. Only an HTTP/1.0 client may omit it."""
    host = fields.get("HTTP_HOST")
    if host is None:
        if not is_1_0:
            raise Refused(bad_request("no Host header"))
    elif not _HOST.fullmatch(host):  # two fields were joined with a comma
        raise Refused(bad_request("malformed Host header, or more than one"))


def body_length(fields: dict[str, str], *, is_1_0: bool) -> int | None:
    """Bytes of the body as declared; None if it comes in chunks.

    Raises:
        Refused: different readers would compute different lengths.
    """
    coding, length = fields.get("HTTP_TRANSFER_ENCODING"), fields.get("CONTENT_LENGTH")
    if coding is None:
        if length is None:
            return 0
        if not (length.isascii() and length.isdigit()) or len(length) > _DIGITS_OF_A_LENGTH:
            raise Refused(bad_request("malformed Content-Length"))
        return int(length)
    if length is not None or is_1_0:
        raise Refused(bad_request("Transfer-Encoding together with Content-Length, or in HTTP/1.0"))
    if coding.lower() != "chunked":
        detail = "only Transfer-Encoding: chunked is supported"
        raise Refused(Refusal(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", detail))
    return None


def head_of_body(length: int | None, *, keeps: bool) -> bytes:
    """A head after which a parser reads a body of *length* bytes, or in chunks if it is None, and nothing else."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    connection = "keep-alive" if keeps else "close"
    return f"POST / HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n{framing}\r\n\r\n".encode()


def expects_continue(fields: dict[str, str], *, is_1_0: bool) -> bool:
    """Whether the client waits for ``100 Continue`` before it sends the body.

    Raises:
        Refused: the Expect header has another value.
    """
    expectation = fields.get("HTTP_EXPECT")
    if expectation is None:
        return False
    if expectation.lower() != "100-continue":
        raise Refused(Refusal(HTTPStatus.EXPECTATION_FAILED, "bad_request", "unknown expectation"))
    return not is_1_0
