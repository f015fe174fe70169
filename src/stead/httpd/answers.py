"""Answers of an application, and the bytes of their heads. Source: RFC 9112, section 6, and RFC 9110, section 6.6.1."""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BODILESS = ("1", "204", "304")
_WITHOUT_LENGTH = ("1", "204")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@runtime_checkable
class Attachable(Protocol):
    """A body whose parts other threads produce over time."""

    def attach(self, send: Callable[[bytes | None], None]) -> None:
        """Call *send* with each part, in any thread, and with None at the end; *send* never blocks."""

    def close(self) -> None:
        """Produce no further parts. May be called twice, and after the last part."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The application's answer: a body in pieces, or a ``stream`` if the parts are produced over time."""

    status: str
    headers: list[tuple[str, str]]
    pieces: Sequence[bytes]
    stream: Attachable | None = None


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
        length: of the body in bytes. None if there is no body, if the length is not known in advance, or if only the
            application knows it, as in answers to HEAD.
        closes: the connection ends after the answer.
        keeps_1_0: a client of HTTP/1.0 asked to keep the connection, and it is kept.
        chunked: the body comes in chunks.

    Raises:
        ValueError: a field contains a line break, which could forge another field.
    """
    lines = [f"HTTP/1.1 {status}"]
    for name, value in headers:
        lowered = name.lower()
        if lowered in ("connection", "transfer-encoding", "date"):
            continue  # the server sets these fields itself
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
