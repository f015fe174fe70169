"""Splits: an amount that several providers of one tree give together, each a part, and none of them dispensable.

A set of providers is feasible if each can give something so that it makes the amount; it serves if no part of the set
is feasible. Of what such a set could give, only one division counts: who can give most gives first, as much as it can.

Source: "Semantics" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate, combinations, product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates.backtrack import sequences
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from stead.candidates.work import Work

Parts = tuple[tuple[int, int], ...]
"""Who gives how much: positions with their amounts."""


class Share(NamedTuple):
    """The amounts one provider could give: ``least``, and on in steps of ``step`` to ``most``.

    ``rank`` orders those of a tree that could give equally much.
    """

    least: int
    most: int
    step: int
    rank: int = 0


Range = tuple[int, int, int]
"""A step, and how many of it at least and at most: what providers of one step can give together."""


def splits(shares: Mapping[int, Share], amount: int, musts: Sequence[Collection[int]], work: Work) -> Iterator[Parts]:
    """Each way to divide *amount*, in the order in which *shares* has the positions, as far as there is one.

    Args:
        musts: sets of positions, of each of which one must give.

    Raises:
        WorkSpent: while iterating.
    """
    steps = {share.step for share in shares.values()}
    if not shares or amount % gcd(*steps):
        return
    is_plain = len(steps) == 1 and all(share.least == share.step for share in shares.values())
    here = [frozenset(must).intersection(shares) for must in musts]
    for members in (_plain_sets if is_plain else _odd_sets)(shares, amount, here, work):
        yield _divided(_in_turn(members, shares), shares, amount, work)


def _in_turn(members: Iterable[int], shares: Mapping[int, Share]) -> list[int]:
    return sorted(members, key=lambda position: (-shares[position].most, shares[position].rank, position))


def _plain_sets(
    shares: Mapping[int, Share], amount: int, musts: Sequence[frozenset[int]], work: Work
) -> Iterator[Sequence[int]]:
    """Minimal sets where all can give any multiple of one step.

    Put together from the greatest to the smallest, a set is minimal if it was not enough before the last one came; and
    as long as all who are left make enough, there is a way on.
    """
    order = _in_turn(shares, shares)
    place = {position: number for number, position in enumerate(order)}
    turn = [place[position] for position in shares]
    left = [0]
    for position in reversed(order):
        left.append(left[-1] + shares[position].most)
    left.reverse()
    last = [max((place[position] for position in must), default=-1) for must in musts]
    chosen: list[int] = []
    levels = [(0, iter(turn))]
    while levels:
        given, untried = levels[-1]
        number = next(untried, None)
        if number is None:
            levels.pop()
            if chosen:
                chosen.pop()
            continue
        if (chosen and number <= place[chosen[-1]]) or given + left[number] < amount:
            continue
        work.spend(TRIED)
        position, together = order[number], given + shares[order[number]].most
        unmet = [until for until, must in zip(last, musts, strict=True) if not _meets(must, chosen, position)]
        if together >= amount:
            if not unmet:
                yield [*chosen, position]
        elif all(until > number for until in unmet):
            chosen.append(position)
            levels.append((together, iter(turn)))


def _meets(must: Collection[int], chosen: Iterable[int], position: int) -> bool:
    return position in must or any(other in must for other in chosen)


def _odd_sets(
    shares: Mapping[int, Share], amount: int, musts: Sequence[frozenset[int]], work: Work
) -> Iterator[Sequence[int]]:
    """Minimal sets where steps differ or the least is more than a step: a part of a feasible set may be feasible again.

    Only how many of each kind there are decides, so these numbers are tried, small ones first.
    """
    alike: dict[Share, list[int]] = defaultdict(list)
    for position, share in shares.items():
        alike[share._replace(rank=0)].append(position)
    kinds = sorted(alike, key=lambda share: -share.most)
    minimal: list[tuple[int, ...]] = []
    for size in range(1, len(shares) + 1):
        if _sum_of(size, sorted(share.least for share in shares.values())) > amount:
            return
        if _sum_of(size, sorted((share.most for share in shares.values()), reverse=True)) < amount:
            continue
        for numbers in _numbers([len(alike[kind]) for kind in kinds], size):
            work.spend(TRIED)
            if any(all(few <= many for few, many in zip(less, numbers, strict=True)) for less in minimal):
                continue
            together = _ranges(share for share, number in zip(kinds, numbers, strict=True) for _ in range(number))
            if not _makes(together, amount, work):
                continue
            minimal.append(numbers)
            some = [combinations(alike[kind], number) for kind, number in zip(kinds, numbers, strict=True)]
            for sets in product(*some):
                members = [position for members in sets for position in members]
                work.spend(TRIED)
                if all(not must.isdisjoint(members) for must in musts):
                    yield members


def _sum_of(number: int, some: Sequence[int]) -> int:
    return sum(some[:number])


def _numbers(most: Sequence[int], total: int) -> Iterator[tuple[int, ...]]:
    """All ways to take *total* things, of the first kind *most[0]* at most, and so on."""
    after = [*accumulate(reversed(most), initial=0)][::-1]  # how many there are from each kind on

    def following(taken: Sequence[int]) -> Iterator[int]:
        kind, remaining = len(taken), total - sum(taken)
        # Never fewer than what the kinds after this one cannot give: so each beginning has an end.
        return iter(range(min(most[kind], remaining), max(remaining - after[kind + 1], 0) - 1, -1))

    return (tuple(taken) for taken in sequences(len(most), following))


def _ranges(shares: Iterable[Share]) -> list[Range]:
    """What *shares* can give together, the greatest step first."""
    least: Counter[int] = Counter()
    most: Counter[int] = Counter()
    for share in shares:
        least[share.step] += share.least // share.step
        most[share.step] += share.most // share.step
    return [(step, least[step], most[step]) for step in sorted(least, reverse=True)]


def _makes(ranges: Sequence[Range], amount: int, work: Work) -> bool:
    """Whether *ranges* can make exactly *amount* together."""
    return not amount if not ranges else _greatest(ranges[0], ranges[1:], amount, work) is not None


def _greatest(first: Range, others: Sequence[Range], amount: int, work: Work) -> int | None:
    """How many steps *first* can take at most so that *others* make the rest of *amount*; None if they never do."""
    step, fewest, most = first
    low, high = sum(size * few for size, few, _ in others), sum(size * many for size, _, many in others)
    number = min(most, (amount - low) // step)
    fewest = max(fewest, -((high - amount) // step))
    period = 1
    if others:  # step * number must leave a multiple of what divides the others' steps
        divisor = gcd(*(size for size, _, _ in others))
        common = gcd(step, divisor)
        if amount % common:
            return None
        period = divisor // common
        wanted = amount // common * pow(step // common, -1, period) % period
        number -= (number - wanted) % period
    elif amount % step:
        return None
    while number >= fewest:
        work.spend(1)
        if _makes(others, amount - step * number, work):
            return number
        number -= period
    return None


def _divided(members: Sequence[int], shares: Mapping[int, Share], amount: int, work: Work) -> Parts:
    """Who of *members*, in turn, gives how much: each as much as leaves what the others can make."""
    parts = []
    for number, position in enumerate(members, 1):
        share = shares[position]
        own = share.step, share.least // share.step, share.most // share.step
        times = _greatest(own, _ranges(shares[other] for other in members[number:]), amount, work)
        assert times is not None, "the set was feasible"
        parts.append((position, times * share.step))
        amount -= times * share.step
    return tuple(parts)
