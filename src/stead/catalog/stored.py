"""A snapshot as the sections of a snapshot file, and back.

Slots, columns and numbers of interned values are stored as they are. What follows from them (maps, masks, texts) is
made again.

Source: docs/decisions/0045-a-snapshot-file-is-a-hint.md.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stead.catalog.columns import InventoryColumns, InventoryKinds
from stead.catalog.forest import NO_SLOT, Forest, Shape
from stead.catalog.names import Names
from stead.catalog.refresh import new_version
from stead.catalog.service_states import ServiceStates
from stead.catalog.sharing import Sharing
from stead.catalog.snapshot import Identities, Snapshot
from stead.domain.changes import NameRow, Totals, Unfit
from stead.domain.provider import Disabled, Slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.blocks import Blocks
    from stead.catalog.interned import Interned
    from stead.catalog.memberships import Memberships
    from stead.catalog.snapshot_file import Sections, Stored

T = TypeVar("T", bound="np.generic")

_SLOT = np.dtype(np.int32)


def totals(snapshot: Snapshot) -> Totals:
    """Sums over all providers, to compare with those of the database."""
    live = snapshot.identities.ids.whole != NO_SLOT
    generations, modified = snapshot.generations.whole[live], snapshot.modified.whole[live]
    return Totals(int(live.sum()), int(generations.sum()), int(modified.sum()))


def write(snapshot: Snapshot, sections: Sections) -> dict[str, Any]:
    """Add the sections of *snapshot*; returns the rest, which belongs into the header."""
    identities, forest = snapshot.identities, snapshot.forest
    for name, texts in (("uuids", identities.uuids), ("names", identities.names)):
        sections.add_texts(name, (block.tolist() for block in texts.blocks))
    for name, column in _columns(snapshot).items():
        sections.add_numbers(name, column.blocks)
    for class_id, columns in snapshot.inventory.items():
        for name, column in _inventory_columns(columns).items():
            sections.add_numbers(f"{name} {class_id}", column.blocks)
        # A copy, since a refresh may add values meanwhile.
        sections.add_texts(f"kinds {class_id}", [list(columns.kinds.values)])
    trees = list(forest.trees.items())
    sections.add_numbers("tree roots", [np.array([root for root, _ in trees], _SLOT)])
    sections.add_numbers("tree sizes", [np.array([len(members) for _, members in trees], _SLOT)])
    sections.add_numbers("tree members", [np.fromiter(itertools.chain(*(members for _, members in trees)), _SLOT)])
    sections.add_texts("shapes", [[shape.leave for shape in list(forest.shapes.values)]])
    for name, sets in (("trait sets", snapshot.trait_sets), ("aggregate sets", snapshot.aggregate_sets)):
        sections.add_texts(name, [sets.sets()])
    sections.add_numbers("free", [np.array(identities.free, _SLOT)])
    sections.add_texts("aggregates", [list(snapshot.aggregate_uuids.items())])
    sections.add_texts("trait names", [list(map(tuple, snapshot.trait_names.rows))])
    sections.add_texts("class names", [list(map(tuple, snapshot.class_names.rows))])
    sections.add_texts(
        "disabled",
        [[(slot, each.reason, each.since, each.until) for slot, each in snapshot.service_states.disabled.items()]],
    )
    return {"size": snapshot.size, "classes": list(snapshot.inventory)}


def read(stored: Stored) -> Snapshot:
    """The snapshot in a file.

    Raises:
        Unfit: the sections do not form a snapshot.
    """
    try:
        return _Reading(stored).snapshot()
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise Unfit(f"its content is not a snapshot: {error}") from error


def _columns(snapshot: Snapshot) -> dict[str, Blocks[Any]]:
    return {
        "ids": snapshot.identities.ids,
        "generations": snapshot.generations,
        "modified": snapshot.modified,
        "parent": snapshot.forest.parent,
        "root": snapshot.forest.root,
        "position": snapshot.forest.position,
        "shape": snapshot.forest.shape,
        "traits of": snapshot.trait_sets.set_of,
        "aggregates of": snapshot.aggregate_sets.set_of,
    }


def _inventory_columns(columns: InventoryColumns) -> dict[str, Blocks[Any]]:
    return {"kind": columns.kind, "room": columns.room, "written": columns.modified}


class _Reading:
    """One file while its snapshot is made."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._size = int(stored.header["size"])
        self._empty = Snapshot.empty()

    def snapshot(self) -> Snapshot:
        empty, size = self._empty, self._size
        columns = {name: self._column(name, column) for name, column in _columns(empty).items()}
        for name in ("parent", "root"):
            _require_below(columns[name], size, NO_SLOT)
        identities = self._identities(columns["ids"])
        forest = self._forest(columns)
        # New versions, since no text of these providers is cached.
        versions = empty.versions.replaced(np.arange(size), new_version(), size)
        traits = self._memberships("trait sets", empty.trait_sets, columns["traits of"])
        aggregates = self._memberships("aggregate sets", empty.aggregate_sets, columns["aggregates of"])
        uuids = {int(id_): str(uuid) for id_, uuid in self._stored.values("aggregates")}
        snapshot = replace(
            empty,
            identities=identities,
            generations=columns["generations"],
            modified=columns["modified"],
            versions=versions,
            forest=forest,
            inventory={int(class_id): self._inventory(int(class_id)) for class_id in self._stored.header["classes"]},
            trait_sets=traits,
            aggregate_sets=aggregates,
            aggregate_uuids=uuids,
            aggregate_ids={uuid: id_ for id_, uuid in uuids.items()},
            trait_names=self._names("trait names"),
            class_names=self._names("class names"),
        )
        parts = (forest, traits, aggregates, snapshot.sharing_trait)
        states = ServiceStates(forest, self._disabled())
        return replace(snapshot, sharing=Sharing(*parts, snapshot.masks), service_states=states).settled()

    def _column(self, name: str, template: Blocks[T]) -> Blocks[T]:
        return template.holding(self._stored.numbers(name, template.dtype, self._size))

    def _identities(self, ids: Blocks[np.int64]) -> Identities:
        uuids, names = self._empty.identities.uuids, self._empty.identities.names
        growing = self._empty.growing().identities
        by_uuid, by_name = list(self._stored.texts("uuids")), list(self._stored.texts("names"))
        first = 0
        for some_uuids, some_names in zip(by_uuid, by_name, strict=True):
            slots = range(first, first + len(some_uuids))
            of_slots = ids.whole[first : slots.stop].tolist()
            is_full = NO_SLOT not in of_slots
            for directory, keys in (
                (growing.slot_of_uuid, some_uuids),
                (growing.slot_of_name, some_names),
                (growing.slot_of_id, of_slots),
            ):
                pairs: Iterator[tuple[Any, Any]] = zip(keys, slots, strict=True)
                if not is_full:
                    pairs = (pair for pair, id_ in zip(pairs, of_slots, strict=True) if id_ != NO_SLOT)
                directory.replaced((), dict(pairs))
            first = slots.stop
        free = tuple(map(Slot, self._stored.numbers("free", _SLOT).tolist()))
        identities = replace(
            growing,
            uuids=uuids.holding(_texts(by_uuid, self._size)),
            names=names.holding(_texts(by_name, self._size)),
            ids=ids,
            free=free,
        )
        number = self._size - len(free)
        directories = identities.slot_of_uuid, identities.slot_of_name, identities.slot_of_id
        if any(len(directory) != number for directory in directories):
            raise Unfit("two of its providers have one name")
        return identities

    def _forest(self, columns: Mapping[str, Blocks[Any]]) -> Forest:
        forest = self._empty.forest
        _filled(forest.shapes, [Shape(tuple(map(int, leave))) for leave in self._stored.values("shapes")])
        _require_below(columns["shape"], len(forest.shapes))
        roots, sizes, members = (self._stored.numbers(f"tree {what}", _SLOT) for what in ("roots", "sizes", "members"))
        if len(members) and (members.min() < 0 or members.max() >= self._size):
            raise Unfit("a tree has a provider that does not exist")
        ends = np.cumsum(sizes, dtype=np.int64)
        if len(members) != (ends[-1] if len(ends) else 0):
            raise Unfit("its trees are not complete")
        flat = members.tolist()
        trees = {
            root: tuple(flat[end - size : end])
            for root, size, end in zip(roots.tolist(), sizes.tolist(), ends.tolist(), strict=True)
        }
        return replace(
            forest,
            parent=columns["parent"],
            root=columns["root"],
            position=columns["position"],
            shape=columns["shape"],
            trees=forest.trees.replaced((), trees),
        )

    def _inventory(self, class_id: int) -> InventoryColumns:
        kinds = InventoryKinds()
        rows = self._stored.values(f"kinds {class_id}")
        _filled(kinds, [(*map(int, row[:-1]), float(row[-1])) for row in rows])
        columns = {
            name: template.holding(self._stored.numbers(f"{name} {class_id}", template.dtype, self._size))
            for name, template in _inventory_columns(InventoryColumns.none()).items()
        }
        _require_below(columns["kind"], len(kinds))
        return InventoryColumns(kinds, columns["kind"], columns["room"], columns["written"])

    def _memberships(self, name: str, empty: Memberships, set_of: Blocks[np.int32]) -> Memberships:
        sets = [tuple(map(int, members)) for members in self._stored.values(name)]
        memberships = empty.holding(sets, set_of)
        if memberships.sets() != sets:
            raise Unfit(f"{name} has a set twice")
        _require_below(set_of, len(sets))
        return memberships

    def _names(self, name: str) -> Names:
        return Names([NameRow(int(id_), str(text), int(modified)) for id_, text, modified in self._stored.values(name)])

    def _disabled(self) -> dict[Slot, Disabled]:
        rows = self._stored.values("disabled")
        return {Slot(int(slot)): Disabled(reason, since, until) for slot, reason, since, until in rows}


def _texts(parts: Sequence[list[str]], size: int) -> NDArray[np.object_]:
    texts = np.empty(size, np.object_)
    texts[:] = list(itertools.chain(*parts))
    return texts


def _filled(interned: Interned[Any], values: Sequence[Any]) -> None:
    """Give *interned*, which is new, these values, with their places as numbers."""
    interned.numbers(values)
    if interned.values != list(values):
        raise Unfit("a value is stored twice")


def _require_below(column: Blocks[np.int32], bound: int, least: int = 0) -> None:
    for block in column.blocks:
        # A right checksum does not prove that the numbers fit together, and a wrong one would fail later requests.
        if block.min() < least or block.max() >= bound:
            raise Unfit("a number is out of range")
