"""Provider trees as a client describes them, and the changes that make the current trees match. Pure functions.

Source: "PUT /provider_trees", docs/stead-api.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from stead.domain.errors import BadRequest, Conflict, DuplicateProvider, GenerationConflict
from stead.domain.names import is_custom
from stead.domain.provider import BY_NAME, MOST_OF_PROVIDER, exact_capacity, has_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stead.domain.provider import Inventory


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


# The changes that make provider trees match a document, as values: `tree_planning` computes them.
#
# Source: "PUT /provider_trees", docs/stead-api.md.


@dataclass(frozen=True, slots=True)
class ProviderPlan:
    """The target state of a described provider; ``before`` is None for a new one, ``parent`` and ``root`` are uuids."""

    before: CurrentProvider | None
    uuid: str
    is_uuid_chosen: bool
    """Whether the server chose the uuid of a new provider."""
    name: str
    parent: str | None
    root: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]
    aggregates: frozenset[str]

    @property
    def current(self) -> CurrentProvider:
        """The current state of the provider; empty for a new one."""
        return self.before or CurrentProvider(self.uuid, self.name, 0, self.parent, self.root)

    @property
    def is_created(self) -> bool:
        """Whether the provider does not exist."""
        return self.before is None

    @property
    def is_renamed(self) -> bool:
        """Whether an existing provider gets another name."""
        return self.before is not None and self.before.name != self.name

    @property
    def is_moved(self) -> bool:
        """Whether an existing provider gets another parent, or becomes a root."""
        return self.before is not None and self.before.parent != self.parent

    @property
    def replaced_parts(self) -> list[str]:
        """The parts (inventories, traits, aggregates) that change. Each raises the generation by one."""
        now = self.current
        differences = {
            "inventories": now.inventories != self.inventories,
            "traits": now.traits != self.traits,
            "aggregates": now.aggregates != self.aggregates,
        }
        return [part for part, differs in differences.items() if differs]

    @property
    def generation(self) -> int:
        """The generation after the change."""
        return self.current.generation + len(self.replaced_parts)

    @property
    def changes(self) -> list[str]:
        """The kinds of changes to the provider, as the API names them; empty if there are none."""
        done = {"created": self.is_created, "renamed": self.is_renamed, "moved": self.is_moved}
        return [*(word for word, is_done in done.items() if is_done), *self.replaced_parts]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """All changes.

    Attributes:
        providers: the described ones, in the order of the document.
        deleted: children before their parents.
        replanted: the new root's uuid of each existing provider whose root changes, also below a moved provider.
        new_classes, new_traits: custom names that are created, sorted.
        remaining: objects that stay although the document lacks them.
        in_use: objects that the document deletes although they have allocations; empty with ``keep_used``.
        overcommitted: capacities that fall below their use.
    """

    providers: Sequence[ProviderPlan]
    deleted: Sequence[CurrentProvider]
    replanted: Mapping[str, str]
    new_classes: Sequence[str]
    new_traits: Sequence[str]
    remaining: Sequence[Remaining]
    in_use: Sequence[Remaining]
    overcommitted: Sequence[Overcommitment]

    @property
    def is_empty(self) -> bool:
        """Whether the current state already matches the document."""
        return not self.deleted and not any(planned.changes for planned in self.providers)

    def require_allowed(self, document: TreeDocument) -> None:
        """Refuse a plan that deletes or shrinks allocated resources.

        Raises:
            RemovedInUse
            CapacityBelowUse: unless the document allows it.
        """
        if self.in_use:
            raise RemovedInUse(self.in_use)
        if self.overcommitted and not document.allow_overcommit:
            raise CapacityBelowUse(self.overcommitted)


# Computes the changes that make provider trees match a document. Pure: the input is a document and the current state.
# It runs in memory before the write, and again under the locks of the transaction that writes.
#
# Source: "PUT /provider_trees", docs/stead-api.md.


_AT_ONCE = 256
"""Providers that are planned before the plan gives way to short requests: that takes about 1 ms."""


def plan_trees(
    document: TreeDocument, current: CurrentTrees, give_way: Callable[[], object] = lambda: None
) -> TreePlan:
    """The plan that makes *current* match *document*.

    Raises:
        DocumentFault: the first part of the document that cannot be carried out in any state.
        GenerationConflict, DescribedProviderGone: a provider is not at the generation that the document states.
        DuplicateProvider: another provider has one of the names.
    """
    return _Planning(document, current, give_way).plan()


class _Planning:
    def __init__(self, document: TreeDocument, current: CurrentTrees, give_way: Callable[[], object]) -> None:
        self._document = document
        self._current = current
        self._give_way = give_way
        self._remaining: list[Remaining] = []
        self._in_use: list[Remaining] = []
        self._overcommitted: list[Overcommitment] = []
        self._new_classes: set[str] = set()
        self._new_traits: set[str] = set()

    def plan(self) -> TreePlan:
        identities = self._identities()
        names = self._names(identities)
        parents = self._parents(identities, names)
        roots = self._roots(parents, identities)
        providers = [
            self._planned(described, uuid, parents[uuid], roots[uuid])
            for number, (uuid, described) in enumerate(identities.items())
            if number % _AT_ONCE or not self._give_way()
        ]
        deleted = self._deleted(identities, parents, roots) if self._document.prune else []
        self._require_free_names(names, identities, {provider.uuid for provider in deleted})
        there = self._current.providers
        return TreePlan(
            providers,
            deleted,
            {uuid: root for uuid, root in roots.items() if uuid in there and there[uuid].root != root},
            sorted(self._new_classes),
            sorted(self._new_traits),
            self._remaining,
            self._in_use,
            self._overcommitted,
        )

    def _identities(self) -> dict[str, DescribedProvider]:
        """The described providers by uuid."""
        identities: dict[str, DescribedProvider] = {}
        by_uuid = {described.uuid for described in self._document.providers} - {None}
        for described in self._document.providers:
            uuid = described.uuid
            if uuid is None:
                # If the document describes the provider of this name by its uuid, the name becomes free.
                same_name = self._current.names.get(described.name or "")
                uuid = described.new_uuid if same_name is None or same_name in by_uuid else same_name
            if uuid in identities:
                first = identities[uuid].place
                raise DocumentFault(described.place, f"the resource provider of {first}, described again")
            self._require_known(described, self._current.providers.get(uuid))
            identities[uuid] = described
        return identities

    @staticmethod
    def _require_known(described: DescribedProvider, before: CurrentProvider | None) -> None:
        if before is None:
            if described.generation is not None:
                raise DescribedProviderGone(described.place, described.reference)
            if described.name is None:
                raise DocumentFault(
                    described.place, f"resource provider {described.uuid} does not exist; a new one needs a name"
                )
        elif described.generation is not None and before.generation != described.generation:
            raise GenerationConflict(before.uuid, described.generation, before.generation)

    def _name(self, uuid: str, described: DescribedProvider) -> str:
        return described.name if described.name is not None else self._current.providers[uuid].name

    def _final_name(self, uuid: str, identities: Mapping[str, DescribedProvider]) -> str:
        described = identities.get(uuid)
        return self._current.providers[uuid].name if described is None else self._name(uuid, described)

    def _names(self, identities: Mapping[str, DescribedProvider]) -> dict[str, str]:
        """The uuids of the described providers by their new names."""
        names: dict[str, str] = {}
        for uuid, described in identities.items():
            name = self._name(uuid, described)
            if names.setdefault(name, uuid) != uuid:
                first = identities[names[name]].place
                raise DocumentFault(f"{described.place}.name", f"{name!r} is the name of {first}")
        return names

    def _require_free_names(
        self, names: Mapping[str, str], identities: Mapping[str, DescribedProvider], deleted: set[str]
    ) -> None:
        """Refuse names of providers that the document neither describes nor deletes."""
        for name, uuid in names.items():
            owner = self._current.names.get(name, uuid)
            if owner != uuid and owner not in identities and owner not in deleted:
                raise DuplicateProvider(f"name: {name}")

    def _parents(self, identities: Mapping[str, DescribedProvider], names: Mapping[str, str]) -> dict[str, str | None]:
        """The new parents of all providers of the trees, described or not."""
        parents = {uuid: provider.parent for uuid, provider in self._current.providers.items()}
        for uuid, described in identities.items():
            if described.parent is None:
                parents[uuid] = None
            elif described.parent is UNSTATED:
                parents.setdefault(uuid, None)
            else:
                parents[uuid] = self._referenced(described, described.parent, identities, names)
        return parents

    def _referenced(
        self,
        described: DescribedProvider,
        reference: str,
        identities: Mapping[str, DescribedProvider],
        names: Mapping[str, str],
    ) -> str:
        name = reference.removeprefix(BY_NAME)
        uuid = reference if name == reference else names.get(name) or self._current.names.get(name)
        if uuid is None or (uuid not in identities and uuid not in self._current.providers):
            raise DocumentFault(
                f"{described.place}.parent_provider_uuid",
                f"no resource provider {reference} in the document or on the server",
            )
        return uuid

    @staticmethod
    def _roots(parents: Mapping[str, str | None], identities: Mapping[str, DescribedProvider]) -> dict[str, str]:
        """The new roots of all providers of the trees."""
        roots: dict[str, str] = {}
        for start in (*identities, *parents):
            path: dict[str, None] = {}
            uuid = start
            while uuid not in roots and (parent := parents[uuid]) is not None:
                if uuid in path:
                    # Only the document can close a loop, so that a described provider is part of it.
                    raise DocumentFault(
                        f"{identities[start].place}.parent_provider_uuid",
                        "the resource provider is its own ancestor, or below one",
                    )
                path[uuid] = None
                uuid = parent
            root = roots.setdefault(uuid, uuid)
            roots.update(dict.fromkeys(path, root))
        return roots

    def _planned(self, described: DescribedProvider, uuid: str, parent: str | None, root: str) -> ProviderPlan:
        before = self._current.providers.get(uuid)
        name = self._name(uuid, described)
        now = before or CurrentProvider(uuid, name, 0, parent, root)
        traits, aggregates = now.traits, now.aggregates
        if described.traits is not None:
            self._require_traits(described, described.traits)
            traits = described.traits | traits if self._document.merge else described.traits
        if described.aggregates is not None:
            aggregates = described.aggregates | aggregates if self._document.merge else described.aggregates
        inventories = self._inventories(described, now)
        # Those of a document are bounded as such: these are together with what the provider has.
        if self._document.merge:
            for field, members in (("traits", traits), ("aggregates", aggregates), ("inventories", inventories)):
                if len(members) > MOST_OF_PROVIDER and getattr(described, field) is not None:
                    most = f"a resource provider may have up to {MOST_OF_PROVIDER}"
                    raise DocumentFault(f"{described.place}.{field}", f"{len(members)} {field}; {most}")
        return ProviderPlan(
            before,
            uuid,
            before is None and described.uuid is None,
            name,
            parent,
            root,
            inventories,
            traits,
            aggregates,
        )

    def _require_traits(self, described: DescribedProvider, traits: Iterable[str]) -> None:
        existing = self._current.traits
        for trait in sorted(name for name in traits if name not in existing):
            if not self._document.create_names or not is_custom(trait):
                raise DocumentFault(f"{described.place}.traits", f"unknown trait {trait}{_hint(trait, existing)}")
            self._new_traits.add(trait)

    def _inventories(self, described: DescribedProvider, now: CurrentProvider) -> Mapping[str, Inventory]:
        if described.inventories is None or described.inventories == now.inventories:
            return now.inventories
        had = now.inventories
        stated = {
            name: had[name] if name in had and inventory.is_stored_as(had[name]) else inventory
            for name, inventory in described.inventories.items()
        }
        self._require_inventories(described, stated)
        staying = dict(now.inventories)
        for name in now.inventories.keys() - stated.keys() if not self._document.merge else ():
            used = now.used.get(name, 0)
            if not used:
                del staying[name]
            elif self._document.keep_used:
                self._remaining.append(Remaining(now.uuid, now.name, name, used, None))
            else:
                self._in_use.append(Remaining(now.uuid, now.name, name, used, None))
        for name, inventory in stated.items():
            self._compare_use(now, name, inventory)
        return {**staying, **stated}

    def _require_inventories(self, described: DescribedProvider, inventories: Mapping[str, Inventory]) -> None:
        existing = self._current.classes
        for name, inventory in inventories.items():
            place = f"{described.place}.inventories.{name}"
            if name not in existing:
                if not self._document.create_names or not is_custom(name):
                    raise DocumentFault(place, f"unknown resource class {name}{_hint(name, existing)}")
                self._new_classes.add(name)
            if inventory.capacity < 0:
                raise DocumentFault(
                    f"{place}.reserved",
                    f"the capacity is negative: (total {inventory.total} - reserved {inventory.reserved}) * "
                    f"allocation_ratio {inventory.allocation_ratio:g}",
                )

    def _compare_use(self, now: CurrentProvider, name: str, inventory: Inventory) -> None:
        before, used = now.inventories.get(name), now.used.get(name, 0)
        if before is None or not used:
            return
        had = exact_capacity(before.total, before.reserved, before.allocation_ratio)
        has = exact_capacity(inventory.total, inventory.reserved, inventory.allocation_ratio)
        if has < had and not has_room(0, used, has):
            self._overcommitted.append(
                Overcommitment(now.uuid, now.name, name, used, before.capacity, inventory.capacity)
            )

    def _deleted(
        self,
        identities: Mapping[str, DescribedProvider],
        parents: Mapping[str, str | None],
        roots: Mapping[str, str],
    ) -> list[CurrentProvider]:
        """The providers to prune: those that the document lacks, except those in use and the ancestors of others."""
        pruned = self._pruned_roots(identities, roots)
        children: defaultdict[str, list[str]] = defaultdict(list)
        # In the same order whatever the state was read from: the uuids of new providers are random.
        for uuid in sorted(parents, key=lambda uuid: (self._final_name(uuid, identities), uuid)):
            if (parent := parents[uuid]) is not None:
                children[parent].append(uuid)
        top_down = list(pruned)
        for uuid in top_down:  # the list grows during the loop
            top_down += children[uuid]
        child_that_stays: dict[str, str] = {}
        deleted = []
        for uuid in reversed(top_down):
            if uuid not in identities:
                provider = self._current.providers[uuid]
                used = sum(provider.used.values())
                if uuid not in child_that_stays and not used:
                    deleted.append(provider)
                    continue
                stays_for_use = used and uuid not in child_that_stays and not self._document.keep_used
                remaining = Remaining(uuid, provider.name, None, used, child_that_stays.get(uuid))
                (self._in_use if stays_for_use else self._remaining).append(remaining)
            if (parent := parents[uuid]) is not None:
                child_that_stays[parent] = self._final_name(uuid, identities)
        return deleted

    def _pruned_roots(self, identities: Mapping[str, DescribedProvider], roots: Mapping[str, str]) -> dict[str, None]:
        """The roots of the trees that the document describes, in order."""
        pruned = {roots[uuid]: None for uuid in identities if roots[uuid] in identities}
        for place, uuid in self._document.emptied:
            if uuid in roots and roots[uuid] != uuid:
                raise DocumentFault(f"{place}.root_provider_uuid", f"resource provider {uuid} is not a root")
            if uuid in roots:
                pruned[uuid] = None
        return pruned


def _hint(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f". Did you mean {close[0]}?" if close else ""
