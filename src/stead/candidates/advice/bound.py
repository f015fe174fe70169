"""The bound: a number of moves that every plan needs.

A move releases something in one tree only, and takes room elsewhere. So after a plan, the request fits into each tree
at most as often as if its leavers were gone, and nothing had come. What k of them release is at most the k largest
amounts of each place. The fewest leavers for which these counts add up to the number are a bound for every plan.

Source: decision 47.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.advice.choosing import Option, fewest
from stead.candidates.advice.leaving import MostReleased
from stead.candidates.headroom.headroom import headroom
from stead.candidates.placing import negated, summed
from stead.candidates.resolve import resolve_classes
from stead.candidates.work import WorkSpent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stead.candidates.advice.leaving import Leaver
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.work import Work
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

_GREAT = 2**40
"""More than the usage of most providers."""

MOST_COUNTED = 32
"""Up to this number of leavers of one tree, their effect is bounded; more count as if all had left."""


def requested(snapshot: Snapshot, request: CandidateRequest) -> Counter[int]:
    """The amounts that *request* takes, by class id.

    Raises:
        UnknownResourceClass
    """
    amounts: Counter[int] = Counter()
    for group in request.groups:
        amounts.update(resolve_classes(snapshot, group.resources))
    return amounts


class Sources(NamedTuple):
    """Roots of the trees with consumers, the least used first. ``gaining``: without them, a request fits more often."""

    gaining: Sequence[int]
    others: Sequence[int]


def sources(snapshot: Snapshot, request: CandidateRequest, before: Headroom, work: Work) -> Sources:
    """The trees from which moves may help *request*, whose headroom is *before*."""
    amounts = requested(snapshot, request)
    released = headroom(snapshot.with_all_released(amounts, snapshot.sharing.mask), request, work)
    now = _most(before)
    gaining = {root for root, most in _most(released).items() if most > now.get(root, 0)}
    used = np.zeros(snapshot.size)
    for class_id, columns in snapshot.inventory.items():
        slots = columns.slots[~snapshot.sharing.mask[columns.slots]]
        np.add.at(used, snapshot.forest.root.at(slots), columns.used(slots) / amounts.get(class_id, _GREAT))
    ordered = sorted(np.flatnonzero(used).tolist(), key=lambda root: used[root])
    return Sources([root for root in ordered if root in gaining], [root for root in ordered if root not in gaining])


def fewest_moves(
    snapshot: Snapshot,
    request: CandidateRequest,
    number: int,
    before: Headroom,
    leavers: Sequence[Leaver],
    countable: Collection[int],
    work: Work,
) -> int | None:
    """A number of moves that every plan needs after which *request* fits *number* times; None if no plan exists.

    Args:
        before: the headroom of *snapshot*.
        leavers: the consumers that can move from the trees of *countable*. All consumers of other trees can move.
    """
    least = 1 if before.at_most < number else 0
    classes = requested(snapshot, request)
    unreleased = snapshot.sharing.mask | np.isin(snapshot.forest.root.whole, list(countable))
    everyone = negated(summed(leaver.leaving for leaver in leavers))
    most = headroom(snapshot.with_all_released(classes, unreleased).with_taken(everyone), request, work)
    if not (most.is_complete and before.is_complete):
        return least
    if most.at_most < number:
        return None
    needed = number - int(before.roots_at_most.sum())
    if needed <= 0:
        return least
    try:
        trees = _options(snapshot, request, _most(before), _most(most), leavers, countable, work)
        alike = Counter(tuple(options) for options in trees)
        # Each tree adds at least one, so more than the needed number of equal trees cannot be used.
        several = [options for options, times in alike.items() for _ in range(min(times, needed))]
        options = fewest(several, needed, work)
    except WorkSpent:
        return least
    return None if options is None else max(least, sum(option.moves for option in options))


def _most(headroom: Headroom) -> dict[int, int]:
    return dict(zip(headroom.roots.tolist(), headroom.roots_at_most.tolist(), strict=True))


def _options(
    snapshot: Snapshot,
    request: CandidateRequest,
    now: Mapping[int, int],
    empty: Mapping[int, int],
    leavers: Sequence[Leaver],
    countable: Collection[int],
    work: Work,
) -> list[list[Option]]:
    """For each tree the most that its leavers gain: no number of them gains more than the option with as many moves."""
    options = {root: [Option(1, most - now.get(root, 0))] for root, most in empty.items() if most > now.get(root, 0)}
    counted = {root for root in options if root in countable}
    for root in counted:
        options[root] = []
    of_tree = Counter(leaver.root for leaver in leavers)
    released = MostReleased([leaver for leaver in leavers if leaver.root in counted], set(requested(snapshot, request)))
    among = np.zeros(snapshot.size, np.bool_)
    for number in range(1, min(max(of_tree.values(), default=0), MOST_COUNTED) + 1):
        among[:] = False
        among[list(counted)] = True
        with_room = headroom(snapshot.with_taken(negated(released.by(number))), request, work, among=among)
        if not with_room.is_complete:
            raise WorkSpent
        most = _most(with_room)
        for root in list(counted):
            gain = most.get(root, 0) - now.get(root, 0)
            if gain > max((option.gain for option in options[root]), default=0):
                options[root].append(Option(number, gain))
            if number >= of_tree[root] or most.get(root, 0) >= empty[root]:
                counted.discard(root)
        if not counted:
            break
    for root in counted:
        # More leavers gain at most what the empty tree gains, so the bound still holds.
        options[root].append(Option(MOST_COUNTED + 1, empty[root] - now.get(root, 0)))
    return list(options.values())
