"""The greatest number of claims, found by trying every order and every choice.

Source: "GET /headroom", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.rooms.candidates.brute_force import Refusal, every_way

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.domain.request import CandidateRequest
    from tests.rooms.candidates.brute_force import Take
    from tests.rooms.candidates.plain import Forest

MOST_CLAIMS = 40
MOST_STATES = 20_000
MOST_SERIES = 60


class TooMany(Exception):
    """The case is too large to try everything."""


def greatest_number(forest: Forest, request: CandidateRequest) -> int:
    """The length of the longest series of claims, each of which has a candidate when its turn comes.

    Raises:
        TooMany
    """
    if any(group.can_split for group in request.groups):
        return _longest_series(forest, request, {})
    found = every_way(forest, request)
    assert not isinstance(found, Refusal)
    ways = sorted({tuple(sorted((name, cls, amount) for name, cls, amount in way.takes)) for way in found})
    places = sorted({(name, cls) for way in ways for name, cls, _ in way})
    rooms = tuple(room(forest, *place) for place in places)
    rows = [[(places.index((name, cls)), amount) for name, cls, amount in way] for way in ways]
    return _most(rows, 0, rooms, {})


def greatest_number_of_mixes(forest: Forest, parts: Sequence[tuple[CandidateRequest, int]]) -> int:
    """The greatest number of mixes that fit together; a part is a request, and how often a mix contains it.

    Raises:
        TooMany
    """
    rows: list[tuple[int, tuple[tuple[str, str, int], ...]]] = []
    for number, (request, _) in enumerate(parts):
        if any(group.can_split for group in request.groups):
            raise TooMany
        found = every_way(forest, request)
        assert not isinstance(found, Refusal)
        rows += [(number, way) for way in sorted({tuple(sorted(way.takes)) for way in found})]
    places = sorted({(name, cls) for _, way in rows for name, cls, _ in way})
    rooms = tuple(room(forest, *place) for place in places)
    numbered = [(number, [(places.index((name, cls)), amount) for name, cls, amount in way]) for number, way in rows]
    for mixes in range(1, MOST_CLAIMS):
        if not _is_filled(numbered, 0, rooms, tuple(mixes * weight for _, weight in parts), {}):
            return mixes - 1
    raise TooMany


def _is_filled(
    rows: list[tuple[int, list[tuple[int, int]]]],
    at: int,
    rooms: tuple[int, ...],
    lacking: tuple[int, ...],
    known: dict[object, bool],
) -> bool:
    """Whether the ways from number *at* on can serve what each part lacks."""
    if not any(lacking):
        return True
    if at == len(rows):
        return False
    key = at, rooms, lacking
    if key not in known:
        if len(known) > MOST_STATES:
            raise TooMany
        number, row = rows[at]
        known[key] = False
        for times in range(min([lacking[number], *(rooms[place] // amount for place, amount in row)]), -1, -1):
            left, rest = list(rooms), list(lacking)
            rest[number] -= times
            for place, amount in row:
                left[place] -= times * amount
            if _is_filled(rows, at + 1, tuple(left), tuple(rest), known):
                known[key] = True
                break
    return known[key]


def room(forest: Forest, name: str, resource_class: str) -> int:
    held = forest.by_name[name].inventories[resource_class]
    return held.capacity - held.used


def _most(rows: list[list[tuple[int, int]]], at: int, rooms: tuple[int, ...], known: dict[object, int]) -> int:
    """The most claims of the ways from number *at* on. What is taken is what counts, so the order does not matter."""
    if at == len(rows):
        return 0
    needed = {place for row in rows[at:] for place, _ in row}
    key = at, tuple(left for place, left in enumerate(rooms) if place in needed)
    if key not in known:
        if len(known) > MOST_STATES:
            raise TooMany
        fits = min(rooms[place] // amount for place, amount in rows[at])
        if fits > MOST_CLAIMS:
            raise TooMany
        best = 0
        for times in range(fits, -1, -1):
            left = list(rooms)
            for place, amount in rows[at]:
                left[place] -= times * amount
            best = max(best, times + _most(rows, at + 1, tuple(left), known))
        known[key] = best
    return known[key]


def _longest_series(forest: Forest, request: CandidateRequest, known: dict[object, int]) -> int:
    """Parts of split amounts depend on what was taken before, so every series is tried."""
    state = tuple(held.used for one in forest.providers for held in one.inventories.values())
    if state not in known:
        known[state] = 0
        if len(known) > MOST_SERIES:
            raise TooMany
        ways = every_way(forest, request)
        if not isinstance(ways, Refusal):
            takes = {way.takes for way in ways}
            known[state] = max((1 + _longest_series(after(forest, some), request, known) for some in takes), default=0)
    return known[state]


def after(forest: Forest, takes: Iterable[Take]) -> Forest:
    """The forest after a claim."""
    taken = {(name, cls): amount for name, cls, amount in takes}
    providers = tuple(
        replace(
            one,
            inventories={
                cls: replace(held, used=held.used + taken.get((one.name, cls), 0))
                for cls, held in one.inventories.items()
            },
        )
        for one in forest.providers
    )
    return replace(forest, providers=providers)
