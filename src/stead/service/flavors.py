"""The headroom of several requests, of which only the trees that changed are counted again."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from stead.candidates.advice import requested
from stead.candidates.headroom.each_tree import form_of
from stead.candidates.headroom.headroom import headroom, room_of, stranded_by
from stead.candidates.headroom.keeping import HeadroomByTree, Places, after, headrooms_by_tree, most_together
from stead.candidates.losses import heaviest
from stead.candidates.work import Work, WorkSpent
from stead.domain.errors import BadRequest
from stead.domain.request import FlavorRoom
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.headroom.keeping import Step
    from stead.catalog.blocks import Blocks
    from stead.catalog.snapshot import Mask, Snapshot
    from stead.domain.request import CandidateRequest, Wanted

    Found = Headroom | HeadroomByTree | str
    """A headroom, or the reason why there is none."""

    Stale = tuple[CandidateRequest, HeadroomByTree | None]
    """A request, and what was kept of its headroom in another snapshot."""

R = TypeVar("R")

MOST_KEPT = 1_000
"""Maximum number of requests whose headroom is cached."""

MOST_BYTES = 128 << 20
"""Limit of the memory of the bounds of single trees, 12 bytes for each tree and request."""


class FlavorHeadrooms:
    """The headrooms of requests in the latest snapshot for which they were requested; safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._state = ""
        self._versions: Blocks[np.int64] | None = None
        # Those that are not fresh are of an older state, and wait to be brought up to date.
        self._found: dict[str, tuple[CandidateRequest, Found]] = {}
        self._fresh: set[str] = set()

    def headrooms(
        self, snapshot: Snapshot, state: str, requests: Mapping[str, CandidateRequest], work: int | None
    ) -> dict[str, Found]:
        """The headroom of each of *requests*, or the reason why it has none.

        Args:
            state: identifies the state of the site that the snapshot has.
            work: units for each request. After this number for all together, the remaining requests are omitted.
        """
        with self._lock:
            cached = dict(self._found)
            # At the same moment, a snapshot that was loaded again may have other slots.
            is_same = self._state == state and self._versions is snapshot.versions
            fresh = set(self._fresh) if is_same else set()
        kept_by_tree = [pair[1] for pair in cached.values() if isinstance(pair[1], HeadroomByTree)]
        # Outside the lock, since counting takes long; two threads may count the same.
        # The last one is the latest: `_keep` moves each new result to the end.
        updating = _Updating(snapshot, work, kept_by_tree[-1].places if kept_by_tree else None)
        headroom_of: dict[str, Found] = {}
        stale: dict[str, Stale] = {}
        for name, request in requests.items():
            before = cached[name][1] if name in cached and cached[name][0] == request else None
            if before is not None and name in fresh:
                headroom_of[name] = before
            else:
                stale[name] = request, before if isinstance(before, HeadroomByTree) else None
        for names in updating.batches(stale):
            if work is not None and updating.spent >= work:
                break
            headroom_of.update(zip(names, updating.found([stale[name] for name in names]), strict=True))
        in_order = {name: headroom_of[name] for name in requests if name in headroom_of}
        self._keep(snapshot, state, {name: (requests[name], result) for name, result in in_order.items()})
        return in_order

    def among(
        self,
        snapshot: Snapshot,
        state: str,
        requests: Mapping[str, CandidateRequest],
        roots: Mapping[str, Mask],
        work: int | None,
    ) -> Iterator[FlavorRoom]:
        """How many times each of *requests* fits into all trees, and into the trees of each mask of *roots*, by label.

        What is unknown is omitted: requests that are at fault, and those that use up their work.

        Args:
            work: units for each request, so all together take as long as they take.
        """
        remaining = dict(requests)
        while remaining:
            headroom_of = self.headrooms(snapshot, state, remaining, work)
            for name, counted in headroom_of.items():
                if not isinstance(counted, str) and counted.is_complete:
                    yield FlavorRoom(name, "", counted.at_least, counted.at_most)
                    for label, mask in roots.items():
                        bounds = _among(snapshot, counted, remaining[name], mask, work)
                        if bounds is not None:
                            yield FlavorRoom(name, label, *bounds)
            remaining = {name: request for name, request in remaining.items() if name not in headroom_of}
            if not headroom_of:
                break

    def _keep(self, snapshot: Snapshot, state: str, headroom_of: Mapping[str, tuple[CandidateRequest, Found]]) -> None:
        with self._lock:
            if self._state != state or self._versions is not snapshot.versions:
                self._state, self._versions, self._fresh = state, snapshot.versions, set()
            for name in headroom_of:
                self._found.pop(name, None)  # so that it moves to the end
            self._found.update(headroom_of)
            self._fresh.update(headroom_of)
            number, size = len(self._found), sum(_bytes(counted) for _, counted in self._found.values())
            # The oldest of an older state go first. Of one state the latest go: if requests come round in turns, and
            # the oldest went, each would be gone when its turn comes.
            stale = [name for name in self._found if name not in self._fresh]
            for name in [*stale, *reversed(self._found)]:
                if number <= MOST_KEPT and size <= MOST_BYTES:
                    break
                if name in self._found:
                    number, size = number - 1, size - _bytes(self._found.pop(name)[1])
                    self._fresh.discard(name)


