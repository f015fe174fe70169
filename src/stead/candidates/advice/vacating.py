"""Vacating: which consumers of a tree to move so that a request fits into it more often.

All trees are tried side by side. In each round every tree names some of its consumers, and one count of all trees finds
what each tree gains if these leave. So a round costs little more for many trees than for one.

Source: decision 47.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from stead.candidates.advice.choosing import Option
from stead.candidates.placing import summed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from stead.candidates.advice.leaving import Leaver
    from stead.candidates.placing import Amounts

MOST_KINDS = 10
"""Kinds of consumers of one tree of which all pairs are tried."""

MOST_ROUNDS = 400

Numbers = frozenset[int]
"""Consumers, by their numbers."""


def vacating(
    leavers: Sequence[Leaver],
    trees: Mapping[int, Sequence[int]],
    needed: int,
    gains: Callable[[Amounts], Mapping[int, int]],
) -> Iterator[tuple[int, Option]]:
    """Options, each with the root of its tree. The same option may come again.

    Args:
        trees: by root, the numbers of its consumers in *leavers*, the largest first.
        needed: no tree has to gain more than this.
        gains: by root, how much more often the request fits if these amounts are released.

    Raises:
        WorkSpent: while iterating.
    """
    trials = {root: _of_tree(leavers, numbers, needed) for root, numbers in trees.items() if numbers}
    leaving = {root: next(trial) for root, trial in trials.items()}
    for _ in range(MOST_ROUNDS):
        if not leaving:
            return
        gain_of = gains(summed(leavers[number].leaving for numbers in leaving.values() for number in numbers))
        for root, numbers in list(leaving.items()):
            gain = gain_of.get(root, 0)
            if gain > 0:
                yield root, Option(len(numbers), gain, numbers)
            try:
                leaving[root] = trials[root].send(gain)
            except StopIteration:
                del leaving[root]


def _of_tree(leavers: Sequence[Leaver], numbers: Sequence[int], needed: int) -> Generator[Numbers, int, None]:
    """Sets of consumers of one tree; each is answered with what the tree gains if it leaves."""
    alike: dict[object, list[int]] = {}
    for number in numbers:
        alike.setdefault(leavers[number].kind, []).append(number)
    best = 0
    for same in alike.values():
        best = max(best, (yield frozenset(same[:1])))
    # Pairs are tried only if no consumer gains alone, because their number grows with the square of the kinds.
    if not best and len(alike) <= MOST_KINDS:
        firsts = [same[0] for same in alike.values()]
        for pair in [*combinations(firsts, 2), *(same[:2] for same in alike.values() if len(same) > 1)]:
            best = max(best, (yield frozenset(pair)))
    if best < needed:
        for ordered in _orders(leavers, numbers):
            yield from _growing(ordered, needed)


def _orders(leavers: Sequence[Leaver], numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    """*numbers* in their order, and by the amounts of each class, the largest first."""
    yield numbers
    of_class = [
        {number: sum(amounts.get(class_id, 0) for amounts in leavers[number].leaving.values()) for number in numbers}
        for class_id in sorted(
            {c for number in numbers for amounts in leavers[number].leaving.values() for c in amounts}
        )
    ]
    for amount_of in of_class:
        yield sorted((number for number in numbers if amount_of[number]), key=lambda number: -amount_of[number])


def _growing(ordered: Sequence[int], needed: int) -> Generator[Numbers, int, None]:
    """A set that grows. Whenever it gains, it is tried without each of its members, the last ones first."""
    best = 0
    for size in range(1, len(ordered) + 1):
        gain = yield frozenset(ordered[:size])
        if gain <= best:
            continue
        best, chosen = gain, frozenset(ordered[:size])
        for number in reversed(ordered[: size - 1]):
            if (yield chosen - {number}) >= gain:
                chosen -= {number}
        if best >= needed:
            return
