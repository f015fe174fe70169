"""Plans the changes that make a server match a site."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from stead.domain.provider import Inventory, has_room
from stead.topology.site import Description, Site, SiteError, top_down

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Present:
    """The present state of one provider on the server.

    Attributes:
        description: its uuid is never None. Unused parts may be empty: everything except uuid and parent of a provider
            that the site does not describe.
        generation: the generation that the server requires for a change of this provider.
        used: allocated amounts by resource class; classes without allocations may be absent. May be empty if nothing
            is pruned and no inventory changes.
    """

    description: Description
    generation: int
    used: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def in_use(self) -> bool:
        """Whether the provider has allocations."""
        return any(self.used.values())


@dataclass(frozen=True, slots=True)
class PresentSite:
    """The server's providers by name, and the names of its resource classes and traits."""

    providers: Mapping[str, Present]
    classes: frozenset[str]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class NotPruned:
    """An object that pruning did not delete: a provider, or its inventory of one resource class."""

    provider: str
    resource_class: str | None
    reason: str

    def __str__(self) -> str:
        what = f"provider {self.provider}"
        if self.resource_class is not None:
            what = f"inventory of {self.resource_class} of {what}"
        return f"kept {what}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Overcommitted:
    """An inventory of a provider whose planned capacity is below its allocations."""

    provider: str
    change: InventoryChange

    def __str__(self) -> str:
        change = self.change
        return (
            f"{change.resource_class} of provider {self.provider}: {change.used:,} used, capacity {change.capacities}"
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an executable order, and the undescribed objects that stay."""

    steps: tuple[Step, ...]
    kept: tuple[NotPruned, ...]

    @property
    def overcommitted(self) -> tuple[Overcommitted, ...]:
        """The inventories whose planned capacity is below their allocations."""
        return tuple(
            Overcommitted(step.name, change)
            for step in self.steps
            if isinstance(step, SetInventories)
            for change in step.changes
            if change.overcommits
        )


def plan(
    described: Site,
    present: PresentSite,
    *,
    exact: bool = False,
    prune: bool = False,
    prune_trees: bool = False,
) -> Plan:
    """The steps that make *present* match *described*.

    Args:
        described: the providers of the site files.
        present: the server's providers.
        exact: remove what the descriptions of described providers lack, except inventories in use. Without it, that
            stays.
        prune: implies *exact*; also deletes providers that are not described, except those in use.
        prune_trees: like *prune*, but only in the trees whose roots are described.

    Raises:
        SiteError: the two cannot be matched: a uuid differs or belongs to another name, a parent does not exist, there
            would be a loop, or the server lacks a standard class or trait.
    """
    _require_same_uuids(described, present)
    parents = _final_parents(described, present)
    remaining: list[NotPruned] = []
    # Names come first, then parents before children, because each step needs what the steps before it create.
    steps: list[Step] = [*_new_names(described, present)]
    for name in top_down(parents):
        if name in described.providers:
            steps.extend(_place(described.providers[name], present.providers.get(name)))
    for name in sorted(described.providers):
        steps.extend(
            _settle(
                described.providers[name], present.providers.get(name), remaining, exact=exact or prune or prune_trees
            )
        )
    # Last, because providers that stay have moved away by then from parents that are deleted.
    if prune or prune_trees:
        steps.extend(_removals(described, present, parents, remaining, everywhere=prune))
    return Plan(tuple(steps), tuple(remaining))


def _require_same_uuids(described: Site, present: PresentSite) -> None:
    names = {there.description.uuid: name for name, there in present.providers.items()}
    for name, description in described.providers.items():
        if description.uuid is None:
            continue
        there = present.providers.get(name)
        if there is not None and there.description.uuid != description.uuid:
            raise SiteError(
                f"provider {name!r} exists with uuid {there.description.uuid}, the file says {description.uuid}; "
                "a provider cannot change its uuid"
            )
        if names.get(description.uuid, name) != name:
            raise SiteError(
                f"provider {name!r}: its uuid {description.uuid} belongs to provider {names[description.uuid]!r} on "
                "the server; providers are found by name and not renamed"
            )


def _final_parents(described: Site, present: PresentSite) -> dict[str, str | None]:
    parents = {name: there.description.parent for name, there in present.providers.items()}
    parents |= {name: description.parent for name, description in described.providers.items()}
    for name, description in described.providers.items():
        if description.parent is not None and description.parent not in parents:
            raise SiteError(
                f"provider {name!r}: its parent {description.parent!r} is neither described nor on the server"
            )
    return parents


def _new_names(described: Site, present: PresentSite) -> Iterator[Step]:
    descriptions = described.providers.values()
    classes = {name for description in descriptions for name in description.inventories} - present.classes
    traits = {name for description in descriptions for name in description.traits} - present.traits
    for kind, missing in (("resource class", classes), ("trait", traits)):
        if standard := sorted(name for name in missing if not name.startswith("CUSTOM_")):
            raise SiteError(f"unknown {kind} {standard[0]}; only names that start with CUSTOM_ can be created")
    yield from (CreateClass(name) for name in sorted(classes))
    yield from (CreateTrait(name) for name in sorted(traits))


def _place(description: Description, there: Present | None) -> Iterator[Step]:
    if there is None:
        yield CreateProvider(description.name, description.uuid, description.parent)
    elif there.description.parent != description.parent:
        yield MoveProvider(description.name, description.parent)


def _settle(
    description: Description, there: Present | None, remaining: list[NotPruned], *, exact: bool
) -> Iterator[Step]:
    """The steps that give one provider its described inventories, traits and aggregates."""
    had = there.description if there is not None else Description(description.name)
    used = there.used if there is not None else {}
    inventories = _inventories(description, had, used, remaining, exact=exact)
    traits = description.traits if exact else description.traits | had.traits
    aggregates = description.aggregates if exact else description.aggregates | had.aggregates
    if inventories != dict(had.inventories):
        yield SetInventories(description.name, inventories, _inventory_changes(had.inventories, inventories, used))
    if traits != had.traits:
        yield SetTraits(description.name, traits, _set_changes(had.traits, traits))
    if aggregates != had.aggregates:
        yield SetAggregates(description.name, aggregates, _set_changes(had.aggregates, aggregates))


def _inventories(
    description: Description, had: Description, used: Mapping[str, int], remaining: list[NotPruned], *, exact: bool
) -> dict[str, Inventory]:
    extra = {name: inventory for name, inventory in had.inventories.items() if name not in description.inventories}
    if exact:
        extra = {name: inventory for name, inventory in extra.items() if used.get(name)}
        remaining.extend(NotPruned(description.name, name, f"{used[name]} in use") for name in sorted(extra))
    return {**extra, **description.inventories}


def _removals(
    described: Site,
    present: PresentSite,
    parents: Mapping[str, str | None],
    remaining: list[NotPruned],
    *,
    everywhere: bool,
) -> Iterator[Step]:
    """Delete all undescribed providers, children first, except those in use and the ancestors of those that stay.

    Args:
        everywhere: in all trees, not only in those whose roots are described.
    """
    roots: dict[str, str] = {}
    for name in top_down(parents):
        parent = parents[name]
        roots[name] = name if parent is None else roots[parent]
    staying: defaultdict[str, list[str]] = defaultdict(list)  # by parent: its children that stay
    for name in reversed(top_down(parents)):
        reason = None
        if name not in described.providers and (everywhere or roots[name] in described.providers):
            if present.providers[name].in_use:
                reason = "it has allocations"
            elif staying[name]:
                reason = f"it is the parent of {min(staying[name])}, which stays"
            else:
                yield DeleteProvider(name)
                continue
            remaining.append(NotPruned(name, None, reason))
        if (parent := parents[name]) is not None:
            staying[parent].append(name)


def _inventory_changes(
    had: Mapping[str, Inventory], after: Mapping[str, Inventory], used: Mapping[str, int]
) -> tuple[InventoryChange, ...]:
    return tuple(
        InventoryChange(name, had.get(name), after.get(name), used.get(name, 0))
        for name in sorted(had.keys() | after.keys())
        if had.get(name) != after.get(name)
    )


def _set_changes(had: frozenset[str], after: frozenset[str]) -> str:
    return ", ".join([f"+{name}" for name in sorted(after - had)] + [f"-{name}" for name in sorted(had - after)])


# The steps that make a server match a site, as values that say what they do.


@dataclass(frozen=True, slots=True)
class CreateClass:
    """Create a custom resource class."""

    name: str

    def __str__(self) -> str:
        return f"create resource class {self.name}"


@dataclass(frozen=True, slots=True)
class CreateTrait:
    """Create a custom trait."""

    name: str

    def __str__(self) -> str:
        return f"create trait {self.name}"


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """Create a provider without inventories; an earlier step creates its parent, given by name."""

    name: str
    uuid: str | None
    parent: str | None

    def __str__(self) -> str:
        return f"create provider {self.name}" + (f" below {self.parent}" if self.parent is not None else "")


@dataclass(frozen=True, slots=True)
class MoveProvider:
    """Give a provider another parent, by name, or make it a root."""

    name: str
    parent: str | None

    def __str__(self) -> str:
        return f"move provider {self.name} " + (f"below {self.parent}" if self.parent is not None else "to the top")


@dataclass(frozen=True, slots=True)
class RenameProvider:
    """Give a provider another name; a step of documents only, which find providers by uuid too."""

    name: str
    before: str

    def __str__(self) -> str:
        return f"rename provider {self.before} to {self.name}"


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """The change of one inventory of a provider.

    Attributes:
        before: None if it is added.
        after: None if it is removed.
        used: the allocated amount when the provider was read.
    """

    resource_class: str
    before: Inventory | None
    after: Inventory | None
    used: int

    @property
    def overcommits(self) -> bool:
        """Whether the allocations exceed the new capacity."""
        if self.after is None:
            return self.used > 0
        return not has_room(0, self.used, self.after.capacity)

    @property
    def capacities(self) -> str:
        """The capacity before and after the change, ``16 -> 0``."""
        return _before_and_after(_capacity(self.before), _capacity(self.after))

    def __str__(self) -> str:
        sign = "+" if self.before is None else "-" if self.after is None else ""
        amounts = ", ".join(_amounts(self.before, self.after))
        return f"{sign}{self.resource_class} {amounts}" + (f", {self.used:,} used" if self.used else "")


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace all inventories of one provider; *changes* has those that differ, by resource class."""

    name: str
    inventories: Mapping[str, Inventory]
    changes: tuple[InventoryChange, ...]

    def __str__(self) -> str:
        return f"set inventories of {self.name}: " + "; ".join(map(str, self.changes))


@dataclass(frozen=True, slots=True)
class SetTraits:
    """Replace all traits of one provider; *changes* describes the differences."""

    name: str
    traits: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set traits of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class SetAggregates:
    """Replace all aggregates of one provider; *changes* describes the differences."""

    name: str
    aggregates: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set aggregates of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class DeleteProvider:
    """Delete a provider; earlier steps delete its children, and it has no allocations."""

    name: str

    def __str__(self) -> str:
        return f"delete provider {self.name}"


Step: TypeAlias = (
    CreateClass
    | CreateTrait
    | CreateProvider
    | MoveProvider
    | RenameProvider
    | SetInventories
    | SetTraits
    | SetAggregates
    | DeleteProvider
)


def _amounts(before: Inventory | None, after: Inventory | None) -> Iterator[str]:
    """The fields as text: the total always, the others if they change or differ from the default."""
    usual = Inventory(total=0)
    for name in (each.name for each in fields(Inventory)):
        values = [getattr(inventory, name) for inventory in (before, after) if inventory is not None]
        if name == "total" or any(value != getattr(usual, name) for value in values):
            yield f"{name} {_before_and_after(*values)}"
    capacities = [_capacity(inventory) for inventory in (before, after) if inventory is not None]
    totals = [inventory.total for inventory in (before, after) if inventory is not None]
    if capacities != totals:
        yield f"capacity {_before_and_after(*capacities)}"


def _capacity(inventory: Inventory | None) -> int:
    return 0 if inventory is None else inventory.capacity


def _before_and_after(before: float, after: float | None = None) -> str:
    """``8 -> 9``; a single number if it does not change."""
    shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in (before, after) if value is not None]
    return " -> ".join(dict.fromkeys(shown))
