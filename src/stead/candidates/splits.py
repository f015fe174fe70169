"""Splits: the sets of providers of one tree that can give an amount together, each a part.

A set is feasible if each member can give something so that all together make the amount. It counts as a split if no
smaller set within it is feasible, so no member is dispensable. Each set divides the amount in one way (`parts`).

Source: "Semantics" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, combinations, product
from math import gcd
from typing import TYPE_CHECKING

from stead.candidates.backtrack import sequences
from stead.candidates.parts import Share, can_make, divided_amount, most_first
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from stead.candidates.parts import Parts
    from stead.candidates.work import Work

    Counts = tuple[int, ...]
    """For each kind of share the number of providers that a set has of it."""


def splits(shares: Mapping[int, Share], amount: int, musts: Sequence[Collection[int]], work: Work) -> Iterator[Parts]:
    """Each way to divide *amount* among providers.

    Args:
        shares: what each position could give. The ways follow its order where that is possible.
        musts: sets of positions; at least one position of each set must give a part.

    Raises:
        WorkSpent: while iterating.
    """
    steps = {share.step for share in shares.values()}
    if not shares or amount % gcd(*steps):
        return
    # If all shares start at the same step, a set that can give enough is feasible. Otherwise more conditions count.
    is_plain = len(steps) == 1 and all(share.least == share.step for share in shares.values())
    giving_musts = [frozenset(must).intersection(shares) for must in musts]
    for members in (_plain_sets if is_plain else _odd_sets)(shares, amount, giving_musts, work):
        yield divided_amount(members, shares, amount, work)


def _plain_sets(
    shares: Mapping[int, Share], amount: int, musts: Sequence[frozenset[int]], work: Work
) -> Iterator[Sequence[int]]:
    """Minimal sets where every provider can give any multiple of one step.

    A set is built from the greatest share to the smallest. Then it is minimal if it did not suffice before its last,
    smallest member, because without any other member it would have even less.

    The stack is its own, not `backtrack.sequences`: sets have different sizes, and that has one length.
    """
    order = most_first(shares, shares)
    place_of = {position: place for place, position in enumerate(order)}
    places = [place_of[position] for position in shares]  # tried in the order of `shares`, which may be random
    most = [shares[position].most for position in order]
    most_from = [*accumulate(reversed(most), initial=0)][::-1]  # what all from a place on can give together
    places_of_musts = [frozenset(place_of[position] for position in must) for must in musts]
    last_places = [max(must, default=-1) for must in places_of_musts]
    chosen: list[int] = []
    levels = [(0, iter(places))]
    while levels:
        given, untried = levels[-1]
        place = next(untried, None)
        if place is None:
            levels.pop()
            if chosen:
                chosen.pop()
            continue
        # Places ascend, so each set is built once. The bound cuts branches that cannot reach the amount any more; where
        # it holds, the branch has a set, so the search never goes far without a result.
        if (chosen and place <= chosen[-1]) or given + most_from[place] < amount:
            continue
        work.spend(TRIED)
        unmet = [
            last
            for last, must in zip(last_places, places_of_musts, strict=True)
            if place not in must and must.isdisjoint(chosen)
        ]
        together = given + most[place]
        if together >= amount:
            if not unmet:
                yield [order[member] for member in (*chosen, place)]
        elif all(last > place for last in unmet):
            chosen.append(place)
            levels.append((together, iter(places)))


def _odd_sets(
    shares: Mapping[int, Share], amount: int, musts: Sequence[frozenset[int]], work: Work
) -> Iterator[Sequence[int]]:
    """Minimal sets where steps differ, or where some share starts above its step.

    Here a set can be too small, too large, or not divisible, and a subset of an infeasible set can be feasible. Only
    the number of providers of each kind of share decides, so sets of equal counts are judged once.
    """
    positions_of: dict[Share, list[int]] = defaultdict(list)
    for position, share in shares.items():
        positions_of[share._replace(rank=0)].append(position)
    kinds = sorted(positions_of, key=lambda share: -share.most)
    for counts in _minimal_counts(kinds, [len(positions_of[kind]) for kind in kinds], amount, work):
        members_by_kind = [combinations(positions_of[kind], count) for kind, count in zip(kinds, counts, strict=True)]
        for members_of_kinds in product(*members_by_kind):
            members = [position for positions in members_of_kinds for position in positions]
            work.spend(TRIED)
            if all(not must.isdisjoint(members) for must in musts):
                yield members


def _minimal_counts(kinds: Sequence[Share], limits: Sequence[int], amount: int, work: Work) -> Iterator[Counts]:
    """The counts of minimal sets, with up to the limit of each kind of share.

    Sizes ascend: then every feasible smaller set is known before a larger one is judged, so a comparison with the
    minimal counts so far suffices.
    """
    every_share = [kind for kind, limit in zip(kinds, limits, strict=True) for _ in range(limit)]
    ascending_least = sorted(share.least for share in every_share)
    descending_most = sorted((share.most for share in every_share), reverse=True)
    minimal: list[Counts] = []
    for size in range(1, len(every_share) + 1):
        if sum(ascending_least[:size]) > amount:
            return  # every set of this size gives too much, and so does every larger one
        if sum(descending_most[:size]) < amount:
            continue
        for counts in _counts(limits, size):
            work.spend(TRIED)
            if any(all(few <= many for few, many in zip(smaller, counts, strict=True)) for smaller in minimal):
                continue
            if can_make((kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)), amount, work):
                minimal.append(counts)
                yield counts


def _counts(limits: Sequence[int], total: int) -> Iterator[Counts]:
    """All ways to take *total* things of several kinds, with up to the limit of each kind."""
    available_from = [*accumulate(reversed(limits), initial=0)][::-1]  # number of things from each kind on

    def following(taken: Sequence[int]) -> Iterator[int]:
        kind, remaining = len(taken), total - sum(taken)
        # Never fewer than what the later kinds cannot supply. So every beginning leads to an end.
        least = max(remaining - available_from[kind + 1], 0)
        return iter(range(min(limits[kind], remaining), least - 1, -1))

    return (tuple(taken) for taken in sequences(len(limits), following))
