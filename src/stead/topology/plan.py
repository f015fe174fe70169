"""What must change on a server for it to say what a site says."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from stead.domain.inventory import Inventory, has_room
from stead.topology.site import Description, Site, SiteError, top_down

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Present:
    """One provider as the server has it.

    Attributes:
        description: its uuid is never None. What a plan does not look at may be left empty: all but uuid and parent
            of a provider that the site does not describe.
        generation: what the server wants to see when this provider is changed.
        used: allocated amounts by resource class; classes without allocations may be absent. Empty is enough where
            nothing is pruned and no inventory changes.
    """

    description: Description
    generation: int
    used: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def in_use(self) -> bool:
        """Whether anything is allocated from it."""
        return any(self.used.values())


@dataclass(frozen=True, slots=True)
class PresentSite:
    """The server's providers by name, and the names of the resource classes and traits it knows."""

    providers: Mapping[str, Present]
    classes: frozenset[str]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class CreateClass:
    """Make a custom resource class."""

    name: str

    def __str__(self) -> str:
        return f"create resource class {self.name}"


@dataclass(frozen=True, slots=True)
class CreateTrait:
    """Make a custom trait."""

    name: str

    def __str__(self) -> str:
        return f"create trait {self.name}"


@dataclass(frozen=True, slots=True)
class CreateProvider:
    """Make a provider without inventories; its parent, by name, is there by then."""

    name: str
    uuid: str | None
    parent: str | None

    def __str__(self) -> str:
        return f"create provider {self.name}" + (f" below {self.parent}" if self.parent is not None else "")


@dataclass(frozen=True, slots=True)
class MoveProvider:
    """Give a provider another parent, by name, or none."""

    name: str
    parent: str | None

    def __str__(self) -> str:
        return f"move provider {self.name} " + (f"below {self.parent}" if self.parent is not None else "to the top")


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """What becomes of one inventory of a provider.

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
        """Whether more is allocated than the inventory could then hold."""
        if self.after is None:
            return self.used > 0
        return not has_room(0, self.used, self.after.capacity)

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
    """Replace all traits of one provider; *changes* says in words what differs."""

    name: str
    traits: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set traits of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class SetAggregates:
    """Replace all aggregates of one provider; *changes* says in words what differs."""

    name: str
    aggregates: frozenset[str]
    changes: str

    def __str__(self) -> str:
        return f"set aggregates of {self.name}: {self.changes}"


@dataclass(frozen=True, slots=True)
class DeleteProvider:
    """Delete a provider, which has no children and no allocations by then."""

    name: str

    def __str__(self) -> str:
        return f"delete provider {self.name}"


Step: TypeAlias = (
    CreateClass
    | CreateTrait
    | CreateProvider
    | MoveProvider
    | SetInventories
    | SetTraits
    | SetAggregates
    | DeleteProvider
)


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that pruning would have removed: a provider, or one resource class of its inventory."""

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
    """An inventory of a provider that a plan makes smaller than what is allocated from it."""

    provider: str
    change: InventoryChange

    def __str__(self) -> str:
        change = self.change
        capacities = _before_and_after(_capacity(change.before), _capacity(change.after))
        return f"{change.resource_class} of provider {self.provider}: {change.used:,} used, capacity {capacities}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which each can be done, and what stays although it is not described."""

    steps: tuple[Step, ...]
    kept: tuple[Kept, ...]

    @property
    def overcommitted(self) -> tuple[Overcommitted, ...]:
        """The inventories that would be smaller than what is allocated from them."""
        return tuple(
            Overcommitted(step.name, change)
            for step in self.steps
            if isinstance(step, SetInventories)
            for change in step.changes
            if change.overcommits
        )


def plan(described: Site, present: PresentSite, *, exact: bool = False, prune: bool = False) -> Plan:
    """The steps that make *present* say what *described* says.

    Args:
        described: the providers of the site files.
        present: the server's.
        exact: described providers lose what their descriptions do not have, but for inventories in use. Without it,
            that stays.
        prune: the same, and providers that are not described are deleted, but for those in use.

    Raises:
        SiteError: the two cannot be brought together: a uuid differs or belongs to another name, a parent is nowhere,
            a loop would arise, a standard class or trait is unknown to the server.
    """
    _require_same_uuids(described, present)
    parents = _final_parents(described, present)
    kept: list[Kept] = []
    steps: list[Step] = [*_new_names(described, present)]
    for name in top_down(parents):
        if name in described.providers:
            steps.extend(_place(described.providers[name], present.providers.get(name)))
    for name in sorted(described.providers):
        steps.extend(_settle(described.providers[name], present.providers.get(name), kept, exact=exact or prune))
    if prune:
        steps.extend(_removals(described, present, parents, kept))
    return Plan(tuple(steps), tuple(kept))


