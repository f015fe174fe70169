"""The engine runs the phases of a candidate query: resolve, match, trees, kinds, combine, order, limit, render."""

from __future__ import annotations

import random
import sys
import time
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from stead.candidates.kinds import (
    Batch,
    TreeKinds,
    affordable,
    candidates,
    drawn,
    gives_from_one_provider_per_tree,
    up_to,
)
from stead.candidates.match import anchors_of, eligible_anchors, match, resolve, resolve_aggregates, resolve_traits
from stead.candidates.render import Rendering
from stead.candidates.work import CANDIDATE, Work, WorkSpent, masked
from stead.catalog.snapshot import NO_SLOT
from stead.domain.errors import UnknownClassInOrder, UnknownResourceClass, UnknownTraits
from stead.domain.request import SPREAD, ByAmount, ByHeadroom, ByShare, Drawn
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.kinds import Arrangement, Candidate, Kind
    from stead.candidates.losses import Losses
    from stead.candidates.match import MatchedGroup
    from stead.candidates.render import Form
    from stead.catalog.blocks import Texts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest, Order

    Run = NDArray[np.int64]
    """Trees of one kind, as in a batch."""
    Numbers = NDArray[np.float64]


# The durations of the phases of a query. The clock is read only if a caller needs them.


class Phases(Protocol):
    """Receives the end of each phase."""

    def mark(self, name: str) -> None:
        """The phase *name* has ended. It began at the end of the previous phase."""
        ...


class Untimed:
    """Ignores the phases."""

    def mark(self, name: str) -> None:
        """Do nothing."""


class Timed:
    """Records the time at which each phase ended, by ``time.perf_counter``."""

    def __init__(self, marks: list[tuple[str, float]]) -> None:
        """Append a pair of name and time to *marks* for each phase."""
        self._marks = marks

    def mark(self, name: str) -> None:
        """Record the time."""
        self._marks.append((name, time.perf_counter()))


UNTIMED = Untimed()


BATCHES = 4096
"""Batches that are searched before they are written."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The settings of a service for its candidate queries.

    A query generates up to ``maximum`` candidates, before its own limit applies. Its budget is ``work``, in units of
    `stead.candidates.work`. None: no bound. An answer may have ``answer_size`` bytes. ``order`` is that of requests
    which name none. ``losses`` is what the order ``headroom`` requires.
    """

    breadth_first: bool = False
    randomize: bool = False
    maximum: int | None = None
    work: int | None = None
    answer_size: int = sys.maxsize
    order: Order | None = None
    losses: Losses | None = field(default=None, compare=False)

    def draws(self, request: CandidateRequest) -> bool:
        """Whether the candidates for *request*, or their order, are random."""
        # The order in the query replaces the configured one: shuffling would destroy a requested order.
        return self.randomize if request.order is None else isinstance(request.order, Drawn)

    def ordered(self, request: CandidateRequest) -> CandidateRequest:
        """*request*, in the order of the service if it names none."""
        return request if request.order or self.order is None else replace(request, order=self.order)


class Answer(NamedTuple):
    """The JSON body in pieces, and the number of candidates in it.

    ``is_cut``: the work ended before all were found.
    """

    body: list[bytes]
    is_cut: bool
    number: int


def answer(
    snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration, form: Form, phases: Phases = UNTIMED
) -> Answer:
    """The answer to *request*. Shorter requests may run in between; *phases* receives the end of each phase.

    Raises:
        UnknownResourceClass, UnknownTraits, AnswerTooLarge
    """
    work = Work(enumeration.work, give_way=runtime.give_way)
    batches = found_within(snapshot, request, enumeration, work, phases)
    rendering = Rendering(snapshot, request, form, runtime.give_way, enumeration.answer_size)
    number = 0
    # Each portion is written before the next one is searched: all candidates of a large answer need more memory than
    # their text.
    while portion := list(islice(batches, BATCHES)):
        phases.mark("combine")
        number += sum(batch.size for batch in portion)
        rendering.add(portion)
        phases.mark("render")
    phases.mark("combine")
    body = rendering.finish()
    phases.mark("render")
    return Answer(body, work.is_cut, number)


