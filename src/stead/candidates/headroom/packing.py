"""Packing: how often ways can be taken together from the rooms of one tree.

That is an integer program with a column for each way and a row for each room. Its relaxation has prices for the rooms.
If each way costs at least D at these prices, and all rooms together cost Q, no more than Q // D claims fit. The
arithmetic of this bound is exact, however the prices were found. The claims found are a real filling.

Source: "GET /headroom", docs/api.md; decision 41.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.work import TRIED, WorkSpent, masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.candidates.work import Work

    Numbers = NDArray[np.float64]

Rooms = Mapping[tuple[int, int], int]
"""Amounts by position and class id."""

_MOST_PIVOTS = 400
_MOST_NODES = 4_000
_MOST_BRANCHING = 200
"""Columns up to which the integer search branches."""

_SCALE = 2.0**40


class Packed(NamedTuple):
    """A filling with ``at_least`` claims, which take ``taken``, and a proof that no more than ``at_most`` fit."""

    at_least: int
    at_most: int
    taken: Rooms


def pack(ways: Sequence[Rooms], rooms: Rooms, most: int, work: Work) -> Packed:
    """Take *ways* from *rooms*, each any number of times.

    Args:
        ways: the amounts of each way; all differ.
        most: a bound that is known.
    """
    ways = [way for way in ways if all(rooms.get(place, 0) >= amount for place, amount in way.items())]
    if not ways:
        return Packed(0, 0, {})
    places = sorted(set().union(*ways))
    matrix = [[way.get(place, 0) for place in places] for way in ways]
    whole = [rooms[place] for place in places]
    work.spend(len(places) * len(ways) + TRIED)
    values, prices = _relaxed(np.array(matrix, np.float64), np.array(whole, np.float64), work)
    # Integer prices keep the bound proved: rounding makes it weaker, but never wrong.
    worth = [max(round(price * _SCALE * max(whole)), 0) for price in prices.tolist()]
    costs = [sum(price * amount for price, amount in zip(worth, row, strict=True)) for row in matrix]
    cheapest, budget = min(costs), sum(price * room for price, room in zip(worth, whole, strict=True))
    at_most = min(most, budget // cheapest) if cheapest > 0 else most
    search = _Search(matrix, whole, costs, worth, at_most, work)
    # The simplex method may end a little below a whole number; a value too large is cut to what fits.
    search.begin_with([int(value + 1e-9) for value in values.tolist()])
    search.branch()
    taken = {
        place: amount
        for number, place in enumerate(places)
        if (amount := sum(times * row[number] for times, row in zip(search.best, matrix, strict=True)))
    }
    return Packed(sum(search.best), at_most if not search.is_proved else sum(search.best), taken)


class _Search:
    """Looks for whole numbers of each way, the cheapest ways first."""

    def __init__(
        self,
        matrix: Sequence[Sequence[int]],
        rooms: Sequence[int],
        costs: Sequence[int],
        worth: Sequence[int],
        at_most: int,
        work: Work,
    ) -> None:
        self._matrix = [[(place, amount) for place, amount in enumerate(row) if amount] for row in matrix]
        self._rooms = list(rooms)
        self._costs = costs
        self._worth = worth
        self._at_most = at_most
        self._work = work
        self._order = sorted(range(len(matrix)), key=lambda way: costs[way])
        self.best = [0] * len(matrix)
        self._number = 0
        self.is_proved = False

    def begin_with(self, times: list[int]) -> None:
        """Start with these numbers as far as they fit, and add what still fits, the cheapest way first."""
        remaining, taken = list(self._rooms), [0] * len(times)
        limits = [(way, times[way]) for way in self._order] + [(way, self._at_most) for way in self._order]
        for way, most in limits:
            fits = min(most, *(remaining[place] // amount for place, amount in self._matrix[way]))
            if fits > 0:
                taken[way] += fits
                for place, amount in self._matrix[way]:
                    remaining[place] -= fits * amount
        self._keep(taken)

    def _keep(self, taken: list[int]) -> None:
        if sum(taken) > self._number:
            self._number, self.best = sum(taken), list(taken)

    def branch(self) -> None:
        """Try all numbers that can be better, unless that takes too long."""
        if self._number >= self._at_most or len(self._matrix) > _MOST_BRANCHING or self._costs[self._order[0]] <= 0:
            return
        self._nodes = _MOST_NODES
        budget = sum(price * room for price, room in zip(self._worth, self._rooms, strict=True))
        try:
            self.is_proved = self._visit(0, list(self._rooms), [0] * len(self._matrix), 0, budget)
        except WorkSpent:
            return

    def _is_beaten(self, level: int, number: int, budget: int) -> bool:
        """Whether *number* and all that *budget* pays for, from the way at *level* on, is no more than is known."""
        if level < len(self._order):
            number += budget // self._costs[self._order[level]]
        return number <= self._number

    def _visit(self, level: int, remaining: list[int], taken: list[int], number: int, budget: int) -> bool:
        """Whether all numbers from the way at *level* on were tried, or cannot be better."""
        if number > self._number:
            self._keep(taken)
        if self._is_beaten(level, number, budget):
            return True
        self._nodes -= 1
        self._work.spend(TRIED)
        if self._nodes < 0:
            return False
        way = self._order[level]
        row = self._matrix[way]
        # The greatest numbers first, so that a good filling is found early and its number cuts more branches.
        for times in range(min(remaining[place] // amount for place, amount in row), -1, -1):
            # Later ways cost more, so with fewer of this one the bound of what follows only falls.
            if times and self._is_beaten(level + 1, number + times, budget - times * self._costs[way]):
                return True
            after = list(remaining)
            for place, amount in row:
                after[place] -= times * amount
            taken[way] = times
            is_done = self._visit(level + 1, after, taken, number + times, budget - times * self._costs[way])
            taken[way] = 0
            if not is_done:
                return False
            if self._number >= self._at_most:
                return True
        return True


def _relaxed(matrix: Numbers, rooms: Numbers, work: Work) -> tuple[Numbers, Numbers]:
    """How often each way is taken if parts of claims were possible, and the prices of the rooms.

    The simplex method on a dense tableau; *matrix* has a row per way. If it is stopped early, or errs, the values and
    prices are worse, and never wrong for what `pack` makes of them.

    Raises:
        WorkSpent
    """
    ways, places = matrix.shape
    scale = np.maximum(rooms, 1.0)
    tableau = np.zeros((places + 1, ways + places + 1))
    tableau[:-1, :ways] = matrix.T / scale[:, None]
    tableau[:-1, ways:-1] = np.eye(places)
    tableau[:-1, -1] = rooms / scale
    tableau[-1, :ways] = -1.0
    basis = np.arange(ways, ways + places)
    for pivots in range(_MOST_PIVOTS):
        improving = np.flatnonzero(tableau[-1, :-1] < -1e-9)
        if not improving.size:
            break
        # Bland's rule ends cycles; the steepest column is faster as long as there is none.
        column = improving[0] if pivots > _MOST_PIVOTS // 2 else improving[tableau[-1, improving].argmin()]
        entering = tableau[:-1, column]
        positive = np.flatnonzero(entering > 1e-9)
        if not positive.size:
            break
        ratios = tableau[positive, -1] / entering[positive]
        ties = positive[ratios <= ratios.min() + 1e-12]
        row = ties[basis[ties].argmin()]
        work.spend(4 * masked(tableau.size))
        tableau[row] /= tableau[row, column]
        others = np.flatnonzero(np.abs(tableau[:, column]) > 1e-12)
        others = others[others != row]
        tableau[others] -= tableau[others, column][:, None] * tableau[row]
        basis[row] = column
    values = np.zeros(ways)
    for row, column in enumerate(basis.tolist()):
        if column < ways:
            values[column] = max(tableau[row, -1], 0.0)
    return values, tableau[-1, ways:-1] / scale
