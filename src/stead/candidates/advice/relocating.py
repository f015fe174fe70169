"""Relocating: new places for consumers that leave their trees, such that a request still fits often enough.

Each consumer takes a place in another tree: one into which the request does not fit, or one where the new consumer
costs few of its places. If a consumer finds none, the search gives the earlier ones other places, the last first.

Source: decision 47.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import find
from stead.candidates.headroom.headroom import headroom
from stead.candidates.moving import Move, new_place
from stead.candidates.placing import negated, summed, taken_by
from stead.domain.order import PACK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.advice.leaving import Leaver
    from stead.candidates.engine import Enumeration
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.placing import Amounts
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

DEAD_ENDS = 20
"""The search for places of some consumers gives up after this number of dead ends."""

HARMLESS, HARMFUL = 3, 5
"""Trees that are tried for a consumer: without and with places of the request."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """No places were found. ``leaver`` is the consumer that lacked one, None if no single one did.

    ``snapshot`` is what it searched. ``is_crowded``: there are places, but they would take room of the request.
    """

    snapshot: Snapshot
    leaver: Leaver | None = None
    is_crowded: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """A place, and how often the request still fits into its tree."""

    root: int
    taken: Amounts
    fits: int


class Relocating:
    """Finds places in one snapshot for the consumers that leave it."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, number: int, enumeration: Enumeration, work: Work
    ) -> None:
        """*request* must still fit *number* times."""
        self._snapshot = snapshot
        self._request = request
        self._number = number
        self._enumeration = replace(enumeration, maximum=None, randomize=False)
        self._work = work

    def moves(self, leavers: Sequence[Leaver]) -> list[Move] | NoPlace:
        """The moves of *leavers*, in an order in which each is valid when its turn comes."""
        free = self._snapshot.with_taken(negated(summed(leaver.leaving for leaver in leavers)))
        room = self.fits(free)
        if room.at_least < self._number:
            return NoPlace(free)
        self._dead_ends = DEAD_ENDS
        self._failed, self._depth = NoPlace(free), -1
        fits = dict(zip(room.roots.tolist(), room.roots_at_least.tolist(), strict=True))
        places = self._places(free, leavers, 0, fits, room.at_least - self._number)
        if places is None:
            return self._failed
        moves = self._in_turn([Move(leaver.tenant, amounts) for leaver, amounts in zip(leavers, places, strict=True)])
        return NoPlace(free) if moves is None else moves

    def fits(self, snapshot: Snapshot, among: NDArray[np.bool_] | None = None) -> Headroom:
        """How often the request fits."""
        return headroom(snapshot, self._request, self._work, among=among)

    def place(self, snapshot: Snapshot, leaver: Leaver, among: NDArray[np.bool_]) -> Amounts | None:
        """The best place for *leaver* under the roots *among*, packing trees."""
        request, _ = new_place(self._snapshot, leaver.tenant, leaver.leaving)
        request = replace(request, order=PACK)
        free = snapshot.with_taken(negated(_shared(leaver)))
        candidate = next(find(free, request, self._enumeration, work=self._work, among=among), None)
        return None if candidate is None else taken_by(candidate)

    def _places(
        self, snapshot: Snapshot, leavers: Sequence[Leaver], depth: int, fits: Mapping[int, int], spare: int
    ) -> list[Amounts] | None:
        """Places for the leavers from number *depth* on; they may cost *spare* places of the request."""
        if depth == len(leavers):
            if self.fits(snapshot).at_least >= self._number:
                return []
            self._dead_ends -= 1
            return None
        leaver, is_crowded = leavers[depth], False
        for place in self._places_of(snapshot, leaver, fits):
            loss = fits.get(place.root, 0) - place.fits
            if loss > spare:
                is_crowded = True
                continue
            change = summed([negated(_shared(leaver)), place.taken])
            after, remaining = snapshot.with_taken(change), {**fits, place.root: place.fits}
            rest = self._places(after, leavers, depth + 1, remaining, spare - loss)
            if rest is not None:
                return [place.taken, *rest]
            if self._dead_ends <= 0:
                return None
        self._dead_ends -= 1
        # A helper may make room for the consumer that failed deepest, so its failure is kept.
        if depth > self._depth:
            self._failed, self._depth = NoPlace(snapshot, leaver, is_crowded), depth
        return None

    def _places_of(self, snapshot: Snapshot, leaver: Leaver, fits: Mapping[int, int]) -> Iterator[_Place]:
        """Places of different trees, those that cost the request least first."""
        others = np.ones(snapshot.size, np.bool_)
        others[leaver.root] = False
        useful = np.zeros(snapshot.size, np.bool_)
        useful[[root for root, number in fits.items() if number]] = True
        for root, taken in self._of_different_trees(snapshot, leaver, others & ~useful, HARMLESS):
            yield _Place(root, taken, 0)
        harmful = []
        for root, taken in self._of_different_trees(snapshot, leaver, others & useful, HARMFUL):
            here = np.zeros(snapshot.size, np.bool_)
            here[root] = True
            # Counted in this tree alone, because a full count per place would cost a pass over the site.
            after = self.fits(snapshot.with_taken(summed([negated(_shared(leaver)), taken])), here)
            harmful.append(_Place(root, taken, int(after.roots_at_least.sum())))
        yield from sorted(harmful, key=lambda place: fits[place.root] - place.fits)

    def _of_different_trees(
        self, snapshot: Snapshot, leaver: Leaver, among: NDArray[np.bool_], most: int
    ) -> Iterator[tuple[int, Amounts]]:
        for _ in range(most):
            taken = self.place(snapshot, leaver, among) if among.any() else None
            if taken is None:
                return
            root = next(r for slot in taken if among[r := snapshot.forest.root[slot]])
            yield root, taken
            among[root] = False

    def _in_turn(self, moves: Sequence[Move]) -> list[Move] | None:
        """*moves* in an order in which each has room when its turn comes; None if there is none."""
        snapshot, waiting, ordered = self._snapshot, list(moves), list[Move]()
        while waiting:
            for move in waiting:
                # The consumer's own allocations do not count against its move: it is one write that replaces them.
                without = snapshot.with_taken(negated(move.tenant.amounts))
                if _have_room(without, move.amounts):
                    break
            else:
                return None
            snapshot = without.with_taken(move.amounts)
            waiting.remove(move)
            ordered.append(move)
        return ordered


def _shared(leaver: Leaver) -> Amounts:
    """The allocations from sharing providers, which the request for a new place has again."""
    return {slot: amounts for slot, amounts in leaver.tenant.amounts.items() if slot not in leaver.leaving}


def _have_room(snapshot: Snapshot, amounts: Amounts) -> bool:
    return all(
        snapshot.inventory[class_id].room[slot] >= amount
        for slot, by_class in amounts.items()
        for class_id, amount in by_class.items()
    )
