"""Filling: how often a request fits into trees where counting is not enough, by real claims and prices.

Trees in which the request finds the same ways and the same rooms are filled once.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.combine import ways
from stead.candidates.divide import divided
from stead.candidates.headroom.packing import Packed, pack
from stead.candidates.headroom.spreading import can_spread, spread
from stead.candidates.work import ARRANGED, CHOSEN, LOOKED, TRIED, WorkSpent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement
    from stead.candidates.demand import Ground
    from stead.candidates.headroom.packing import Rooms
    from stead.candidates.kinds import Kind, TreeKinds
    from stead.candidates.parts import Share
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot

    Numbers = NDArray[np.int64]

MOST_WAYS = 1_000
"""Ways of one tree up to which all of them are packed. With more, claims are made one after the other."""


class Filling:
    """Fills the trees of one snapshot with one request."""

    def __init__(self, snapshot: Snapshot, tree_kinds: TreeKinds, work: Work, *, one_provider: bool) -> None:
        """*one_provider*: only one provider of a tree may give resources to one claim."""
        self._snapshot = snapshot
        self._tree_kinds = tree_kinds
        self._work = work
        self._one_provider = one_provider
        self._ways: dict[Kind, list[Rooms] | None] = {}
        self._filled: dict[tuple[object, ...], Packed] = {}

    def each(self, anchors: Numbers, most: Mapping[int, int]) -> Iterator[tuple[Kind, Sequence[int], Packed]]:
        """For each of *anchors* its kind, the slots by position, and how it is filled if all others are left empty.

        Args:
            most: a known bound for each of *anchors*.

        Raises:
            WorkSpent: while iterating.
        """
        for kind, members, rooms in self.rooms(anchors):
            yield kind, members, self.filled(kind, members, rooms, most[members[0]])

    def rooms(self, anchors: Numbers) -> Iterator[tuple[Kind, Sequence[int], dict[tuple[int, int], int]]]:
        """For each of *anchors* its kind, the slots by position, and the rooms by position and class id."""
        requested = [c for c in self._tree_kinds.requested if c in self._snapshot.inventory]
        for kind, trees in self._tree_kinds.runs(anchors, of_all=True):
            outside = np.broadcast_to(np.array(kind.reaching, np.int64), (len(trees), len(kind.reaching)))
            slots = np.concatenate([trees, outside], axis=1)
            rooms = {c: self._snapshot.inventory[c].room.at(slots).tolist() for c in requested}
            used = _places_of(kind)
            self._work.spend(TRIED * len(used))
            for number, members in enumerate(slots.tolist()):
                self._work.spend(TRIED + LOOKED * len(used))
                yield (
                    kind,
                    members,
                    {(at, c): max(rooms[c][number][at], 0) for at, c in used if c in rooms},
                )

    def filled(self, kind: Kind, members: Sequence[int], rooms: Rooms, most: int, *, own_first: bool = False) -> Packed:
        """How a tree with *rooms* is filled.

        Args:
            most: a known bound.
            own_first: prefer the tree's own providers to sharing ones, which serve other trees too.

        Raises:
            WorkSpent
        """
        self._work.spend(TRIED + 2 * LOOKED * len(rooms))
        total = self._tree_kinds.requested
        # Room beyond the bound changes nothing, and without it more trees have the same key.
        clipped = tuple((place, min(room, most * total[place[1]])) for place, room in rooms.items())
        order = self._order_of_uuids(kind, members)
        own_first = own_first and not self._can_spread(kind)  # which prefers own providers always
        key = kind, most, clipped, order, own_first
        packed = self._filled.get(key)
        if packed is None:
            size = len(members) - len(kind.reaching)
            packed = self._filled[key] = self._fill(kind, size, dict(clipped), most, order, own_first=own_first)
        return packed

    def _order_of_uuids(self, kind: Kind, members: Sequence[int]) -> tuple[int, ...]:
        """The rank of each position by uuid, which decides how amounts are split; empty if none is."""
        if not kind.ground.shares:
            return ()
        uuids = [self._snapshot.uuid(slot) for slot in members]
        ordered = sorted(range(len(uuids)), key=uuids.__getitem__)
        return tuple(sorted(range(len(uuids)), key=ordered.__getitem__))

    def _fill(self, kind: Kind, size: int, rooms: Rooms, most: int, order: Sequence[int], *, own_first: bool) -> Packed:
        easy = spread(kind.demand, kind.ground, rooms, most, self._work) if self._can_spread(kind) else None
        # With more combinations, all ways together are hardly ever few enough to be packed.
        combinations = prod(len(choices) for choices in kind.ground.choices)
        if easy is not None and (easy.at_least == most or combinations > MOST_WAYS):
            return easy
        all_ways = self._all_ways(kind, size)
        if all_ways is None:
            if easy is not None:
                return easy
            # Neither direction is always better, so the better of the two results counts.
            claiming = _Claiming(kind, size, rooms, order, self._work, partial(self._passes, kind, size))
            packed = max((claiming.claimed(most, sign) for sign in (-1, 1)), key=lambda packed: packed.at_least)
            # The sums count what traits and splits exclude together, so without a claim, the ways decide.
            return packed if packed.at_least or self._has_way(kind, size) else Packed(0, 0, {})
        packed = self._packed(all_ways, kind, size, rooms, most, own_first=own_first)
        if easy is None or easy.at_least <= packed.at_least:
            return packed
        return easy._replace(at_most=min(packed.at_most, most))

    def _has_way(self, kind: Kind, size: int) -> bool:
        """Whether trees of *kind* have any candidate.

        Raises:
            WorkSpent
        """
        return any(self._passes(kind, size, _taken(each)) for each in kind.arrangements())

    def _can_spread(self, kind: Kind) -> bool:
        return not self._one_provider and can_spread(kind.demand, kind.ground)

    def _packed(
        self, all_ways: Sequence[Rooms], kind: Kind, size: int, rooms: Rooms, most: int, *, own_first: bool
    ) -> Packed:
        if not (own_first and kind.reaching):
            return pack(all_ways, rooms, most, self._work)
        own = pack([way for way in all_ways if all(at < size for at, _ in way)], rooms, most, self._work)
        remaining = {place: room - own.taken.get(place, 0) for place, room in rooms.items()}
        rest = pack(all_ways, remaining, most - own.at_least, self._work)
        return Packed(own.at_least + rest.at_least, most, _sum(own.taken, rest.taken))

    def _all_ways(self, kind: Kind, size: int) -> list[Rooms] | None:
        """What each way takes; None if there are too many, or if they depend on what was taken before."""
        if kind not in self._ways:
            ways: list[Rooms] | None = None
            # Splits depend on what earlier claims left, so no list of ways holds for all claims.
            arrangements = [] if kind.ground.shares else list(islice(kind.arrangements(), MOST_WAYS + 1))
            self._work.spend(len(arrangements) * (ARRANGED + CHOSEN * len(kind.demand.amounts)))
            if not kind.ground.shares and len(arrangements) <= MOST_WAYS:
                taken = dict.fromkeys(frozenset(_taken(each).items()) for each in arrangements)
                ways = [way for way in map(dict, taken) if self._passes(kind, size, way)]
            self._ways[kind] = ways
        return self._ways[kind]

    def _passes(self, kind: Kind, size: int, way: Rooms) -> bool:
        """Whether a way uses one provider of each tree, if it must."""
        if not self._one_provider:
            return True
        root = self._snapshot.forest.root
        positions = {at for at, _ in way}
        roots = [-1 if at < size else root[kind.reaching[at - size]] for at in positions]
        return len(set(roots)) == len(roots)


class _Claiming:
    """Makes claims one after the other in one tree."""

    def __init__(
        self,
        kind: Kind,
        size: int,
        rooms: Rooms,
        order: Sequence[int],
        work: Work,
        passes: Callable[[Rooms], bool],
    ) -> None:
        self._demand = kind.demand
        self._ground = kind.ground
        self._size = size
        self._rooms = rooms
        self._order = order
        self._work = work
        self._passes = passes

    def claimed(self, most: int, sign: int) -> Packed:
        """The claims up to *most*, from the providers with the greatest rooms first (-1) or the smallest (1)."""
        rooms, number = dict(self._rooms), 0
        taken: dict[tuple[int, int], int] = {}
        try:
            while number < most:
                way = self._next(rooms, sign)
                if way is None:
                    break
                # The same way again and again would use up some providers and leave others, so only a part of it.
                fits = min(rooms[place] // amount for place, amount in way.items())
                times = 1 if self._ground.shares else min(max(fits // 8, 1), most - number)
                number += times
                for place, amount in way.items():
                    rooms[place] -= times * amount
                    taken[place] = taken.get(place, 0) + times * amount
        except WorkSpent:
            pass
        return Packed(number, most, taken)

    def _next(self, rooms: Rooms, sign: int) -> Rooms | None:
        # Every position is weighed again for every need, and then prepared for the search.
        self._work.spend(TRIED * (len(self._ground.choices) + sum(map(len, self._ground.choices))))
        ground = self._left(rooms, sign)
        if not all(ground.choices):
            return None
        for demand, parted in divided(self._demand, ground, self._work):
            for way in ways(demand, parted, self._work):
                taken: dict[tuple[int, int], int] = {}
                for amounts, at in zip(demand.amounts, way, strict=True):
                    for class_id, amount in amounts.items():
                        taken[at, class_id] = taken.get((at, class_id), 0) + amount
                if self._passes(taken):
                    return taken
        return None

    def _left(self, rooms: Rooms, sign: int) -> Ground:
        """What the tree offers after claims."""
        ground = self._ground
        shares = {need: self._shares(need, rooms) for need in ground.shares}
        choices = []
        for need, positions in enumerate(ground.choices):
            times = {at: self._times(need, at, rooms, shares) for at in positions}
            able = [at for at in positions if times[at]]
            choices.append(self._in_order(able, times, sign))

        def available(position: int, class_id: int) -> int:
            return min(ground.available(position, class_id), rooms.get((position, class_id), 0))

        return replace(ground, choices=choices, available=available, shares=shares)

    def _in_order(self, able: Sequence[int], times: Mapping[int, int], sign: int) -> list[int]:
        """The tree's own positions first, since sharing providers serve other trees too."""
        return sorted(able, key=lambda at: (at >= self._size, sign * times[at]))

    def _times(self, need: int, at: int, rooms: Rooms, shares: Mapping[int, Mapping[int, Share]]) -> int:
        if need in self._ground.shares and at in self._ground.shares[need]:
            return shares[need][at].most if at in shares[need] else 0
        amounts = self._demand.amounts[need].items()
        return min((rooms[at, class_id] // amount for class_id, amount in amounts), default=1)

    def _shares(self, need: int, rooms: Rooms) -> dict[int, Share]:
        """The parts that can still be given. Their ranks are by uuid among those that can give equally much."""
        (class_id,) = self._demand.amounts[need]
        shares = {}
        for at, share in self._ground.shares[need].items():
            most = min(share.most, rooms[at, class_id]) // share.step * share.step
            if most >= share.least:
                shares[at] = share._replace(most=most, rank=self._order[at])
        return shares


def _taken(arrangement: Arrangement) -> dict[tuple[int, int], int]:
    return {(at, c): amount for at, given in arrangement.allocations.items() for c, amount in given.items()}


def _sum(first: Rooms, second: Rooms) -> Rooms:
    return {place: first.get(place, 0) + second.get(place, 0) for place in {*first, *second}}


def _places_of(kind: Kind) -> set[tuple[int, int]]:
    """The positions and classes from which a need can take something."""
    return {
        (at, class_id)
        for amounts, choices in zip(kind.demand.amounts, kind.ground.choices, strict=True)
        for class_id in amounts
        for at in choices
    }
