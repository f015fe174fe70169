"""Improving: moves after which the site has the highest value for its mix.

The moves are found one after the other. Each is the best of all moves of one consumer that are possible after those
before it, and no consumer moves twice. What a consumer releases in its tree bounds what its move gains, so the search
looks for new places of those consumers first that release the most.

Source: "GET /advice", docs/stead-api.md; decision 73.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.draining import Move, new_place
from stead.candidates.engine import find
from stead.candidates.placing import negated, taken_by
from stead.candidates.work import WorkSpent
from stead.domain.request import ByHeadroom

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.advice import MovableConsumer
    from stead.candidates.engine import Enumeration
    from stead.candidates.losses import Losses
    from stead.candidates.placing import Amounts
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot

LEAST_GAIN = 1e-6
"""A move that gains less is none: it is about the rounding of sums."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """Moves in an order in which each is valid when its turn comes, and by how much each raises the value of the site.

    ``is_complete``: false if the work was used up first. Each of the moves is the best one all the same.
    """

    moves: Sequence[Move]
    gains: Sequence[float]
    is_complete: bool


def improve(
    snapshot: Snapshot,
    movables: Sequence[MovableConsumer],
    number: int,
    losses: Losses,
    enumeration: Enumeration,
    work: Work,
) -> Improvement:
    """Up to *number* moves of *movables*, fewer if no other move gains anything."""
    search = _Search(snapshot, movables, losses, replace(enumeration, maximum=None, randomize=False), work)
    moves, gains = list[Move](), list[float]()
    try:
        search.bound(range(len(movables)))
        while len(moves) < number and (best := search.best()) is not None:
            moves.append(Move(movables[best.number].holdings, best.taken))
            gains.append(best.gain)
            search.make(best)
    except WorkSpent:
        pass
    return Improvement(moves, gains, not work.is_cut)


def promising(snapshot: Snapshot, losses: Losses, work: Work) -> list[int]:
    """The roots of all trees with consumers, those first whose free part of the scarce class has the lowest value.

    Raises:
        WorkSpent
    """
    root, sharing = snapshot.forest.root, snapshot.sharing.mask
    used = np.zeros(snapshot.size, np.bool_)
    for columns in snapshot.inventory.values():
        slots = columns.slots[~sharing[columns.slots]]
        used[root.at(slots[columns.used(slots) > 0])] = True
    roots = np.flatnonzero(used)
    scarce = losses.scarce_class(snapshot)
    if scarce is None or scarce not in snapshot.inventory:
        return _numbers(roots)
    free, capacity = np.zeros(snapshot.size), np.zeros(snapshot.size)
    columns = snapshot.inventory[scarce]
    slots = columns.slots[~sharing[columns.slots]]
    np.add.at(free, root.at(slots), columns.left(slots).clip(0))
    np.add.at(capacity, root.at(slots), columns.kinds.capacities()[columns.kind.at(slots)])
    share = np.divide(free, capacity, out=np.zeros(snapshot.size), where=capacity > 0)[roots]
    empty = snapshot.with_all_released(snapshot.inventory.keys(), sharing)
    # The value of the same share of the empty tree, less the value of the pieces that are free.
    missing = share * losses.values(snapshot, roots, work, free_in=empty) - losses.values(snapshot, roots, work)
    return _numbers(roots[np.argsort(-missing, kind="stable")])


def _numbers(roots: NDArray[np.int64]) -> list[int]:
    numbers: list[int] = roots.tolist()
    return numbers


@dataclass(frozen=True, slots=True)
class _Gaining:
    """A move of the consumer with this ``number`` to the tree of ``root``."""

    number: int
    root: int
    taken: Amounts
    gain: float


class _Search:
    """The site after the moves that were made, and the consumers that have not moved."""

    def __init__(
        self,
        snapshot: Snapshot,
        movables: Sequence[MovableConsumer],
        losses: Losses,
        enumeration: Enumeration,
        work: Work,
    ) -> None:
        self._snapshot = snapshot
        self._movables = movables
        self._losses = losses
        self._enumeration = enumeration
        self._work = work
        self._bounds: dict[int, float] = {}

    def bound(self, numbers: Collection[int]) -> None:
        """Compute by how much each of these consumers raises the value of its tree if it leaves.

        Raises:
            WorkSpent
        """
        changes = [(self._movables[number].root, negated(self._movables[number].leaving)) for number in numbers]
        gains = -self._losses.lost(self._snapshot, changes, self._work)
        self._bounds.update(zip(numbers, gains.tolist(), strict=True))

    def best(self) -> _Gaining | None:
        """The move that gains the most; None if none does.

        Raises:
            WorkSpent
        """
        best: _Gaining | None = None
        tried: set[object] = set()
        for number in sorted(self._bounds, key=lambda number: -self._bounds[number]):
            bound, movable = self._bounds[number], self._movables[number]
            if bound < LEAST_GAIN or (best is not None and bound <= best.gain):
                break
            if (kind := (movable.kind, movable.holdings.same_traits, movable.holdings.same_aggregates)) in tried:
                continue
            tried.add(kind)
            place = self._place(movable)
            if place is None:
                continue
            root, taken = place
            gain = bound - float(self._losses.lost(self._snapshot, [(root, taken)], self._work)[0])
            if gain >= LEAST_GAIN and (best is None or gain > best.gain):
                best = _Gaining(number, root, taken, gain)
        return best

    def make(self, move: _Gaining) -> None:
        """Make a move.

        Raises:
            WorkSpent
        """
        movable = self._movables[move.number]
        self._snapshot = self._snapshot.with_taken(negated(movable.holdings.amounts)).with_taken(move.taken)
        del self._bounds[move.number]
        changed = {movable.root, move.root}
        self.bound([number for number in self._bounds if self._movables[number].root in changed])

    def _place(self, movable: MovableConsumer) -> tuple[int, Amounts] | None:
        """The place in another tree whose loss is the least, with the root of the tree.

        Raises:
            WorkSpent
        """
        request, _ = new_place(self._snapshot, movable.holdings, movable.leaving)
        shared: Mapping[int, Mapping[int, int]] = {
            slot: amounts for slot, amounts in movable.holdings.amounts.items() if slot not in movable.leaving
        }
        # The request asks for the amounts at sharing providers again, so they must be free first.
        free = self._snapshot.with_taken(negated(dict(shared)))  # type: ignore[arg-type]  # slots are numbers
        others = np.ones(self._snapshot.size, np.bool_)
        others[movable.root] = False
        request = replace(request, order=ByHeadroom())
        candidate = next(find(free, request, self._enumeration, work=self._work, among=others), None)
        if self._work.is_cut:
            raise WorkSpent
        if candidate is None:
            return None
        return int(self._snapshot.forest.root[candidate.members[0]]), taken_by(candidate)