def find(
    snapshot: Snapshot,
    request: CandidateRequest,
    enumeration: Enumeration,
    *,
    work: Work | None = None,
    among: NDArray[np.bool_] | None = None,
) -> Iterator[Candidate]:
    """The candidates for *request*, each once, up to its limit and its work. Lazy.

    Args:
        work: the budget; by default a new one as *enumeration* says.
        among: mask of the anchors that may be used; all by default.

    Raises:
        UnknownResourceClass, UnknownTraits: at once, not while iterating.
    """
    return candidates(found_within(snapshot, request, enumeration, work or Work(enumeration.work), among=among))


def found_within(
    snapshot: Snapshot,
    request: CandidateRequest,
    enumeration: Enumeration,
    work: Work,
    phases: Phases = UNTIMED,
    among: NDArray[np.bool_] | None = None,
) -> Iterator[Batch]:
    """The candidates for *request* in batches, each once, up to its limit and *work*. Lazy.

    Raises:
        UnknownResourceClass, UnknownTraits: at once, not while iterating.
    """
    if request.order is not None:
        enumeration = replace(enumeration, randomize=enumeration.draws(request))
    try:
        matched = match_all(snapshot, request, work, phases)
    except WorkSpent:
        return iter(())
    if matched is None:
        return iter(())
    groups, eligible = matched
    if among is not None:
        eligible = eligible & among
    # The order of these steps is part of the contract: the maximum counts candidates before the filter drops some, and
    # the limit counts those after it. Shuffling comes last, so that it reorders only what is returned.
    try:
        batches = _ordered_batches(snapshot, request, groups, eligible, enumeration, work, phases)
    except WorkSpent:  # some orders value all trees before they give the first
        return iter(())
    if enumeration.maximum is not None:
        batches = up_to(max(enumeration.maximum, 1), batches)
    if request.one_provider_per_tree and snapshot.forest.has_nested:
        batches = _filtered(batches, partial(gives_from_one_provider_per_tree, snapshot), work)
    if request.limit is not None:
        batches = up_to(request.limit, batches)
    batches = affordable(batches, work)
    return _shuffled(batches) if enumeration.randomize else batches


def match_all(
    snapshot: Snapshot, request: CandidateRequest, work: Work, phases: Phases = UNTIMED
) -> tuple[list[MatchedGroup], NDArray[np.bool_]] | None:
    """All groups, matched, and a mask of the roots that may be anchors. None if nothing can fit.

    Raises:
        UnknownResourceClass, UnknownTraits
        WorkSpent
    """
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    if (request.root_traits or request.root_aggregates) and not eligible.any():
        return None
    groups = _matched(snapshot, request, eligible, phases, work)
    return None if groups is None else (groups, eligible)


def _matched(
    snapshot: Snapshot, request: CandidateRequest, eligible: NDArray[np.bool_], phases: Phases, work: Work
) -> list[MatchedGroup] | None:
    """All groups, matched; None if one of them has no provider.

    A group that nothing can serve hides the errors of the groups after it. To find out is expensive, so it is done only
    if there is an error to hide.
    """
    groups: list[MatchedGroup] = []
    for group in request.groups:
        work.spend(masked(snapshot.size))
        try:
            resolved = resolve(snapshot, group)
        except (UnknownResourceClass, UnknownTraits):
            if all(_has_partial(snapshot, earlier, eligible, work) for earlier in groups):
                raise
            return None
        phases.mark("resolve")
        if resolved is None:
            return None
        matched = match(snapshot, resolved)
        phases.mark("match")
        if matched.is_hopeless:
            return None
        groups.append(matched)
    return groups


