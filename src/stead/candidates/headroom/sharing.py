"""Sharing providers couple trees: what one tree takes from them, the others cannot take.

Source: "GET /headroom", docs/api.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Reached = frozenset[int]
"""The sharing providers that can serve a tree, by slot."""


def most_served(wanted: Mapping[Reached, int], supply: Mapping[int, int]) -> Counter[Reached]:
    """How much of what trees want sharing providers can give: a greatest flow.

    Args:
        wanted: the claims of trees that need a sharing provider, by the providers that can serve these trees.
        supply: the claims that each sharing provider can serve.

    Returns:
        The claims that are served; their sum is as large as possible.
    """
    left = dict(supply)
    given: dict[Reached, Counter[int]] = {reached: Counter() for reached in wanted}
    users: dict[int, set[Reached]] = defaultdict(set)
    for reached, number in wanted.items():
        while (missing := number - given[reached].total()) > 0:
            path = _path(reached, left, given, users)
            if path is None:
                break
            # Along the path every tree takes from the next provider instead of the one before.
            amount = min(missing, left[path[-1][1]], *(given[one][before] for one, before in _moved(path)))
            left[path[-1][1]] -= amount
            for one, before in _moved(path):
                given[one][before] -= amount
            for one, provider in path:
                given[one][provider] += amount
                users[provider].add(one)
    return Counter({reached: some.total() for reached, some in given.items()})


def _moved(path: list[tuple[Reached, int]]) -> list[tuple[Reached, int]]:
    """The trees behind the first, each with the provider that the tree before takes instead."""
    return [(one, before) for (one, _), (_, before) in zip(path[1:], path, strict=False)]


def _path(
    start: Reached,
    left: Mapping[int, int],
    given: Mapping[Reached, Counter[int]],
    users: Mapping[int, set[Reached]],
) -> list[tuple[Reached, int]] | None:
    """The shortest way to a provider with something left: trees, each with the provider that it takes more from."""
    came: dict[Reached, tuple[Reached, int] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        for provider in here:
            if left.get(provider, 0) > 0:
                path = [(here, provider)]
                while (before := came[path[0][0]]) is not None:
                    path.insert(0, before)
                return path
            for user in users.get(provider, ()):
                if user not in came and given[user][provider] > 0:
                    came[user] = (here, provider)
                    waiting.append(user)
    return None
