"""Computes the changes that make provider trees match a document. Pure: the input is a document and the current state.
It runs in memory before the write, and again under the locks of the transaction that writes.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from collections import defaultdict
from difflib import get_close_matches
from typing import TYPE_CHECKING

from stead.domain.errors import DuplicateProvider, GenerationConflict
from stead.domain.inventory import capacity, has_room
from stead.domain.names import is_custom
from stead.domain.provider import BY_NAME, MOST_OF_PROVIDER
from stead.domain.tree_document import (
    UNSTATED,
    CurrentProvider,
    DescribedProviderGone,
    DocumentFault,
    Overcommitment,
    Remaining,
)
from stead.domain.tree_plan import ProviderPlan, TreePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stead.domain.inventory import Inventory
    from stead.domain.tree_document import CurrentTrees, DescribedProvider, TreeDocument

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
        had = capacity(before.total, before.reserved, before.allocation_ratio)
        has = capacity(inventory.total, inventory.reserved, inventory.allocation_ratio)
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