class _Updating:
    """Brings headrooms of other snapshots up to date, all of them to the same places."""

    def __init__(self, snapshot: Snapshot, work: int | None, latest: Places | None) -> None:
        """*latest* has the places to begin with, of any snapshot."""
        self._snapshot = snapshot
        self._work = work
        self._steps: dict[int, tuple[Places, Step | None]] = {}
        self.spent = 0.0
        step = None if latest is None else latest.step(snapshot)
        if latest is not None:
            self._steps[id(latest)] = latest, step
        self._reached = Places.of(snapshot) if step is None else step.places

    def batches(self, stale: Mapping[str, Stale]) -> Iterator[list[str]]:
        """The names of *stale* in batches that can be counted together."""
        batches: dict[Hashable, list[str]] = {}
        for name, (request, before) in stale.items():
            form = form_of(request) if before is None else before.form
            alone = name if form is None else None
            batches.setdefault((form, alone, before and id(before.places)), []).append(name)
        for batch in batches.values():
            _, first = stale[batch[0]]
            step = None if first is None else self._step(first.places)
            most = most_together(self._snapshot.size if step is None else len(step.slot_at))
            yield from (batch[start : start + most] for start in range(0, len(batch), most))

    def found(self, batch: Sequence[Stale]) -> list[Found]:
        """The headroom of each request of *batch*, which are of one form and behind by one step."""
        requests = [request for request, _ in batch]
        headrooms = self._after([before for _, before in batch if before is not None]) or [None] * len(batch)
        uncounted = [request for request, counted in zip(requests, headrooms, strict=True) if counted is None]
        in_full = iter(self._in_full(uncounted) if uncounted else ())
        return [counted or next(in_full) for counted in headrooms]

    def _after(self, headrooms: Sequence[HeadroomByTree]) -> list[HeadroomByTree | None]:
        step = self._step(headrooms[0].places) if headrooms else None
        return [] if step is None else self._spending(lambda work: after(headrooms, step, work), len(headrooms))

    def _in_full(self, requests: Sequence[CandidateRequest]) -> list[Found]:
        try:
            headrooms = self._spending(
                lambda work: headrooms_by_tree(self._snapshot, self._reached, requests, work), len(requests)
            )
        except WorkSpent:
            return [counted for request in requests for counted in self._in_full([request])]
        return [counted or self._sums(request) for counted, request in zip(headrooms, requests, strict=True)]

    def _sums(self, request: CandidateRequest) -> Found:
        try:
            return self._spending(lambda work: _without_trees(headroom(self._snapshot, request, work)))
        except BadRequest as error:
            return str(error)

    def _step(self, places: Places) -> Step | None:
        if id(places) not in self._steps:
            # The places are held too: otherwise another object may get their id.
            self._steps[id(places)] = places, places.step(self._snapshot, self._reached)
        return self._steps[id(places)][1]

    def _spending(self, find: Callable[[Work], R], requests: int = 1) -> R:
        """What *find* finds with a budget for each of *requests*, which is added to what was spent."""
        budget = Work(None if self._work is None else self._work * requests, give_way=runtime.give_way)
        before = budget.remaining
        try:
            return find(budget)
        finally:
            self.spent += before - budget.remaining


@dataclass(frozen=True, slots=True)
class Stranded:
    """What is free of the classes that the mix takes, and how much of it the mix cannot take; by class id.

    Each form strands what is left of a class when the form fits no more. ``stranded`` is the mean over the forms that
    take the class. A form counts by its weight times what it takes.

    Attributes:
        free: of each class, what all enabled providers have free.
        counted: number of forms that were counted, those of the greatest weights.
        forms: number of forms of the mix.
        is_complete: false if the work was used up first.
        course: what was stranded before.
    """

    free: Mapping[int, int]
    stranded: Mapping[int, int]
    counted: int
    forms: int
    is_complete: bool
    course: Sequence[StrandedAt] = ()


