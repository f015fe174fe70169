"""Readers of HTTP/1.1: what each makes of the same bytes."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import h11
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser

from wsgi_lanes.answers import Refusal
from wsgi_lanes.bounds import Bounds, Budget
from wsgi_lanes.reader import Reader
from wsgi_lanes.requests import Lane, Peers, Request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wsgi_lanes.requests import Request


EMPTY_LINES = b"\r\n"
"""This server skips them before a request, as RFC 9112, section 2.2, advises; h11 and gunicorn refuse most of them. No
reader takes them for a message, so these two get a stream without them."""


class Message(NamedTuple):
    """A request as a reader understood it; *target* as written, without the authority of an absolute one."""

    method: str
    target: str
    body: bytes


class Reading(NamedTuple):
    """The complete messages of a stream in order, and whether the reader refused what follows and closed."""

    messages: tuple[Message, ...]
    has_refused: bool


def target_of(raw: str) -> str:
    """The path and the query of a target, without an authority."""
    scheme, separator, rest = raw.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        place = min((rest.find(mark) for mark in "/?" if mark in rest), default=len(rest))
        path = rest[place:]
        return path if path.startswith("/") else f"/{path}"
    return raw


class _Routes:
    def lane(self, _request: Request) -> Lane:
        return Lane.READ

    def credential(self, _request: Request) -> str | None:
        return None

    def longest_body(self, _method: str, _path: str) -> int:
        return 1_000_000


def by_this_server(pieces: Iterable[bytes]) -> Reading:
    """As this server reads them, up to the request after which it closes."""
    targets: list[str] = []

    class _Reader(Reader):
        def on_headers_complete(self) -> None:
            if not self._is_resuming:
                targets.append(target_of(self._target.decode("latin-1")))
            super().on_headers_complete()

    reader = _Reader(
        Peers("192.0.2.1", False, {}),
        None,
        bounds=Bounds(),
        routes=_Routes(),
        bodies=Budget(10**9),
    )  # type: ignore[arg-type]
    read: list[Request | Refusal] = []
    for piece in pieces:
        reader.feed(piece, 1.0)
        while reader.has_more:  # it stops at each request until that one is taken, as a connection takes it
            read += reader.read
            reader.read.clear()
            reader.proceed(1.0)
    messages: list[Message] = []
    for each, target in zip(read, [*targets, ""], strict=False):
        if isinstance(each, Refusal):
            return Reading(tuple(messages), has_refused=True)
        messages.append(Message(each.method, target, bytes(each.body)))
        if not each.keeps_connection:
            return Reading(tuple(messages), has_refused=True)
    return Reading(tuple(messages), has_refused=False)


def by_h11(stream: bytes) -> Reading:
    """As h11 reads them, with answers that accept no upgrade and no tunnel."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
    connection.receive_data(stream.lstrip(EMPTY_LINES))
    messages: list[Message] = []
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return Reading(tuple(messages), has_refused=False)
            if not isinstance(event, h11.Request):
                return Reading(tuple(messages), has_refused=True)
            body = b""
            while isinstance(part := connection.next_event(), h11.Data):
                body += part.data
            if not isinstance(part, h11.EndOfMessage):
                return Reading(tuple(messages), has_refused=False)  # it waits for the rest
            messages.append(Message(event.method.decode("latin-1"), target_of(event.target.decode("latin-1")), body))
            connection.send(h11.Response(status_code=404, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            # h11 ends every connection of HTTP/1.0, also where the client and this server agree to keep it.
            is_kept = event.http_version == b"1.0" and (b"connection", b"keep-alive") in event.headers
            if (not is_kept and connection.our_state is not h11.DONE) or connection.their_state not in (
                h11.DONE,
                h11.MIGHT_SWITCH_PROTOCOL,
            ):
                return Reading(tuple(messages), has_refused=True)
            rest, _ = connection.trailing_data
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
            connection.receive_data(rest.lstrip(EMPTY_LINES)) if rest else None
    except h11.ProtocolError:
        return Reading(tuple(messages), has_refused=True)


def by_gunicorn(stream: bytes) -> Reading:
    """As gunicorn's parser reads them, with its default settings."""
    ours, theirs = socket.socketpair()
    messages: list[Message] = []
    with ours, theirs:
        ours.sendall(stream)
        ours.shutdown(socket.SHUT_WR)
        parser = RequestParser(Config(), theirs, ("192.0.2.1", 1))
        try:
            while True:
                rest = b"".join(iter(parser.unreader.read, b""))
                parser.unreader.unread(rest.lstrip(EMPTY_LINES))
                request = next(parser)
                body = request.body.read()
                messages.append(Message(request.method, target_of(request.uri), body))
                if request.should_close():
                    return Reading(tuple(messages), has_refused=True)
        except StopIteration:
            return Reading(tuple(messages), has_refused=False)
        except Exception:  # its refusals have many classes
            return Reading(tuple(messages), has_refused=True)


def by_server(address: tuple[str, int], stream: bytes) -> Reading:
    """As a server reads them whose answers repeat what it has read."""
    received = b""
    with socket.create_connection(address, timeout=10) as connection, suppress(OSError):
        connection.sendall(stream)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            received += part
    messages = []
    for line in received.split(b"\n"):
        if line.startswith(b"X-Read: "):
            shown = json.loads(line.partition(b" ")[2])
            messages.append(Message(shown["method"], target_of(shown["target"]), bytes.fromhex(shown["body"])))
    return Reading(tuple(messages), has_refused=b" 400 " in received or b" 501 " in received)


def agree(first: Sequence[Message], second: Sequence[Message]) -> bool:
    """Whether one has read the beginning of what the other has read."""
    return all(one == other for one, other in zip(first, second, strict=False))
