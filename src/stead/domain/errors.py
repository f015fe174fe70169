"""The errors of the domain. The HTTP layer maps a class to a status and a code; ``str(error)`` is the message.

SteadError
├── Forbidden                       a policy rule does not allow it
├── Unavailable                     the database did not answer in time; the request may be valid
│   ├── ConnectionLost              it may answer on another connection
│   └── ConcurrentUpdate            it answered, but the write lost every race
├── BadRequest                      the request can never succeed as it stands
│   ├── InvalidQuery                ├── InvalidTraitName          ├── ReservedTooLarge
│   ├── UnknownResourceClass        ├── UnknownTraits             ├── UnknownProvider (named in a body)
│   │   └── UnknownClassInOrder     │                             │
│   ├── NoInventoryRecord           ├── StandardClass             ├── StandardTrait
│   ├── ParentRefused               ├── UntilPassed               ├── LeaseRefused
│   └── UnknownFlavor
├── NotFound                        what the path names does not exist
│   ├── ProviderNotFound            ├── InventoryNotFound         ├── ResourceClassNotFound
│   ├── TraitNotFound               ├── AllocationsNotFound
│   └── FlavorNotFound
├── StartOver                       the change log no longer covers the requested moment
└── Conflict                        the present state does not allow it
    ├── GenerationConflict          ├── ConsumerConflict          ├── DuplicateProvider
    ├── ProviderHasChildren         ├── ProviderInUse             ├── InventoryExists
    ├── InventoryInUse              ├── ResourceClassExists       ├── ResourceClassInUse
    ├── TraitInUse                  ├── IndistinctName
    ├── NothingFits                 ├── NothingFound
    └── AllocationRefused           └── NoSuchInventory, UnitsViolated, CapacityExceeded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class SteadError(Exception):
    """Base class of all errors that are not bugs."""


@dataclass(eq=False)
class Forbidden(SteadError):
    """A policy rule does not allow it; *scope* is set if the token's scope, not its roles, is the reason."""

    rule: str
    scope: bool = False

    def __str__(self) -> str:
        return self.rule if self.scope else f"Policy does not allow {self.rule} to be performed."


@dataclass(eq=False)
class Unavailable(SteadError):
    """The database did not answer, or not in time; acknowledged writes are safe."""

    reason: str
    retry_after: int = 1
    """Seconds after which the client should retry."""

    def __str__(self) -> str:
        return self.reason


class Unusable(Unavailable):
    """The database rejects every use of it, and waiting does not help, as with a wrong password."""


class ConnectionLost(Unavailable):
    """The connection to the database broke while something was read; it can be read from another one at once."""


class ConcurrentUpdate(Unavailable):
    """The write lost every race until its timeout, although no generation that the client stated was out of date."""


class BadRequest(SteadError):
    """The request can never succeed as it stands."""


@dataclass(eq=False)
class AnswerTooLarge(BadRequest):
    """The answer has more bytes than a worker may use for one."""

    most: int

    def __str__(self) -> str:
        return f"The response has more than {self.most} bytes ([stead] max_answer_size). Use a limit or a filter."


@dataclass(eq=False)
class InvalidQuery(BadRequest):
    """A query or part of it is malformed; *code* if the contract defines one for this error."""

    reason: str
    code: str | None = None

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class TooManyNames(BadRequest):
    """The site would have more resource classes, or more traits, than a worker should hold."""

    what: str
    most: int

    def __str__(self) -> str:
        return f"The site may have up to {self.most} {self.what}; delete those that no resource provider has."


@dataclass(eq=False)
class TooManyInventories(BadRequest):
    """The provider would have inventories of more resource classes than one provider may have."""

    most: int

    def __str__(self) -> str:
        return f"A resource provider may have inventories of up to {self.most} resource classes."


@dataclass(eq=False)
class InvalidTraitName(BadRequest):
    """Clients may create only traits of the custom form."""

    name: str

    def __str__(self) -> str:
        return (
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "
            '"CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
        )


@dataclass(eq=False)
class ReservedTooLarge(BadRequest):
    """An inventory reserves more than its total, or the whole total before microversion 1.26."""

    resource_class: str
    may_reserve_all: bool

    @property
    def reason(self) -> str:
        """Which amounts conflict."""
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
class UnknownFlavor(BadRequest):
    """A query names a flavor that does not exist."""

    name: str

    def __str__(self) -> str:
        return f"No such flavor {self.name}."


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
    """The provider has no inventory of the class that the request changes."""

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
    """A standard trait cannot be deleted."""

    name: str

    def __str__(self) -> str:
        return f"Cannot delete standard trait {self.name}."


@dataclass(eq=False)
class ParentRefused(BadRequest):
    """The requested parent of a provider is unknown, would close a loop, or may not be changed."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(eq=False)
class UntilPassed(BadRequest):
    """The requested end of disabling a provider has passed, by the database's clock; both times are texts."""

    until: str
    now: str

    def __str__(self) -> str:
        return f"disabled.until is in the past: {self.until}. The database's time is {self.now}."


@dataclass(eq=False)
class LeaseRefused(BadRequest):
    """The requested end of a lease has passed, or is too far away; ``now`` is the database's time as text."""

    reason: str
    now: str

    def __str__(self) -> str:
        return f"{self.reason}. The database's time is {self.now}."


