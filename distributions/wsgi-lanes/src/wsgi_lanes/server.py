"""The server of one worker: accepts connections, runs the event loop until a request to stop, and drains."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from collections import Counter, OrderedDict
from contextlib import suppress
from functools import partial
from heapq import nsmallest
from http import HTTPStatus
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from wsgi_lanes import proxy_protocol
from wsgi_lanes.admission import LONG_SECONDS, Admission
from wsgi_lanes.answers import Answer, Refusal, Refusals, overloaded, problem_details
from wsgi_lanes.bounds import MIB, Budget, Reading
from wsgi_lanes.connection import Connection, ConnectionState
from wsgi_lanes.requests import FREE_SIZE, Lane, Peers
from wsgi_lanes.wsgi import Application, ThreadPool

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping, Sequence
    from wsgiref.types import WSGIApplication

    from wsgi_lanes.answers import ErrorBody
    from wsgi_lanes.bounds import Bounds
    from wsgi_lanes.requests import Request, Routes

CHECK_SECONDS = 1.0
"""Interval between checks of the deadlines of all connections."""

ACCEPTED_AT_A_TIME = 64
"""Maximum number of new connections accepted in a row, so that the loop also serves the present ones."""

CHECKED_AT_A_TIME = 64
"""Connections whose deadlines are checked in a row. Thousands can be overdue at once; refusing all takes seconds."""

FULL_SECONDS = 0.02
"""For which no connection is accepted while there are too many."""

DESCRIPTORS_KEPT = 128
"""File descriptors reserved for the database, files and logs; connections cannot use them."""

FRESH_SECONDS = 1.0
"""Minimum age of a connection that is closed in favour of another: the first request of a new one is on its way."""

HEALTH_QUEUE = 64
"""Requests for `/healthcheck` that may wait for its thread. All get the same answer, so one thread is enough."""

SIGN_IN_THREADS = 8
"""Attempts to sign in that run at the same time. Each waits for another service, and computes for a millisecond."""

SIGN_IN_QUEUE = 16
"""Further attempts that may wait. The others are refused at once: a user can try again."""

REFUSED_AT_A_TIME, REFUSAL_SECONDS = 20, 0.05
"""How many requests are refused in a row because a queue is full, and the interval. So a client that asks again at once
takes little of the loop's time: with 10,000 connections, each is refused once in 25 s."""

RETURNED_SIZE = 32 * MIB
"""Freed memory of connections is returned to the kernel from this size on, if it was most of what was used."""

RETURN_SECONDS = 10.0
"""Interval between two returns. Each takes some milliseconds, in which no thread can allocate."""

PLAIN = Refusal(HTTPStatus.BAD_REQUEST, "protocol", "This port speaks TLS: use https.")

LIVE = Answer("200 OK", [("content-type", "application/json"), ("cache-control", "no-store")], [b'{"status": "ok"}'])

_log = logging.getLogger(__name__)


