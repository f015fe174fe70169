"""Coupling: how often a request fits into all trees together, if sharing providers serve several of them.

Sharing providers are the nodes of a flow, and so are the trees that the same of them reach. So the bounds cost what the
kinds of trees cost, and not what the combinations of providers do. There is a flow for each need, in claims, and one
for each class that several needs request, in units of the class.

Source: "GET /headroom", docs/stead-api.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.headroom.counting import MOST, MOST_ROOM
from stead.candidates.work import LOOKED, TRIED, WorkSpent, masked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.headroom.counting import Counts, Trees
    from stead.candidates.headroom.filling import Filling
    from stead.candidates.match import Pool
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot

    Numbers = NDArray[np.int64]
    Alone = tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]
    """The anchors, and for each tree alone: at least, at most, and whether that was counted exactly."""


MOST_SUM = 2**62
"""Sums up to this fit into an integer of NumPy."""


class Total(NamedTuple):
    """The claims of all trees together.

    ``needs`` are those whose sharing providers bound it, none if no sharing provider does. If there are several, they
    lack ``class_id`` together. ``coupled`` is the number of trees that take from sharing providers.
    """

    at_least: int
    at_most: int
    needs: tuple[int, ...] = ()
    class_id: int | None = None
    coupled: int = 0


class _Coupled(NamedTuple):
    """The trees that take from sharing providers, in columns.

    Attributes:
        anchors: the roots, shape ``(trees,)``.
        own: by need, how many claims the tree's own providers can serve, shape ``(trees,)`` each.
        reached: by need, a number in ``sets`` for each tree: the sharing providers that can serve the need.
        rooms, reached_of_class: the same by class that several needs request; rooms are in units of the class.
        sets: the different sets of sharing providers.
    """

    anchors: Numbers
    own: Sequence[Numbers]
    reached: Sequence[Numbers]
    rooms: Mapping[int, Numbers]
    reached_of_class: Mapping[int, Numbers]
    sets: Sequence[Reached]


def together(
    snapshot: Snapshot,
    pools: Sequence[Pool],
    counted: Sequence[tuple[Trees, Counts]],
    filling: Filling,
    alone: Alone,
    work: Work,
) -> Total:
    """The total of all trees. If *work* is used up, the bounds are further apart."""
    anchors, at_least, at_most, is_exact = alone
    shared = [need for need, pool in enumerate(pools) if pool.shared.size]
    if not shared:
        return Total(int(at_least.sum()), int(at_most.sum()))
    total = Total(0, int(at_most.sum()))
    with suppress(WorkSpent):
        coupled = _coupled(snapshot, pools, counted, work)
        places = np.searchsorted(anchors, coupled.anchors)
        most = at_most[places]
        uncoupled = np.ones(len(anchors), np.bool_)
        uncoupled[places] = False
        others = int(at_most[uncoupled].sum())
        # Claims in the other trees are found already, even if the work ends before the first claim in these.
        total = total._replace(at_least=int(at_least[uncoupled].sum()), coupled=len(places))
        for bound, needs, class_id in _bounds(snapshot, pools, shared, coupled, most, work):
            # Of equal bounds, that of the trees wins, so a sharing provider is a limit only if it is tighter.
            if bound + others < total.at_most:
                total = total._replace(at_most=bound + others, needs=needs, class_id=class_id)
        if is_exact[places].all() and _is_separate(counted, shared) and not any(pools[n].shares for n in shared):
            served = most
            for need in shared:
                served = _served(coupled, need, _supply(snapshot, pools[need]), served, work)
            least = int(served.sum())
        else:
            most_of = dict(zip(coupled.anchors.tolist(), most.tolist(), strict=True))
            least = _filled(coupled.anchors, filling, most_of, total.at_most - others)
        total = total._replace(at_least=total.at_least + least)
    return total


class _Columns:
    """Reads the columns of `_Coupled`, group by group."""

    def __init__(self, snapshot: Snapshot, pools: Sequence[Pool], work: Work) -> None:
        self._snapshot = snapshot
        self._pools = pools
        self._work = work
        self._shared_by = [frozenset(pool.shared.tolist()) for pool in pools]
        every = sorted(frozenset().union(*self._shared_by))
        self._homes = np.unique(snapshot.forest.root.at(np.array(every, np.int64)))
        self._requesting = requesting(pools)
        self._number_of: dict[Reached, int] = {}
        nothing = np.empty(0, np.int64)
        self._anchors = [nothing]
        self._own, self._reached = [[nothing] for _ in pools], [[nothing] for _ in pools]
        self._rooms = {class_id: [nothing] for class_id in self._requesting}
        self._reached_of_class = {class_id: [nothing] for class_id in self._requesting}

    def add(self, trees: Trees, counts: Counts) -> None:
        """Read those of *trees* that take from sharing providers.

        Raises:
            WorkSpent
        """
        outside = frozenset(trees.reaching)
        is_home = np.isin(trees.anchors, self._homes)
        is_reached = not outside.isdisjoint(frozenset().union(*self._shared_by))
        rows = np.arange(len(trees.anchors)) if is_reached else np.flatnonzero(is_home)
        if not rows.size:
            return
        homes = np.flatnonzero(is_home[rows]).tolist()
        members = [trees.slots[: trees.shape.size, rows[at]].tolist() for at in homes]
        self._anchors.append(trees.anchors[rows])
        for need, pool in enumerate(self._pools):
            shared = self._shared_by[need]
            self._work.spend(masked(trees.slots.size) + LOOKED * len(outside))
            own = np.minimum(counts.from_own[need][rows], MOST)
            reached = np.full(len(rows), self._number(shared & outside), np.int64)
            # What is split may take parts of a sharing provider of its own tree, so all of it counts as own.
            for at, slots in zip(homes, members, strict=True) if pool.shares is None else ():
                self._work.spend(TRIED + LOOKED * (len(slots) + len(outside)))
                sharing = {slot for slot in slots if slot in shared and pool.own[slot]}
                # A count at the maximum stays, since the true count can be larger.
                if own[at] < MOST:
                    own[at] -= min(own[at], sum(_times(self._snapshot, pool, slot) for slot in sharing))
                reached[at] = self._number((shared & outside) | sharing)
            self._own[need].append(own)
            self._reached[need].append(reached)
        for class_id, needs in self._requesting.items():
            shared = frozenset().union(*(self._shared_by[need] for need in needs))
            self._work.spend(masked(trees.slots.size) + LOOKED * len(outside))
            self._rooms[class_id].append(self._own_rooms(trees, class_id, needs, shared)[rows])
            reached = np.full(len(rows), self._number(shared & outside), np.int64)
            for at, slots in zip(homes, members, strict=True):
                self._work.spend(TRIED + LOOKED * (len(slots) + len(outside)))
                reached[at] = self._number(shared.intersection((*outside, *slots)))
            self._reached_of_class[class_id].append(reached)

    def _own_rooms(self, trees: Trees, class_id: int, needs: Sequence[int], shared: Reached) -> Numbers:
        """What the trees' own providers that do not share have of a class for *needs*."""
        size = trees.shape.size
        if class_id not in trees.rooms:
            return np.zeros(len(trees.anchors), np.int64)
        able = np.logical_or.reduce([trees.able[need][:size] for need in needs])
        able &= ~np.isin(trees.slots[:size], list(shared))
        total: Numbers = np.where(able, trees.rooms[class_id][:size], 0).sum(axis=0)
        return total

    def _number(self, reached: Reached) -> int:
        return self._number_of.setdefault(reached, len(self._number_of))

    def joined(self) -> _Coupled:
        """All that was read."""
        return _Coupled(
            np.concatenate(self._anchors),
            [np.concatenate(parts) for parts in self._own],
            [np.concatenate(parts) for parts in self._reached],
            {class_id: np.concatenate(parts) for class_id, parts in self._rooms.items()},
            {class_id: np.concatenate(parts) for class_id, parts in self._reached_of_class.items()},
            list(self._number_of),
        )


