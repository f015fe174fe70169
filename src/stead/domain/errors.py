"""What can go wrong, as facts; the edge turns a class into a status and a code, and ``str(error)`` is the message.

SteadError
├── Forbidden                       a policy rule says no
├── Unavailable                     the database could not answer in time; nothing is known to be wrong with the request
│   └── ConcurrentUpdate            it did, but other writers were faster every time
├── BadRequest                      the request can never succeed as it stands
│   ├── InvalidQuery                ├── InvalidTraitName          ├── ReservedTooLarge
│   ├── UnknownResourceClass        ├── UnknownTraits             ├── UnknownProvider (named in a body)
│   │   └── UnknownClassInOrder     │                             │
│   ├── NoInventoryRecord           ├── StandardClass             ├── StandardTrait
│   └── ParentRefused
├── NotFound                        what the path names does not exist
│   ├── ProviderNotFound            ├── InventoryNotFound         ├── ResourceClassNotFound
│   └── TraitNotFound               └── AllocationsNotFound
├── StartOver                       what changed since a moment can not be told any more
└── Conflict                        the present state forbids it
    ├── GenerationConflict          ├── ConsumerConflict          ├── DuplicateProvider
    ├── ProviderHasChildren         ├── ProviderInUse             ├── InventoryExists
    ├── InventoryInUse              ├── ResourceClassExists       ├── ResourceClassInUse
    ├── TraitInUse                  ├── IndistinctName
    ├── NothingFits
    └── AllocationRefused           └── NoSuchInventory, UnitsViolated, CapacityExceeded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SteadError(Exception):
    """Anything that is not a bug."""


@dataclass(eq=False)
class Forbidden(SteadError):
    """A policy rule does not allow it; *scope* is set when the token's scope, not its roles, is the reason."""

    rule: str
    scope: bool = False

    def __str__(self) -> str:
        return self.rule if self.scope else f"Policy does not allow {self.rule} to be performed."


@dataclass(eq=False)
class Unavailable(SteadError):
    """The database did not answer, or not in time; what was acknowledged before stands."""

    reason: str
    retry_after: int = 1
    """Seconds after which it is worth trying again."""

    def __str__(self) -> str:
        return self.reason


class ConcurrentUpdate(Unavailable):
    """Other writers were faster until the time was over, although nothing the client knows is known to be old."""


class BadRequest(SteadError):
    """The request can never succeed as it stands."""


@dataclass(eq=False)
class InvalidQuery(BadRequest):
    """A query or its parts say something malformed; *code* where the contract has one of its own."""

    reason: str
    code: str | None = None

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class InvalidTraitName(BadRequest):
    """Users may make only traits of the custom form."""

    name: str

    def __str__(self) -> str:
        return (
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "
            '"CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
        )


@dataclass(eq=False)
class ReservedTooLarge(BadRequest):
    """An inventory reserves more than, or as much as, it has."""

    resource_class: str
    may_reserve_all: bool

    @property
    def reason(self) -> str:
        """What is wrong with the amounts."""
        relation = "greater than" if self.may_reserve_all else "greater than or equal to"
        return f"The reserved value is {relation} total."

    def __str__(self) -> str:
        return f"Invalid inventory for '{self.resource_class}'. {self.reason}"


@dataclass(eq=False)
class UnknownResourceClass(BadRequest):
    """A body or a query names a resource class that does not exist."""

    name: str

    def __str__(self) -> str:
        return f"No such resource class {self.name}."


class UnknownClassInOrder(UnknownResourceClass):
    """An order names a resource class that does not exist."""


@dataclass(eq=False)
class UnknownTraits(BadRequest):
    """A body or a query names traits that do not exist."""

    names: Sequence[str]

    @property
    def listed(self) -> str:
        """The names in one text."""
        return ", ".join(self.names)

    def __str__(self) -> str:
        return f"No such trait(s): {self.listed}."


@dataclass(eq=False)
class UnknownProvider(BadRequest):
    """A body names a provider that does not exist, among allocations or among inventories."""

    provider: str
    among: str = "Allocation"

    def __str__(self) -> str:
        if self.among == "Inventory":
            missing = f"No resource provider with uuid {self.provider} found"
            return f"Resource provider {self.provider} in inventories not found: {missing}"
        return f"{self.among} for resource provider '{self.provider}' that does not exist."


@dataclass(eq=False)
class NoInventoryRecord(BadRequest):
    """The provider has no inventory of the class that is to be changed."""

    resource_class: str

    def __str__(self) -> str:
        return f"No inventory record with resource class {self.resource_class} exists"


@dataclass(eq=False)
class StandardClass(BadRequest):
    """A standard resource class can be neither renamed nor deleted."""

    name: str
    verb: str

    def __str__(self) -> str:
        return f"Cannot {self.verb} standard resource class {self.name}"


@dataclass(eq=False)
class StandardTrait(BadRequest):
    """A standard trait can not be deleted."""

    name: str

    def __str__(self) -> str:
        return f"Cannot delete standard trait {self.name}."


