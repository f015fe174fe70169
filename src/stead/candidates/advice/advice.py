"""Advice: the fewest consumers to move, and where, so that a request fits a number of times.

The search tries sets of consumers, those with the fewest members first. It begins with sets of which the counts say
that they make enough room. If a consumer of a set finds no new place, it adds another consumer whose place it could
take. The first set of which all members find places is the plan. `bound` proves how many moves every plan needs.

Source: "GET /advice", docs/api.md; decision 47.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.advice.bound import fewest_moves
from stead.candidates.advice.choosing import Option, fewest
from stead.candidates.advice.relocating import NoPlace, Relocating
from stead.candidates.advice.vacating import vacating
from stead.candidates.placing import negated
from stead.candidates.work import Work, WorkSpent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from stead.candidates.advice.leaving import Leaver
    from stead.candidates.engine import Enumeration
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.moving import Move
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

MOST_SETS = 100
"""Sets of consumers for which new places are searched."""

MOST_HELPERS = 30
"""Consumers of which it is tried whether another can take their place."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The best plan that was found, and what is proved.

    Attributes:
        moves: in an order in which each is valid when its turn comes; None if no plan was found.
        at_least: every plan has this number of moves; None if no plan exists.
        is_complete: false if the work was used up first.
    """

    moves: Sequence[Move] | None
    at_least: int | None
    is_complete: bool


def advise(
    snapshot: Snapshot,
    request: CandidateRequest,
    number: int,
    before: Headroom,
    leavers: Sequence[Leaver],
    countable: Collection[int],
    gaining: Collection[int],
    enumeration: Enumeration,
    works: tuple[Work, Work],
) -> Advice:
    """Which of *leavers* to move so that *request* fits *number* times.

    Args:
        before: the headroom of *snapshot*, less than *number*.
        leavers: the consumers that can move from the trees of *countable*, the largest first.
        gaining: the trees into which *request* fits more often without their consumers.
        works: the budgets of the bound and of the search.
    """
    at_least = fewest_moves(snapshot, request, number, before, leavers, countable, works[0])
    if at_least is None:
        return Advice(None, None, is_complete=True)
    search = _Search(Relocating(snapshot, request, number, enumeration, works[1]), snapshot, leavers, works[1])
    moves = search.moves(before, number - before.at_least, gaining)
    return Advice(moves, at_least, not any(work.is_cut for work in works))


class _Origin(NamedTuple):
    """How a set was chosen: options that gain ``needed``, none of them banned."""

    options: Sequence[Option]
    needed: int
    banned: frozenset[Option]


def _effort(option: Option) -> tuple[int, int]:
    return option.moves, -sum(option.leavers)


class _Search:
    """Sets of consumers, by the number of their members."""

    def __init__(self, relocating: Relocating, snapshot: Snapshot, leavers: Sequence[Leaver], work: Work) -> None:
        self._relocating = relocating
        self._snapshot = snapshot
        self._leavers = leavers
        self._work = work
        self._waiting: list[tuple[int, int, frozenset[int], _Origin | None]] = []
        self._numbers = count()
        self._proposed: set[object] = set()

    def moves(self, before: Headroom, needed: int, gaining: Collection[int]) -> list[Move] | None:
        """The moves of the first set whose members all find places."""
        trees = self._options(before, needed, gaining)
        failed: dict[frozenset[int], NoPlace] = {}
        try:
            self._choose(trees, needed, frozenset())
            for _ in range(MOST_SETS):
                if not self._waiting or self._work.is_cut:
                    return None
                _, _, members, origin = heapq.heappop(self._waiting)
                if members not in failed:
                    moves = self._relocating.moves([self._leavers[number] for number in sorted(members)])
                    if not isinstance(moves, NoPlace):
                        return moves
                    failed[members] = moves
                    # The heap returns the smallest sets first, so this larger set waits until those have failed.
                    for helper in self._helpers(moves, members):
                        self._propose(members | {helper}, None)
                if origin is not None:
                    for option in origin.options:
                        self._choose(trees, origin.needed, origin.banned | {option})
                    # Places exist but would cost room of the request, so a set that gains one more may afford them.
                    if failed[members].is_crowded:
                        self._choose(trees, origin.needed + 1, origin.banned)
        except WorkSpent:
            pass
        return None

    def _options(self, before: Headroom, needed: int, gaining: Collection[int]) -> list[list[Option]]:
        """For each tree of *gaining*, which consumers to move."""
        fits = dict(zip(before.roots.tolist(), before.roots_at_least.tolist(), strict=True))
        numbers: dict[int, list[int]] = defaultdict(list)
        for number, leaver in enumerate(self._leavers):
            if leaver.root in gaining:
                numbers[leaver.root].append(number)
        among = np.zeros(self._snapshot.size, np.bool_)
        among[list(numbers)] = True

        def gains(released: Amounts) -> dict[int, int]:
            headroom = self._relocating.fits(self._snapshot.with_taken(negated(released)), among)
            if self._work.is_cut:
                raise WorkSpent
            counts = zip(headroom.roots.tolist(), headroom.roots_at_least.tolist(), strict=True)
            return {root: number - fits.get(root, 0) for root, number in counts}

        options: dict[int, dict[Option, None]] = defaultdict(dict)
        try:
            for root, option in vacating(self._leavers, numbers, needed, gains):
                options[root][option] = None
        except WorkSpent:
            pass
        # The later a consumer comes, the smaller it is: of options with as many moves, the smallest are preferred.
        trees = [sorted(of_tree, key=_effort) for of_tree in options.values()]
        return sorted(trees, key=lambda of_tree: _effort(of_tree[0]))

    def _choose(self, trees: Sequence[Sequence[Option]], needed: int, banned: frozenset[Option]) -> None:
        """Propose the cheapest set of options without banned ones."""
        if (needed, banned) in self._proposed:
            return
        self._proposed.add((needed, banned))
        allowed = [[option for option in options if option not in banned] for options in trees]
        chosen = fewest(allowed, needed, self._work)
        if chosen is not None:
            members = frozenset[int]().union(*(option.leavers for option in chosen))
            self._propose(members, _Origin(chosen, needed, banned))

    def _propose(self, members: frozenset[int], origin: _Origin | None) -> None:
        if origin is not None or members not in self._proposed:
            self._proposed.add(members)
            heapq.heappush(self._waiting, (len(members), next(self._numbers), members, origin))

    def _helpers(self, failed: NoPlace, members: frozenset[int]) -> Iterator[int]:
        """Consumers whose place the one that failed could take, the smallest first."""
        if failed.leaver is None:
            return
        tried: set[object] = set()
        for number in reversed(range(len(self._leavers))):
            helper = self._leavers[number]
            if number in members or helper.root == failed.leaver.root or helper.kind in tried:
                continue
            if len(tried) >= MOST_HELPERS or self._work.is_cut:
                return
            tried.add(helper.kind)
            there = np.zeros(self._snapshot.size, np.bool_)
            there[helper.root] = True
            free = failed.snapshot.with_taken(negated(helper.leaving))
            if self._relocating.place(free, failed.leaver, there) is not None:
                yield number
