"""Which request a thread takes next: claims before reads, and equal turns for every client.

A client is who shows a credential. Credentials that the application has not accepted yet share one turn per address, or
a client could take any number of turns with tokens it made up.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from queue import SimpleQueue
from typing import TYPE_CHECKING

from stead.httpd.refusals import overloaded
from stead.httpd.requests import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.httpd.bounds import Bounds
    from stead.httpd.refusals import Refusal
    from stead.httpd.requests import Request

PASSES = 4
"""A request that could run lets at most so many of better lanes pass, so that no lane waits for ever."""

KNOWN_CREDENTIALS = 4096
"""Accepted credentials that are remembered; the one that was used longest ago is forgotten."""

_LANES = (Lane.CLAIM, Lane.READ, Lane.BULK)


class Admission:
    """The queue before the threads. Safe under threads; nothing in it blocks but :meth:`take`."""

    def __init__(self, bounds: Bounds, threads: int, may_start_bulk: Callable[[], bool] = lambda: True) -> None:
        """Nothing waits.

        Args:
            threads: that take requests. One client may use all but one of them, and bulk reads a quarter.
            may_start_bulk: whether there is room for another large answer now.
        """
        self._bounds = bounds
        self._share = max(1, threads - 1)
        self._bulk_share = max(1, threads // 4)
        self._may_start_bulk = may_start_bulk
        self._lock = threading.Lock()
        self._waiting: dict[Lane, OrderedDict[str, deque[Request]]] = {lane: OrderedDict() for lane in _LANES}
        self._length = 0
        self._lengths: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._bulk_running = 0
        self._passes = dict.fromkeys(_LANES, 0)
        self._order: tuple[Lane, ...] = _LANES
        self._known: OrderedDict[str | None, None] = OrderedDict()
        self._sleeping = 0  # threads without a request that nothing wakes yet
        self._wakes: SimpleQueue[bool] = SimpleQueue()  # True: look for a request; False: end

    def put(self, request: Request) -> Refusal | None:
        """Let *request* wait for a thread; or the refusal, if too many wait."""
        with self._lock:
            client = self._client_of(request)
            if self._length >= self._bounds.queue:
                return overloaded("queue_full", f"{self._length} requests wait for a thread ([stead] max_queue).")
            length = self._lengths.get(client, 0)
            if length >= self._bounds.queue_per_client:
                return overloaded(
                    "queue_full", f"{length} requests of this client wait for a thread ([stead] max_queue_per_client)."
                )
            self._length += 1
            self._lengths[client] = length + 1
            request.client = client
            self._waiting[request.lane].setdefault(client, deque()).append(request)
            self._wake_one()
        return None

    def take(self) -> Request | None:
        """The next request, as soon as there is one; None if the thread is to end."""
        while True:
            with self._lock:
                request = self._next()
                if request is not None:
                    return request
                self._sleeping += 1
            if not self._wakes.get():
                return None

    def done(self, request: Request, *, accepted: bool) -> Request | None:
        """End *request*, and take the next one, if any may run now.

        Args:
            accepted: whether the application accepted its credential.
        """
        with self._lock:
            client = request.client
            running = self._running[client] - 1
            if running:
                self._running[client] = running
            else:
                del self._running[client]
            if request.lane is Lane.BULK:
                self._bulk_running -= 1
            if request.token is not None:
                self._learn(request.token, accepted=accepted)
            return self._next()

    def wake(self) -> None:
        """Look again, since bulk reads may start now."""
        with self._lock:
            self._wake_one()

    def expire(self, now: float) -> list[Request]:
        """Take out and return the requests that have waited for too long. *now* is on the clock of ``arrived``."""
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
        """Take *request* out, whose client is gone; False if a thread has taken it."""
        with self._lock:
            requests = self._waiting[request.lane].get(request.client) if request.lane in _LANES else None
            if requests is None or request not in requests:
                return False
            requests.remove(request)
            self._forget(request.client)
            if not requests:
                self._leave(request.lane, request.client)
            return True

    def stop(self, threads: int) -> None:
        """Let so many *threads* end."""
        for _ in range(threads):
            self._wakes.put(False)

    def length(self) -> int:
        """Requests that wait."""
        return self._length

    def age(self, now: float) -> float:
        """Seconds for which the oldest one has waited."""
        with self._lock:
            oldest = [requests[0].arrived for lane in _LANES for requests in self._waiting[lane].values()]
        return max(0.0, now - min(oldest)) if oldest else 0.0

    # With the lock.

    def _next(self) -> Request | None:
        choice = self._choice()
        if choice is None:
            return None
        request = self._start(*choice)
        # One that ended can let two others run: of its client, and a bulk read. Its thread takes only one of them.
        if self._sleeping and self._choice() is not None:
            self._wake_one()
        return request

    def _wake_one(self) -> None:
        if self._sleeping:
            self._sleeping -= 1
            self._wakes.put(True)

    def _choice(self) -> tuple[Lane, str] | None:
        """The lane and the client of the request that is next, if any may run now."""
        if not self._length:
            return None
        for lane in self._order:
            if lane is Lane.BULK and (self._bulk_running >= self._bulk_share or not self._may_start_bulk()):
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
            waiting.move_to_end(client)  # its next turn comes after those of all others
        else:
            del waiting[client]
        self._forget(client)
        self._running[client] = self._running.get(client, 0) + 1
        self._count_passes(lane)
        if lane is Lane.BULK:
            self._bulk_running += 1
        return request

    def _count_passes(self, started: Lane) -> None:
        """Count that a request of the lane *started* goes before those that wait in worse lanes."""
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
        """Nothing of *client* waits in *lane* any more, and nothing of it was started."""
        del self._waiting[lane][client]
        if not self._waiting[lane]:
            self._passes[lane] = 0  # those that waited while others passed are gone
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