@dataclass(eq=False)
class ParentRefused(BadRequest):
    """The parent that a provider shall get is unknown, would close a loop, or may not be changed."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class NotFound(SteadError):
    """What the path names does not exist."""


@dataclass(eq=False)
class ProviderNotFound(NotFound):
    """No such provider; *purpose* says what it was wanted for."""

    provider: str
    purpose: str = ""

    def __str__(self) -> str:
        return f"No resource provider with uuid {self.provider} found{self.purpose}"


@dataclass(eq=False)
class InventoryNotFound(NotFound):
    """The provider has no inventory of that class."""

    provider: str
    resource_class: str

    def __str__(self) -> str:
        return f"No inventory of class {self.resource_class} for {self.provider}"


@dataclass(eq=False)
class ResourceClassNotFound(NotFound):
    """No such resource class."""

    name: str

    def __str__(self) -> str:
        return f"No such resource class {self.name}."


@dataclass(eq=False)
class TraitNotFound(NotFound):
    """No such trait."""

    name: str

    def __str__(self) -> str:
        return f"No such trait(s): {self.name}."


@dataclass(eq=False)
class AllocationsNotFound(NotFound):
    """The consumer holds nothing."""

    consumer: str

    def __str__(self) -> str:
        return f"No allocations for consumer '{self.consumer}'"


class StartOver(SteadError):
    """What changed since a moment can not be told any more."""

    def __str__(self) -> str:
        return "The changes since this token are no longer available. Request a new token, and read everything again."


class Conflict(SteadError):
    """The present state forbids it."""


@dataclass(eq=False)
class GenerationConflict(Conflict):
    """The provider changed after the client read it; nothing was written."""

    provider: str
    expected: int
    found: int

    def __str__(self) -> str:
        known = f"actual: {self.found}, given: {self.expected}"
        return f"resource provider generation conflict for provider {self.provider}: {known}"


@dataclass(eq=False)
class ConsumerConflict(Conflict):
    """The consumer changed, appeared or went after the client read it; nothing was written. None: no consumer."""

    consumer: str
    expected: int | None
    found: int | None

    def __str__(self) -> str:
        found = "null" if self.found is None else self.found
        return f"consumer generation conflict - expected {found} but got {self.expected}"


@dataclass(eq=False)
class DuplicateProvider(Conflict):
    """The uuid or the name is taken; *taken* is ``uuid: …`` or ``name: …``, or the name alone."""

    taken: str

    def __str__(self) -> str:
        return f"Conflicting resource provider {self.taken} already exists."


@dataclass(eq=False)
class ProviderHasChildren(Conflict):
    """A provider with children can not be deleted."""

    provider: str

    def __str__(self) -> str:
        return f"Unable to delete parent resource provider {self.provider}: It has child resource providers."


@dataclass(eq=False)
class ProviderInUse(Conflict):
    """A provider with allocations can not be deleted."""

    provider: str

    def __str__(self) -> str:
        return f"Unable to delete resource provider {self.provider}: Resource provider has allocations."


@dataclass(eq=False)
class InventoryExists(Conflict):
    """The provider has inventory of the class already."""

    provider: str
    resource_class: str

    def __str__(self) -> str:
        return f"Update conflict: provider {self.provider} has inventory of class {self.resource_class} already"


@dataclass(eq=False)
class InventoryInUse(Conflict):
    """Inventory that shall go has allocations; *resource_classes* in the order of their ids."""

    provider: str
    resource_classes: Sequence[str]

    def __str__(self) -> str:
        return f"Inventory for '{', '.join(self.resource_classes)}' on resource provider '{self.provider}' in use."


@dataclass(eq=False)
class ResourceClassExists(Conflict):
    """The name is taken."""

    name: str

    def __str__(self) -> str:
        return f"Resource class already exists: {self.name}"


@dataclass(eq=False)
class ResourceClassInUse(Conflict):
    """Some provider has inventory of the class."""

    name: str

    def __str__(self) -> str:
        return f"Cannot delete resource class {self.name}. Class is in use in inventory."


@dataclass(eq=False)
class TraitInUse(Conflict):
    """Some provider has the trait."""

    name: str

    def __str__(self) -> str:
        return f"The trait {self.name} is in use by a resource provider."


@dataclass(eq=False)
class IndistinctName(Conflict):
    """The database compares *name* as equal to *stored*, which is another project, user or consumer type."""

    kind: str
    name: str
    stored: str

    def __str__(self) -> str:
        return (
            f"The database cannot tell {self.kind} {self.name!r} from {self.kind} {self.stored!r}: "
            "its collation ignores the difference."
        )


@dataclass(eq=False)
class NothingFits(Conflict):
    """There is no place for a claim, when those before it have theirs.

    ``claim`` is its place in the request; ``gave_up`` if there may be one, which was not found in time;
    ``explanation`` says why; None if nobody asked. It is shown by who knows what it is made of.
    """

    claim: int
    consumer: str
    gave_up: bool = False
    explanation: object = None

    def __str__(self) -> str:
        which = f"claims[{self.claim}] (consumer {self.consumer})"
        if self.gave_up:
            return f"Nothing was found for {which} within the work that one request may do."
        return f"Nothing fits {which}."


class AllocationRefused(Conflict):
    """The allocations asked for do not fit; nothing was written."""


@dataclass(eq=False)
class NoSuchInventory(AllocationRefused):
    """A provider has no inventory of what is asked of it."""

    providers: Sequence[str]
    resource_classes: Sequence[str]

    def __str__(self) -> str:
        return (
            f"Inventory for '{', '.join(self.resource_classes)}' on resource provider "
            f"'{', '.join(self.providers)}' invalid."
        )


@dataclass(eq=False)
class UnitsViolated(AllocationRefused):
    """An amount is below min_unit, above max_unit or no multiple of step_size."""

    provider: str
    resource_class: str
    amount: int

    def __str__(self) -> str:
        return (
            f"Unable to create allocation for '{self.resource_class}' on resource provider '{self.provider}'. "
            f"The requested amount would violate inventory constraints."
        )


@dataclass(eq=False)
class CapacityExceeded(AllocationRefused):
    """What is asked of one class of one provider, all consumers of the request together, is more than is left."""

    provider: str
    resource_class: str
    amount: int

    def __str__(self) -> str:
        return (
            f"Unable to create allocation for '{self.resource_class}' on resource provider '{self.provider}'. "
            f"The requested amount would exceed the capacity."
        )
