"""Sharing providers couple trees: what one tree takes from them, the others cannot take.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from stead.candidates.work import LOOKED, TRIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.candidates.work import Work

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
