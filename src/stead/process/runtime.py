"""What the requests of a process share: the interpreter, slice by slice, and the memory.

The threads of a process share one interpreter. Beside ten threads that compute, a thread that needs the interpreter
three times waits for thirty switches. So a request that has computed for some milliseconds is long: at each of its
:func:`give_way` calls it waits until no short request runs, and of all long requests only one runs at a time. The
clients of long requests get one slice each in rotation, so that many requests of one client count as one.

All waits are bounded, and only latency depends on them. A request must not give way while it holds a lock that others
need, so claims never do.

Source: decision 21 (docs/decisions).
"""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

from stead.domain.errors import AnswerTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Durations, in seconds.

    Attributes:
        first: processor time after which a request is long. Most queries with a limit need less in all.
        slice: processor time of each later slice. A short request waits for at most one of them.
        patience: for which the next slice waits for short requests. With ``slice``, it bounds the share of the
            processor that short requests can keep from long ones.
        short: time after which requests no longer wait for a short one, since it may wait for a lock or an event.
        lost: time after which the slice of a request that has not given way no longer delays the next slice. The
            request may be compressing its answer, which needs no interpreter.
    """

    first: float = 0.005
    slice: float = 0.002
    patience: float = 0.020
    short: float = 0.100
    lost: float = 0.100


class Request:
    """One request of a thread."""

    __slots__ = ("client", "earliest", "may_run", "until")

    def __init__(self, until: float, client: str = "") -> None:
        """*until* is the processor time of the thread at which its slice ends; *client* identifies the client."""
        self.until = until
        self.earliest = 0.0  # on the clock: the slice cannot have ended before
        self.client = client
        self.may_run: threading.Event | None = None  # short requests, which are most, need none


class Precedence:
    """Which request runs when: the rule alone, without threads or a clock. *now* never decreases."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._short: dict[Request, float] = {}  # when each began, the latest last
        self._waiting: OrderedDict[str, deque[Request]] = OrderedDict()  # by client, the next one first
        self._running: Request | None = None
        self._since = 0.0  # start of the running slice or, if none runs, the earliest start of the next one

    def begin(self, request: Request, now: float) -> None:
        """A request begins; it is short."""
        self._short[request] = now

    def end(self, request: Request, now: float) -> None:
        """End a request that is short, running or waiting."""
        self._short.pop(request, None)
        if self._running is request:
            self._running, self._since = None, now
        elif request in self._waiting.get(request.client, ()):  # only if an exception ended its wait
            self._waiting[request.client].remove(request)
            if not self._waiting[request.client]:
                del self._waiting[request.client]

    def give_way(self, request: Request, now: float) -> None:
        """End the slice of a request: from now on it is long, and waits for the other long requests.

        Each client has the next slice in turn, and of one client, the request that has waited longest.
        """
        self._short.pop(request, None)
        if self._running is request:
            self._running, self._since = None, now
        elif self._running is None and not self._waiting:
            # No slice ended just now, so the patience counts from this request.
            self._since = now
        self._waiting.setdefault(request.client, deque()).append(request)

    def next(self, now: float) -> Request | None:
        """Start the next slice if it may start, and return the request that it belongs to."""
        if not self._waiting:
            return None
        waited = now - self._since
        if self._running is not None and waited < self._bounds.lost:
            return None
        # Patience is counted from the end of the last slice and not per request. Otherwise ten long requests beside
        # short ones without end would get ten times the share that one gets.
        if self._is_short_running(now) and waited < self._bounds.patience:
            return None
        client, requests = next(iter(self._waiting.items()))
        self._running, self._since = requests.popleft(), now
        if requests:
            self._waiting.move_to_end(client)
        else:
            del self._waiting[client]
        return self._running

    def pause(self, now: float) -> float:
        """Seconds after which a waiting request must check again for the next slice, even without an event."""
        bound = self._bounds.patience if self._running is None else self._bounds.lost
        return max(self._since + bound - now, 0.0)

    def _is_short_running(self, now: float) -> bool:
        return bool(self._short) and now - next(reversed(self._short.values())) < self._bounds.short


