"""The faults that an audit can find, by name, and one finding of a fault."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from stead.domain.errors import SteadError


@dataclass(eq=False)
class NoBooks(SteadError):
    """The database has none of the tables of a Placement service."""

    def __str__(self) -> str:
        return "The database has no tables of a Placement service."


@dataclass(frozen=True, slots=True)
class About:
    """The description of a fault: what it means, and what to do."""

    meaning: str
    help: str
    is_repaired: bool = False
    """A repair can fix it safely; otherwise *help* tells the operator what to do."""


_DROPPED = "A repair removes the row, which means nothing."
_CLOCK = "A repair writes the row again; all running services reload everything."
_OWNER = "Insert the missing row with this id, or let the consumer's owner claim again, which creates it."
_RELEASE = "Find out from its owner what it holds, then release or claim again over the API (stead release)."


class Fault(Enum):
    """A kind of fault; the member's name determines its name in JSON."""

    OVERCOMMITTED = About(
        "more is taken than the capacity",
        "Move or release consumers, or raise total or allocation_ratio, or lower reserved.",
    )
    ALLOCATION_WITHOUT_CONSUMER = About(
        "allocations of a consumer that does not exist",
        "Run placement-manage db online_data_migrations, which makes such consumers; then release what is not used.",
    )
    ALLOCATION_WITHOUT_PROVIDER = About(
        "allocations of a provider that does not exist",
        "See what the consumers use. If nothing, delete these rows of allocations by SQL; else let them claim again.",
    )
    ALLOCATION_WITHOUT_CLASS = About(
        "allocations of a resource class that does not exist",
        "Insert the missing row of resource_classes with this id, or delete these rows of allocations by SQL.",
    )
    ALLOCATION_WITHOUT_INVENTORY = About(
        "allocations of a class of which the provider has no inventory",
        "Give the provider this inventory again, or move or release the consumers.",
    )
    CONSUMER_WITHOUT_ALLOCATIONS = About(
        "a consumer without allocations", "A repair removes the consumer.", is_repaired=True
    )
    UNKNOWN_PROJECT = About("a consumer of a project that does not exist", _OWNER)
    UNKNOWN_USER = About("a consumer of a user that does not exist", _OWNER)
    UNKNOWN_CONSUMER_TYPE = About("a consumer of a type that does not exist", _OWNER)
    UNKNOWN_PARENT = About(
        "a provider whose parent does not exist",
        "Stop the writers, set its parent_provider_id by SQL to what it should be (NULL for a root), then repair.",
    )
    CYCLE = About(
        "providers that are their own ancestors",
        "Stop the writers, set parent_provider_id of the one that should be on top to NULL by SQL, then repair.",
    )
    NO_ROOT = About("a provider without a root", "A repair sets the root that its parents lead to.", is_repaired=True)
    WRONG_ROOT = About(
        "a provider whose root is not where its parents lead",
        "A repair sets the root that its parents lead to.",
        is_repaired=True,
    )
    INVENTORY_WITHOUT_PROVIDER = About(
        "inventory of a provider that does not exist",
        "Delete these rows of inventories by SQL, once nothing is allocated of them.",
    )
    INVENTORY_WITHOUT_CLASS = About(
        "inventory of a resource class that does not exist",
        "Insert the missing row of resource_classes with this id, or delete these rows of inventories by SQL.",
    )
    DANGLING_TRAIT = About("a trait and a provider of which one does not exist", _DROPPED, is_repaired=True)
    DANGLING_AGGREGATE = About("an aggregate and a provider of which one does not exist", _DROPPED, is_repaired=True)
    CLOCK_SLOTS = About("a slot of the clock that is missing, too many, or below its floor", _CLOCK, is_repaired=True)
    CHANGE_OUT_OF_STEP = About(
        "a change row that its slot of the clock does not explain",
        "A repair records the change again with a new tick.",
        is_repaired=True,
    )
    KEPT_SUM = About(
        "kept sums that are not those of the allocations",
        "A repair drops the provider's kept sums; they are added up again with its next claim.",
        is_repaired=True,
    )

    @property
    def slug(self) -> str:
        """The name in JSON."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence of a fault."""

    fault: Fault
    subject: str
    """The affected row, in the operator's terms."""
    detail: str
    key: int | str | tuple[int, int]
    """The key by which a repair finds the row: an id, a uuid, or a pair of ids, as the fault's check selects it."""