class Server:
    """One event loop, its connections, and the threads behind it.

    Attributes:
        bounds: the limits for clients.
        routes: classifies requests.
        is_draining: it accepts no connections, and every answer ends its connection.
        reading: the buffer for what clients send, and how much of it the loop reads in one turn.
        bodies, unsent: bytes of requests that arrive or wait, and of unread answers.
        refusals: counts refused requests and connections.
    """

    def __init__(
        self,
        application: WSGIApplication,
        routes: Routes,
        bounds: Bounds,
        *,
        threads: int,
        error_body: ErrorBody = problem_details,
        return_freed: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the server without listening. Its threads already wait for requests.

        Args:
            threads: number of threads that run the application, without the spare ones.
            error_body: the form of the errors that the server answers itself.
            return_freed: returns the freed memory of the process to the kernel.
        """
        self.bounds = bounds
        self.routes = routes
        self.is_draining = False
        self.bodies = Budget(bounds.bodies)
        self.unsent = Budget(bounds.unsent)
        self.refusals = Refusals()
        self.loop = asyncio.new_event_loop()
        self.reading = Reading(self.loop.call_soon)
        self._most_connections = min(bounds.connections, _descriptors() - DESCRIPTORS_KEPT)
        self._connections: dict[Connection, asyncio.Task[Any] | None] = {}  # in the order of their arrival
        self._ending: dict[Connection, None] = {}  # in favour of others; their clients may still read and send
        self._supervising: set[Connection] = set()  # never evicted, and ignored when draining
        self._listening: list[socket.socket] = []
        self._ended = asyncio.Event()
        self._drain_until = 0.0
        self._return_freed = return_freed
        self._returned_at = float("-inf")
        self._refused: OrderedDict[Request, None] = OrderedDict()  # that found a full queue, the first ones first
        self._is_refusing = False  # a call of `_refuse_next` is scheduled
        self._most_held = 0  # bytes for connections, since freed memory was last returned
        self.error_body = error_body
        self._application = Application(application, error_body)
        self._admission = Admission(bounds, threads, lambda: not self.unsent.is_exceeded)
        self._is_waking = False  # a call of `_wake` is scheduled
        self._health = _SeparateThreads(self._application, 1, HEALTH_QUEUE, "health")
        self._signing_in = _SeparateThreads(self._application, SIGN_IN_THREADS, SIGN_IN_QUEUE, "sign-in")
        ThreadPool(
            self._application,
            self._admission.threads,
            self._admission.take,
            lambda request, is_refused: self._admission.done(request, is_refused=is_refused),
            self._admission.accept,
        )

    def run(
        self,
        listening: Sequence[socket.socket],
        *,
        supervising: Sequence[socket.socket] = (),
        context: ssl.SSLContext | None = None,
        signals: Mapping[int, Callable[[], None]] | None = None,
    ) -> None:
        """Serve until the server has drained.

        Args:
            listening: listening sockets; other processes may listen on them too.
            supervising: connections of the process that supervises this one, without TLS. They may be idle for any
                time, since that process may be stopped, and the end of this process does not wait for them.
            context: TLS context for connections on the listening sockets.
            signals: handlers of signals, called in the loop.
        """
        self._context = context
        if self.is_draining:
            for sock in listening:
                sock.close()
        else:
            self._listening = list(listening)
        for number, handler in (signals or {}).items():
            self.loop.add_signal_handler(number, handler)
        self.loop.set_exception_handler(_log_exception)
        try:
            self.loop.run_until_complete(self._serve(supervising))
        finally:
            self._admission.stop(self._admission.threads)
            self._health.stop()
            self._signing_in.stop()
            self.loop.close()

    def drain(self, seconds: float) -> None:
        """Accept no further connections, serve the open ones for some *seconds*, and end.

        Each answer ends its connection meanwhile. Running requests are answered even after that time. A second call
        can shorten the time.
        """
        until = self.loop.time() + seconds
        if not self.is_draining:
            self.is_draining = True
            self._drain_until = until
            for sock in self._listening:
                self.loop.remove_reader(sock)
                sock.close()
            self._listening.clear()
        self._drain_until = min(self._drain_until, until)
        self._check_all()

    # For metrics; called in any thread.

    def states(self) -> dict[str, int]:
        """The number of client connections in each state."""
        # A copy: the loop may change the connections while this thread counts them.
        counted = Counter(connection.state.value for connection in list(self._connections))
        return {state.value: counted[state.value] for state in ConnectionState if state is not ConnectionState.CLOSED}

    def queue_lengths(self) -> dict[str, int]:
        """Number of requests that wait for a thread, by lane."""
        return self._admission.lengths()

    def queue_ages(self) -> dict[str, float]:
        """Seconds for which the oldest of these requests has waited, by lane."""
        return self._admission.ages(self.loop.time())

    # For connections.

    def peers_of(self, transport: asyncio.Transport, client: str | None) -> Peers:
        """The two ends of a new connection; *client* is the address that a trusted proxy gives its client."""
        here, there = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        is_encrypted = transport.get_extra_info("ssl_object") is not None
        if not isinstance(here, tuple):  # a Unix socket
            return Peers("", is_encrypted, {"SERVER_NAME": "localhost", "SERVER_PORT": "", "REMOTE_ADDR": ""})
        remote = client or str(there[0])
        environ = {"SERVER_NAME": str(here[0]), "SERVER_PORT": str(here[1]), "REMOTE_ADDR": remote}
        return Peers(remote, is_encrypted, environ)

    def submit(self, request: Request) -> None:
        """Queue *request* for an answer. If the queue is full, it gets another chance, and a refusal, in its turn."""
        if self._queue(request) is not None:
            self._refused[request] = None
            if not self._is_refusing:
                self._is_refusing = True
                self.loop.call_later(REFUSAL_SECONDS, self._refuse_next)

    def _refuse_next(self) -> None:
        """Queue or refuse the requests that have waited longest for that. Their connections are not read meanwhile."""
        for _ in range(min(len(self._refused), REFUSED_AT_A_TIME)):
            request, _ = self._refused.popitem(last=False)
            refusal = self._queue(request)
            if refusal is not None:
                request.receiver.refuse(refusal)
        self._is_refusing = bool(self._refused)
        if self._is_refusing:
            self.loop.call_later(REFUSAL_SECONDS, self._refuse_next)

    def _queue(self, request: Request) -> Refusal | None:
        """Queue *request* for an answer. Returns the refusal if the queue is full."""
        request.lane = self.routes.lane(request)
        if request.lane is Lane.LIVE:
            request.receiver.deliver(LIVE)
            return None
        if request.lane is Lane.INSTANT:
            self._application.answer(request)
            return None
        if request.lane is Lane.HEALTH:
            return (
                None
                if self._health.put(request)
                else overloaded("queue_full", "too many health checks at the same time")
            )
        if request.lane is Lane.SIGN_IN:
            return (
                None
                if self._signing_in.put(request)
                else overloaded("queue_full", "too many users sign in at the same time")
            )
        request.credential = self.routes.credential(request)
        refusal = self._admission.put(request)
        if not self._is_waking and self._admission.length():
            self._is_waking = True
            self.loop.call_later(LONG_SECONDS, self._wake)
        return refusal

    def drop(self, request: Request) -> bool:
        """Remove *request* from the queue. Returns False if a thread has taken it already."""
        if request in self._refused:
            del self._refused[request]
            return True
        return self._admission.drop(request)

    def postpone(self, request: Request) -> None:
        """Let other requests pass *request*: its client sends no more, and may have disconnected."""
        if request not in self._refused:
            self._admission.postpone(request)

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._connections.pop(connection, None)
        self._ending.pop(connection, None)
        self._supervising.discard(connection)
        if self.is_draining and not self._connections:
            self._ended.set()

    def cancel_handshake(self, connection: Connection) -> None:
        """End a connection whose TLS handshake is incomplete."""
        task = self._connections.get(connection)
        if task is not None:
            task.cancel()

    # The loop.

    def _wake(self) -> None:
        """While requests wait, let them start beside those that have become long."""
        self._admission.wake()
        self._is_waking = bool(self._admission.length())
        if self._is_waking:
            self.loop.call_later(LONG_SECONDS, self._wake)

    async def _serve(self, supervising: Sequence[socket.socket]) -> None:
        for sock in supervising:
            sock.setblocking(False)
            connection = Connection(self, self.loop.time(), may_idle=True)
            self._supervising.add(connection)
            await self.loop.connect_accepted_socket(partial(_itself, connection), sock)
        for sock in self._listening:
            sock.setblocking(False)
            self.loop.add_reader(sock, self._accept, sock)
        checking = asyncio.create_task(self._check())
        await self._ended.wait()
        checking.cancel()
        for connection in list(self._supervising):
            connection.evict()
        await asyncio.sleep(0)  # the loop calls `connection_lost` meanwhile

    def _accept(self, listening: socket.socket) -> None:
        if len(self._connections) - len(self._ending) + ACCEPTED_AT_A_TIME > self._most_connections:
            self._make_room()
        self._evict_ending(len(self._connections) - self._most_connections)
        for _ in range(ACCEPTED_AT_A_TIME):
            if len(self._connections) >= self._most_connections + ACCEPTED_AT_A_TIME:
                # The evicted connections have not closed yet. To be called at once again would keep a core busy.
                self._pause_accepting(listening, FULL_SECONDS)
                return
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptor or no memory: retrying at once would keep a core busy.
                _log.warning("no connection can be accepted: %s", error)
                self._pause_accepting(listening, CHECK_SECONDS)
                self._make_room()
                self._evict_ending(ACCEPTED_AT_A_TIME)
                return
            sock.setblocking(False)
            connection = Connection(self, self.loop.time())
            self._connections[connection] = None
            self._connections[connection] = self.loop.create_task(self._open(connection, sock, address))

    def _pause_accepting(self, listening: socket.socket, seconds: float) -> None:
        self.loop.remove_reader(listening)
        self.loop.call_later(seconds, self._accept_again, listening)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self.loop.add_reader(listening, self._accept, listening)

    async def _open(self, connection: Connection, sock: socket.socket, address: Any) -> None:
        networks = self.bounds.proxies
        try:
            # A Unix socket has no address. The header comes before TLS, so the transport must not read it.
            if networks and isinstance(address, tuple) and proxy_protocol.is_in(address[0], networks):
                connection.client = await proxy_protocol.client_address(partial(self.loop.sock_recv, sock))
            context = self._context
            if context is not None and (await self._first_byte(sock)).isalpha():
                connection.refusal, context = PLAIN, None
            await self.loop.connect_accepted_socket(
                partial(_itself, connection),
                sock,
                ssl=context,
                ssl_handshake_timeout=None if context is None else self.bounds.head_timeout,
            )
            if connection in self._connections:
                self._connections[connection] = None
        except proxy_protocol.Malformed:
            self.refusals.add("proxy_protocol")
            sock.close()
            self.remove(connection)
        except (OSError, TimeoutError, asyncio.CancelledError):  # the client disconnected or does not speak TLS
            sock.close()
            self.remove(connection)

    async def _first_byte(self, sock: socket.socket) -> bytes:
        """The first byte of a connection, which stays unread; empty if there is none.

        Raises:
            OSError: the client has reset the connection.
        """
        arrived = asyncio.Event()
        self.loop.add_reader(sock, arrived.set)
        try:
            await arrived.wait()
        finally:
            self.loop.remove_reader(sock)
        return sock.recv(1, socket.MSG_PEEK)

    def _make_room(self) -> None:
        """End the connections that have waited longest for a request, first those that never sent one."""
        fresh = self.loop.time() - FRESH_SECONDS
        closable = (
            connection
            for connection in self._connections
            if connection.can_be_closed and connection not in self._ending
        )
        for connection in nsmallest(
            ACCEPTED_AT_A_TIME, closable, key=lambda each: (each.has_served or each.since > fresh, each.since)
        ):
            if not connection.has_served:
                connection.evict()
            elif connection.end_politely():
                self._ending[connection] = None
            else:
                continue  # its next request has just arrived
            self.refusals.add("connections")

    def _evict_ending(self, number: int) -> None:
        """Close up to *number* connections that were ended before, the first ones first."""
        for connection in list(islice(self._ending, max(0, number))):
            del self._ending[connection]
            connection.evict()

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS if not self.is_draining else CHECK_SECONDS / 10)
            connections = [*self._connections, *self._supervising]
            for first in range(0, len(connections), CHECKED_AT_A_TIME):
                for connection in connections[first : first + CHECKED_AT_A_TIME]:
                    connection.check(self.loop.time())
                await asyncio.sleep(0)
            self._check_all()

    def _check_all(self) -> None:
        """Check what concerns all connections together."""
        now = self.loop.time()
        limit = self.bounds.name_of("queue_timeout")
        for request in self._admission.expire(now):
            request.receiver.refuse(overloaded("queue_timeout", f"no thread was free in time ({limit})"))
        if not self.unsent.is_exceeded:
            self._admission.wake()
        self.refusals.log(now)
        self._return_memory(now)
        if self.is_draining:
            self._end_connections(now)

    def _return_memory(self, now: float) -> None:
        """After an attack, return its memory to the kernel. Until then it is kept, since most load comes again."""
        size = self.bodies.used + self.unsent.used + FREE_SIZE * len(self._connections)
        self._most_held = max(self._most_held, size)
        is_much = self._most_held - size >= max(RETURNED_SIZE, size)
        if is_much and now - self._returned_at >= RETURN_SECONDS:
            self._returned_at, self._most_held = now, size
            self._return_freed()

    def _end_connections(self, now: float) -> None:
        if now >= self._drain_until:
            for connection in list(self._connections):
                connection.end_if_idle()
        if now >= self._drain_until + self.bounds.stop and self._connections:
            _log.warning("%d connections did not end in %d s", len(self._connections), self.bounds.stop)
            self._connections.clear()
        if not self._connections:
            self._ended.set()


class _SeparateThreads:
    """Threads for requests that must neither wait for the others nor delay them, and a short queue before them."""

    def __init__(self, application: Application, threads: int, most: int, name: str) -> None:
        """*most* requests may wait."""
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        self._threads = threads
        self._most = most
        ThreadPool(
            application, threads, self._queue.get, lambda _request, _is_refused: None, lambda _request: None, name=name
        )

    def put(self, request: Request) -> bool:
        """Queue *request*. Returns False if too many wait."""
        if self._queue.qsize() >= self._most:
            return False
        self._queue.put(request)
        return True

    def stop(self) -> None:
        """End the threads, after what waits."""
        for _ in range(self._threads):
            self._queue.put(None)


def _itself(connection: Connection) -> Connection:
    """A connection as the protocol factory that the loop requires."""
    return connection


def _descriptors() -> int:
    """Raise the limit of open descriptors to the hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else os.sysconf("SC_OPEN_MAX")


def _log_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError):  # the client disconnected
        return
    _log.error("%s", context.get("message"), exc_info=error)