class Slices:
    """The requests of one process, each in a thread."""

    def __init__(
        self,
        bounds: Bounds | None = None,
        clock: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """Start with no request running.

        Args:
            clock: in seconds.
            processor_time: of the calling thread, in seconds. Elapsed time would classify a short request as long
                because it waited for the interpreter.
        """
        self._bounds = bounds or Bounds()
        self._clock = clock
        self._processor_time = processor_time
        self._precedence = Precedence(self._bounds)
        self._lock = threading.Lock()
        self._own = threading.local()

    def request(self, client: str = "") -> AbstractContextManager[None]:
        """A block in which the thread works on a request of *client*. Long requests wait for it while it is short."""
        return _Block(self._begin, self._end, client)

    def _begin(self, client: str) -> None:
        request = Request(self._processor_time() + self._bounds.first, client)
        with self._lock:
            now = self._clock()
            self._precedence.begin(request, now)
        request.earliest = now + self._bounds.first
        self._own.request = request

    def _end(self) -> None:
        request: Request = self._own.request
        self._own.request = None
        with self._lock:
            now = self._clock()
            self._precedence.end(request, now)
            self._start_next(now)

    def give_way(self) -> None:
        """If the slice of this thread's request is over, wait for the next one. Without a request, do nothing."""
        request: Request | None = getattr(self._own, "request", None)
        if request is None or self._clock() < request.earliest:
            return  # a thread cannot compute for longer than time passes, and its processor time is a system call
        if self._processor_time() < request.until:
            return
        may_run = request.may_run
        if may_run is None:
            may_run = request.may_run = threading.Event()
        with self._lock:
            now = self._clock()
            # Before the request can be chosen: a later clear would lose the event.
            may_run.clear()
            self._precedence.give_way(request, now)
            self._start_next(now)
        while not may_run.is_set():
            with self._lock:
                pause = 0.0 if may_run.is_set() else self._precedence.pause(self._clock())
            # No thread watches the bounds of time, so the waiting thread itself starts the next slice.
            if not may_run.wait(pause):
                with self._lock:
                    self._start_next(self._clock())
        request.until = self._processor_time() + self._bounds.slice
        request.earliest = self._clock() + self._bounds.slice

    def _start_next(self, now: float) -> None:
        """Requires the lock. The caller wakes the next request itself; no other thread needs to wake."""
        request = self._precedence.next(now)
        if request is not None and request.may_run is not None:
            request.may_run.set()


class _Block:
    """The block of a request; the thread stores which one. A generator would cost more than the whole block."""

    __slots__ = ("_begin", "_client", "_end")

    def __init__(self, begin: Callable[[str], None], end: Callable[[], None], client: str) -> None:
        self._begin = begin
        self._end = end
        self._client = client

    def __enter__(self) -> None:
        self._begin(self._client)

    def __exit__(self, *_exception: object) -> None:
        self._end()


_of_process = Slices()
request = _of_process.request
give_way = _of_process.give_way


def sliced(items: Iterable[T], at_a_time: int = 64) -> Iterator[T]:
    """*items*; other requests may run between groups of *at_a_time* of them."""
    for number, item in enumerate(items):
        if number % at_a_time == 0:
            give_way()
        yield item


# The switch interval: how long a thread may hold the interpreter while other threads wait for it.
#
# After the database has answered, a thread waits for the interpreter again: once for each time that the driver
# released it. SQLite's driver releases it for every row.


SECONDS = 0.001
"""Python's default of 5 ms would delay reads from memory by this time while another thread refreshes many providers."""

SHORT_SECONDS = 0.000_05
"""The interval during a refresh. Most requests wait for the refresh; the others must not wait longer than this."""


def share() -> None:
    """Set the switch interval of this process to that of a service."""
    sys.setswitchinterval(SECONDS)


class _Short:
    """A block with the short interval, which the whole process shares.

    Every read enters it. A context manager made of a generator would cost more than the rest of the block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._usual = SECONDS

    def __enter__(self) -> None:
        with self._lock:
            if not self._asking:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(SHORT_SECONDS)
            self._asking += 1

    def __exit__(self, *_exception: object) -> None:
        with self._lock:
            self._asking -= 1
            if not self._asking:
                sys.setswitchinterval(self._usual)


_short = _Short()


def short() -> AbstractContextManager[None]:
    """Use the short interval until the block and all overlapping ones have ended."""
    return _short


# Pieces: the JSON text of a large answer, joined piece by piece.
#
# So an answer needs its memory once, which is released piece by piece as a client reads, and no single call for a
# large answer blocks all other threads. Members are encoded when they are made, so cached ones are never encoded
# again.


PIECE = 64 * 1024
"""Bytes of a piece; one member may be longer."""

PORTION = 512
"""Members that are joined before other requests may run; to make them takes up to some milliseconds."""


def bounded(parts: Iterable[bytes], most: int) -> Iterator[bytes]:
    """*parts*, which may have *most* bytes together.

    Raises:
        AnswerTooLarge: before the first part beyond that.
    """
    remaining = most
    for part in parts:
        remaining -= len(part)
        if remaining < 0:
            raise AnswerTooLarge(most)
        yield part


class Pieces:
    """The text of one answer."""

    def __init__(self, give_way: Callable[[], object], most: int = sys.maxsize) -> None:
        """*give_way* lets other requests run. The text may have *most* bytes; more raise `AnswerTooLarge`."""
        self._give_way = give_way
        self._remaining = self._most = most
        self._pieces: list[bytes] = []
        self._parts: list[bytes] = []  # of the next piece
        self._size = 0
        self._has_members = False  # of the array or object that was begun last

    def add(self, text: str) -> None:
        """Add the beginning or the end of arrays or objects."""
        self._parts.append(text.encode())
        self._has_members = False

    def add_members(self, members: Iterable[bytes]) -> None:
        """Add members, with commas between them and after those that were added before."""
        each = iter(members)
        for first in each:
            self._give_way()
            # About one piece, if the others are as long as the first: the join holds the interpreter.
            portion = [first, *islice(each, min(PORTION, PIECE // len(first)))]
            # The comma is joined with the rest, since a part that is a whole piece is not copied again.
            self._add_part(b",".join([b"", *portion] if self._has_members else portion))

    def add_joined(self, members: bytes) -> None:
        """Add members that are joined already, with a comma before each."""
        self._add_part(members if self._has_members else members[1:])

    def _add_part(self, part: bytes) -> None:
        self._has_members = True
        self._remaining -= len(part)
        if self._remaining < 0:
            raise AnswerTooLarge(self._most)
        self._parts.append(part)
        self._size += len(part)
        if self._size >= PIECE:
            self._end_piece()

    def all(self) -> list[bytes]:
        """The whole text."""
        self._end_piece()
        return self._pieces

    def _end_piece(self) -> None:
        self._pieces.append(b"".join(self._parts))
        self._parts.clear()
        self._size = 0


# The memory of the process: the C library, the garbage collector, and caches that clients cannot fill.


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``. Source: malloc.h."""

KEPT_BYTES = 256 << 20
"""Free memory beyond this size is returned to the kernel."""

LARGEST_BLOCK = 32 << 20
"""Larger blocks are always returned to the kernel. This is the greatest value that the library accepts."""

_log = logging.getLogger(__name__)


def keep_freed() -> None:
    """Make the C library keep freed memory, in one arena. Has an effect with glibc only.

    By default it returns large blocks at once, and the kernel hands them out again page by page. For an answer of
    1 MB, that takes several times as long as writing it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        _log.debug("this C library cannot keep freed memory")
        return
    for parameter, value in ((_TRIM_THRESHOLD, KEPT_BYTES), (_MMAP_THRESHOLD, LARGEST_BLOCK), (_ARENA_MAX, 1)):
        mallopt(parameter, value)


def return_freed() -> None:
    """Return all freed memory to the kernel, after a work that needed more than what follows. With glibc only.

    Other threads cannot allocate meanwhile, so no request may be under way.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class _Paused:
    """A block without garbage collection. Every read enters it, so it is no generator."""

    def __enter__(self) -> None:
        gc.disable()

    def __exit__(self, *_exception: object) -> None:
        gc.enable()


_paused = _Paused()


def collector_paused() -> AbstractContextManager[None]:
    """Create many objects without cycles: a collection would traverse them all, and block every thread meanwhile."""
    return _paused


def keep_for_good() -> None:
    """Exclude all present objects from garbage collection.

    A collection of all objects of a service would block all threads for 0.1 s, and at a large site for longer.
    """
    gc.freeze()


def release(last: list[Any]) -> None:
    """Free what only *last* refers to, and leave it empty. Works in pieces, so that other threads run in between.

    Python frees a structure without a thread switch, which takes long for the catalog of a large site.
    """
    pieces = deque(last)
    last.clear()
    waiting, seen = list(pieces), set(map(id, pieces))
    while waiting:
        for inner in gc.get_referents(waiting.pop()):
            if id(inner) not in seen and not isinstance(inner, _LIGHT):
                # Its id stays its own, since *pieces* keeps the object alive.
                seen.add(id(inner))
                pieces.append(inner)
                if gc.is_tracked(inner):
                    waiting.append(inner)
    while pieces:
        # What this object refers to is still in *pieces*, so each step frees little.
        pieces.popleft()


_LIGHT = (str, int, float, bool, bytes, type(None), type, ModuleType, FunctionType)
"""Types that refer to nothing, or only to objects that other modules keep alive."""


# Caches of values computed from a header. They store short keys only, so that clients cannot fill the memory.


Keys = TypeVarTuple("Keys")
R = TypeVar("R")

LONGEST_KEY = 500
"""Characters of all arguments together. Real clients send a few dozen."""


def cached_if_short(entries: int) -> Callable[[Callable[[*Keys], R]], Callable[[*Keys], R]]:
    """Cache up to *entries* results of a function. For long arguments, the function is called each time."""

    def around(function: Callable[[*Keys], R]) -> Callable[[*Keys], R]:
        cache: dict[tuple[*Keys], R] = {}

        @wraps(function)
        def call(*args: *Keys) -> R:
            try:
                return cache[args]
            except KeyError:
                result = function(*args)
            if sum(len(arg) for arg in args if isinstance(arg, str)) <= LONGEST_KEY:
                if len(cache) >= entries:
                    cache.clear()  # real clients send few different headers; a client that sends more is no loss
                cache[args] = result
            return result

        return call

    return around
