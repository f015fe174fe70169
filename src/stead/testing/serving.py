"""A Placement in this process: over HTTP on a free port, or as a site."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from stead.client.blocking.connecting import ADMIN, connect
from stead.client.blocking.site import Site
from stead.client.blocking.transport import InProcess
from stead.embedded import directory_in_memory, start
from stead.observe.log import silenced
from stead.serve.worker import ApiRoutes, bounds_of, error_body
from stead.testing.faults import Faults
from wsgi_lanes.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.embedded import Opened
    from wsgi_lanes.answers import Answer, Refusal
    from wsgi_lanes.requests import AnswerReceiver, Request

THREADS = 8
"""Requests that the server answers at the same time."""

STOP_SECONDS = 1.0
"""How long requests under way may take when the server stops."""

_BREAK = ("x-stead-testing", "break the connection")

_template: bytes | None = None
"""A database with tables and standard names, for all databases after the first one of this process."""


class Placement(str):
    """The URL of a server, with what tests need of it.

    Attributes:
        faults: makes it fail.
    """

    __slots__ = ("_pass_time", "_sites", "faults")

    faults: Faults
    _pass_time: Callable[[int], None]
    _sites: list[Site]

    def site(self, *, project: str = "test", timeout: float = 30.0) -> Site:
        """A site that is connected to it, and closed with it."""
        made = connect(str(self), ADMIN, project=project, timeout=timeout)
        self._sites.append(made)
        return made

    def pass_time(self, seconds: int) -> None:
        """Let all leases end sooner by *seconds*, as if no client had renewed them, and return when those have ended.

        A claim that a site holds is lost, too, if its lease is shorter. The holder notices when it renews next, which
        is after a third of the lease.
        """
        self._pass_time(seconds)

    @classmethod
    def at(cls, port: int, faults: Faults, pass_time: Callable[[int], None]) -> Placement:
        """The server on this port of 127.0.0.1."""
        placement = cls(f"http://127.0.0.1:{port}")
        placement.faults = faults
        placement._pass_time = pass_time
        placement._sites = []
        return placement

    def close_sites(self) -> None:
        """Close all sites."""
        while self._sites:
            self._sites.pop().close()


@contextmanager
def placement(*, upstream_only: bool = False) -> Iterator[Placement]:
    """A server on a free port of 127.0.0.1, with an empty database in memory. Any token is accepted, or none.

    A token ``user:project`` is that user; ``admin``, and no token, is an administrator.

    Args:
        upstream_only: without Stead's own features, as OpenStack Placement.
    """
    with _opened() as opened, socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        faults = Faults(opened.application, upstream_only=upstream_only)
        settings = opened.settings
        server = _Server(
            _Breaking(faults),
            ApiRoutes("", settings.request_limits.body_size),
            replace(bounds_of(settings), stop=STOP_SECONDS),
            threads=THREADS,
            error_body=error_body,
        )
        url = Placement.at(listening.getsockname()[1], faults, opened.pass_time)
        thread = Thread(target=server.run, args=([listening],), name="placement", daemon=True)
        thread.start()
        try:
            yield url
        finally:
            url.close_sites()
            # The server belongs to the thread of its loop, so only that thread may call its methods.
            server.loop.call_soon_threadsafe(server.drain, 0.0)
            thread.join()


@contextmanager
def site(*, project: str = "test", upstream_only: bool = False) -> Iterator[PlacementSite]:
    """The same without HTTP: a site with Stead in this process. Its ``faults`` are those of :class:`Placement`."""
    with _opened() as opened:
        faults = Faults(opened.application, upstream_only=upstream_only)
        made = PlacementSite(InProcess(faults, "in memory", lambda: None), ADMIN, project=project)
        made.faults = faults
        made.pass_time = opened.pass_time
        yield made


class PlacementSite(Site):
    """A site with Stead in this process.

    Attributes:
        faults: makes it fail.
        pass_time: as :meth:`Placement.pass_time`.
    """

    faults: Faults
    pass_time: Callable[[int], None]


@contextmanager
def _opened() -> Iterator[Opened]:
    global _template  # noqa: PLW0603  # a cache
    with ExitStack() as undoing:
        directory = undoing.enter_context(directory_in_memory())
        database = Path(directory) / "stead.db"
        if _template is not None:
            database.write_bytes(_template)
        with silenced("stead.store.sql.dialects"):  # that a crash of the machine loses claims
            opened = start(directory, is_durable=False)
        undoing.callback(opened.close)
        if _template is None:
            _template = _content(database)
        yield opened


def _content(database: Path) -> bytes:
    import sqlite3

    connection = sqlite3.connect(database)
    try:
        return connection.serialize()  # with what is still in the write-ahead log
    finally:
        connection.close()


class _Breaking:
    """Tells the server in a header that the connection is to be broken."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        try:
            return self._application(environ, start_response)
        except ConnectionResetError:
            # Of a lost response, the application has started the first one.
            start_response("500 Lost", [_BREAK], (ConnectionResetError, ConnectionResetError(), None))  # type: ignore[arg-type]  # WSGI has a traceback there, and this has none
            return [b""]


class _Server(Server):
    """A server that breaks a connection instead of sending a response with the header for that."""

    def submit(self, request: Request) -> None:
        request.receiver = _Fragile(request.receiver, self)
        super().submit(request)


class _Fragile:
    def __init__(self, connection: AnswerReceiver, server: Server) -> None:
        self._connection = connection
        self._server = server

    def deliver(self, answer: Answer) -> None:
        if _BREAK in answer.headers:
            self._server.loop.call_soon_threadsafe(self._connection.evict)  # type: ignore[attr-defined]  # the server that serves this has it
        else:
            self._connection.deliver(answer)

    def refuse(self, refusal: Refusal) -> None:
        self._connection.refuse(refusal)
