"""Columns of numbers: for one resource class, what every provider that has inventory of it has and what is taken."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from stead.domain.inventory import Inventory, capacity, fits
from stead.domain.provider import HeldInventory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stead.domain.changes import InventoryRow


@dataclass(frozen=True, slots=True)
class InventoryColumns:
    """All inventories of one class, a row per provider, ascending by slot; never change.

    Every array has shape ``(rows,)``. ``capacity`` is not truncated; ``modified`` is in seconds since 1970 (UTC).
    """

    slots: NDArray[np.int64]
    total: NDArray[np.int32]
    reserved: NDArray[np.int32]
    min_unit: NDArray[np.int32]
    max_unit: NDArray[np.int32]
    step_size: NDArray[np.int32]
    allocation_ratio: NDArray[np.float64]
    capacity: NDArray[np.float64]
    used: NDArray[np.int64]
    modified: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Mapping[int, InventoryRow]) -> InventoryColumns:
        """Columns of *rows* (by slot)."""
        slots = sorted(rows)
        numbers = np.array([rows[slot][2:] for slot in slots], np.float64).reshape(len(slots), 8)
        total, reserved, min_unit, max_unit, step_size, ratio, used, modified = numbers.T
        return cls(
            np.array(slots, np.int64),
            total.astype(np.int32),
            reserved.astype(np.int32),
            min_unit.astype(np.int32),
            max_unit.astype(np.int32),
            step_size.astype(np.int32),
            np.ascontiguousarray(ratio),
            capacity(total, reserved, ratio),
            used.astype(np.int64),
            modified.astype(np.int64),
        )

    def replaced(self, gone: set[int], rows: Mapping[int, InventoryRow]) -> InventoryColumns:
        """The same without the slots *gone*, and with *rows* (by slot) in place of or beside what there is."""
        new = InventoryColumns.of(rows)
        where = np.searchsorted(self.slots, new.slots)
        inside = where < len(self.slots)
        known = inside & (self.slots[np.where(inside, where, 0)] == new.slots) if len(self.slots) else inside
        if not gone and bool(known.all()):
            return self._overwritten(where, new)
        kept = ~np.isin(self.slots, np.array(sorted(gone | set(rows)), np.int64))
        slots = np.concatenate([self.slots[kept], new.slots])
        order = np.argsort(slots, kind="stable")
        return InventoryColumns(
            *(
                np.concatenate([getattr(self, column.name)[kept], getattr(new, column.name)])[order]
                for column in fields(self)
            )
        )

    def _overwritten(self, rows: NDArray[np.int64], new: InventoryColumns) -> InventoryColumns:
        def overwritten(name: str) -> NDArray[Any]:
            old: NDArray[Any] = getattr(self, name)
            values = getattr(new, name)
            if bool((old[rows] == values).all()):
                return old
            changed = old.copy()
            changed[rows] = values
            return changed

        return InventoryColumns(*(overwritten(column.name) for column in fields(self)))

    def serving(self, amount: int) -> NDArray[np.int64]:
        """Slots of the providers that can serve *amount* of the class by themselves, ascending."""
        kept: NDArray[np.bool_] = fits(amount, self.used, self.capacity, self.min_unit, self.max_unit, self.step_size)
        return self.slots[kept]

    def row_of(self, slot: int) -> int:
        """The row of a slot that has inventory of the class."""
        return int(np.searchsorted(self.slots, slot))

    def at(self, slot: int) -> HeldInventory:
        """The inventory of a slot that has one."""
        row = self.row_of(slot)
        inventory = Inventory(
            int(self.total[row]),
            int(self.reserved[row]),
            int(self.min_unit[row]),
            int(self.max_unit[row]),
            int(self.step_size[row]),
            float(self.allocation_ratio[row]),
        )
        return HeldInventory(inventory, int(self.used[row]), int(self.modified[row]))
