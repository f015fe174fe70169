"""Combine: all ways to serve every need in one tree, each found before the next is searched for.

The search assigns a provider to one need after the other. Before it enters a branch, it checks whether capacities,
isolation, required traits and subtrees can still leave a way through it. Providers in the same state are equal for the
needs that are still open: if one of them led nowhere, the search skips the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from stead.candidates.backtrack import sequences
from stead.candidates.blocks import independent_blocks
from stead.candidates.demand import is_over_demanded, open_clauses
from stead.candidates.ledger import Ledger
from stead.candidates.matching import matchings
from stead.candidates.requirements import Requirements
from stead.candidates.subtrees import topped
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.candidates.blocks import Block
    from stead.candidates.demand import Choices, Demand, Ground, Way
    from stead.candidates.ledger import State
    from stead.candidates.matching import Matching, Room
    from stead.candidates.work import Work


def ways(demand: Demand, ground: Ground, work: Work) -> Iterator[Way]:
    """All ways to serve *demand* on *ground*, each once.

    Raises:
        WorkSpent: while iterating, if *work* does not suffice to find the next.
    """
    choices = ground.choices
    clauses = open_clauses(demand, ground)
    # The cheap bounds come first: most trees of a full site end here, without a search.
    if not all(choices) or (demand.repeated and is_over_demanded(demand, ground)):
        return
    blocks = None if clauses else independent_blocks(demand, choices)
    if blocks is not None:
        yield from _ways_of_blocks(blocks, work)
        return
    for tops, narrowed in topped(demand, ground, work):
        # The setup of a search visits every need, so a long series of tops without a way is not free.
        work.spend(TRIED * len(narrowed))
        yield from _Search(demand, ground, tops, narrowed, clauses, work).run()


def _ways_of_blocks(blocks: Sequence[Block], work: Work) -> Iterator[Way]:
    """All ways to serve needs of *blocks*: each choice of one block beside each of the others."""
    if not all(block.has_ways for block in blocks):  # the blocks before it would be enumerated in vain
        return
    needs = [need for block in blocks for need in block.needs]
    places = sorted(range(len(needs)), key=needs.__getitem__)
    for chosen in sequences(len(blocks), lambda beginning: blocks[len(beginning)].ways()):
        work.spend(TRIED)
        positions = list(chain.from_iterable(chosen))
        yield tuple([positions[place] for place in places])


@dataclass(slots=True)
class _Level:
    """One need of the search: the positions not tried yet, and the matchings before the need is assigned.

    ``dead_ends`` has the states of tried providers that left no way. ``state`` is that of the provider tried last,
    ``ways_before`` the number of ways that were found before it was tried.
    """

    need: int
    untried: Iterator[int]
    matchings: Sequence[Matching | Room]
    dead_ends: set[State]
    state: State | None = None
    ways_before: int = 0


class _Search:
    """Depth-first search over the needs; it has a stack of its own.

    It does not use `backtrack.sequences`: a level must learn whether the levels below it found a way, because only then
    is the state of its provider a dead end.
    """

    def __init__(
        self,
        demand: Demand,
        ground: Ground,
        tops: Sequence[int],
        choices: Choices,
        clauses: Sequence[frozenset[int]],
        work: Work,
    ) -> None:
        self._work = work
        self._choices = choices
        # Needs with few choices come first, because they fail early, where the tree of branches is narrow. Bystanders
        # come last: they do not restrict each other, and the matchings leave each of them a position.
        self._order = sorted(range(len(choices)), key=lambda need: (need in demand.bystanders, len(choices[need])))
        self._requirements = Requirements(demand, tops, clauses, choices, self._order)
        self._matchings = matchings(demand, ground, choices, work)
        self._ledger = Ledger(demand, ground, choices, self._requirements)
        self._way: dict[int, int] = {}
        self._number_of_ways = 0

    def run(self) -> Iterator[Way]:
        """All ways."""
        if not (all(matching.is_complete for matching in self._matchings) and self._requirements.can_be_met):
            return
        levels = [self._level(0, self._matchings)]
        while levels:
            level = levels[-1]
            if level.need in self._way:  # the levels below have tried everything with this provider
                self._release(level.need)
            after = self._assign_next(level, len(levels))
            if after is None:
                levels.pop()
            elif len(levels) == len(self._order):
                self._number_of_ways += 1
                yield tuple([self._way[need] for need in range(len(levels))])
            else:
                levels.append(self._level(len(levels), after))

    def _level(self, depth: int, before: Sequence[Matching | Room]) -> _Level:
        need = self._order[depth]
        return _Level(need, iter(self._choices[need]), before, set())

    def _assign_next(self, level: _Level, depth: int) -> Sequence[Matching | Room] | None:
        """Assign the next provider that can leave a way to the need of *level*.

        Returns:
            The matchings after that; None if no provider remains.
        """
        ledger = self._ledger
        if level.state is not None and level.ways_before == self._number_of_ways:
            level.dead_ends.add(level.state)
        for position in level.untried:
            level.state, level.ways_before = ledger.states[position], self._number_of_ways
            if level.state in level.dead_ends:
                continue
            self._work.spend(TRIED)
            # From cheap to expensive: a comparison of numbers, then the matchings, then what must be undone again.
            if ledger.has_room(level.need, position):
                after = [matching.assigned(level.need, position) for matching in level.matchings]
                if None not in after:
                    self._assign(level.need, position)
                    if self._requirements.allow(level.need, depth):
                        return [matching for matching in after if matching is not None]
                    self._release(level.need)
            level.dead_ends.add(level.state)
        return None

    def _assign(self, need: int, position: int) -> None:
        self._way[need] = position
        self._ledger.assign(need, position)
        self._requirements.assign(need, position)

    def _release(self, need: int) -> None:
        position = self._way.pop(need)
        self._ledger.release(need, position)
        self._requirements.release(need, position)