def _coupled(
    snapshot: Snapshot, pools: Sequence[Pool], counted: Sequence[tuple[Trees, Counts]], work: Work
) -> _Coupled:
    """The trees that take from sharing providers.

    Raises:
        WorkSpent
    """
    columns = _Columns(snapshot, pools, work)
    for trees, counts in counted:
        columns.add(trees, counts)
    return columns.joined()


def requesting(pools: Sequence[Pool]) -> dict[int, list[int]]:
    """The classes that several pools request, and the needs that do."""
    needs_of: dict[int, list[int]] = defaultdict(list)
    for need, pool in enumerate(pools):
        for class_id in pool.amounts:
            needs_of[class_id].append(need)
    return {class_id: needs for class_id, needs in needs_of.items() if len(needs) > 1}


def _times(snapshot: Snapshot, pool: Pool, slot: int) -> int:
    """How often a provider can serve a pool."""
    return min((_room(snapshot, class_id, slot) // amount for class_id, amount in pool.amounts.items()), default=MOST)


def _room(snapshot: Snapshot, class_id: int, slot: int) -> int:
    """What a provider has free; nothing if it is over-allocated."""
    return max(int(snapshot.inventory[class_id].room[slot]), 0)


def _bounds(
    snapshot: Snapshot, pools: Sequence[Pool], shared: Sequence[int], coupled: _Coupled, most: Numbers, work: Work
) -> Iterator[tuple[int, tuple[int, ...], int | None]]:
    """Bounds of the coupled trees, each with the needs and the class that make it, see `Total`.

    Raises:
        WorkSpent: while iterating.
    """
    for need in shared:
        served = _served(coupled, need, _supply(snapshot, pools[need]), most, work)
        yield int(served.sum()), (need,), None
    for class_id, needs in requesting(pools).items():
        slots = frozenset(slot for need in needs for slot in pools[need].shared.tolist())
        if slots and class_id in snapshot.inventory:
            supply = {slot: _room(snapshot, class_id, slot) for slot in slots}
            bound = _of_class(pools, coupled, class_id, needs, supply, most, work)
            if bound is not None:
                yield bound, tuple(needs), class_id


def _of_class(
    pools: Sequence[Pool],
    coupled: _Coupled,
    class_id: int,
    needs: Sequence[int],
    supply: Mapping[int, int],
    most: Numbers,
    work: Work,
) -> int | None:
    """How many claims get all that *needs* request of a class; None if the amounts are too great to add up."""
    total, of_all = sum(pools[need].amounts[class_id] for need in needs), sum(supply.values())
    own = coupled.rooms[class_id]
    greatest = of_all + int(own.max(initial=0))
    if own.max(initial=0) >= MOST_ROOM or (greatest + total) * max(len(own), 1) > MOST_SUM:
        return None
    # More than everything within reach changes nothing, and the product might not fit.
    requested = np.minimum(most, (own + of_all) // total + 1) * total
    taken = np.minimum(requested, own)
    given = _most_given(coupled, coupled.reached_of_class[class_id], requested - taken, supply, work)
    return (int(taken.sum()) + sum(given.values())) // total


def _supply(snapshot: Snapshot, pool: Pool) -> dict[int, int]:
    return {slot: _times(snapshot, pool, slot) for slot in pool.shared.tolist()}


def _served(coupled: _Coupled, need: int, supply: Mapping[int, int], most: Numbers, work: Work) -> Numbers:
    """For each tree how many of its *most* claims find a provider for *need*; the total is the largest possible.

    Raises:
        WorkSpent
    """
    own, reached = np.minimum(most, coupled.own[need]), coupled.reached[need]
    requested = most - own
    given = _most_given(coupled, reached, requested, supply, work)
    served = own.copy()
    for number, of_set in given.items():
        # Trees with the same sharing providers are one node of the flow, so its amount is dealt out among them here.
        trees = np.flatnonzero(reached == number)
        before = np.cumsum(requested[trees]) - requested[trees]
        served[trees] += np.minimum(requested[trees], (of_set - before).clip(0))
    return served


def _most_given(
    coupled: _Coupled, reached: Numbers, requested: Numbers, supply: Mapping[int, int], work: Work
) -> dict[int, int]:
    """How much of what trees request sharing providers can give them, by the number of the set that they reach."""
    work.spend(masked(len(requested)))
    sums = np.zeros(len(coupled.sets), np.int64)
    np.add.at(sums, reached, requested)
    numbers = {coupled.sets[number]: number for number in np.flatnonzero(sums).tolist()}
    given = most_served({sharing: int(sums[number]) for sharing, number in numbers.items()}, supply, work)
    return {numbers[sharing]: amount for sharing, amount in given.items() if amount}


def _is_separate(counted: Sequence[tuple[Trees, Counts]], shared: Sequence[int]) -> bool:
    """Whether none of the needs *shared* competes with another need for a provider."""
    groups = [group for _, counts in counted for group, _ in counts.of_groups if len(group) > 1]
    return not any(need in group for group in groups for need in shared)


def _filled(anchors: Numbers, filling: Filling, most: Mapping[int, int], bound: int) -> int:
    """Claims that are found in one tree after the other, each from what the others leave at sharing providers.

    Args:
        bound: no larger number fits, so the search ends there.
    """
    number = _one_after_the_other(anchors, filling, [most], bound)
    if number >= bound or not len(anchors):
        return number
    # The first trees may have taken what the others need beside their own. So each takes its share first.
    share = -(-bound // len(anchors))
    shares = {anchor: min(of_tree, share) for anchor, of_tree in most.items()}
    return max(number, _one_after_the_other(anchors, filling, [shares, most], bound))


def _one_after_the_other(anchors: Numbers, filling: Filling, rounds: Sequence[Mapping[int, int]], bound: int) -> int:
    """The same; *rounds* has the most that a tree may have after each."""
    taken: Counter[tuple[int, int]] = Counter()
    claims: Counter[int] = Counter()
    number = 0
    with suppress(WorkSpent):
        for most in rounds:
            for kind, members, rooms in filling.rooms(anchors):
                if number >= bound:
                    break
                here = most[members[0]] - claims[members[0]]
                remaining = {
                    (at, class_id): room - taken[members[at], class_id] for (at, class_id), room in rooms.items()
                }
                packed = filling.filled(kind, members, remaining, here, own_first=True)
                if packed.at_least < here:
                    other = filling.filled(kind, members, remaining, here)
                    packed = max(packed, other, key=lambda packed: packed.at_least)
                claims[members[0]] += packed.at_least
                number += packed.at_least
                for (at, class_id), amount in packed.taken.items():
                    taken[members[at], class_id] += amount
    return number


# Sharing providers couple trees: what one tree takes from them, the others cannot take.
#
# Source: "GET /headroom", docs/stead-api.md.


Reached = frozenset[int]
"""The sharing providers that can serve a tree, by slot."""


def most_served(requested: Mapping[Reached, int], supply: Mapping[int, int], work: Work) -> Counter[Reached]:
    """How much of what trees want sharing providers can give: a greatest flow.

    Args:
        requested: the claims of trees that need a sharing provider, by the providers that can serve these trees.
        supply: the claims that each sharing provider can serve.

    Returns:
        The claims that are served; their sum is as large as possible.

    Raises:
        WorkSpent
    """
    remaining = dict(supply)
    given: dict[Reached, Counter[int]] = {reached: Counter() for reached in requested}
    users: dict[int, set[Reached]] = defaultdict(set)
    # From what a search without a result has seen, no later search finds anything either.
    exhausted: set[Reached] = set()
    for reached, number in requested.items():
        missing = number
        while missing > 0:
            path = _path(reached, remaining, given, users, exhausted, work)
            if path is None:
                break
            # Along the path every tree takes from the next provider instead of the one before.
            amount = min(missing, remaining[path[-1][1]], *(given[tree][before] for tree, before in _moved(path)))
            missing -= amount
            remaining[path[-1][1]] -= amount
            for tree, before in _moved(path):
                given[tree][before] -= amount
            for tree, provider in path:
                given[tree][provider] += amount
                users[provider].add(tree)
    return Counter({reached: amounts.total() for reached, amounts in given.items()})


def _moved(path: list[tuple[Reached, int]]) -> list[tuple[Reached, int]]:
    """The trees behind the first, each with the provider that the tree before takes instead."""
    return [(tree, before) for (tree, _), (_, before) in zip(path[1:], path, strict=False)]


def _path(
    start: Reached,
    remaining: Mapping[int, int],
    given: Mapping[Reached, Counter[int]],
    users: Mapping[int, set[Reached]],
    exhausted: set[Reached],
    work: Work,
) -> list[tuple[Reached, int]] | None:
    """The shortest way to a provider with something left: trees, each with the provider that it takes more from."""
    if start in exhausted:
        return None
    came: dict[Reached, tuple[Reached, int] | None] = {start: None}
    asked: set[int] = set()
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        work.spend(TRIED + LOOKED * len(here))
        for provider in here:
            if provider in asked:
                continue
            asked.add(provider)
            if remaining.get(provider, 0) > 0:
                path = [(here, provider)]
                while (before := came[path[0][0]]) is not None:
                    path.insert(0, before)
                return path
            work.spend(LOOKED * len(users.get(provider, ())))
            for user in users.get(provider, ()):
                # A tree that takes from this provider can free it by taking from another provider.
                if user not in came and user not in exhausted and given[user][provider] > 0:
                    came[user] = (here, provider)
                    waiting.append(user)
    exhausted.update(came)
    return None
