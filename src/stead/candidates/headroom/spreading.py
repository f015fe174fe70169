"""Spreading: many claims at once in one tree, as units of each need, without a list of ways.

If only room and isolation bind the needs to each other, N claims are N units for each need. Any units that fit will do:
the first units of all needs are the first claim, and so on. So the cost follows the needs and the providers, and not
their combinations. What is found is a real filling, and not always the greatest one.

Two needs of one claim must not meet at a provider if they are isolated, or if its max_unit forbids their sum. If all
needs are isolated, a provider that takes up to N units in all is enough: by the theorem of König, its units can be
given to different claims. Otherwise, such a provider serves a single need.

Source: "GET /headroom", docs/api.md; decision 55.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.demand import open_clauses
from stead.candidates.headroom.packing import Packed
from stead.candidates.headroom.reading import MOST, are_isolated
from stead.candidates.work import masked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.candidates.demand import Demand, Ground
    from stead.candidates.headroom.packing import Rooms
    from stead.candidates.work import Work

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]

_NOBODY = -1

_OPERATIONS = 6
"""Vector operations for each need of an attempt."""


def can_spread(demand: Demand, ground: Ground) -> bool:
    """Whether nothing but room and isolation binds the needs to each other."""
    return not (demand.subtrees or demand.parts or ground.shares or open_clauses(demand, ground))


def spread(demand: Demand, ground: Ground, rooms: Rooms, most: int, work: Work) -> Packed:
    """Claims in a tree, up to *most*, for needs that `can_spread`. Own providers come before sharing ones.

    Raises:
        WorkSpent
    """
    spreading = _Spreading(demand, ground, rooms, work)
    number = spreading.bound(most)
    reached, above = 0, number + 1
    taken: dict[tuple[int, int], int] = {}
    # Nearly always all that the rooms allow fits, or a little less.
    step = 1
    while reached + 1 < above:
        attempt = spreading.taken_by(number)
        if attempt is None:
            above = number
            number = max(above - step, (reached + above) // 2)
            step *= 2
        else:
            reached, taken = number, attempt
            number = (reached + above) // 2
    return Packed(reached, most, taken)


class _Spreading:
    def __init__(self, demand: Demand, ground: Ground, rooms: Rooms, work: Work) -> None:
        self._amounts = demand.amounts
        self._work = work
        positions = sorted({at for choices in ground.choices for at in choices})
        self._positions = positions
        self._classes = list(dict.fromkeys(class_id for amounts in demand.amounts for class_id in amounts))
        work.spend((len(self._classes) + 2 * len(demand.amounts)) * len(positions))
        self._rooms = np.array([[rooms.get((at, c), 0) for at in positions] for c in self._classes], np.int64)
        place_of = {at: place for place, at in enumerate(positions)}
        # Own positions have the smaller numbers, so this order has them first.
        self._choices = [np.array([place_of[at] for at in sorted(choices)], np.int64) for choices in ground.choices]
        # What has few choices, or takes much, is hardest to place.
        largest = [max(amounts.values(), default=0) for amounts in demand.amounts]
        self._order = sorted(range(len(largest)), key=lambda need: (len(self._choices[need]), -largest[need]))
        every = set(range(len(largest)))
        self._is_isolating = len(every) > 1 and demand.isolated >= every
        self._is_exclusive = self._exclusive(demand, ground)

    def _exclusive(self, demand: Demand, ground: Ground) -> Mask:
        """Mask of the positions that serve a single need, since one claim must not have two there."""
        exclusive = np.zeros(len(self._positions), np.bool_)
        if self._is_isolating:
            return exclusive
        needs_at: list[list[int]] = [[] for _ in self._positions]
        for need, choices in enumerate(self._choices):
            for place in choices.tolist():
                needs_at[place].append(need)
        verdicts: dict[tuple[int, ...], bool] = {}
        for place, (at, needs) in enumerate(zip(self._positions, needs_at, strict=True)):
            if len(needs) < 2:
                continue
            key = tuple(needs)
            if key not in verdicts:
                verdicts[key] = any(are_isolated(demand, *pair) for pair in combinations(needs, 2))
            self._work.spend(len(needs))
            exclusive[place] = verdicts[key] or not self._may_share(ground, place, at, needs)
        return exclusive

    def _may_share(self, ground: Ground, place: int, at: int, needs: Sequence[int]) -> bool:
        """Whether the needs of one claim can meet at a position as far as max_unit decides."""
        for number, class_id in enumerate(self._classes):
            requested = [self._amounts[need][class_id] for need in needs if class_id in self._amounts[need]]
            # If the room itself is the limit, no units that fit exceed max_unit.
            if len(requested) > 1 and ground.available(at, class_id) < min(
                sum(requested), int(self._rooms[number, place])
            ):
                return False
        return True

    def bound(self, most: int) -> int:
        """How many claims the rooms of all positions together have, up to *most*."""
        for row, class_id in enumerate(self._classes):
            total = sum(amounts.get(class_id, 0) for amounts in self._amounts)
            most = min(most, sum(self._rooms[row].tolist()) // total)
        return most

    def taken_by(self, number: int) -> dict[tuple[int, int], int] | None:
        """What this number of claims takes; None if no place was found for them."""
        remaining = self._rooms.copy()
        allowance = np.full(len(self._positions), number if self._is_isolating else MOST * len(self._amounts), np.int64)
        serving = np.full(len(self._positions), _NOBODY, np.int64)
        self._work.spend(len(self._order) * _OPERATIONS * masked(len(self._positions) * len(self._classes)))
        for need in self._order:
            choices, amounts = self._choices[need], self._amounts[need]
            fits = np.minimum(allowance[choices], number)
            for class_id, amount in amounts.items():
                row = self._classes.index(class_id)
                np.minimum(fits, remaining[row, choices] // amount, out=fits)
            fits[self._is_exclusive[choices] & (serving[choices] != _NOBODY)] = 0
            units = np.minimum(fits, (number - (np.cumsum(fits) - fits)).clip(0))
            if int(units.sum()) < number:
                return None
            allowance[choices] -= units
            serving[choices[units > 0]] = need
            for class_id, amount in amounts.items():
                remaining[self._classes.index(class_id), choices] -= units * amount
        taken = self._rooms - remaining
        rows, places = np.nonzero(taken)
        return {
            (self._positions[place], self._classes[row]): int(taken[row, place])
            for row, place in zip(rows.tolist(), places.tolist(), strict=True)
        }
