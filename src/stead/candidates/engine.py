"""The engine, read aloud: resolve, match, trees, combine, order, limit, render."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from stead.candidates import combine, order, trees
from stead.candidates.candidate import Candidate, gives_from_one_provider_per_tree
from stead.candidates.match import eligible_anchors, match
from stead.candidates.render import render
from stead.candidates.resolve import resolve, resolve_traits
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Enumeration:
    """How a service enumerates. ``maximum`` candidates are generated for a request at most, before its own limit."""

    breadth_first: bool = False
    randomize: bool = False
    maximum: int | None = None


def answer(snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration, form: Form) -> bytes:
    """The JSON answer to *request*.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    return render(snapshot, request, list(find(snapshot, request, enumeration)), form)


def find(snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration) -> Iterator[Candidate]:
    """The candidates for *request*, each once, as many as its limit says; none is made before it is asked for.

    Raises:
        UnknownResourceClass, UnknownTraits: at once, not while iterating.
    """
    eligible = eligible_anchors(snapshot, resolve_traits(snapshot, request.root_traits))
    if request.root_traits and not eligible.any():
        return iter(())
    groups = _matched(snapshot, request, eligible)
    if groups is None:
        return iter(())
    found = _found(snapshot, request, groups, eligible, enumeration)
    found = islice(found, max(enumeration.maximum, 1)) if enumeration.maximum is not None else found
    if request.one_provider_per_tree and snapshot.forest.has_nested:
        found = (one for one in found if gives_from_one_provider_per_tree(snapshot, one))
    found = islice(found, request.limit)
    return _shuffled(found) if enumeration.randomize else found


def _matched(snapshot: Snapshot, request: CandidateRequest, eligible: NDArray[np.bool_]) -> list[MatchedGroup] | None:
    """All groups, matched; None if one of them has no provider.

    A group that nothing can serve hides the errors of the groups after it; whether an earlier group is such a one is
    only worked out when there is an error to hide.
    """
    groups: list[MatchedGroup] = []
    for group in request.groups:
        try:
            resolved = resolve(snapshot, group)
        except (UnknownResourceClass, UnknownTraits):
            if all(_has_partial(snapshot, earlier, eligible) for earlier in groups):
                raise
            return None
        if resolved is None:
            return None
        matched = match(snapshot, resolved)
        if matched.is_hopeless:
            return None
        groups.append(matched)
    return groups


def _has_partial(snapshot: Snapshot, group: MatchedGroup, eligible: NDArray[np.bool_]) -> bool:
    """Whether *group*, alone, can be served under any anchor."""
    alone = _Demanded(snapshot, [group])
    return any(True for anchor in alone.anchors(eligible) for _ in alone.ways(anchor))


def _found(
    snapshot: Snapshot,
    request: CandidateRequest,
    groups: Sequence[MatchedGroup],
    eligible: NDArray[np.bool_],
    enumeration: Enumeration,
) -> Iterator[Candidate]:
    demanded = _Demanded(snapshot, groups, request, shuffles=enumeration.randomize)
    anchors = demanded.anchors(eligible)
    if enumeration.randomize:
        random.shuffle(anchors)
    in_turn = order.breadth_first if enumeration.breadth_first or enumeration.randomize else order.depth_first
    ways = _once(snapshot, in_turn(demanded.ways(anchor) for anchor in anchors))
    return (Candidate.of(demanded.pools, way) for way in ways)


def _once(snapshot: Snapshot, ways: Iterator[combine.Way]) -> Iterator[combine.Way]:
    """Each way once. Only a way that uses nothing but sharing providers can come again, under another anchor."""
    sharing = frozenset(snapshot.sharing.providers.tolist())
    seen: set[combine.Way] = set()
    for way in ways:
        if sharing.issuperset(way):
            if way in seen:
                continue
            seen.add(way)
        yield way


def _shuffled(found: Iterator[Candidate]) -> Iterator[Candidate]:
    whole = list(found)
    random.shuffle(whole)
    return iter(whole)


class _Demanded:
    """What all groups together demand of one tree after the other."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[MatchedGroup],
        request: CandidateRequest | None = None,
        *,
        shuffles: bool = False,
    ) -> None:
        """The demand of *groups*, bound together as *request* says, or not at all.

        Args:
            shuffles: choices are tried in random order.
        """
        self.pools: list[Pool] = [pool for group in groups for pool in group.pools]
        self._snapshot = snapshot
        self._shuffles = shuffles
        self._clauses = [clause for group in groups for clause in group.clauses]
        self._unsuffixed = frozenset(need for need, pool in enumerate(self.pools) if pool.suffix == UNSUFFIXED)
        self._combiner = combine.Combiner(self._demand(request))

    def _demand(self, request: CandidateRequest | None) -> combine.Demand:
        suffixed = {pool.suffix: need for need, pool in enumerate(self.pools) if pool.suffix != UNSUFFIXED}
        subtrees = request.same_subtree if request else ()
        return combine.Demand(
            [pool.amounts for pool in self.pools],
            lru_cache(maxsize=65536)(self._left),
            self._snapshot.forest.is_below,
            frozenset(suffixed.values()) if request and request.isolate else frozenset(),
            [frozenset(suffixed[suffix] for suffix in suffixes) for suffixes in subtrees],
            self._unsuffixed,
        )

    def anchors(self, eligible: NDArray[np.bool_]) -> list[int]:
        """Roots under which every pool has a provider."""
        found: list[int] = trees.anchors(self._snapshot, eligible, self.pools).tolist()
        return found

    def ways(self, anchor: int) -> Iterator[combine.Way]:
        """All ways to serve the demand under *anchor*; nothing is looked at before the first is asked for."""
        choices = trees.choices(self._snapshot, self.pools, anchor)
        if self._shuffles:
            for some in choices:
                random.shuffle(some)
        yield from self._combiner.ways(choices, [self._meeting(clause, choices) for clause in self._clauses])

    def _meeting(self, clause: Sequence[int], choices: Sequence[Sequence[Slot]]) -> frozenset[Slot]:
        """Providers that may serve the unsuffixed group and meet a clause of required traits."""
        traits = self._snapshot.trait_sets
        return frozenset(
            slot for need in self._unsuffixed for slot in choices[need] if not traits.of(slot).isdisjoint(clause)
        )

    def _left(self, slot: Slot, class_id: int) -> int:
        """How much one candidate may take of a place in all."""
        held = self._snapshot.inventory[class_id].at(slot)
        return min(held.inventory.capacity - held.used, held.inventory.max_unit)
