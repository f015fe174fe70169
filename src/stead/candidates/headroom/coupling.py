"""Coupling: how often a request fits into all trees together, if sharing providers serve several of them.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.headroom.reading import MOST
from stead.candidates.headroom.sharing import most_served
from stead.candidates.work import WorkSpent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.headroom.counting import Counts
    from stead.candidates.headroom.filling import Filling
    from stead.candidates.headroom.reading import Trees
    from stead.candidates.headroom.sharing import Reached
    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot

    Numbers = NDArray[np.int64]
    Alone = tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]
    """The anchors, and for each tree alone: at least, at most, and whether that was counted exactly."""


class Total(NamedTuple):
    """The claims of all trees together.

    ``need`` is the need whose sharing providers bound it, None if none does; ``coupled`` is the number of trees that
    take from sharing providers.
    """

    at_least: int
    at_most: int
    is_complete: bool
    need: int | None = None
    coupled: int = 0


class _Tree(NamedTuple):
    """A tree that takes from sharing providers: by need, what its own providers can serve, and who else can."""

    anchor: int
    own: Sequence[int]
    reached: Sequence[Reached]


def together(
    snapshot: Snapshot,
    pools: Sequence[Pool],
    counted: Sequence[tuple[Trees, Counts]],
    filling: Filling,
    alone: Alone,
) -> Total:
    """The total of all trees."""
    anchors, at_least, at_most, is_exact = alone
    if not any(pool.shared.size for pool in pools):
        return Total(int(at_least.sum()), int(at_most.sum()), is_complete=True)
    coupled = list(_coupled(snapshot, pools, counted))
    place_of = {anchor: place for place, anchor in enumerate(anchors.tolist())}
    places = np.array([place_of[tree.anchor] for tree in coupled], np.int64)
    others = np.ones(len(anchors), np.bool_)
    others[places] = False
    most = dict(zip([tree.anchor for tree in coupled], at_most[places].tolist(), strict=True))
    shared = [need for need, pool in enumerate(pools) if pool.shared.size]
    supply = {need: _supply(snapshot, pools[need]) for need in shared}
    bounds: dict[int | None, int] = {None: sum(most.values())}
    for need in shared:
        bounds[need] = sum(_served(coupled, need, supply[need], most).values())
    # Of equal bounds, that of the trees wins, so a sharing provider is a limit only if it is tighter.
    bounding = min(bounds, key=lambda need: (bounds[need], need is not None))
    is_complete = True
    if is_exact[places].all() and _is_separate(counted, shared) and not any(pools[n].shares for n in shared):
        served = most
        for need in shared:
            served = _served(coupled, need, supply[need], served)
        least = sum(served.values())
    else:
        least, is_complete = _one_after_the_other(pools, anchors[places], filling, most)
    return Total(
        least + int(at_least[others].sum()),
        bounds[bounding] + int(at_most[others].sum()),
        is_complete,
        bounding,
        len(coupled),
    )


def _coupled(snapshot: Snapshot, pools: Sequence[Pool], counted: Sequence[tuple[Trees, Counts]]) -> list[_Tree]:
    """The trees that take from sharing providers."""
    shared_by = [frozenset(pool.shared.tolist()) for pool in pools]
    every = frozenset().union(*shared_by)
    roots = {snapshot.forest.root[slot] for slot in every}
    coupled = []
    for trees, counts in counted:
        outside = frozenset(trees.reaching)
        from_outside = [shared & outside for shared in shared_by]
        if any(from_outside):
            rows = list(range(len(trees.anchors)))
        else:
            rows = [row for row, anchor in enumerate(trees.anchors.tolist()) if anchor in roots]
        for row in rows:
            own, reached = [], []
            members = trees.slots[: trees.shape.size, row].tolist()
            for need, pool in enumerate(pools):
                sharing = {slot for slot in members if slot in shared_by[need] and pool.own[slot]}
                # What is split may take parts of a sharing provider of its own tree, so all of it counts as own.
                given = 0 if pool.shares is not None else sum(_times(snapshot, pool, slot) for slot in sharing)
                own.append(min(int(counts.from_own[need][row]), MOST) - given)
                reached.append(from_outside[need] | (frozenset() if pool.shares is not None else sharing))
            coupled.append(_Tree(int(trees.anchors[row]), own, reached))
    return coupled


def _times(snapshot: Snapshot, pool: Pool, slot: int) -> int:
    """How often a provider can serve a pool."""
    return min(
        (snapshot.inventory[class_id].room[slot] // amount for class_id, amount in pool.amounts.items()), default=MOST
    )


def _supply(snapshot: Snapshot, pool: Pool) -> dict[int, int]:
    return {slot: _times(snapshot, pool, slot) for slot in pool.shared.tolist()}


def _served(coupled: Sequence[_Tree], need: int, supply: Mapping[int, int], most: Mapping[int, int]) -> dict[int, int]:
    """For each tree how many of its *most* claims find a provider for *need*; the total is the largest possible."""
    served = {tree.anchor: min(most[tree.anchor], tree.own[need]) for tree in coupled}
    requested: Counter[Reached] = Counter()
    for tree in coupled:
        requested[tree.reached[need]] += most[tree.anchor] - served[tree.anchor]
    given = most_served({reached: number for reached, number in requested.items() if number}, supply)
    for tree in coupled:
        # Trees with the same sharing providers are one node of the flow, so its amount is dealt out among them here.
        taken = min(most[tree.anchor] - served[tree.anchor], given[tree.reached[need]])
        given[tree.reached[need]] -= taken
        served[tree.anchor] += taken
    return served


def _is_separate(counted: Sequence[tuple[Trees, Counts]], shared: Sequence[int]) -> bool:
    """Whether none of the needs *shared* competes with another need for a provider."""
    groups = [group for _, counts in counted for group, _ in counts.of_groups if len(group) > 1]
    return not any(need in group for group in groups for need in shared)


def _one_after_the_other(
    pools: Sequence[Pool], anchors: Numbers, filling: Filling, most: Mapping[int, int]
) -> tuple[int, bool]:
    """Claims in one tree after the other, each from what the trees before leave at sharing providers."""
    every = {slot for pool in pools for slot in pool.shared.tolist()}
    taken: Counter[tuple[int, int]] = Counter()
    number = 0
    try:
        for kind, members, rooms in filling.rooms(anchors):
            remaining = {
                (at, class_id): room - taken[members[at], class_id] if members[at] in every else room
                for (at, class_id), room in rooms.items()
            }
            fillings = [
                filling.filled(kind, members, remaining, most[members[0]], own_first=own_first)
                for own_first in (True, False)
            ]
            packed = max(fillings, key=lambda packed: packed.at_least)
            number += packed.at_least
            for (at, class_id), amount in packed.taken.items():
                taken[members[at], class_id] += amount
    except WorkSpent:
        return number, False
    return number, True
