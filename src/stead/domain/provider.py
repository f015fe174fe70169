"""A resource provider as clients see it, and its place in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NewType

if TYPE_CHECKING:
    from stead.domain.inventory import Inventory


MOST_OF_PROVIDER = 10_000
"""Maximum number of inventories, of traits, and of aggregates of one provider."""

BY_NAME = "name:"
"""Prefix of a reference to a provider by its name; every other reference is a uuid."""

Slot = NewType("Slot", int)
"""A provider's index in the arrays of one snapshot."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider. ``modified`` is when it was last written, in whole seconds since 1970 (UTC)."""

    uuid: str
    name: str
    generation: int
    parent: str | None
    root: str
    modified: int


class Disabled(NamedTuple):
    """Why a provider accepts no new allocations, and since when; times are seconds since 1970 (UTC).

    After ``until`` the service enables the provider; None: it never does.
    """

    reason: str
    since: int
    until: int | None


class HeldInventory(NamedTuple):
    """An inventory with its usage (units) and when it was last written (seconds since 1970, UTC)."""

    inventory: Inventory
    used: int
    modified: int
