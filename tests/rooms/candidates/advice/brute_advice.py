"""The fewest moves after which a request fits a number of times, found by trying all moves in all orders.

Source: "GET /advice", docs/stead-api.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from stead.domain.request import CandidateRequest, RequestGroup
from tests.rooms.candidates.brute_force import SHARES, Refusal, every_way
from tests.rooms.candidates.headroom.brute_headroom import TooMany, greatest_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.rooms.candidates.brute_force import Take
    from tests.rooms.candidates.plain import Forest

MOST_STATES = 400

Takes = frozenset["Take"]
State = tuple[Takes, ...]
"""By consumer what it has."""


@dataclass(frozen=True)
class Occupied:
    """A forest without usage, and its consumers with what each has."""

    forest: Forest
    consumers: Mapping[str, Takes]

    @property
    def state(self) -> State:
        return tuple(self.consumers.values())

    def used(self, state: State) -> Forest:
        """The forest with its usage."""
        used = Counter[tuple[str, str]]()
        for provider, resource_class, amount in chain(*state):
            used[provider, resource_class] += amount
        providers = tuple(
            replace(
                one,
                inventories={name: replace(held, used=used[one.name, name]) for name, held in one.inventories.items()},
            )
            for one in self.forest.providers
        )
        return replace(self.forest, providers=providers)


def fewest_moves(site: Occupied, request: CandidateRequest, number: int, most: int) -> int | None:
    """The fewest moves, each valid when its turn comes; None if more than *most* are needed.

    Raises:
        TooMany
    """
    reached = {site.state: frozenset[int]()}
    tried = 0
    for moves in range(most + 1):
        after: dict[State, frozenset[int]] = {}
        for state, moved in reached.items():
            tried += 1
            if tried > MOST_STATES:
                raise TooMany
            if greatest_number(site.used(state), request) >= number:
                return moves
            for consumer in range(len(state)):
                if consumer not in moved and moves < most:
                    for takes in places(site, state, consumer):
                        other = (*state[:consumer], takes, *state[consumer + 1 :])
                        after.setdefault(other, moved | {consumer})
        reached = after
    return None


def places(site: Occupied, state: State, consumer: int) -> Iterator[Takes]:
    """The places of other trees that a consumer can take."""
    forest = site.used((*state[:consumer], *state[consumer + 1 :]))
    request, root = moving(forest, state[consumer])
    if root is None:
        return
    ways = every_way(forest, request)
    if isinstance(ways, Refusal):
        return
    for takes in {way.takes for way in ways}:
        givers = {name for name, _, _ in takes if SHARES not in forest.by_name[name].traits}
        if {forest.root(name) for name in givers}.isdisjoint({root}):
            yield takes


def moving(forest: Forest, takes: Takes) -> tuple[CandidateRequest, str | None]:
    """The request for another place, and the tree that is left; None if the consumer cannot move.

    A group for each provider, all of different providers; a sharing provider is kept.
    """
    groups, roots = [], set[str]()
    for number, name in enumerate(sorted({name for name, _, _ in takes})):
        provider = forest.by_name[name]
        resources = {cls: amount for other, cls, amount in takes if other == name}
        is_shared = SHARES in provider.traits
        groups.append(RequestGroup(f"_{number}", resources, in_subtree=provider.uuid if is_shared else None))
        roots |= set() if is_shared else {forest.root(name)}
    return CandidateRequest(tuple(groups), isolate=len(groups) > 1), roots.pop() if len(roots) == 1 else None
