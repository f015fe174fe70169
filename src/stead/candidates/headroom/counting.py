"""Counting: how often a request fits into trees, by sums of columns, for all trees of one shape at once.

A claim gives each need a provider. If the needs that compete for a provider take equal amounts, N claims are a flow:
each need sends N units to the providers that can serve it, and each provider takes up to a number of units. By the
theorem of Gale, N claims fit if and only if, for every set of needs, the providers of the set take N units for each of
its needs. If the needs are isolated, a provider takes up to one unit of each claim, so up to N. By the theorem of König
on colouring edges, the units can then be given to claims so that no claim uses a provider twice.

For other trees the same sums are an upper bound, because they only leave constraints out.

Source: "GET /headroom", docs/stead-api.md; decision 41.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, islice
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.work import TRIED, masked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from stead.candidates.combine import Demand, Subtree
    from stead.candidates.match import Pool
    from stead.candidates.work import Work
    from stead.catalog.columns import Shares
    from stead.catalog.snapshot import Shape, Snapshot
    from stead.domain.provider import Slot

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]
    Amount = int | Numbers
    """One for all trees, or one for each."""
    Weights = Mapping[int, Amount]


MOST_SETS = 64
"""Limit of the sets of competing needs that are compared. With more, the count is only an upper bound."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a request fits into each of some trees, arrays of shape ``(trees,)``.

    Attributes:
        most: never less than the true count.
        is_exact: whether ``most`` is the true count.
        of_needs: by need, how often the tree can serve it alone.
        of_groups: the groups of competing needs, and how often the tree can serve each group alone.
        unisolated: the same if needs may share a provider.
        from_own: by need, how often the tree's own providers can serve it.
    """

    most: Numbers
    is_exact: Mask
    of_needs: Sequence[Numbers]
    of_groups: Sequence[tuple[Sequence[int], Numbers]]
    unisolated: Sequence[Numbers]
    from_own: Sequence[Numbers]


def count(trees: Trees, demand: Demand, shares: Sequence[Shares | None], work: Work, *, one_provider: bool) -> Counts:
    """Count for each of *trees*.

    Args:
        shares: by need, the parts that providers can give if its amount may be split.
        one_provider: whether only one provider of a tree may give resources.

    Raises:
        WorkSpent
    """
    work.spend(len(demand.amounts) * masked(trees.slots.size))
    times = [trees.times(need) for need in range(len(demand.amounts))]
    counting = _Counting(trees, demand, times, work)
    whole = slice(0, len(trees.slots))
    own_size = trees.shape.size
    groups = competing(demand, trees, work)
    exact = np.ones(len(trees.anchors), np.bool_)
    of_groups, unisolated = [], []
    for group in groups:
        of_group, is_flow = counting.of_group(group, whole)
        of_groups.append((group, of_group))
        unisolated.append(counting.of_group(group, whole, isolated=False)[0] if len(group) > 1 else of_group)
        exact &= is_flow
    alone = {group[0]: of_group for group, of_group in of_groups if len(group) == 1}
    of_needs = [alone[need] if need in alone else counting.of_group([need], whole)[0] for need in range(len(times))]
    is_own = own_size == len(trees.slots)
    from_own = list(of_needs) if is_own else [counts[:own_size].sum(axis=0) for counts in times]
    for need, parts in enumerate(shares):
        if parts is not None:
            from_own[need], is_plain = _of_parts(trees, demand, need, parts)
            # Sharing providers of other trees give whole amounts only.
            of_needs[need] = from_own[need] + times[need][own_size:].sum(axis=0)
            place = next(place for place, group in enumerate(groups) if need in group)
            exact &= is_plain & (len(groups[place]) == 1)
            # The sums over whole amounts do not bound amounts that are split.
            of_groups[place] = (groups[place], _of_sums(trees, demand, groups[place], of_needs))
            unisolated[place] = of_groups[place][1]
    most = np.minimum.reduce([np.full(len(trees.anchors), MOST), *(counts for _, counts in of_groups), *of_needs])
    exact &= _meet_clauses(trees, demand)
    if one_provider and len(times) > 1:
        exact &= np.logical_or.reduce(trees.able)[:own_size].sum(axis=0) <= 1
    constraints = [subtree for subtree in demand.subtrees if len(subtree.bound) > 1 or subtree.apart]
    if constraints:
        below, is_below = counting.of_subtrees(constraints, groups)
        most = np.minimum(most, below)
        exact &= is_below
    return Counts(most, exact | (most == 0), of_needs, of_groups, unisolated, from_own)


def _of_parts(trees: Trees, demand: Demand, need: int, parts: Shares) -> tuple[Numbers, Mask]:
    """How often the tree's own providers can give a split amount, and whether that is exact."""
    ((class_id, amount),) = demand.amounts[need].items()
    own = trees.slots[: trees.shape.size]
    able = trees.able[need][: trees.shape.size]
    if class_id not in trees.rooms:
        return np.zeros(len(trees.anchors), np.int64), np.ones(len(trees.anchors), np.bool_)
    step, least = parts.step[own], parts.least[own]
    given = np.where(able, trees.rooms[class_id][: trees.shape.size] // step * step, 0)
    is_plain = (step == 1) & (least <= 1) & (trees.max_units[class_id][: trees.shape.size] >= amount)
    # An amount is unbounded, and NumPy divides only by integers of 64 bits; no room reaches this one.
    return given.sum(axis=0) // min(amount, MOST_ROOM + 1), (is_plain | ~able).all(axis=0)


def _of_sums(trees: Trees, demand: Demand, needs: Sequence[int], of_needs: Sequence[Numbers]) -> Numbers:
    """How often *needs*, of which some may be split, fit by the sums of each class."""
    bounds = [of_needs[need] for need in needs]
    for class_id in {c for need in needs for c in demand.amounts[need]} & set(trees.rooms):
        requesting = [need for need in needs if class_id in demand.amounts[need]]
        able = np.logical_or.reduce([trees.able[need] for need in requesting])
        total = min(sum(demand.amounts[need][class_id] for need in requesting), MOST_ROOM + 1)
        bounds.append(np.where(able, trees.rooms[class_id], 0).sum(axis=0) // total)
    least: Numbers = np.minimum.reduce(bounds)
    return least


def _meet_clauses(trees: Trees, demand: Demand) -> Mask:
    """Mask of the trees in which every choice meets the required traits."""
    meets = np.ones(len(trees.anchors), np.bool_)
    for meeting in trees.meeting:
        meets &= np.logical_or.reduce([(meeting | ~trees.able[need]).all(axis=0) for need in demand.clause_needs])
    return meets


class _Counting:
    """Counts for the groups of competing needs, in all positions or in some."""

    def __init__(
        self, trees: Trees, demand: Demand, times: Sequence[Numbers], work: Work, top: int | None = None
    ) -> None:
        """*top* is a need that only some of the providers that could serve it may serve."""
        self._trees = trees
        self._demand = demand
        self._times = times
        self._work = work
        self._top = top

    def of_group(self, needs: Sequence[int], where: slice, *, isolated: bool = True) -> tuple[Numbers, Mask]:
        """How often the positions *where* serve *needs*, and in which trees that is exact."""
        number = len(self._trees.anchors)
        self._work.spend(masked(self._trees.slots.size))
        positions = self._trees.serving(needs, where)
        if len(needs) == 1:
            return np.minimum(self._times[needs[0]][positions].sum(axis=0), MOST), np.ones(number, np.bool_)
        every = self._demand.isolated.issuperset(needs)
        alone = self._demand.isolated.intersection(needs)
        is_some_isolated = any(
            are_isolated(self._demand, need, other) for need in alone for other in needs if other != need
        )
        is_isolating = isolated and every
        # One more than the limit shows that sets are missing, so the count is only a bound.
        sets = list(islice(_subsets(self._types(needs)), MOST_SETS + 1))
        most = np.full(number, MOST, np.int64)
        is_flow = len(sets) <= MOST_SETS and (every or not is_some_isolated)
        resources = list(self._resources(needs))
        for weights, limit, is_uniform in resources:
            most = np.minimum(
                most, self._of_resource(sets[:MOST_SETS], weights, limit, positions, isolated=is_isolating)
            )
            is_flow &= is_uniform
        exact = np.full(number, is_flow, np.bool_)
        if is_flow and not is_some_isolated:
            exact &= self._may_share(needs, positions)
        return most, exact

    def _types(self, needs: Sequence[int]) -> list[list[int]]:
        """*needs* by type: those of one type request the same of the same providers."""
        types: list[list[int]] = []
        able, amounts = self._trees.able, self._demand.amounts
        for need in needs:
            for same in types:
                self._work.spend(masked(self._trees.slots.size))
                # The top's choices are cut to one position in the counts, but not in `able`, so it is a type of its
                # own.
                if self._top not in (need, same[0]) and (
                    amounts[same[0]] == amounts[need] and (able[same[0]] == able[need]).all()
                ):
                    same.append(need)
                    break
            else:
                types.append([need])
        return types

    def _resources(self, needs: Sequence[int]) -> Iterator[tuple[Weights, Numbers | None, bool]]:
        """What *needs* compete for: weights by requesting need, limits by position, and whether the sums decide.

        Classes that all needs request in equal amounts limit the number of needs that a position serves. A class for
        which that does not hold is a bound of its own.
        """
        amounts = [self._demand.amounts[need] for need in needs]
        of_trees = self._trees.amounts
        contested = {c for c in set().union(*amounts) if sum(c in requested for requested in amounts) > 1} & set(
            self._trees.rooms
        )
        equal = {c for c in contested if len({requested.get(c) for requested in amounts}) == 1}
        limit = None
        for class_id in equal:
            times = self._trees.rooms[class_id] // of_trees[needs[0]][class_id]
            limit = times if limit is None else np.minimum(limit, times)
        yield dict.fromkeys(needs, 1), limit, contested == equal
        for class_id in contested - equal:
            weights = {need: of_trees[need][class_id] for need in needs if class_id in of_trees[need]}
            # In multiples of the common divisor, room that no need can use does not loosen the bound.
            step = _gcd(weights.values())
            yield {n: w // step for n, w in weights.items()}, self._trees.rooms[class_id] // step, False

    def _of_resource(
        self,
        sets: Sequence[Sequence[int]],
        weights: Weights,
        limit: Numbers | None,
        positions: Numbers,
        *,
        isolated: bool,
    ) -> Numbers:
        most = np.full(len(self._trees.anchors), MOST, np.int64)
        bounds = []
        for needs in sets:
            requesting = [need for need in needs if need in weights]
            if not requesting:
                continue
            self._work.spend(len(needs) * masked(self._trees.slots.size))
            total = sum(weights[need] for need in requesting)
            given = sum(
                (weights[need] * self._times[need][positions] for need in requesting), np.zeros(len(most), np.int64)
            )
            if limit is not None:
                given = np.minimum(given, limit[positions])
            bounds.append((total, reduce(np.maximum, [weights[need] for need in requesting]), given))
            most = np.minimum(most, given.sum(axis=0) // total)
        while isolated:
            # The greatest number that is at most its own bound: start above it and go down.
            # Each bound depends on `most` itself, because a claim takes up to one unit of an isolated provider.
            lower = most
            for total, weight, given in bounds:
                given_once = np.minimum(given, weight * most)
                lower = np.minimum(lower, given_once.sum(axis=0) // total)
            if (lower == most).all():
                break
            most = lower
        return most

    def _may_share(self, needs: Sequence[int], positions: Numbers) -> Mask:
        """Mask of the trees where max_unit lets one claim take the amounts of all *needs* from one provider."""
        allowed = np.ones(len(self._trees.anchors), np.bool_)
        able = sum(
            (self._trees.able[need][positions].astype(np.int64) for need in needs[1:]),
            self._trees.able[needs[0]][positions].astype(np.int64),
        )
        for class_id, max_units in self._trees.max_units.items():
            total = sum(self._trees.amounts[need].get(class_id, 0) for need in needs)
            allowed &= ((able <= 1) | (max_units[positions] >= total)).all(axis=0)
        return allowed

    def of_subtrees(self, constraints: Sequence[Subtree], groups: Sequence[Sequence[int]]) -> tuple[Numbers, Mask]:
        """The bound that one ``same_subtree`` is, and where it is exact.

        It is exact if one of its needs is always served by the top: then each provider that can serve this need has its
        own part of the tree.
        """
        number, size = len(self._trees.anchors), self._trees.shape.size
        most, exact = np.full(number, MOST, np.int64), np.zeros(number, np.bool_)
        bound = constraints[0].bound
        mixed = any(bound.intersection(group) and not bound.issuperset(group) for group in groups)
        if (
            len(constraints) > 1
            or constraints[0].apart
            or mixed
            or any(self._trees.able[n][size:].any() for n in bound)
        ):
            return most, exact
        within = [group for group in groups if bound.issuperset(group)]
        for need in sorted(bound):
            is_top = self._always_top(need, bound)
            chosen = is_top & ~exact
            if not chosen.any():
                continue
            total, is_flow = np.zeros(number, np.int64), np.ones(number, np.bool_)
            for top in np.flatnonzero((self._trees.able[need][:size] & chosen).any(axis=1)).tolist():
                below, is_exact = self._below(top, need, within)
                total += below
                # Where it cannot serve the need, it adds nothing, and that is exact.
                is_flow &= is_exact | ~self._trees.able[need][top]
            most = np.where(chosen, total, most)
            exact |= chosen & is_flow
        return most, exact

    def _always_top(self, need: int, bound: frozenset[int]) -> Mask:
        """Mask of the trees where no provider for *bound* is above one that can serve *need*."""
        able, leave = self._trees.able, self._trees.shape.leave
        own = slice(0, self._trees.shape.size)
        serving = self._trees.serving([need], own)
        mask = np.ones(len(self._trees.anchors), np.bool_)
        for top in self._trees.serving(bound, own).tolist():
            start, stop = np.searchsorted(serving, (top + 1, leave[top])).tolist()
            if start < stop:
                is_above = np.logical_or.reduce([able[other][top] for other in bound])
                mask &= ~(is_above & able[need][serving[start:stop]].any(axis=0))
        return mask

    def _below(self, top: int, need: int, groups: Sequence[Sequence[int]]) -> tuple[Numbers, Mask]:
        """How often the subtree of *top* serves *groups* if *top* serves *need*."""
        region = slice(top, self._trees.shape.leave[top])
        times = list(self._times)
        times[need] = np.zeros_like(times[need])
        times[need][top] = self._times[need][top]
        counting = _Counting(self._trees, self._demand, times, self._work, need)
        counts = [counting.of_group(group, region) for group in groups]
        return np.minimum.reduce([most for most, _ in counts]), np.logical_and.reduce([exact for _, exact in counts])


def _gcd(amounts: Iterable[Amount]) -> Amount:
    # Amounts of one request are unbounded, and those of NumPy are not.
    return reduce(lambda first, second: (gcd if isinstance(first, int) else np.gcd)(first, second), amounts)


def _subsets(types: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The sets of whole types, the largest first, since it and single types are the most useful bounds."""
    yield [need for alike in types for need in alike]
    for size in range(1, len(types)):
        for chosen in combinations(types, size):
            yield [need for alike in chosen for need in alike]


# Reading: what trees offer to a request that is repeated, in columns for all trees of one shape.
#
# Source: "GET /headroom", docs/stead-api.md.


MOST = 2**40
"""Counts end here. Sums of counts over all providers fit into the columns."""

MOST_ROOM = 2**50
"""Rooms end here, in units of their class."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees of one shape that the same sharing providers reach, for one request or for several of one form.

    For several requests, a tree is there once for each of them. ``request`` has the number of the request.

    Arrays have the shape ``(positions, trees)``, because a position has one role in all trees: most needs concern a few
    positions, and a sum over positions adds whole rows. The tree's own providers come first, then ``reaching``.

    ``able`` says for each need which positions can serve it now. ``rooms`` and ``max_units`` are by class id, in units
    of the class; ``max_units`` has only classes that several needs request or may split. ``meeting`` says for each
    clause which positions meet it. ``amounts`` is what the requests take, by need and class id: one number for all
    trees, or one for each.
    """

    shape: Shape
    anchors: Numbers
    request: Numbers
    slots: Numbers
    reaching: Sequence[Slot]
    able: Sequence[Mask]
    rooms: Mapping[int, Numbers]
    max_units: Mapping[int, Numbers]
    meeting: Sequence[Mask]
    amounts: Sequence[Mapping[int, int | Numbers]]

    def times(self, need: int) -> Numbers:
        """How often each position can serve *need* if it serves nothing else."""
        times = np.zeros(self.slots.shape, np.int64)
        serving = self.serving([need])
        able = self.able[need][serving]
        most = np.full(able.shape, MOST, np.int64)
        for class_id, amount in self.amounts[need].items():
            if class_id in self.rooms:
                np.minimum(most, self.rooms[class_id][serving] // np.minimum(amount, MOST_ROOM + 1), out=most)
        times[serving] = np.where(able, most, 0)
        return times

    def serving(self, needs: Iterable[int], where: slice = slice(None)) -> Numbers:
        """The positions *where* that can serve any of *needs* in any of the trees, ascending."""
        able = np.logical_or.reduce([self.able[need][where].any(axis=1) for need in needs])
        return np.flatnonzero(able) + (where.start or 0)

    def among(self, places: Numbers) -> Trees:
        """The trees at *places* only."""
        return replace(
            self,
            anchors=self.anchors[places],
            request=self.request[places],
            slots=self.slots[:, places],
            able=[able[:, places] for able in self.able],
            rooms={class_id: rooms[:, places] for class_id, rooms in self.rooms.items()},
            max_units={class_id: units[:, places] for class_id, units in self.max_units.items()},
            meeting=[meeting[:, places] for meeting in self.meeting],
            amounts=[
                {c: amount[places] if isinstance(amount, np.ndarray) else amount for c, amount in amounts.items()}
                for amounts in self.amounts
            ],
        )

    def for_each(self, snapshot: Snapshot, amounts: Sequence[Mapping[int, Numbers]], number: int) -> Trees:
        """These trees for each of a *number* of requests, one request after the other.

        ``able`` says which positions could serve the needs if amounts did not matter.

        Args:
            amounts: by need and class id, the amount of each request.
        """

        def repeated(columns: NDArray[Any]) -> NDArray[Any]:
            return np.tile(columns, (1, number))

        able = [repeated(mask) for mask in self.able]
        for need, of_need in enumerate(amounts):
            serving = self.serving([need])
            for class_id, of_requests in of_need.items():
                fits = snapshot.inventory[class_id].fitting(of_requests, self.slots[serving])
                able[need][serving] &= fits.reshape(len(serving), -1)
        trees = len(self.anchors)
        return replace(
            self,
            anchors=np.tile(self.anchors, number),
            request=np.repeat(np.arange(number), trees),
            slots=repeated(self.slots),
            able=able,
            rooms={class_id: repeated(rooms) for class_id, rooms in self.rooms.items()},
            max_units={class_id: repeated(units) for class_id, units in self.max_units.items()},
            meeting=[repeated(meeting) for meeting in self.meeting],
            amounts=[{c: np.repeat(of_requests, trees) for c, of_requests in of_need.items()} for of_need in amounts],
        )


def read_trees(
    snapshot: Snapshot, pools: Sequence[Pool], clauses: Sequence[Mask], anchors: Numbers, work: Work
) -> Iterator[Trees]:
    """The trees of *anchors*, in groups, without positions that serve no need in any tree of the group.

    Args:
        clauses: masks of the providers that meet each clause.

    Raises:
        WorkSpent: while iterating.
    """
    forest, sharing = snapshot.forest, snapshot.sharing
    requesting = Counter(class_id for pool in pools for class_id in pool.amounts)
    is_split = any(pool.shares is not None for pool in pools)
    is_shared = any(pool.shared.size for pool in pools)
    shapes = forest.shape.at(anchors)
    circles = sharing.circle[anchors] if is_shared else np.zeros(len(anchors), np.int32)
    # One number for both, because NumPy is slow to find the unique rows of a matrix.
    group_of = shapes.astype(np.int64) * (int(circles.max(initial=0)) + 1) + circles
    groups = np.unique(group_of).tolist() if (group_of != group_of[:1]).any() else group_of[:1].tolist()
    shared_masks = [_mask(snapshot.size, pool.shared) for pool in pools]
    for group in groups:
        shape_number, circle = divmod(group, int(circles.max(initial=0)) + 1)
        here = anchors[group_of == group] if len(groups) > 1 else anchors
        shape = forest.shapes.values[shape_number]
        own = np.ascontiguousarray(forest.members_of(here, shape).T)
        able = [pool.own[own] for pool in pools]
        serving = np.flatnonzero(np.logical_or.reduce([mask.any(axis=1) for mask in able]))
        if len(serving) < shape.size:
            own, shape, able = own[serving], shape.among(serving.tolist()), [mask[serving] for mask in able]
        reaching = sharing.circles[circle] if is_shared else ()
        outside = np.broadcast_to(np.array(reaching, np.int64)[:, None], (len(reaching), len(here)))
        slots = np.concatenate([own, outside]) if reaching else own
        work.spend((len(pools) + len(clauses)) * masked(slots.size))
        rooms, max_units = {}, {}
        for class_id, number in requesting.items():
            columns = snapshot.inventory.get(class_id)
            if columns is None:
                continue
            # A provider that is over-allocated offers nothing; a negative room would lower the sum of its tree.
            rooms[class_id] = np.minimum(np.maximum(columns.room.at(slots), 0), MOST_ROOM)
            if number > 1 or is_split:
                max_units[class_id] = columns.kinds.table()[3].astype(np.int64)[columns.kind.at(slots)]
        yield Trees(
            shape,
            here,
            np.zeros(len(here), np.int64),
            slots,
            reaching,
            [np.concatenate([own_able, mask[outside]]) for own_able, mask in zip(able, shared_masks, strict=True)]
            if reaching
            else able,
            rooms,
            max_units,
            [clause[slots] for clause in clauses],
            [pool.amounts for pool in pools],
        )


def alike(trees: Trees, demand: Demand, work: Work) -> Iterator[Trees]:
    """*trees* in groups in which the same needs compete, and the same needs find the same rooms.

    So what is counted for a tree does not depend on the trees beside it.

    Raises:
        WorkSpent: while iterating.
    """
    pairs = []
    for need, other in combinations(range(len(demand.amounts)), 2):
        work.spend(TRIED)
        if may_compete(demand, need, other):
            work.spend(2 * masked(trees.slots.size))
            pairs.append((trees.able[need] & trees.able[other]).any(axis=0))
            if demand.amounts[need] == demand.amounts[other]:
                pairs.append((trees.able[need] == trees.able[other]).all(axis=0))
    mixed = [pair for pair in pairs if pair.any() and not pair.all()]
    if not mixed:
        yield trees
        return
    bits = np.ascontiguousarray(np.packbits(np.stack(mixed, axis=1), axis=1))
    # One void value per row, because NumPy is slow to find the unique rows of a matrix.
    _, group_of = np.unique(bits.view(f"V{bits.shape[1]}").ravel(), return_inverse=True)
    for group in range(int(group_of.max()) + 1):
        yield trees.among(np.flatnonzero(group_of == group))


def may_compete(demand: Demand, need: int, other: int) -> bool:
    """Whether two needs compete for a provider that can serve both."""
    shares_class = not demand.amounts[need].keys().isdisjoint(demand.amounts[other])
    return shares_class or are_isolated(demand, need, other)


def _mask(size: int, slots: Numbers) -> Mask:
    mask = np.zeros(size, np.bool_)
    mask[slots] = True
    return mask


def competing(demand: Demand, trees: Trees, work: Work) -> list[list[int]]:
    """The needs in groups: needs of two groups never compete for a provider of any of *trees*.

    Raises:
        WorkSpent
    """
    group_of = list(range(len(demand.amounts)))
    for need, other in combinations(range(len(group_of)), 2):
        if group_of[need] == group_of[other]:
            continue
        work.spend(TRIED)
        if not may_compete(demand, need, other):
            continue
        work.spend(masked(trees.slots.size))
        if (trees.able[need] & trees.able[other]).any():
            old, new = group_of[other], group_of[need]
            group_of = [new if number == old else number for number in group_of]
    return [[need for need, group in enumerate(group_of) if group == number] for number in sorted(set(group_of))]


def are_isolated(demand: Demand, need: int, other: int) -> bool:
    """Whether two needs must have different providers."""
    isolated, bystanders = demand.isolated, demand.bystanders
    if need in isolated:
        return other in isolated or other in bystanders
    return other in isolated and need in bystanders
