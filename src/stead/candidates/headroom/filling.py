"""Filling: how often a request fits into trees where counting is not enough, by real claims and prices.

Trees in which the request finds the same ways and the same rooms are filled once.

Source: "GET /headroom", docs/stead-api.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.combine import divided, open_clauses, ways
from stead.candidates.headroom.counting import MOST, are_isolated
from stead.candidates.work import ARRANGED, CHOSEN, LOOKED, TRIED, WorkSpent, masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand, SearchSpace
    from stead.candidates.kinds import Arrangement, Kind, TreeKinds
    from stead.candidates.splits import Share
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot

    Numbers = NDArray[np.int64]
    Reals = NDArray[np.float64]
    Mask = NDArray[np.bool_]


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
        if not kind.space.shares:
            return ()
        uuids = [self._snapshot.uuid(slot) for slot in members]
        ordered = sorted(range(len(uuids)), key=uuids.__getitem__)
        return tuple(sorted(range(len(uuids)), key=ordered.__getitem__))

    def _fill(self, kind: Kind, size: int, rooms: Rooms, most: int, order: Sequence[int], *, own_first: bool) -> Packed:
        easy = spread(kind.demand, kind.space, rooms, most, self._work) if self._can_spread(kind) else None
        # With more combinations, all ways together are hardly ever few enough to be packed.
        combinations = prod(len(choices) for choices in kind.space.choices)
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
        return not self._one_provider and can_spread(kind.demand, kind.space)

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
            arrangements = [] if kind.space.shares else list(islice(kind.arrangements(), MOST_WAYS + 1))
            self._work.spend(len(arrangements) * (ARRANGED + CHOSEN * len(kind.demand.amounts)))
            if not kind.space.shares and len(arrangements) <= MOST_WAYS:
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
        self._space = kind.space
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
                times = 1 if self._space.shares else min(max(fits // 8, 1), most - number)
                number += times
                for place, amount in way.items():
                    rooms[place] -= times * amount
                    taken[place] = taken.get(place, 0) + times * amount
        except WorkSpent:
            pass
        return Packed(number, most, taken)

    def _next(self, rooms: Rooms, sign: int) -> Rooms | None:
        # Every position is weighed again for every need, and then prepared for the search.
        self._work.spend(TRIED * (len(self._space.choices) + sum(map(len, self._space.choices))))
        space = self._left(rooms, sign)
        if not all(space.choices):
            return None
        for demand, parted in divided(self._demand, space, self._work):
            for way in ways(demand, parted, self._work):
                taken: dict[tuple[int, int], int] = {}
                for amounts, at in zip(demand.amounts, way, strict=True):
                    for class_id, amount in amounts.items():
                        taken[at, class_id] = taken.get((at, class_id), 0) + amount
                if self._passes(taken):
                    return taken
        return None

    def _left(self, rooms: Rooms, sign: int) -> SearchSpace:
        """What the tree offers after claims."""
        space = self._space
        shares = {need: self._shares(need, rooms) for need in space.shares}
        choices = []
        for need, positions in enumerate(space.choices):
            times = {at: self._times(need, at, rooms, shares) for at in positions}
            able = [at for at in positions if times[at]]
            choices.append(self._in_order(able, times, sign))

        def available(position: int, class_id: int) -> int:
            return min(space.available(position, class_id), rooms.get((position, class_id), 0))

        return replace(space, choices=choices, available=available, shares=shares)

    def _in_order(self, able: Sequence[int], times: Mapping[int, int], sign: int) -> list[int]:
        """The tree's own positions first, since sharing providers serve other trees too."""
        return sorted(able, key=lambda at: (at >= self._size, sign * times[at]))

    def _times(self, need: int, at: int, rooms: Rooms, shares: Mapping[int, Mapping[int, Share]]) -> int:
        if need in self._space.shares and at in self._space.shares[need]:
            return shares[need][at].most if at in shares[need] else 0
        amounts = self._demand.amounts[need].items()
        return min((rooms[at, class_id] // amount for class_id, amount in amounts), default=1)

    def _shares(self, need: int, rooms: Rooms) -> dict[int, Share]:
        """The parts that can still be given. Their ranks are by uuid among those that can give equally much."""
        (class_id,) = self._demand.amounts[need]
        shares = {}
        for at, share in self._space.shares[need].items():
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
        for amounts, choices in zip(kind.demand.amounts, kind.space.choices, strict=True)
        for class_id in amounts
        for at in choices
    }


# Packing: how often ways can be taken together from the rooms of one tree.
#
# That is an integer program with a column for each way and a row for each room. Its relaxation has prices for the
# rooms. If each way costs at least D at these prices, and all rooms together cost Q, no more than Q // D claims fit.
# The arithmetic of this bound is exact, however the prices were found. The claims found are a real filling.
#
# Source: "GET /headroom", docs/stead-api.md; decision 41.


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


def _relaxed(matrix: Reals, rooms: Reals, work: Work) -> tuple[Reals, Reals]:
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


# Spreading: many claims at once in one tree, as units of each need, without a list of ways.
#
# If only room and isolation bind the needs to each other, N claims are N units for each need. Any units that fit will
# do: the first units of all needs are the first claim, and so on. So the cost follows the needs and the providers,
# and not their combinations. What is found is a real filling, and not always the greatest one.
#
# Two needs of one claim must not meet at a provider if they are isolated, or if its max_unit forbids their sum. If
# all needs are isolated, a provider that takes up to N units in all is enough: by the theorem of König, its units can
# be given to different claims. Otherwise, such a provider serves a single need.
#
# Source: "GET /headroom", docs/stead-api.md; decision 55.


_NOBODY = -1

_OPERATIONS = 6
"""Vector operations for each need of an attempt."""


def can_spread(demand: Demand, space: SearchSpace) -> bool:
    """Whether nothing but room and isolation binds the needs to each other."""
    return not (demand.subtrees or demand.parts or space.shares or open_clauses(demand, space))


def spread(demand: Demand, space: SearchSpace, rooms: Rooms, most: int, work: Work) -> Packed:
    """Claims in a tree, up to *most*, for needs that `can_spread`. Own providers come before sharing ones.

    Raises:
        WorkSpent
    """
    spreading = _Spreading(demand, space, rooms, work)
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
    def __init__(self, demand: Demand, space: SearchSpace, rooms: Rooms, work: Work) -> None:
        self._amounts = demand.amounts
        self._work = work
        positions = sorted({at for choices in space.choices for at in choices})
        self._positions = positions
        self._classes = list(dict.fromkeys(class_id for amounts in demand.amounts for class_id in amounts))
        work.spend((len(self._classes) + 2 * len(demand.amounts)) * len(positions))
        self._rooms = np.array([[rooms.get((at, c), 0) for at in positions] for c in self._classes], np.int64)
        place_of = {at: place for place, at in enumerate(positions)}
        # Own positions have the smaller numbers, so this order has them first.
        self._choices = [np.array([place_of[at] for at in sorted(choices)], np.int64) for choices in space.choices]
        # What has few choices, or takes much, is hardest to place.
        largest = [max(amounts.values(), default=0) for amounts in demand.amounts]
        self._order = sorted(range(len(largest)), key=lambda need: (len(self._choices[need]), -largest[need]))
        every = set(range(len(largest)))
        self._is_isolating = len(every) > 1 and demand.isolated >= every
        self._is_exclusive = self._exclusive(demand, space)

    def _exclusive(self, demand: Demand, space: SearchSpace) -> Mask:
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
            exclusive[place] = verdicts[key] or not self._may_share(space, place, at, needs)
        return exclusive

    def _may_share(self, space: SearchSpace, place: int, at: int, needs: Sequence[int]) -> bool:
        """Whether the needs of one claim can meet at a position as far as max_unit decides."""
        for number, class_id in enumerate(self._classes):
            requested = [self._amounts[need][class_id] for need in needs if class_id in self._amounts[need]]
            # If the room itself is the limit, no units that fit exceed max_unit.
            if len(requested) > 1 and space.available(at, class_id) < min(
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