def _require_same_uuids(described: Site, present: PresentSite) -> None:
    names = {there.description.uuid: name for name, there in present.providers.items()}
    for name, wanted in described.providers.items():
        if wanted.uuid is None:
            continue
        there = present.providers.get(name)
        if there is not None and there.description.uuid != wanted.uuid:
            raise SiteError(
                f"provider {name!r} exists with uuid {there.description.uuid}, the file says {wanted.uuid}; "
                "a provider cannot change its uuid"
            )
        if names.get(wanted.uuid, name) != name:
            raise SiteError(
                f"provider {name!r}: its uuid {wanted.uuid} belongs to provider {names[wanted.uuid]!r} on the server; "
                "providers are found by name and not renamed"
            )


def _final_parents(described: Site, present: PresentSite) -> dict[str, str | None]:
    parents = {name: there.description.parent for name, there in present.providers.items()}
    parents |= {name: wanted.parent for name, wanted in described.providers.items()}
    for name, wanted in described.providers.items():
        if wanted.parent is not None and wanted.parent not in parents:
            raise SiteError(f"provider {name!r}: its parent {wanted.parent!r} is neither described nor on the server")
    return parents


def _new_names(described: Site, present: PresentSite) -> Iterator[Step]:
    wanted = described.providers.values()
    classes = {name for one in wanted for name in one.inventories} - present.classes
    traits = {name for one in wanted for name in one.traits} - present.traits
    for kind, missing in (("resource class", classes), ("trait", traits)):
        if standard := sorted(name for name in missing if not name.startswith("CUSTOM_")):
            raise SiteError(f"the server knows no {kind} {standard[0]}; only names that start with CUSTOM_ can be made")
    yield from (CreateClass(name) for name in sorted(classes))
    yield from (CreateTrait(name) for name in sorted(traits))


def _place(wanted: Description, there: Present | None) -> Iterator[Step]:
    if there is None:
        yield CreateProvider(wanted.name, wanted.uuid, wanted.parent)
    elif there.description.parent != wanted.parent:
        yield MoveProvider(wanted.name, wanted.parent)


def _settle(wanted: Description, there: Present | None, kept: list[Kept], *, exact: bool) -> Iterator[Step]:
    """The steps that give one provider, wherever it stands, what it shall have."""
    had = there.description if there is not None else Description(wanted.name)
    used = there.used if there is not None else {}
    inventories = _inventories(wanted, had, used, kept, exact=exact)
    traits = wanted.traits if exact else wanted.traits | had.traits
    aggregates = wanted.aggregates if exact else wanted.aggregates | had.aggregates
    if inventories != dict(had.inventories):
        yield SetInventories(wanted.name, inventories, _inventory_changes(had.inventories, inventories, used))
    if traits != had.traits:
        yield SetTraits(wanted.name, traits, _set_changes(had.traits, traits))
    if aggregates != had.aggregates:
        yield SetAggregates(wanted.name, aggregates, _set_changes(had.aggregates, aggregates))


def _inventories(
    wanted: Description, had: Description, used: Mapping[str, int], kept: list[Kept], *, exact: bool
) -> dict[str, Inventory]:
    extra = {name: inventory for name, inventory in had.inventories.items() if name not in wanted.inventories}
    if exact:
        extra = {name: inventory for name, inventory in extra.items() if used.get(name)}
        kept.extend(Kept(wanted.name, name, f"{used[name]} in use") for name in sorted(extra))
    return {**extra, **wanted.inventories}


def _removals(
    described: Site, present: PresentSite, parents: Mapping[str, str | None], kept: list[Kept]
) -> Iterator[Step]:
    """Deletes all that is not described, children first, but providers in use and the ancestors of what stays."""
    staying: defaultdict[str, list[str]] = defaultdict(list)  # by parent: its children that stay
    for name in reversed(top_down(parents)):
        reason = None
        if name not in described.providers:
            if present.providers[name].in_use:
                reason = "it has allocations"
            elif staying[name]:
                reason = f"it is the parent of {min(staying[name])}, which stays"
            else:
                yield DeleteProvider(name)
                continue
            kept.append(Kept(name, None, reason))
        if (parent := parents[name]) is not None:
            staying[parent].append(name)


def _inventory_changes(
    had: Mapping[str, Inventory], wanted: Mapping[str, Inventory], used: Mapping[str, int]
) -> tuple[InventoryChange, ...]:
    return tuple(
        InventoryChange(name, had.get(name), wanted.get(name), used.get(name, 0))
        for name in sorted(had.keys() | wanted.keys())
        if had.get(name) != wanted.get(name)
    )


def _amounts(before: Inventory | None, after: Inventory | None) -> Iterator[str]:
    """The fields in words: the total always, the others where they change or are not the default."""
    usual = Inventory(total=0)
    for name in (one.name for one in fields(Inventory)):
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
    """``8 -> 9``; one number if it stays."""
    shown = [f"{value:,}" if isinstance(value, int) else str(value) for value in (before, after) if value is not None]
    return " -> ".join(dict.fromkeys(shown))


def _set_changes(had: frozenset[str], wanted: frozenset[str]) -> str:
    return ", ".join([f"+{name}" for name in sorted(wanted - had)] + [f"-{name}" for name in sorted(had - wanted)])
