"""The inventories of all providers: the columns of each class, and the classes that a provider has.

A snapshot may have tens of thousands of rare classes, and a refresh after a claim touches one provider. So what a
refresh costs must follow the classes of the touched providers, not all classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from stead.catalog.directory import Directory
from stead.catalog.index import TreeIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns


class Inventories(Mapping[int, "InventoryColumns"]):
    """The columns of each class with inventory, by class id; immutable."""

    __slots__ = ("_columns", "_common", "_rare_at", "size")

    def __init__(
        self,
        columns: dict[int, InventoryColumns],
        common: tuple[int, ...],
        rare_at: Directory[int, tuple[int, ...]],
        size: int,
    ) -> None:
        """Use :meth:`of` and :meth:`replaced`.

        Args:
            columns: a rare class may have fewer than *size* slots here: no refresh touches all of them.
            common: the ids of common classes, ascending.
            rare_at: by slot, the ids of its rare classes, ascending.
        """
        self._columns = columns
        self._common = common
        self._rare_at = rare_at
        self.size = size

    @classmethod
    def of(cls, columns: Mapping[int, InventoryColumns], size: int) -> Inventories:
        """The inventories in *columns*, for *size* slots."""
        rare_at: dict[int, list[int]] = defaultdict(list)
        for class_id in sorted(columns):
            if columns[class_id].is_rare:
                for slot in columns[class_id].slots.tolist():
                    rare_at[slot].append(class_id)
        common = tuple(sorted(class_id for class_id, each in columns.items() if not each.is_rare))
        changed = {slot: tuple(class_ids) for slot, class_ids in rare_at.items()}
        return cls(dict(columns), common, _nowhere().replaced((), changed), size)

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[int]:
        return iter(self._columns)

    def __contains__(self, class_id: object) -> bool:
        return class_id in self._columns

    def __getitem__(self, class_id: int) -> InventoryColumns:
        return self._columns[class_id].grown(self.size)

    def get(self, class_id: int, default: InventoryColumns | None = None) -> InventoryColumns | None:  # type: ignore[override]
        """The columns of a class; *default* if no provider has inventory of it."""
        columns = self._columns.get(class_id)
        return default if columns is None else columns.grown(self.size)

    def at(self, slots: Iterable[int] | NDArray[np.int64]) -> Sequence[int]:
        """Ids, ascending, of all classes of which any of *slots* has inventory, and perhaps of others."""
        if not len(self._rare_at):
            return self._common
        places: Iterable[int] = slots.tolist() if isinstance(slots, np.ndarray) else slots
        rare = set().union(*(classes for slot in places if (classes := self._rare_at.get(slot)) is not None))
        return sorted(rare.union(self._common)) if rare else self._common

    def with_columns(self, changed: Mapping[int, InventoryColumns]) -> Inventories:
        """The inventories with other columns of some classes, which have inventory at the same slots as before."""
        return Inventories({**self._columns, **changed}, self._common, self._rare_at, self.size)

    def replaced(self, changed: Mapping[int, InventoryColumns], size: int) -> Inventories:
        """The inventories with *changed* columns, for *size* slots; a class without inventory is left out."""
        new = dict(changed)
        if size != self.size:
            # Rare classes grow when they are read. There are few common ones: each takes a good part of the slots.
            new |= {class_id: self._columns[class_id].grown(size) for class_id in self._common if class_id not in new}
        columns = {**self._columns, **new}
        moved: dict[int, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        common = set(self._common)
        for class_id, after in new.items():
            _note_rare_slots(class_id, self._columns.get(class_id), after, moved)
            if after.is_rare:
                common.discard(class_id)
            else:
                common.add(class_id)
            if after.is_empty:
                # A class without inventory may be deleted, so no column may refer to it any longer.
                del columns[class_id]
                common.discard(class_id)
        return Inventories(columns, tuple(sorted(common)), self._with_rare(moved), size)

    def _with_rare(self, moved: Mapping[int, tuple[set[int], set[int]]]) -> Directory[int, tuple[int, ...]]:
        """The rare classes of each slot, after it lost and gained some of them."""
        emptied, changed = [], {}
        for slot, (lost, gained) in moved.items():
            before = self._rare_at.get(slot)
            after = set(before or ()) - lost | gained
            if after:
                changed[slot] = tuple(sorted(after))
            elif before is not None:
                emptied.append(slot)
        return self._rare_at.replaced(emptied, changed) if moved else self._rare_at


def _note_rare_slots(
    class_id: int,
    before: InventoryColumns | None,
    after: InventoryColumns,
    moved: dict[int, tuple[set[int], set[int]]],
) -> None:
    """Add *class_id* to what slots lost and gained, for the slots at which the class is rare on one side only."""
    old = before.slots if before is not None and before.is_rare else None
    new = after.slots if after.is_rare else None
    if old is new:  # they share the array as long as the same slots have inventory
        return
    slots_before = set() if old is None else set(old.tolist())
    slots_after = set() if new is None else set(new.tolist())
    for slot in slots_before - slots_after:
        moved[slot][0].add(class_id)
    for slot in slots_after - slots_before:
        moved[slot][1].add(class_id)


def _nowhere() -> Directory[int, tuple[int, ...]]:
    """No slot has a rare class."""
    return Directory(TreeIndex.of({}))
