"""Provider trees as a client describes them, and in their current state: the input of a plan.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stead.domain.errors import BadRequest, Conflict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.domain.inventory import Inventory


class Unstated(Enum):
    """The document does not state the parent: the provider stays where it is, and a new one is a root."""

    UNSTATED = "unstated"


UNSTATED = Unstated.UNSTATED


@dataclass(frozen=True, slots=True)
class DescribedProvider:
    """One provider of a document.

    Attributes:
        place: in the document, as ``provider_trees[3].providers[5]``; faults name it.
        uuid: as stored; None: the provider is found by its name.
        name: None: unchanged.
        parent: a uuid, or a name after ``name:``; None for a root.
        generation: of the provider, as the client knows it; None: any.
        inventories: by resource class; None: unchanged. Likewise ``traits`` and ``aggregates``.
        new_uuid: for a new provider, if ``uuid`` is None and no provider has the name.
    """

    place: str
    uuid: str | None
    name: str | None
    parent: str | Unstated | None
    generation: int | None
    inventories: Mapping[str, Inventory] | None
    traits: frozenset[str] | None
    aggregates: frozenset[str] | None
    new_uuid: str

    @property
    def reference(self) -> str:
        """The name of the provider in messages."""
        return repr(self.name) if self.uuid is None else self.uuid


@dataclass(frozen=True, slots=True)
class TreeDocument:
    """The target state of provider trees.

    Attributes:
        providers: of all trees, in the order of the document.
        emptied: place and root's uuid of each tree without providers.
        prune: delete the providers of the document's trees that the document lacks.
        merge: inventories, traits and aggregates that the document lacks stay.
        keep_used: providers and inventories that would be deleted but have allocations stay.
        allow_overcommit: a capacity may become less than what is allocated from it.
        create_names: custom resource classes and traits that do not exist are created.
    """

    providers: Sequence[DescribedProvider]
    emptied: Sequence[tuple[str, str]] = ()
    prune: bool = False
    merge: bool = False
    keep_used: bool = False
    allow_overcommit: bool = False
    create_names: bool = False

    def references(self) -> Iterator[str]:
        """All providers that the document names: uuids, and names after ``name:``; some more than once."""
        for described in self.providers:
            if described.uuid is not None:
                yield described.uuid
            if described.name is not None:
                yield f"name:{described.name}"
            if isinstance(described.parent, str):
                yield described.parent
        for _, uuid in self.emptied:
            yield uuid

    def aggregates(self) -> set[str]:
        """The uuids of all aggregates that the document names."""
        return {uuid for described in self.providers for uuid in described.aggregates or ()}


@dataclass(frozen=True, slots=True)
class CurrentProvider:
    """The current state of one provider.

    Attributes:
        parent, root: uuids.
        inventories, traits, aggregates: only if the document describes the provider, else empty.
        used: allocated amounts by resource class, without zeros; may be empty for a provider that
            keeps its inventories.
    """

    uuid: str
    name: str
    generation: int
    parent: str | None
    root: str
    inventories: Mapping[str, Inventory] = field(default_factory=lambda: MappingProxyType({}))
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    used: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class CurrentTrees:
    """All providers of each tree that a document refers to, at one moment.

    Attributes:
        providers: by uuid.
        names: uuids by name, of the same providers.
        classes, traits: the names that exist; the values are ignored.
    """

    providers: Mapping[str, CurrentProvider]
    names: Mapping[str, str]
    classes: Mapping[str, object]
    traits: Mapping[str, object]


class Remaining(NamedTuple):
    """An object that stays although the document lacks it: a provider, or its inventory of one class."""

    provider: str
    """Its uuid."""
    name: str
    resource_class: str | None
    used: int
    """The allocated amount; of all classes for a provider."""
    needed_by: str | None
    """The name of a child that stays, if that is the reason."""

    def __str__(self) -> str:
        what = f"provider {self.name!r}"
        if self.resource_class is not None:
            return f"inventory of {self.resource_class} of {what}: {self.used} in use"
        return f"{what}: {'has allocations' if self.needed_by is None else f'is the parent of {self.needed_by!r}'}"


class Overcommitment(NamedTuple):
    """An inventory whose new capacity is below its allocations."""

    provider: str
    """Its uuid."""
    name: str
    resource_class: str
    used: int
    before: int
    """The capacity."""
    after: int

    def __str__(self) -> str:
        return (
            f"{self.resource_class} of provider {self.name!r}: {self.used} used, capacity {self.before} -> {self.after}"
        )


_NAMED = 5
"""Maximum number of objects in the message of an error; its fields have all of them."""


def _first(objects: Sequence[object]) -> str:
    shown = "; ".join(map(str, objects[:_NAMED]))
    return shown if len(objects) <= _NAMED else f"{shown}; and {len(objects) - _NAMED} more"


@dataclass(eq=False)
class DocumentFault(BadRequest):
    """A part of a document cannot be carried out in any state; *place* says which."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(eq=False)
class DescribedProviderGone(Conflict):
    """A described provider has a generation, but does not exist."""

    place: str
    reference: str

    def __str__(self) -> str:
        return f"{self.place}.generation: resource provider {self.reference} does not exist; read it again."


@dataclass(eq=False)
class CapacityBelowUse(Conflict):
    """New capacities would be below their allocations."""

    overcommitted: Sequence[Overcommitment]

    def __str__(self) -> str:
        return f"More is allocated than the new capacity: {_first(self.overcommitted)}. See allow_overcommit."


@dataclass(eq=False)
class RemovedInUse(Conflict):
    """Providers or inventories to delete have allocations."""

    in_use: Sequence[Remaining]

    def __str__(self) -> str:
        return f"In use, not removed: {_first(self.in_use)}. See keep_used."
