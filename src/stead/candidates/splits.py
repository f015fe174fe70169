"""Splits: which providers of one tree can give an amount together, and how much each of them gives.

A set is feasible if each member can give something so that all together make the amount. It counts as a split if no
smaller set within it is feasible, so no member is dispensable. Each set divides the amount in one way (`parts`).

Source: "Semantics" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate, combinations, product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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


# Parts: whether providers can make an amount together, and how much each of them gives.
#
# A provider gives a multiple of its step, between a least and a most amount. Providers of the same step are added up,
# so the arithmetic depends on the number of different steps and not on the number of providers.


Parts = tuple[tuple[int, int], ...]
"""Positions, each with the amount that it gives."""

Multiples = tuple[int, int, int]
"""A step, and the least and the greatest multiple of it that providers of this step can give together."""


class Share(NamedTuple):
    """The amounts that one provider could give: from ``least`` in steps of ``step`` up to ``most``.

    ``rank`` orders the providers of a tree that could give equally much.
    """

    least: int
    most: int
    step: int
    rank: int = 0


def most_first(positions: Iterable[int], shares: Mapping[int, Share]) -> list[int]:
    """*positions* in the order in which they give: those that can give most first."""
    return sorted(positions, key=lambda position: (-shares[position].most, shares[position].rank, position))


def divided_amount(positions: Iterable[int], shares: Mapping[int, Share], amount: int, work: Work) -> Parts:
    """How much each of *positions* gives of *amount*, which they can make together.

    The first gives as much as leaves an amount that the others can make, then the next, and so on. So a set of
    providers has exactly one division, the same in every process.
    """
    order = most_first(positions, shares)
    parts = []
    for number, position in enumerate(order, 1):
        share = shares[position]
        own = share.step, share.least // share.step, share.most // share.step
        times = _greatest(own, _multiples(shares[other] for other in order[number:]), amount, work)
        assert times is not None, "the caller checked that the providers can make the amount"
        parts.append((position, times * share.step))
        amount -= times * share.step
    return tuple(parts)


def can_make(shares: Iterable[Share], amount: int, work: Work) -> bool:
    """Whether providers with these shares can make exactly *amount* if each of them gives something."""
    return _makes(_multiples(shares), amount, work)


def _multiples(shares: Iterable[Share]) -> list[Multiples]:
    """What *shares* can give together, by step; the greatest step first, since it has the fewest multiples to try."""
    least: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for share in shares:
        least[share.step] += share.least // share.step
        most[share.step] += share.most // share.step
    return [(step, least[step], most[step]) for step in sorted(least, reverse=True)]


def _makes(multiples: Sequence[Multiples], amount: int, work: Work) -> bool:
    if not multiples:
        return not amount
    return _greatest(multiples[0], multiples[1:], amount, work) is not None


def _greatest(own: Multiples, others: Sequence[Multiples], amount: int, work: Work) -> int | None:
    """The greatest multiple of *own* that leaves a rest of *amount* which *others* can make; None if none does."""
    step, least, most = own
    others_least, others_most = sum(size * low for size, low, _ in others), sum(size * high for size, _, high in others)
    # Others cannot give less than their least, nor more than their most: that bounds the multiples from both sides.
    times = min(most, (amount - others_least) // step)
    least = max(least, -((others_most - amount) // step))
    aligned = _aligned(step, others, amount, times)
    if aligned is None:
        return None
    times, period = aligned
    while times >= least:
        work.spend(1)
        if _makes(others, amount - step * times, work):
            return times
        times -= period
    return None


def _aligned(step: int, others: Sequence[Multiples], amount: int, times: int) -> tuple[int, int] | None:
    """The greatest number up to *times* that can be right by divisibility, and the distance to the next lower one.

    Whatever the others give is a multiple of the common divisor of their steps. So only every n-th multiple of *step*
    leaves such a rest, and the numbers between are not tried. None if no number does.
    """
    if not others:
        return (times, 1) if amount % step == 0 else None
    divisor = gcd(*(size for size, _, _ in others))
    common = gcd(step, divisor)
    if amount % common:
        return None
    period = divisor // common
    remainder = amount // common * pow(step // common, -1, period) % period
    return times - (times - remainder) % period, period


# Backtracking: all sequences of choices, where earlier choices decide which ones can follow.
#
# It keeps its own stack. Recursive generators would pass each result up through all levels, and a request can have
# more levels than Python allows calls.
#
# Two searches keep stacks of their own: `splits`, since its sets have different sizes, and `placing`, since it bounds
# dead ends and tells why a level ended.


T = TypeVar("T")


def sequences(length: int, choices: Callable[[Sequence[T]], Iterator[T]]) -> Iterator[Sequence[T]]:
    """Every sequence of *length* choices, each found before the next is searched for.

    Args:
        choices: returns the choices that can follow a beginning. It is called once for each beginning, and must read
            its argument before it returns its first result, because that list changes afterwards.

    The result is always the same list, so it is valid only until the next one is requested.
    """
    chosen: list[T] = []
    if not length:
        yield chosen
        return
    untried = [choices(chosen)]
    while untried:
        for choice in untried[-1]:
            chosen.append(choice)
            if len(chosen) == length:
                yield chosen
                chosen.pop()
            else:
                untried.append(choices(chosen))
                break
        else:
            untried.pop()
            if chosen:
                chosen.pop()
