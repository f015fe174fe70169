"""The engine runs the phases of a candidate query: resolve, match, trees, kinds, combine, order, limit, render."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stead.candidates import order
from stead.candidates.candidate import candidates, gives_from_one_provider_per_tree, up_to
from stead.candidates.kinds import TreeKinds, drawn
from stead.candidates.match import anchors_of, eligible_anchors, match, resolve, resolve_aggregates, resolve_traits
from stead.candidates.order import best_first, resolve_order
from stead.candidates.render import Rendering
from stead.candidates.work import CANDIDATE, Work, WorkSpent, masked
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import SPREAD, ByHeadroom, Drawn
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.candidate import Batch, Candidate
    from stead.candidates.losses import Losses
    from stead.candidates.match import MatchedGroup
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import ByAmount, ByShare, CandidateRequest, Order


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
    batches = _ordered_batches(snapshot, request, groups, eligible, enumeration, work, phases)
    if enumeration.maximum is not None:
        batches = up_to(max(enumeration.maximum, 1), batches)
    if request.one_provider_per_tree and snapshot.forest.has_nested:
        batches = _filtered(batches, partial(gives_from_one_provider_per_tree, snapshot), work)
    if request.limit is not None:
        batches = up_to(request.limit, batches)
    batches = work.spent_on(batches)
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
) -> order.Order:
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
        return order.in_rounds((kind.shuffled(), tree) for kind, tree in alone)
    runs = tree_kinds.runs(anchors, of_all=not is_cut, limit=limit)
    if enumeration.breadth_first:
        return order.in_rounds((kind.arrangements(), run) for kind, run in runs)
    return order.depth_first(runs)


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
