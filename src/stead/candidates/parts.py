"""Parts: whether providers can make an amount together, and how much each of them gives.

A provider gives a multiple of its step, between a least and a most amount. Providers of the same step are added up, so
the arithmetic depends on the number of different steps and not on the number of providers.
"""

from __future__ import annotations

from collections import Counter
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stead.candidates.work import Work

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