def _has_partial(snapshot: Snapshot, group: MatchedGroup, eligible: NDArray[np.bool_], work: Work) -> bool:
    """Whether *group* alone has a candidate.

    Raises:
        WorkSpent
    """
    alone = TreeKinds(snapshot, [group], work)
    anchors = anchors_of(snapshot, eligible, alone.pools, work.give_way)
    return any(True for kind, _ in alone.runs(anchors) for _ in kind.arrangements())


def _ordered_batches(
    snapshot: Snapshot,
    request: CandidateRequest,
    groups: Sequence[MatchedGroup],
    eligible: NDArray[np.bool_],
    enumeration: Enumeration,
    work: Work,
    phases: Phases,
) -> Iterator[Batch]:
    tree_kinds = TreeKinds(snapshot, groups, work, request)
    anchors = anchors_of(snapshot, eligible, tree_kinds.pools, work.give_way)
    phases.mark("trees")
    if request.order is None or isinstance(request.order, Drawn):
        is_cut = request.limit is not None or enumeration.maximum is not None
        batches = _in_order(tree_kinds, anchors, enumeration, is_cut=is_cut, limit=request.limit)
    else:
        measure = order_of(snapshot, request, request.order, groups, tree_kinds, enumeration.losses)
        batches = best_first(
            snapshot, tree_kinds, anchors, measure, work, breadth_first=enumeration.breadth_first, limit=request.limit
        )
    if not all(pool.shared.size for pool in tree_kinds.pools):
        return batches
    # Candidates of sharing providers alone can be found again under another anchor.
    return _filtered(batches, _FirstTimes(snapshot), work)


def order_of(
    snapshot: Snapshot,
    request: CandidateRequest,
    by: ByShare | ByAmount | ByHeadroom,
    groups: Sequence[MatchedGroup],
    tree_kinds: TreeKinds,
    losses: Losses | None,
) -> Ranking:
    """The order that *request* names.

    Raises:
        UnknownClassInOrder
    """
    if isinstance(by, ByHeadroom):
        least = None if losses is None else losses.of(snapshot, request, groups, tree_kinds)
        if least is not None:
            return least
        by = SPREAD  # without a mix, nothing tells one kind of room from another
    return resolve_order(snapshot, by, tree_kinds.requested)


def _in_order(
    tree_kinds: TreeKinds, anchors: NDArray[np.int64], enumeration: Enumeration, *, is_cut: bool, limit: int | None
) -> Iterator[Batch]:
    """The candidates under *anchors*, in the order that the service is configured for.

    Args:
        is_cut: the caller does not need all of them.
        limit: the caller needs up to this number; None if it is unknown.
    """
    # If nothing is cut, `_shuffled` reorders all candidates at the end, so drawing trees would add nothing.
    if enumeration.randomize and is_cut:
        runs = tree_kinds.runs(anchors, drawn(len(anchors)), limit=limit)
        alone = ((kind, run[place : place + 1]) for kind, run in runs for place in range(len(run)))
        return in_rounds((kind.shuffled(), tree) for kind, tree in alone)
    runs = tree_kinds.runs(anchors, of_all=not is_cut, limit=limit)
    if enumeration.breadth_first:
        return in_rounds((kind.arrangements(), run) for kind, run in runs)
    return depth_first(runs)


def _filtered(batches: Iterable[Batch], passes: Callable[[Candidate], bool], work: Work) -> Iterator[Batch]:
    for batch in batches:
        for alone, candidate in zip(batch.alone(), batch.candidates(), strict=True):
            work.spend(CANDIDATE)
            if passes(candidate):
                yield alone


