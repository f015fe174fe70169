"""The truth as rows, for tests of what is read through them: a whole picture, or only what changed in it.

It stands in for a store: it numbers things as a database does, reuses the ids of what was deleted, and knows nothing
of how the catalog keeps them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stead.domain.changes import (
    Changes,
    InventoriesByColumn,
    InventoryRow,
    MembersByColumn,
    NameRow,
    Portion,
    ProviderRow,
    ProvidersByColumn,
    StandingRow,
    UsageByColumn,
)
from stead.domain.names import FIRST_CUSTOM_CLASS_ID, STANDARD_RESOURCE_CLASSES
from stead.domain.provider import Disabled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from tests.rooms.candidates.plain import Forest, PlainInventory


@dataclass
class Picture:
    """Everything that is, by id. Each change to it should be followed by `changes` of what it touched."""

    providers: dict[int, ProviderRow] = field(default_factory=dict)
    inventories: dict[int, dict[int, InventoryRow]] = field(default_factory=dict)
    used: dict[tuple[int, int], int] = field(default_factory=dict)
    traits: dict[int, set[int]] = field(default_factory=dict)
    aggregates: dict[int, set[int]] = field(default_factory=dict)
    disabled: dict[int, Disabled] = field(default_factory=dict)
    trait_names: dict[int, NameRow] = field(default_factory=dict)
    class_names: dict[int, NameRow] = field(default_factory=dict)
    aggregate_uuids: dict[int, str] = field(default_factory=dict)
    moment: int = 0

    @classmethod
    def of(cls, forest: Forest) -> Picture:
        """The rows of *forest*, parents before children."""
        picture = cls()
        for name in sorted(forest.traits):
            picture.add_trait_name(name)
        for name in sorted(forest.classes):
            picture.add_class_name(name)
        ids: dict[str, int] = {}
        for provider in forest.providers:
            parent = None if provider.parent is None else ids[provider.parent]
            id_ = ids[provider.name] = picture.add_provider(provider.uuid, provider.name, parent)
            for name, inventory in provider.inventories.items():
                picture.set_inventory(id_, picture.class_id(name), inventory)
            picture.traits[id_] = {picture.trait_id(name) for name in provider.traits}
            picture.aggregates[id_] = {picture.aggregate_id(uuid) for uuid in provider.aggregate_uuids}
            if provider.is_disabled:
                picture.disabled[id_] = Disabled("a test", 0, None)
        return picture

    def everything(self) -> Changes:
        """All there is, as after a start."""
        return self._changes(self.providers, (), everything=True, names=True)

    def changes(self, touched: Collection[int], claimed: Collection[int] = (), *, names: bool = False) -> Changes:
        """The present state of the *touched* providers, some of which may be gone, and of the names if they changed.

        Of the *claimed* ones nothing changed but what a claim changes.
        """
        return self._changes(touched, claimed, everything=False, names=names)

    def parts(self, portions: Iterable[Collection[int]]) -> Iterator[Changes | Portion]:
        """All there is, as a store that loads it hands it out: the names, then *portions* of the providers."""
        yield replace(
            self._changes((), (), everything=True, names=True),
            providers_in_all=len(self.providers),
            aggregate_uuids=self.aggregate_uuids,
        )
        for ids in portions:
            yield self._portion(self._changes(ids, (), everything=False, names=False))

    @staticmethod
    def _portion(state: Changes) -> Portion:
        return Portion(
            state.moment,
            ProvidersByColumn(*columns_of(state.providers, 7)),
            InventoriesByColumn(*columns_of(state.inventories, 9)),
            UsageByColumn(*columns_of([(*key, used) for key, used in state.used.items()], 3)),
            MembersByColumn(*columns_of(list(state.traits_of.items()), 2)),
            MembersByColumn(*columns_of(list(state.aggregates_of.items()), 2)),
            state.disabled,
        )

    def _changes(self, ids: Collection[int], claimed: Collection[int], *, everything: bool, names: bool) -> Changes:
        there = sorted(id_ for id_ in set(ids) if id_ in self.providers)
        providers = [self.providers[id_] for id_ in sorted(claimed) if id_ in self.providers]
        aggregates = {id_: tuple(sorted(self.aggregates[id_])) for id_ in there if self.aggregates[id_]}
        return Changes(
            moment=self.moment,
            everything=everything,
            provider_ids=sorted(set(ids)),
            providers=[self.providers[id_] for id_ in there],
            claimed=[StandingRow(row.id, row.generation, row.modified) for row in providers],
            inventories=[row for id_ in there for _, row in sorted(self.inventories[id_].items())],
            used={key: sum_ for key, sum_ in self.used.items() if key[0] in {*there, *claimed}},
            disabled={id_: self.disabled[id_] for id_ in there if id_ in self.disabled},
            traits_of={id_: tuple(sorted(self.traits[id_])) for id_ in there if self.traits[id_]},
            aggregates_of=aggregates,
            aggregate_uuids={id_: self.aggregate_uuids[id_] for ids in aggregates.values() for id_ in ids},
            traits=sorted(self.trait_names.values()) if names else None,
            resource_classes=sorted(self.class_names.values()) if names else None,
        )

    def add_provider(self, uuid: str, name: str, parent: int | None) -> int:
        """A new provider under the lowest free id, as databases without a sequence give it."""
        id_ = lowest_free(self.providers)
        root = id_ if parent is None else self.providers[parent].root_id
        self.providers[id_] = ProviderRow(id_, uuid, name, 0, parent, root, self.moment)
        self.inventories[id_], self.traits[id_], self.aggregates[id_] = {}, set(), set()
        return id_

    def remove_provider(self, id_: int) -> None:
        for table in (self.providers, self.inventories, self.traits, self.aggregates):
            del table[id_]
        self.disabled.pop(id_, None)
        self.used = {key: sum_ for key, sum_ in self.used.items() if key[0] != id_}

    def move(self, id_: int, parent: int | None) -> set[int]:
        """Hang a provider with its whole subtree elsewhere; returns the ids whose rows changed."""
        moved = self.subtree(id_)
        root = id_ if parent is None else self.providers[parent].root_id
        self.providers[id_] = self.providers[id_]._replace(parent_id=parent)
        for below in moved:
            self.providers[below] = self.providers[below]._replace(root_id=root)
        return moved

    def subtree(self, id_: int) -> set[int]:
        below = {id_}
        for _ in self.providers:  # no tree is deeper than there are providers
            below |= {row.id for row in self.providers.values() if row.parent_id in below}
        return below

    def has_children(self, id_: int) -> bool:
        return any(row.parent_id == id_ for row in self.providers.values())

    def set_inventory(self, id_: int, class_id: int, inventory: PlainInventory) -> None:
        units = (
            inventory.total,
            inventory.reserved,
            inventory.min_unit,
            inventory.max_unit,
            inventory.step_size,
            inventory.allocation_ratio,
        )
        self.inventories[id_][class_id] = InventoryRow(id_, class_id, *units, self.moment)
        self.used[id_, class_id] = inventory.used

    def add_trait_name(self, name: str) -> int:
        id_ = lowest_free(self.trait_names)
        self.trait_names[id_] = NameRow(id_, name, self.moment)
        return id_

    def add_class_name(self, name: str) -> int:
        """Standard classes have the ids of the library; the others are counted up and never reused."""
        if name in STANDARD_RESOURCE_CLASSES:
            id_ = STANDARD_RESOURCE_CLASSES.index(name)
        else:
            id_ = max([FIRST_CUSTOM_CLASS_ID - 1, *self.class_names]) + 1
        self.class_names[id_] = NameRow(id_, name, self.moment)
        return id_

    def class_id(self, name: str) -> int:
        return next(row.id for row in self.class_names.values() if row.name == name)

    def trait_id(self, name: str) -> int:
        return next(row.id for row in self.trait_names.values() if row.name == name)

    def aggregate_id(self, uuid: str) -> int:
        for id_, existing in self.aggregate_uuids.items():
            if existing == uuid:
                return id_
        id_ = lowest_free(self.aggregate_uuids)
        self.aggregate_uuids[id_] = uuid
        return id_


def lowest_free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(id_ for id_ in range(1, len(used) + 2) if id_ not in used)


def columns_of(rows: Sequence[tuple[Any, ...]], number: int) -> list[list[Any]]:
    """Rows as *number* columns."""
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(number)]
