"""Which request a thread takes next: claims before reads, all clients in turn, and no client beside a slow one waits.

A client is a credential that the application has accepted. Requests with other credentials, or without one, are
unverified: those of one address count as one client, and few of them run at the same time. As soon as the
application accepts a credential, its requests leave that share. Otherwise a client could get any number of turns with
invented tokens, and the first requests of new clients would wait for each other.

A request that has run for `OVERDUE_SECONDS` is overdue: nothing tells when it ends. Spare threads replace those of
overdue requests, for clients that have no request running in the lane. So a claim and a small query of another client
find a thread, whatever the slow requests are, and whether or not their lane is the right one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING

from wsgi_lanes.answers import overloaded
from wsgi_lanes.requests import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wsgi_lanes.answers import Refusal
    from wsgi_lanes.bounds import Bounds
    from wsgi_lanes.requests import Request


PASSES = 4
"""A request that could run lets at most this number of requests of better lanes pass, so that no lane starves."""

KNOWN_CREDENTIALS = 4096
"""Accepted credentials that the queue remembers; it forgets the least recently used one."""

OVERDUE_SECONDS = 0.1
"""A request that runs for longer no longer keeps other clients from its thread: a spare thread replaces it. Claims and
small queries mostly need less, so that spare threads mostly sleep."""

SPARE_THREADS = 24
"""Threads beyond those of the operator, for claims and again for the other lanes. Each client with a slow request needs
at most one, so beside this number of slow clients, further ones find a thread at once."""

_LANES = (Lane.CLAIM, Lane.READ, Lane.BULK, Lane.ABANDONED)


@dataclass(slots=True)
class _Running:
    """What a client runs: all its requests, and those of each lane."""

    total: int = 0
    lanes: dict[Lane, int] = field(default_factory=dict)


class _Backlog:
    """The waiting requests of one client in one lane.

    The credentials of an address have equal turns, so that many requests with one of them do not delay the first
    request with another.
    A verified client has one credential.
    """

    __slots__ = ("by_credential",)

    def __init__(self) -> None:
        self.by_credential: OrderedDict[str, deque[Request]] = OrderedDict()

    def __iter__(self) -> Iterator[Request]:
        for requests in self.by_credential.values():
            yield from requests

    def add(self, request: Request) -> None:
        self.by_credential.setdefault(request.credential or "", deque()).append(request)

    def take(self, credential: str) -> Request:
        """Remove and return the first request with *credential*, which has the next turn last."""
        requests = self.by_credential[credential]
        request = requests.popleft()
        if requests:
            self.by_credential.move_to_end(credential)
        else:
            del self.by_credential[credential]
        return request

    def remove(self, request: Request) -> bool:
        """Remove *request*. Returns False if it does not wait here."""
        credential = request.credential or ""
        requests = self.by_credential.get(credential)
        if requests is None or request not in requests:
            return False
        requests.remove(request)
        if not requests:
            del self.by_credential[credential]
        return True

    def expire(self, oldest: float) -> list[Request]:
        """Remove and return the requests that arrived before *oldest*."""
        expired: list[Request] = []
        for credential, requests in list(self.by_credential.items()):
            while requests and requests[0].arrived < oldest:
                expired.append(requests.popleft())
            if not requests:
                del self.by_credential[credential]
        return expired


class Admission:
    """The queue before the threads. Thread-safe; only :meth:`take` blocks."""

    def __init__(
        self,
        bounds: Bounds,
        threads: int,
        may_start_bulk: Callable[[], bool] = lambda: True,
        concurrency: Concurrency | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create an empty queue.

        Args:
            threads: number of threads without the spare ones. One client may use all but one of them, unverified
                requests half, and bulk reads a quarter.
            may_start_bulk: whether there is room for another large answer now.
            concurrency: limits how many reads run at the same time.
            clock: in seconds.
        """
        self._bounds = bounds
        self._threads = threads
        self._share = max(1, threads - 1)
        self._unverified_share = max(1, threads // 2)
        self._bulk_share = max(1, threads // 4)
        self._most_bulk = self._bulk_share + threads // 2  # with spare threads; each may hold a large answer
        self._may_start_bulk = may_start_bulk
        self._concurrency = concurrency or Concurrency(threads)
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[Lane, OrderedDict[str, _Backlog]] = {lane: OrderedDict() for lane in _LANES}
        self._length = 0
        self._lengths: dict[str, int] = {}
        self._started: dict[Request, float] = {}  # when each running request started, the latest last
        self._running: dict[str, _Running] = {}
        self._claims_running = 0
        self._bulk_running = 0
        self._unverified_running = 0
        self._on_trial: set[str] = set()  # unverified credentials with a running request
        self._passes = dict.fromkeys(_LANES, 0)
        self._order: tuple[Lane, ...] = _LANES
        self._known: OrderedDict[str, None] = OrderedDict()
        # What wakes each thread without a request. The last one that fell asleep wakes first: its data is still in the
        # caches of its processor.
        self._sleeping: list[SimpleQueue[None]] = []
        self._returning = 0  # threads that have ended a request, and are about to call `take`
        self._ends = 0  # threads that must still end

    @property
    def threads(self) -> int:
        """Number of threads that must call :meth:`take`, with the spare ones."""
        return self._threads + 2 * SPARE_THREADS

    def put(self, request: Request) -> Refusal | None:
        """Queue *request* for a thread. Returns the refusal if too many requests wait."""
        with self._lock:
            is_verified = request.credential in self._known
            client = _verified(request) if is_verified else f"address {request.peers.remote_address}"
            if self._length >= self._bounds.queue:
                limit = self._bounds.name_of("queue")
                return overloaded("queue_full", f"{self._length} requests wait for a thread ({limit}).")
            length = self._lengths.get(client, 0)
            if length >= self._bounds.queue_per_client:
                limit = self._bounds.name_of("queue_per_client")
                return overloaded("queue_full", f"{length} requests of this client wait for a thread ({limit}).")
            request.client, request.is_verified = client, is_verified
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

    def accept(self, request: Request) -> None:
        """The application has accepted the credential of *request*, which runs."""
        credential = request.credential
        if request.is_accepted or credential is None:
            return
        request.is_accepted = True
        if request.is_verified:  # nearly every request: `done` notes that its credential was used
            return
        with self._lock:
            self._remember(credential)
            self._stop_counting(request)
            request.client, request.is_verified = _verified(request), True
            self._count(request)
            self._move_waiting(credential, request.client)
            if self._sleeping and self._choice() is not None:
                self._wake_one()

    def done(self, request: Request, *, is_refused: bool = False) -> Request | None:
        """End *request*, and return the next one, if any may run now. The thread that gets None must call :meth:`take`.

        Args:
            is_refused: the application refused the credential.
        """
        with self._lock:
            if request.lane is not Lane.CLAIM:
                self._concurrency.end(request)
            del self._started[request]
            self._stop_counting(request)
            credential = request.credential
            if credential is not None:
                if request.is_accepted:
                    self._remember(credential)
                elif is_refused:
                    self._known.pop(credential, None)
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
                for client, backlog in list(self._waiting[lane].items()):
                    for request in backlog.expire(oldest):
                        self._forget(client)
                        expired.append(request)
                    if not backlog.by_credential:
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

    def lengths(self) -> dict[str, int]:
        """Number of waiting requests by lane."""
        with self._lock:
            return {
                lane.name.lower(): sum(1 for backlog in self._waiting[lane].values() for _ in backlog)
                for lane in _LANES
            }

    def ages(self, now: float) -> dict[str, float]:
        """Seconds for which the oldest waiting request of each lane has waited; 0 if none waits."""
        with self._lock:
            arrived = {
                lane: [request.arrived for backlog in self._waiting[lane].values() for request in backlog]
                for lane in _LANES
            }
        return {lane.name.lower(): max(0.0, now - min(times, default=now)) for lane, times in arrived.items()}

    # The caller holds the lock.

    def _add(self, request: Request) -> None:
        client = request.client
        self._length += 1
        self._lengths[client] = self._lengths.get(client, 0) + 1
        waiting = self._waiting[request.lane]
        backlog = waiting.get(client)
        if backlog is None:
            backlog = waiting[client] = _Backlog()
        backlog.add(request)

    def _remove(self, request: Request) -> bool:
        backlog = self._waiting[request.lane].get(request.client) if request.lane in _LANES else None
        if backlog is None or not backlog.remove(request):
            return False
        self._forget(request.client)
        if not backlog.by_credential:
            self._leave(request.lane, request.client)
        return True

    def _move_waiting(self, credential: str, client: str) -> None:
        """The waiting requests of *credential*, at all addresses, now wait as those of *client*."""
        for lane in _LANES:
            waiting = self._waiting[lane]
            addresses = [
                each
                for each, backlog in waiting.items()
                if credential in backlog.by_credential and each.startswith("address")
            ]
            moved: list[Request] = []
            for address in addresses:
                requests = waiting[address].by_credential.pop(credential)
                if not waiting[address].by_credential:
                    del waiting[address]
                for request in requests:
                    self._forget(address)
                    moved.append(request)
            # In the order of their arrival, from whatever address: `expire` looks at the first ones only.
            for request in sorted(moved, key=lambda each: each.arrived):
                request.client, request.is_verified = client, True
                self._add(request)

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

    def _choice(self) -> tuple[Lane, str, str] | None:
        """The lane, client and credential of the next request, if any may run now."""
        if not self._length:
            return None
        may_read = self._concurrency.may_start()
        overdue, overdue_bulk = self._overdue()
        running = len(self._started)
        for lane in self._order:
            if lane is not Lane.CLAIM and not may_read:  # the limit is for reads: a write mostly waits for the database
                continue
            beside = self._claims_running if lane is Lane.CLAIM else running - self._claims_running
            may_any = running < self._threads
            may_new = running - overdue < self._threads and beside < self._threads + SPARE_THREADS
            if lane >= Lane.BULK:
                if not self._may_start_bulk():
                    continue
                may_any = may_any and self._bulk_running < self._bulk_share
                may_new = may_new and self._bulk_running - overdue_bulk < self._bulk_share
                may_new = may_new and self._bulk_running < self._most_bulk
            if not (may_any or may_new):
                continue
            for client, backlog in self._waiting[lane].items():
                runs = self._running.get(client)
                if runs is not None and (runs.total >= self._share or not (may_any or not runs.lanes.get(lane))):
                    continue
                credential = self._credential_of_next(client, backlog)
                if credential is not None and (may_any or may_new):
                    return lane, client, credential
        return None

    def _credential_of_next(self, client: str, backlog: _Backlog) -> str | None:
        """The credential of *client* that has the next turn, if one of its requests may run."""
        if not client.startswith("address"):
            return next(iter(backlog.by_credential))
        if self._unverified_running >= self._unverified_share:
            return None
        # One request of a credential shows whether the application accepts it. The others wait for that.
        return next((credential for credential in backlog.by_credential if credential not in self._on_trial), None)

    def _overdue(self) -> tuple[int, int]:
        """Number of running requests that are overdue, and of the bulk reads among them."""
        if len(self._started) < self._threads and self._bulk_running < self._bulk_share:
            return 0, 0  # spare threads are not needed
        overdue = overdue_bulk = 0
        since = self._clock() - OVERDUE_SECONDS
        for request, started in self._started.items():
            if started > since:
                break
            overdue += 1
            overdue_bulk += request.lane >= Lane.BULK
        return overdue, overdue_bulk

    def _start(self, lane: Lane, client: str, credential: str) -> Request:
        waiting = self._waiting[lane]
        backlog = waiting[client]
        request = backlog.take(credential)
        if backlog.by_credential:
            waiting.move_to_end(client)  # behind all other clients of the lane
        else:
            del waiting[client]
        self._forget(client)
        if lane is not Lane.CLAIM:
            self._concurrency.start(request)
        self._started[request] = self._clock()
        self._count(request)
        self._count_passes(lane)
        return request

    def _count(self, request: Request) -> None:
        """Count *request* as running, for its client."""
        runs = self._running.get(request.client)
        if runs is None:
            runs = self._running[request.client] = _Running()
        runs.total += 1
        runs.lanes[request.lane] = runs.lanes.get(request.lane, 0) + 1
        self._claims_running += request.lane is Lane.CLAIM
        self._bulk_running += request.lane >= Lane.BULK
        if not request.is_verified:
            self._unverified_running += 1
            if request.credential is not None:
                self._on_trial.add(request.credential)

    def _stop_counting(self, request: Request) -> None:
        """Undo `_count`."""
        runs = self._running[request.client]
        runs.total -= 1
        runs.lanes[request.lane] -= 1
        if not runs.total:
            del self._running[request.client]
        self._claims_running -= request.lane is Lane.CLAIM
        self._bulk_running -= request.lane >= Lane.BULK
        if not request.is_verified:
            self._unverified_running -= 1
            if request.credential is not None:
                self._on_trial.discard(request.credential)

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

    def _remember(self, credential: str) -> None:
        self._known[credential] = None
        self._known.move_to_end(credential)
        if len(self._known) > KNOWN_CREDENTIALS:
            self._known.popitem(last=False)


def _verified(request: Request) -> str:
    """The client of a request with an accepted credential."""
    return f"credential {request.credential}"


# How many reads of a worker run at the same time.
#
# All threads of a process share one interpreter. If eight requests compute at once, each mostly waits for it, and
# every switch between threads costs processor time. If requests wait for the database, others can compute meanwhile.
# So the number follows from what the requests did: their elapsed time divided by their processor time.


LONG_SECONDS = 0.005
"""A request that has run for this time no longer counts: it waits for a lock or an event, or computes for long. So
each such interval starts at least one request, whatever the running requests do."""

SAMPLE = 16
"""Number of requests from which the width is computed."""


class Concurrency:
    """The running requests, and whether another one may start. The caller holds a lock around all calls."""

    def __init__(
        self,
        threads: int,
        clock: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """Start with no request running.

        Args:
            threads: the greatest width.
            clock: in seconds.
            processor_time: of the calling thread, in seconds.
        """
        self.width = 1
        """How many requests may run at the same time, not counting those older than `LONG_SECONDS`."""
        self._threads = threads
        self._clock = clock
        self._processor_time = processor_time
        self._running: dict[Request, tuple[float, float]] = {}  # when each began on both clocks, the latest last
        self._ended = 0
        self._elapsed = 0.0
        self._computed = 0.0

    def may_start(self) -> bool:
        """Whether another request may start now."""
        if len(self._running) < self.width:
            return True
        long_since = self._clock() - LONG_SECONDS
        recent = islice(reversed(self._running.values()), self.width)  # the running requests that began last
        return any(began <= long_since for began, _ in recent)

    def start(self, request: Request) -> None:
        """*request* starts in the calling thread."""
        self._running[request] = (self._clock(), self._processor_time())

    def end(self, request: Request) -> None:
        """*request* ends, in the thread in which it started."""
        began, computed_before = self._running.pop(request)
        # Cap long requests: how long they wait for their slices says nothing about the width.
        self._elapsed += min(self._clock() - began, LONG_SECONDS)
        self._computed += min(self._processor_time() - computed_before, LONG_SECONDS)
        self._ended += 1
        if self._ended == SAMPLE:
            self._adapt()

    def _adapt(self) -> None:
        # A request that only computes takes `width` times its processor time. If requests take longer, they wait for
        # something other than the interpreter, so that one more can run meanwhile. Otherwise try one fewer: the
        # times cannot tell whether the last one was needed.
        if self._elapsed > (self.width + 0.5) * self._computed:
            self.width = min(self.width + 1, self._threads)
        elif self.width > 1:
            self.width -= 1
        self._ended, self._elapsed, self._computed = 0, 0.0, 0.0
