"""Claims: what consumers shall hold, and the pure rule that says whether all of it fits at once.

Source: "The capacity check", docs/api.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from stead.domain.errors import CapacityExceeded, NoSuchInventory, UnitsViolated
from stead.domain.inventory import capacity, has_room, keeps_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.inventory import Inventory


class Unchecked(Enum):
    """The client did not say which generation it knows (before microversion 1.28)."""

    UNCHECKED = "unchecked"


UNCHECKED = Unchecked.UNCHECKED

Expected = int | None | Unchecked
"""The consumer generation a client knows: a number, None for "there is no such consumer", or unchecked."""


@dataclass(frozen=True, slots=True)
class Claim:
    """All that one consumer shall hold from now on; empty allocations release everything.

    ``allocations`` maps provider uuids to class names to amounts (each at least 1). ``consumer_type`` None leaves the
    type of an existing consumer alone.
    """

    consumer: str
    allocations: Mapping[str, Mapping[str, int]]
    project: str
    user: str
    consumer_type: str | None = None
    expected: Expected = UNCHECKED


class Place(NamedTuple):
    """One class of one provider, which is what an amount is taken from."""

    provider: str
    resource_class: str


@dataclass(frozen=True, slots=True)
class Room:
    """What the books say of one place: ``used`` by consumers outside the request, ``before`` by all, before it."""

    inventory: Inventory
    used: int
    before: int


def require_room(rooms: Mapping[Place, Room], claims: Sequence[Claim]) -> None:
    """Refuse *claims* unless all of them fit together.

    An inventory that is over-committed already may be kept or reduced by those who hold it, never worsened.

    Args:
        rooms: every place named in the claims at which the provider has inventory.

    Raises:
        NoSuchInventory: a provider has none of what is asked of it.
        UnitsViolated: one amount breaks min_unit, max_unit or step_size.
        CapacityExceeded: the amounts for one place, together, are more than is left.
    """
    _require_some_inventory(rooms, claims)
    wanted: dict[Place, int] = defaultdict(int)
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for resource_class, amount in resources.items():
                place = Place(provider, resource_class)
                wanted[place] += amount
                _require_place(place, amount, wanted[place], rooms.get(place))


def _require_some_inventory(rooms: Mapping[Place, Room], claims: Sequence[Claim]) -> None:
    named = {provider for claim in claims for provider in claim.allocations}
    lacking = named - {place.provider for place in rooms}
    if lacking:
        classes = {c for claim in claims for resources in claim.allocations.values() for c in resources}
        raise NoSuchInventory(sorted(lacking), sorted(classes))


def _require_place(place: Place, amount: int, wanted: int, room: Room | None) -> None:
    if room is None:
        raise NoSuchInventory([place.provider], [place.resource_class])
    has = room.inventory
    if not keeps_units(amount, has.min_unit, has.max_unit, has.step_size):
        raise UnitsViolated(*place, amount)
    limit = capacity(has.total, has.reserved, has.allocation_ratio)
    kept_or_reduced = room.before > 0 and room.used + wanted <= room.before
    if not (has_room(wanted, room.used, limit) or kept_or_reduced):
        raise CapacityExceeded(*place, amount)