class _FirstTimes:
    """Whether a candidate is found for the first time. Only candidates of sharing providers alone can be repeated."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._sharing = frozenset(snapshot.sharing.providers.tolist())
        self._seen: set[tuple[int, ...]] = set()

    def __call__(self, candidate: Candidate) -> bool:
        slots = candidate.slots()
        way = tuple([slots[position] for position in candidate.arrangement.way])
        if candidate.arrangement.is_divided or not self._sharing.issuperset(way):  # specific to its tree
            return True
        is_new = way not in self._seen
        self._seen.add(way)
        return is_new


def _shuffled(batches: Iterable[Batch]) -> Iterator[Batch]:
    whole = [alone for batch in batches for alone in batch.alone()]
    random.shuffle(whole)
    return iter(whole)


# Order: the candidates of a request in the order that it names. All functions are lazy.
#
# Depth-first returns all candidates of one tree, then those of the next. Breadth-first returns one of each tree in
# every round. Random order is breadth-first over trees that are drawn one by one.


def depth_first(runs: Iterable[tuple[Kind, Run]]) -> Iterator[Batch]:
    """All candidates of one tree, then those of the next."""
    for kind, trees in runs:
        done = 0
        if kind.has_choice and not kind.is_explored:
            # The search goes on while the candidates of the first tree are consumed, so a limit can end it early.
            done, first = 1, trees[:1]
            for arrangement in kind.arrangements():
                yield Batch((arrangement,), first)
        arrangements = list(kind.arrangements())
        if arrangements and len(trees) > done:
            yield Batch(arrangements, trees[done:])


def in_rounds(runs: Iterable[tuple[Iterable[Arrangement], Run]]) -> Iterator[Batch]:
    """One candidate of each tree in every round, until a tree has no more."""
    waiting: deque[tuple[Iterator[Arrangement], Run]] = deque()
    for arrangements, trees in runs:
        remaining = iter(arrangements)
        for first in remaining:
            yield Batch((first,), trees)
            waiting.append((remaining, trees))
            break
    while waiting:
        remaining, trees = waiting.popleft()
        for arrangement in remaining:
            yield Batch((arrangement,), trees)
            waiting.append((remaining, trees))
            break


# Best: trees, and the candidates of each, in the order that a request names. Lazy.
#
# All trees are measured at once, by columns. The candidates of a tree are measured when the iteration reaches it.
# Equal measures are ordered by uuid, so that every process returns the same order.
#
# Source: "Order", docs/stead-api.md.


_GREAT = 2**63
"""More than any sum in a catalog. Amounts in a query are unbounded integers, and this fits into a float."""

AT_ONCE = 1000
"""Candidates of one tree that are sorted together. Sorting all would first find all, which may be millions."""


class Ranking(Protocol):
    """Values candidates in one snapshot: the least keys are the best, and the first row is the primary key."""

    def of_trees(self, anchors: NDArray[np.int64], work: Work) -> Numbers:
        """The key of the best candidate of each tree, shape ``(keys, anchors)``."""
        ...

    def of_arrangements(self, arrangements: Sequence[Arrangement], slots: NDArray[np.int64], work: Work) -> Numbers:
        """The key of each of *arrangements* for the providers *slots*, by position. Shape ``(keys, arrangements)``."""
        ...


@dataclass(frozen=True, slots=True)
class Measure:
    """An order by free shares or free amounts, in ids of this snapshot.

    ``factors`` are by class id: weights of free shares or, if not ``by_share``, directions of free amounts, the most
    important first. ``requested`` is what the request takes of each class.
    """

    snapshot: Snapshot
    factors: Mapping[int, float]
    by_share: bool
    requested: Mapping[int, int]

    def of_trees(self, anchors: NDArray[np.int64], work: Work) -> Numbers:  # noqa: ARG002  # it is quick
        """What the request leaves free in each tree, by its own providers."""
        free, capacity = [], []
        for class_id in self.factors:
            room, whole = _amounts_of_trees(self.snapshot, class_id, anchors)
            free.append(np.where(whole > 0, room - float(min(self.requested.get(class_id, 0), _GREAT)), 0.0))
            capacity.append(whole)
        return self._keys(free, capacity)

    def of_arrangements(self, arrangements: Sequence[Arrangement], slots: NDArray[np.int64], work: Work) -> Numbers:
        """What arrangements leave free at the providers that give each class."""
        free, capacity = [], []
        for class_id in self.factors:
            room, whole = (amounts.tolist() for amounts in _amounts(self.snapshot, class_id, slots))
            rooms, capacities = [], []
            # By the few providers of each arrangement: a tree may have thousands.
            for number, arrangement in enumerate(arrangements):
                if number % 64 == 0:  # a thousand arrangements take ten milliseconds
                    work.give_way()
                taken = {
                    position: amounts[class_id]
                    for position, amounts in arrangement.allocations.items()
                    if class_id in amounts
                }
                rooms.append(sum(room[position] for position in taken) - sum(taken.values()))
                capacities.append(sum(whole[position] for position in taken))
            free.append(np.array(rooms, np.float64))
            capacity.append(np.array(capacities, np.float64))
        return self._keys(free, capacity)

    def _keys(self, free: Sequence[Numbers], capacity: Sequence[Numbers]) -> Numbers:
        """Sort keys of trees or candidates, the least first; the first row is the primary key. Shape ``(keys, items)``.

        Args:
            free, capacity: an array of shape ``(items,)`` per class; where the capacity is 0, nothing is free.
        """
        factors = list(self.factors.values())
        if not self.by_share:
            return np.array([-factor * amounts for factor, amounts in zip(factors, free, strict=True)])
        total = np.zeros(len(free[0]))
        for factor, amounts, whole in zip(factors, free, capacity, strict=True):
            total += factor * np.divide(amounts, whole, out=np.zeros(len(amounts)), where=whole > 0)
        return -total[None, :]


def resolve_order(snapshot: Snapshot, by: ByShare | ByAmount, requested: Mapping[int, int]) -> Measure:
    """The measure of an order, for a request whose groups take *requested* together, by class id.

    Raises:
        UnknownClassInOrder
    """
    if isinstance(by, ByAmount):
        return Measure(snapshot, _by_id(snapshot, by.directions), False, requested)
    if isinstance(by.weights, float):
        return Measure(snapshot, dict.fromkeys(requested, by.weights), True, requested)
    return Measure(snapshot, _by_id(snapshot, by.weights), True, requested)


def _by_id(snapshot: Snapshot, factors: Mapping[str, float]) -> dict[int, float]:
    rows = snapshot.class_names.by_name
    for name in factors:
        if name not in rows:
            raise UnknownClassInOrder(name)
    return {rows[name].id: factor for name, factor in factors.items()}


def best_first(
    snapshot: Snapshot,
    tree_kinds: TreeKinds,
    anchors: NDArray[np.int64],
    measure: Ranking,
    work: Work,
    *,
    breadth_first: bool,
    limit: int | None = None,
) -> Iterator[Batch]:
    """All candidates under *anchors*, the best first: tree by tree, or one of each tree in every round.

    Args:
        limit: the caller needs up to this number; None if it is unknown.
    """
    runs = tree_kinds.runs(anchors, trees_in_order(snapshot, anchors, measure, work), limit=limit)
    if breadth_first:
        return in_rounds(_apart(snapshot, runs, measure, work))
    return _tree_by_tree(_apart(snapshot, runs, measure, work))


def trees_in_order(snapshot: Snapshot, anchors: NDArray[np.int64], measure: Ranking, work: Work) -> Iterator[int]:
    """The places of trees in *anchors*, the best first. Lazy."""
    return _in_turn(measure.of_trees(anchors, work), snapshot.identities.uuids, anchors)


def _tree_by_tree(runs: Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]) -> Iterator[Batch]:
    for arrangements, trees in runs:
        for arrangement in arrangements:
            yield Batch((arrangement,), trees)


def _apart(
    snapshot: Snapshot, runs: Iterator[tuple[Kind, NDArray[np.int64]]], measure: Ranking, work: Work
) -> Iterator[tuple[Iterator[Arrangement], NDArray[np.int64]]]:
    """The sorted arrangements of each tree. Trees of a kind with a single arrangement stay together in one run."""
    for kind, trees in runs:
        # Two show whether there is anything to sort; a kind may have millions.
        several = len(list(islice(kind.arrangements(), 2))) > 1
        if not several:
            yield iter(kind.arrangements()), trees
            continue
        sorter = _Sorter(snapshot, kind, measure, work)
        for place in range(len(trees)):
            yield sorter.sorted(trees[place]), trees[place : place + 1]


def _amounts_of_trees(snapshot: Snapshot, class_id: int, anchors: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """The free amount of a class and the capacity in each tree of *anchors*."""
    if not snapshot.forest.has_nested:
        return _amounts(snapshot, class_id, anchors)
    root = snapshot.forest.root.whole
    live = np.flatnonzero(root != NO_SLOT)
    free, capacity = (
        np.bincount(root[live], amounts, snapshot.size).astype(np.float64)[anchors]
        for amounts in _amounts(snapshot, class_id, live)
    )
    return free, capacity


def _amounts(snapshot: Snapshot, class_id: int, slots: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
    """The free amount of a class and the capacity at each of *slots*; zeros where there is no inventory."""
    columns = snapshot.inventory.get(class_id)
    if columns is None:
        return np.zeros(slots.shape), np.zeros(slots.shape)
    kind = columns.kind.at(slots)
    # Slots without inventory have a room of -1, which must not count in a sum.
    room = np.where(kind > 0, columns.room.at(slots), 0).astype(np.float64)
    return room, columns.kinds.capacities()[kind].astype(np.float64)


def _in_turn(keys: Numbers, uuids: Texts, slots: NDArray[np.int64]) -> Iterator[int]:
    """The places of items in the order of their keys, then of their uuids, which are those at *slots*."""
    # Uuids are read only of equal items, and nearly always their first bytes differ: a flat site has thousands of equal
    # trees, and a request with a limit takes a few.
    for equals in _equal(keys):
        if len(equals) == 1:
            yield equals.item()
            continue
        for places in _equal(uuids.heads(slots[equals])[None, :]):
            same = equals[places]
            if len(same) == 1:
                yield same.item()
            else:
                yield from same[np.argsort(uuids.at(slots[same]))].tolist()


def _equal(keys: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
    """The places of items, those with equal keys together, in the order of the keys. The shape is ``(keys, items)``."""
    # `lexsort` takes the last key as the primary one. For a single key, it is the slower of the two.
    places = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
    sorted_keys = keys[:, places]
    bounds = np.flatnonzero((sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)) + 1
    # One by one, because a request with a limit takes a few, and on a used site nearly all trees differ.
    for start, stop in pairwise([0, *bounds.tolist(), len(places)]):
        yield places[start:stop]


class _Sorter:
    """Sorts the arrangements of one kind for one tree after the other."""

    def __init__(self, snapshot: Snapshot, kind: Kind, measure: Ranking, work: Work) -> None:
        self._snapshot = snapshot
        self._kind = kind
        self._measure = measure
        self._work = work

    def sorted(self, members: NDArray[np.int64]) -> Iterator[Arrangement]:
        """The arrangements for the tree of these *members*, the best first within each portion of ``AT_ONCE``."""
        arrangements = iter(self._kind.arrangements())
        while portion := list(self._paid(islice(arrangements, AT_ONCE))):
            slots = np.concatenate([members, np.array(portion[0].reaching, np.int64)])
            uuids = self._snapshot.identities.uuids.at(slots).tolist()
            keys = self._measure.of_arrangements(portion, slots, self._work).T.tolist()
            order_of_uuids = [[uuids[position] for position in arrangement.way] for arrangement in portion]
            ordered = sorted(range(len(portion)), key=lambda place: (keys[place], order_of_uuids[place]))
            yield from (portion[place] for place in ordered)

    def _paid(self, arrangements: Iterable[Arrangement]) -> Iterator[Arrangement]:
        """*arrangements*, each paid for before the next one is made, so that a portion cannot overdraw the budget."""
        for arrangement in arrangements:
            self._work.spend(CANDIDATE)
            yield arrangement
