"""The engine, read aloud: resolve, match, trees, combine, order, limit, render."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates import order, trees
from stead.candidates.best import best_first, resolve_order
from stead.candidates.candidate import candidates, gives_from_one_provider_per_tree, up_to
from stead.candidates.draw import drawn
from stead.candidates.kinds import Demanded
from stead.candidates.match import eligible_anchors, match
from stead.candidates.phases import UNTIMED
from stead.candidates.render import render
from stead.candidates.resolve import resolve, resolve_aggregates, resolve_traits
from stead.candidates.work import CANDIDATE, Work, WorkSpent
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.order import Drawn
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.candidate import Batch, Candidate
    from stead.candidates.match import MatchedGroup
    from stead.candidates.phases import Phases
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Enumeration:
    """How a service enumerates.

    ``maximum`` candidates are generated for a request at most, before its own limit. ``work`` is what it may do at
    most, in the units of `stead.candidates.work`.
    """

    breadth_first: bool = False
    randomize: bool = False
    maximum: int | None = None
    work: int | None = None


class Answer(NamedTuple):
    """JSON with so many candidates; ``is_cut`` if there may be more, which the request had no work left to find."""

    body: bytes
    is_cut: bool
    number: int


def answer(
    snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration, form: Form, phases: Phases = UNTIMED
) -> Answer:
    """The answer to *request*; *phases* is told when a phase ends. It gives way to shorter requests.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    work = Work(enumeration.work, give_way=slices.give_way)
    found = list(found_within(snapshot, request, enumeration, work, phases))
    phases.mark("combine")
    body = render(snapshot, request, found, form, slices.give_way)
    phases.mark("render")
    return Answer(body, work.is_cut, sum(batch.size for batch in found))


def find(
    snapshot: Snapshot,
    request: CandidateRequest,
    enumeration: Enumeration,
    *,
    work: Work | None = None,
    among: NDArray[np.bool_] | None = None,
) -> Iterator[Candidate]:
    """The candidates for *request*, each once, as many as its limit and its work allow, made as they are asked for.

    Args:
        work: what it takes of; that of the *enumeration* if not given.
        among: anchors under which candidates are looked for; all if not given.

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
    """The candidates for *request* in batches, as many as its limit and *work* allow.

    Raises:
        UnknownResourceClass, UnknownTraits: at once, not while iterating.
    """
    if request.order is not None:
        enumeration = replace(enumeration, randomize=isinstance(request.order, Drawn))
    traits = resolve_traits(snapshot, request.root_traits)
    eligible = eligible_anchors(snapshot, traits, resolve_aggregates(snapshot, request.root_aggregates))
    if (request.root_traits or request.root_aggregates) and not eligible.any():
        return iter(())
    try:
        groups = _matched(snapshot, request, eligible, phases, work)
    except WorkSpent:
        return iter(())
    if groups is None:
        return iter(())
    if among is not None:
        eligible = eligible & among
    found = _found(snapshot, request, groups, eligible, enumeration, work, phases)
    if enumeration.maximum is not None:
        found = up_to(max(enumeration.maximum, 1), found)
    if request.one_provider_per_tree and snapshot.forest.has_nested:
        found = _filtered(found, partial(gives_from_one_provider_per_tree, snapshot), work)
    if request.limit is not None:
        found = up_to(request.limit, found)
    found = work.spent_on(found)
    return _shuffled(found) if enumeration.randomize else found


def _matched(
    snapshot: Snapshot, request: CandidateRequest, eligible: NDArray[np.bool_], phases: Phases, work: Work
) -> list[MatchedGroup] | None:
    """All groups, matched; None if one of them has no provider.

    A group that nothing can serve hides the errors of the groups after it; whether an earlier group is such a one is
    only worked out when there is an error to hide.
    """
    groups: list[MatchedGroup] = []
    for group in request.groups:
        work.require_time()
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
    """Whether *group*, alone, can be served under any anchor.

    Raises:
        WorkSpent: the time of *work* is over before this is known; it is not paid from *work*.
    """
    alone = Demanded(snapshot, [group], Work(until=work.until, give_way=work.give_way))
    anchors = trees.anchors(snapshot, eligible, alone.pools)
    return any(True for kind, _ in alone.runs(anchors, range(len(anchors))) for _ in kind.arrangements())


def _found(
    snapshot: Snapshot,
    request: CandidateRequest,
    groups: Sequence[MatchedGroup],
    eligible: NDArray[np.bool_],
    enumeration: Enumeration,
    work: Work,
    phases: Phases,
) -> Iterator[Batch]:
    demanded = Demanded(snapshot, groups, work, request)
    anchors = trees.anchors(snapshot, eligible, demanded.pools)
    phases.mark("trees")
    if request.order is None or isinstance(request.order, Drawn):
        is_cut = request.limit is not None or enumeration.maximum is not None
        found = _in_order(demanded, anchors, enumeration, is_cut=is_cut)
    else:
        measure = resolve_order(snapshot, request.order, demanded.asked)
        found = best_first(snapshot, demanded, anchors, measure, work, breadth_first=enumeration.breadth_first)
    if not all(pool.shared.size for pool in demanded.pools):
        return found
    # Only what uses nothing but sharing providers can come again, under another anchor.
    return _filtered(found, _FirstTimes(snapshot), work)


def _in_order(
    demanded: Demanded, anchors: NDArray[np.int64], enumeration: Enumeration, *, is_cut: bool
) -> Iterator[Batch]:
    """The candidates under *anchors*.

    Args:
        is_cut: not all of them are wanted.
    """
    if enumeration.randomize and is_cut:
        runs = demanded.runs(anchors, drawn(len(anchors)))
        alone = ((kind, run[place : place + 1]) for kind, run in runs for place in range(len(run)))
        return order.breadth_first((kind.shuffled(), tree) for kind, tree in alone)
    runs = demanded.runs(anchors, range(len(anchors)), of_all=not is_cut)
    if enumeration.breadth_first:
        return order.breadth_first((kind.arrangements(), run) for kind, run in runs)
    return order.depth_first(runs)


def _filtered(found: Iterable[Batch], passes: Callable[[Candidate], bool], work: Work) -> Iterator[Batch]:
    for batch in found:
        for alone, one in zip(batch.alone(), batch.candidates(), strict=True):
            work.spend(CANDIDATE)
            if passes(one):
                yield alone


class _FirstTimes:
    """Tells of candidates of sharing providers alone whether they come for the first time; others always do."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._sharing = frozenset(snapshot.sharing.providers.tolist())
        self._seen: set[tuple[int, ...]] = set()

    def __call__(self, candidate: Candidate) -> bool:
        slots = candidate.slots()
        way = tuple([slots[position] for position in candidate.arrangement.way])
        if candidate.arrangement.is_divided or not self._sharing.issuperset(way):  # of one tree alone
            return True
        is_new = way not in self._seen
        self._seen.add(way)
        return is_new


def _shuffled(found: Iterable[Batch]) -> Iterator[Batch]:
    whole = [alone for batch in found for alone in batch.alone()]
    random.shuffle(whole)
    return iter(whole)