class NotFound(SteadError):
    """What the path names does not exist."""


@dataclass(eq=False)
class ProviderNotFound(NotFound):
    """No such provider; *purpose* says what the request needed it for."""

    provider: str
    purpose: str = ""

    def __str__(self) -> str:
        return f"No resource provider with uuid {self.provider} found{self.purpose}"


class NamedProviderNotFound(ProviderNotFound):
    """No such provider; ``provider`` is the name that the request gave."""

    def __str__(self) -> str:
        return f"No resource provider with name {self.provider} found{self.purpose}"


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
class FlavorNotFound(NotFound):
    """No such flavor."""

    name: str

    def __str__(self) -> str:
        return f"No such flavor {self.name}."


@dataclass(eq=False)
class TraitNotFound(NotFound):
    """No such trait."""

    name: str

    def __str__(self) -> str:
        return f"No such trait(s): {self.name}."


@dataclass(eq=False)
class AllocationsNotFound(NotFound):
    """The consumer has no allocations."""

    consumer: str

    def __str__(self) -> str:
        return f"No allocations for consumer '{self.consumer}'"


class StartOver(SteadError):
    """The change log no longer covers the requested moment."""

    def __str__(self) -> str:
        return "The changes since this token are no longer available. Request a new token, and read everything again."


class Conflict(SteadError):
    """The present state does not allow it."""


@dataclass(eq=False)
class GenerationConflict(Conflict):
    """The provider changed after the client read it; nothing was written."""

    provider: str
    expected: int
    actual: int

    def __str__(self) -> str:
        generations = f"actual: {self.actual}, given: {self.expected}"
        return f"resource provider generation conflict for provider {self.provider}: {generations}"


@dataclass(eq=False)
class ConsumerConflict(Conflict):
    """The consumer changed, was created or deleted after the client read it; nothing was written. None: no consumer."""

    consumer: str
    expected: int | None
    actual: int | None

    def __str__(self) -> str:
        generation = "null" if self.actual is None else self.actual
        return f"consumer generation conflict - expected {generation} but got {self.expected}"


@dataclass(eq=False)
class DuplicateProvider(Conflict):
    """The uuid or the name is taken; *taken* is ``uuid: …`` or ``name: …``, or the name alone."""

    taken: str

    def __str__(self) -> str:
        return f"Conflicting resource provider {self.taken} already exists."


@dataclass(eq=False)
class ProviderHasChildren(Conflict):
    """A provider with children cannot be deleted."""

    provider: str

    def __str__(self) -> str:
        return f"Unable to delete parent resource provider {self.provider}: It has child resource providers."


@dataclass(eq=False)
class ProviderInUse(Conflict):
    """A provider with allocations cannot be deleted."""

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
    """An inventory to delete has allocations; *resource_classes* in the order of their ids."""

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
    """There is no place for all claims of a request at the same time: this is proved.

    ``claim`` is the index of the one without a place. ``explanation`` says why, given the places of those before it;
    None if the request did not ask for it. Its type is known to the code that shows it.
    """

    claim: int
    consumer: str
    explanation: object = None

    def __str__(self) -> str:
        return f"Nothing fits claims[{self.claim}] (consumer {self.consumer})."


@dataclass(eq=False)
class NothingFound(Conflict):
    """The search for places reached its limit, so there may be some; the fields are those of `NothingFits`."""

    claim: int
    consumer: str
    explanation: object = None

    def __str__(self) -> str:
        which = f"claims[{self.claim}] (consumer {self.consumer})"
        return f"Nothing was found for {which} within the work that one request may do; retry."


class AllocationRefused(Conflict):
    """The requested allocations do not fit; nothing was written."""


@dataclass(eq=False)
class ProviderDisabled(AllocationRefused):
    """A claim raises the usage of a provider that is ``disabled`` (a uuid), or has a disabled ancestor."""

    provider: str
    resource_class: str
    disabled: str
    reason: str

    def __str__(self) -> str:
        where = "is disabled" if self.disabled == self.provider else f"is below disabled provider '{self.disabled}'"
        return (
            f"Unable to create allocation for '{self.resource_class}' on resource provider '{self.provider}'. "
            f"The provider {where}: {self.reason}"
        )


@dataclass(eq=False)
class NoSuchInventory(AllocationRefused):
    """A provider has no inventory of a requested class."""

    providers: Sequence[str]
    resource_classes: Sequence[str]

    def __str__(self) -> str:
        return (
            f"Inventory for '{', '.join(self.resource_classes)}' on resource provider "
            f"'{', '.join(self.providers)}' invalid."
        )


@dataclass(eq=False)
class UnitsViolated(AllocationRefused):
    """An amount is below min_unit, above max_unit or not a multiple of step_size."""

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
    """The amounts of all consumers of the request for one class of one provider exceed its free capacity."""

    provider: str
    resource_class: str
    amount: int

    def __str__(self) -> str:
        return (
            f"Unable to create allocation for '{self.resource_class}' on resource provider '{self.provider}'. "
            f"The requested amount would exceed the capacity."
        )
