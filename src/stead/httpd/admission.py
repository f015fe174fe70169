"""Which request a thread takes next: claims before reads, and all clients in turn.

A client is identified by its credential. Credentials that the application has not accepted yet share one client entry
per address. Otherwise a client could get any number of turns with invented tokens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from stead.httpd.concurrency import Concurrency
from stead.httpd.refusals import overloaded
from stead.httpd.requests import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.httpd.bounds import Bounds
    from stead.httpd.refusals import Refusal
    from stead.httpd.requests import Request

PASSES = 4
"""A request that could run lets at most this number of requests of better lanes pass, so that no lane starves."""

KNOWN_CREDENTIALS = 4096
"""Accepted credentials that the queue remembers; it forgets the least recently used one."""

_LANES = (Lane.CLAIM, Lane.READ, Lane.BULK, Lane.ABANDONED)


class Admission:
    """The queue before the threads. Thread-safe; only :meth:`take` blocks."""

    def __init__(
        self,
        bounds: Bounds,
        threads: int,
        may_start_bulk: Callable[[], bool] = lambda: True,
        concurrency: Concurrency | None = None,
    ) -> None:
        """Create an empty queue.

        Args:
            threads: number of threads that take requests. One client may use all but one of them, bulk reads a quarter.
            may_start_bulk: whether there is room for another large answer now.
            concurrency: limits how many reads run at the same time.
        """
        self._bounds = bounds
        self._share = max(1, threads - 1)
        self._bulk_share = max(1, threads // 4)
        self._may_start_bulk = may_start_bulk
        self._concurrency = concurrency or Concurrency(threads)
        self._lock = threading.Lock()
        self._waiting: dict[Lane, OrderedDict[str, deque[Request]]] = {lane: OrderedDict() for lane in _LANES}
        self._length = 0
        self._lengths: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._bulk_running = 0
        self._passes = dict.fromkeys(_LANES, 0)
        self._order: tuple[Lane, ...] = _LANES
        self._known: OrderedDict[str | None, None] = OrderedDict()
        # What wakes each thread without a request. The last one that fell asleep wakes first: its data is still in the
        # caches of its processor.
        self._sleeping: list[SimpleQueue[None]] = []
        self._returning = 0  # threads that have ended a request, and are about to call `take`
        self._ends = 0  # threads that must still end

    def put(self, request: Request) -> Refusal | None:
        """Queue *request* for a thread. Returns the refusal if too many requests wait."""
        with self._lock:
            client = self._client_of(request)
            if self._length >= self._bounds.queue:
                return overloaded("queue_full", f"{self._length} requests wait for a thread ([stead] max_queue).")
            length = self._lengths.get(client, 0)
            if length >= self._bounds.queue_per_client:
                return overloaded(
                    "queue_full", f"{length} requests of this client wait for a thread ([stead] max_queue_per_client)."
                )
            request.client = client
            self._add(request)
            if request.lane is Lane.CLAIM or self._concurrency.may_start():
                self._wake_one()
        return None

    def take(self) -> Request | None:
        """Wait for the next request and return it; None if the thread must end."""
        wakes: SimpleQueue[None] = SimpleQueue()
        while True:
            with self._lock:
                # The first call of a thread, and each after a sleep, follows no request.
                self._returning = max(0, self._returning - 1)
                request = self._next()
                if request is not None:
                    return request
                if self._ends:
                    self._ends -= 1
                    return None
                self._sleeping.append(wakes)
            wakes.get()

    def done(self, request: Request, *, accepted: bool) -> Request | None:
        """End *request*, and return the next one, if any may run now. The thread that gets None must call :meth:`take`.

        Args:
            accepted: whether the application accepted its credential.
        """
        with self._lock:
            if request.lane is not Lane.CLAIM:
                self._concurrency.end(request)
            client = request.client
            running = self._running[client] - 1
            if running:
                self._running[client] = running
            else:
                del self._running[client]
            if request.lane >= Lane.BULK:
                self._bulk_running -= 1
            if request.token is not None:
                self._learn(request.token, accepted=accepted)
            following = self._next()
            if following is None:
                self._returning += 1
            return following

    def wake(self) -> None:
        """Check again, since time has passed: bulk reads may start now, or a running request has become long."""
        with self._lock:
            if self._choice() is not None:
                self._wake_one()

    def expire(self, now: float) -> list[Request]:
        """Remove and return the requests that have waited too long. *now* is on the clock of ``arrived``."""
        oldest = now - self._bounds.queue_timeout
        expired: list[Request] = []
        with self._lock:
            for lane in _LANES:
                for client, requests in list(self._waiting[lane].items()):
                    while requests and requests[0].arrived < oldest:
                        request = requests.popleft()
                        self._forget(client)
                        expired.append(request)
                    if not requests:
                        self._leave(lane, client)
        return expired

    def drop(self, request: Request) -> bool:
        """Remove *request*, whose client has disconnected. Returns False if a thread has taken it already."""
        with self._lock:
            return self._remove(request)

    def postpone(self, request: Request) -> None:
        """Let all others pass *request*, whose client may have disconnected, if no thread has taken it already."""
        with self._lock:
            if self._remove(request):
                request.lane = Lane.ABANDONED
                self._add(request)

    def stop(self, threads: int) -> None:
        """End this number of *threads*, each when no request may run."""
        with self._lock:
            self._ends += threads
            for wakes in self._sleeping:  # those that are left over sleep again
                wakes.put(None)
            self._sleeping.clear()

    def length(self) -> int:
        """Number of waiting requests."""
        return self._length

    def age(self, now: float) -> float:
        """Seconds for which the oldest request has waited."""
        with self._lock:
            oldest = [requests[0].arrived for lane in _LANES for requests in self._waiting[lane].values()]
        return max(0.0, now - min(oldest)) if oldest else 0.0

    # The caller holds the lock.

    def _add(self, request: Request) -> None:
        client = request.client
        self._length += 1
        self._lengths[client] = self._lengths.get(client, 0) + 1
        self._waiting[request.lane].setdefault(client, deque()).append(request)

    def _remove(self, request: Request) -> bool:
        requests = self._waiting[request.lane].get(request.client) if request.lane in _LANES else None
        if requests is None or request not in requests:
            return False
        requests.remove(request)
        self._forget(request.client)
        if not requests:
            self._leave(request.lane, request.client)
        return True

    def _next(self) -> Request | None:
        choice = self._choice()
        if choice is None:
            return None
        request = self._start(*choice)
        # One request that ends can allow two to start: one of its client, and a bulk read. Its thread takes only one.
        if self._sleeping and self._choice() is not None:
            self._wake_one()
        return request

    def _wake_one(self) -> None:
        # A thread that is on its way to `take` checks there, and wakes the next one if more may run. To wake another
        # meanwhile would let two threads wait for the interpreter, and move the work to another processor. A client on
        # one connection sends its next request exactly then.
        if self._sleeping and not self._returning:
            self._sleeping.pop().put(None)

    def _choice(self) -> tuple[Lane, str] | None:
        """The lane and the client of the next request, if any may run now."""
        if not self._length:
            return None
        may_read = self._concurrency.may_start()
        for lane in self._order:
            if lane is not Lane.CLAIM and not may_read:  # the limit is for reads: a write mostly waits for the database
                continue
            if lane >= Lane.BULK and (self._bulk_running >= self._bulk_share or not self._may_start_bulk()):
                continue
            for client in self._waiting[lane]:
                if self._running.get(client, 0) < self._share:
                    return lane, client
        return None

    def _start(self, lane: Lane, client: str) -> Request:
        waiting = self._waiting[lane]
        requests = waiting[client]
        request = requests.popleft()
        if requests:
            waiting.move_to_end(client)  # behind all other clients of the lane
        else:
            del waiting[client]
        self._forget(client)
        if lane is not Lane.CLAIM:
            self._concurrency.start(request)
        self._running[client] = self._running.get(client, 0) + 1
        self._count_passes(lane)
        if lane >= Lane.BULK:
            self._bulk_running += 1
        return request

    def _count_passes(self, started: Lane) -> None:
        """Count for all worse lanes with waiting requests that a request of the lane *started* passed them."""
        passes = self._passes
        is_changed = passes[started] >= PASSES
        passes[started] = 0
        for lane in _LANES:
            if lane > started and self._waiting[lane]:
                passes[lane] += 1
                is_changed = is_changed or passes[lane] == PASSES
        if is_changed:
            self._put_in_order()

    def _put_in_order(self) -> None:
        self._order = tuple(sorted(_LANES, key=lambda lane: (self._passes[lane] < PASSES, lane)))

    def _leave(self, lane: Lane, client: str) -> None:
        """Remove the empty queue of *client* in *lane*, after its last request expired or was dropped."""
        del self._waiting[lane][client]
        if not self._waiting[lane]:
            self._passes[lane] = 0  # the requests that were passed have left the queue
            self._put_in_order()

    def _forget(self, client: str) -> None:
        self._length -= 1
        length = self._lengths[client] - 1
        if length:
            self._lengths[client] = length
        else:
            del self._lengths[client]

    def _client_of(self, request: Request) -> str:
        token = request.token
        return f"token {token}" if token in self._known else f"address {request.peers.remote_address}"

    def _learn(self, token: str, *, accepted: bool) -> None:
        if not accepted:
            self._known.pop(token, None)
            return
        self._known[token] = None
        self._known.move_to_end(token)
        if len(self._known) > KNOWN_CREDENTIALS:
            self._known.popitem(last=False)