class StrandedAt(NamedTuple):
    """What was stranded at ``time`` (seconds since 1970), by the name of the class."""

    time: int
    stranded: Mapping[str, int]


STRANDED_SECONDS = 300
"""Time between two entries of the course of what is stranded."""

_KEPT = 24 * 60 * 60 // STRANDED_SECONDS


class StrandedAmounts:
    """What is stranded in the latest snapshot for which this was requested; safe for several threads.

    After a change, only the trees that changed are counted again. The course of one day is kept.
    """

    def __init__(self, mix: Callable[[], Sequence[Wanted]], now: Callable[[], float] = time.time) -> None:
        """*mix* returns the present mix: the same object as long as nothing changed. *now*: seconds since 1970."""
        self._mix = mix
        self._time = now
        self._headrooms = FlavorHeadrooms()
        self._latest: tuple[str, Sequence[Wanted], Stranded] | None = None
        self._course: tuple[StrandedAt, ...] = ()

    def now(self, snapshot: Snapshot, state: str, work: int | None) -> Stranded:
        """What is stranded in *snapshot*.

        Args:
            state: identifies the state of the site that the snapshot has.
            work: units for all forms together, once to count them and once to sum up what they leave.
        """
        mix, latest = self._mix(), self._latest
        if latest is not None and latest[0] == state and latest[1] is mix:
            stranded = latest[2]
        else:
            stranded = self._count(snapshot, state, heaviest(mix), work)
            self._latest = state, mix, stranded
        self._keep(snapshot, stranded)
        return replace(stranded, course=self._course)

    def _keep(self, snapshot: Snapshot, stranded: Stranded) -> None:
        """Append an entry to the course, if the last one is old and the mix has forms that can be counted."""
        course, now = self._course, int(self._time())
        if stranded.stranded and (not course or now - course[-1].time >= STRANDED_SECONDS):
            names = snapshot.class_names.by_id
            entry = StrandedAt(now, {names[class_id].name: amount for class_id, amount in stranded.stranded.items()})
            self._course = (*course, entry)[-_KEPT:]

    def _count(self, snapshot: Snapshot, state: str, mix: Sequence[Wanted], work: int | None) -> Stranded:
        names = {str(number): wanted for number, wanted in enumerate(mix)}
        requests = {name: replace(wanted.request, order=None, limit=None) for name, wanted in names.items()}
        headroom_of = self._headrooms.headrooms(snapshot, state, requests, work)
        summing = Work(work, give_way=runtime.give_way)
        left, demand = defaultdict[int, float](float), defaultdict[int, float](float)
        counted, is_complete = 0, len(headroom_of) == len(requests)
        for name, found in headroom_of.items():
            if isinstance(found, str):
                continue  # it fits nowhere, for a reason that is no lack of room
            try:
                stranded = stranded_by(snapshot, requests[name], found.at_least, summing)
            except BadRequest:
                continue
            except WorkSpent:
                break
            counted, is_complete = counted + 1, is_complete and found.is_complete
            amounts = requested(snapshot, requests[name])
            for class_id, amount in stranded.items():
                weight = names[name].weight * amounts[class_id]
                left[class_id] += weight * amount
                demand[class_id] += weight
        classes = snapshot.in_class_order(left)
        return Stranded(
            {class_id: room_of(snapshot, class_id, snapshot.enabled) for class_id in classes},
            {class_id: round(left[class_id] / demand[class_id]) for class_id in classes},
            counted,
            len(mix),
            is_complete and not summing.is_cut,
        )


def _without_trees(counted: Headroom) -> Headroom:
    """The sums, which are much smaller than the bounds of all trees."""
    nowhere = np.empty(0, np.int64)
    return replace(counted, roots=nowhere, roots_at_least=nowhere, roots_at_most=nowhere)


def _among(
    snapshot: Snapshot, counted: Headroom | HeadroomByTree, request: CandidateRequest, roots: Mask, work: int | None
) -> tuple[int, int] | None:
    """The bounds in the trees of *roots*; None if the work was used up."""
    if isinstance(counted, HeadroomByTree):
        return counted.among(roots)
    alone = headroom(snapshot, request, Work(work, give_way=runtime.give_way), among=roots)
    return (alone.at_least, alone.at_most) if alone.is_complete else None


def _bytes(counted: Found) -> int:
    return counted.bytes if isinstance(counted, HeadroomByTree) else 0
