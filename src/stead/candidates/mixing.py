"""Mixes: how many times several requests fit together, each as often as its weight says.

The upper bound is the least of what each request alone allows, and of what each class has room for. The lower bound is
a real filling. First many mixes are filled at once: each request in turn takes whole trees, and the request that fits
the fewest times comes first. Then further mixes are placed one by one.

Source: "GET /headroom", docs/stead-api.md; decision 48.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import match_all
from stead.candidates.gangs import place, rooms_of
from stead.candidates.headroom.counting import MOST
from stead.candidates.headroom.filling import Filling
from stead.candidates.headroom.headroom import headroom
from stead.candidates.kinds import TreeKinds
from stead.candidates.placing import NoPlace, summed, taken_by
from stead.candidates.work import Work, WorkSpent
from stead.domain.provider import Slot
from stead.domain.request import PACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.engine import Enumeration
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

    Numbers = NDArray[np.int64]

_ONE_MORE = 500_000
"""Work of the search for places of one more mix, which may have to move the claims of this mix."""


@dataclass(frozen=True, slots=True)
class Part:
    """A request, and how many times one mix contains it."""

    request: CandidateRequest
    weight: int


@dataclass(frozen=True, slots=True)
class Mixed:
    """How many mixes fit.

    Attributes:
        at_least: this number of mixes has a place together.
        at_most: no larger number has one.
        alone: by part, the headroom if only its request is claimed.
        limiting_parts: the numbers of the parts that fit only ``at_most`` mixes even alone.
        limiting_classes: the ids of the classes that have room for only ``at_most`` mixes.
        stranded: by class id, how much is left of each requested class after ``at_least`` mixes.
        is_complete: false if the work was used up first; the bounds hold all the same.
    """

    at_least: int
    at_most: int
    alone: Sequence[Headroom]
    limiting_parts: Sequence[int]
    limiting_classes: Sequence[int]
    stranded: Mapping[int, int]
    is_complete: bool


def mixed(snapshot: Snapshot, parts: Sequence[Part], enumeration: Enumeration, work: Work) -> Mixed:
    """How many mixes of *parts* fit. The limits and orders of their requests do not matter.

    Raises:
        UnknownResourceClass, UnknownTraits
    """
    alone = [headroom(snapshot, part.request, work) for part in parts]
    of_part = [part_alone.at_most // part.weight for part_alone, part in zip(alone, parts, strict=True)]
    of_class: dict[int, int] = {}
    rooms: Mapping[int, int] = {}
    per_mix: Mapping[int, int] = {}
    with suppress(WorkSpent):
        rooms, per_mix = rooms_of(snapshot, [(part.request, part.weight) for part in parts], work)
        of_class = {class_id: rooms[class_id] // amount for class_id, amount in per_mix.items() if class_id in rooms}
    at_most = min([*of_part, *of_class.values()])
    at_least = 0
    with suppress(WorkSpent):
        filling = _Filling(snapshot, parts, alone, enumeration, work)
        at_least = filling.bulk(at_most)
        while at_least < at_most and filling.one_more():
            at_least += 1
    return Mixed(
        at_least,
        at_most,
        alone,
        [number for number, most in enumerate(of_part) if most == at_most],
        [class_id for class_id, most in of_class.items() if most == at_most],
        {class_id: room - at_least * per_mix[class_id] for class_id, room in rooms.items()},
        not work.is_cut,
    )


class _Filling:
    """A snapshot that is filled with mixes."""

    def __init__(
        self, snapshot: Snapshot, parts: Sequence[Part], alone: Sequence[Headroom], enumeration: Enumeration, work: Work
    ) -> None:
        """Nothing is filled yet. *alone* is the headroom of each part."""
        self._snapshot = snapshot
        self._enumeration = enumeration
        self._work = work
        # The part that fits the fewest mixes has the fewest places to choose from, so it chooses first.
        numbers = sorted(range(len(parts)), key=lambda number: alone[number].at_most // parts[number].weight)
        self._parts = [parts[number] for number in numbers]
        self._avoided = [self._fits_of_others(alone, number) for number in numbers]

    def _fits_of_others(self, alone: Sequence[Headroom], number: int) -> Numbers:
        """By slot of the root, how many times the other parts fit into a tree."""
        fits = np.zeros(self._snapshot.size, np.int64)
        for other, headroom_alone in enumerate(alone):
            if other != number:
                fits[headroom_alone.roots] += headroom_alone.roots_at_least.clip(0, MOST // len(alone))
        return fits

    def bulk(self, most: int) -> int:
        """Fill a great number of mixes, up to *most*, and return it.

        Raises:
            WorkSpent
        """
        empty, reached, high = self._snapshot, 0, most
        number = most  # nearly always, all that the bound allows or a little less fits
        while reached < high:
            filled = self._with_mixes(empty, number)
            if filled is not None:
                self._snapshot, reached = filled, number
            else:
                high = number - 1
            number = (reached + high + 1) // 2
        return reached

    def _with_mixes(self, snapshot: Snapshot, number: int) -> Snapshot | None:
        """*snapshot* with this number of mixes; None if they were not filled."""
        for part, avoided in zip(self._parts, self._avoided, strict=True):
            filled = self._with_claims(snapshot, part.request, number * part.weight, avoided)
            if filled is None:
                return None
            snapshot = filled
        return snapshot

    def _with_claims(
        self, snapshot: Snapshot, request: CandidateRequest, number: int, avoided: Numbers
    ) -> Snapshot | None:
        """*snapshot* with this number of claims, from the trees that the other parts need least."""
        matched = match_all(snapshot, request, self._work)
        if matched is None:
            return None
        kinds = TreeKinds(snapshot, matched[0], self._work, request)
        if any(pool.shared.size for pool in kinds.pools):
            return None  # sharing providers couple trees, which cannot be filled one by one
        room = headroom(snapshot, request, self._work)
        if room.at_least < number:
            return None
        order = np.argsort(avoided[room.roots], kind="stable")
        roots, times = room.roots[order], room.roots_at_least[order]
        before = np.cumsum(times) - times
        chosen = (before < number) & (times > 0)
        roots, times = roots[chosen], np.minimum(times, number - before)[chosen]
        taken, claims = self._taken(snapshot, request, kinds, roots, times)
        # Filled trees may hold fewer claims than counted, and a partial filling is no lower bound for the mix.
        return snapshot.with_taken(taken) if claims >= number else None

    def _taken(
        self, snapshot: Snapshot, request: CandidateRequest, kinds: TreeKinds, roots: Numbers, times: Numbers
    ) -> tuple[Amounts, int]:
        """What claims take from the trees of *roots*, and their number: *times* in each tree, or nearly."""
        forest = snapshot.forest
        shapes = forest.shapes.values
        is_single = np.array([shapes[number].size == 1 for number in forest.shape.at(roots).tolist()], np.bool_)
        taken: Amounts = {}
        for root, claims in zip(roots[is_single].tolist(), times[is_single].tolist(), strict=True):
            taken[root] = {class_id: claims * amount for class_id, amount in kinds.requested.items()}
        number = int(times[is_single].sum())
        one_provider = request.one_provider_per_tree and forest.has_nested
        filling = Filling(snapshot, kinds, self._work, one_provider=one_provider)
        most = dict(zip(roots[~is_single].tolist(), times[~is_single].tolist(), strict=True))
        for _, members, packed in filling.each(np.sort(roots[~is_single]), most):
            number += packed.at_least
            for (at, class_id), amount in packed.taken.items():
                taken.setdefault(Slot(members[at]), {})[class_id] = amount
        return taken, number

    def one_more(self) -> bool:
        """Place one more mix, each claim at the best place. Returns whether all of it has a place.

        Raises:
            WorkSpent
        """
        requests = [
            replace(part.request, order=part.request.order or PACK, limit=None)
            for part in self._parts
            for _ in range(part.weight)
        ]
        budget = Work(min(int(self._work.remaining), _ONE_MORE), until=self._work.until, give_way=self._work.give_way)
        placed = place(self._snapshot, requests, self._enumeration, distinct_roots=False, work=budget)
        self._work.spend(budget.spent)
        if isinstance(placed, NoPlace):
            return False
        self._snapshot = self._snapshot.with_taken(summed(taken_by(candidate) for candidate in placed))
        return True
