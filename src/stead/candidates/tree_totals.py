"""Sums per resource class over provider trees, by vector operations on whole columns.

Source: "GET /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns
    from stead.catalog.snapshot import Snapshot

_EXACT = 2**53
"""A float holds every integer up to this. Fast sums (`numpy.bincount`) use floats."""


@dataclass(frozen=True, slots=True)
class ClassTotals:
    """Sums of one resource class over those of some trees that have inventory of it.

    ``trees`` has their places among all these trees, ascending; the lists have a value for each of ``trees``.
    ``having`` counts the providers with inventory.
    """

    name: str
    trees: NDArray[np.int64]
    having: Sequence[int]
    total: Sequence[int]
    reserved: Sequence[int]
    capacity: Sequence[int]
    used: Sequence[int]

    def places(self, trees: Sequence[int]) -> list[int]:
        """The place of each of *trees* in the lists; -1 for one without inventory."""
        asked = np.asarray(trees, np.int64)
        places = self.trees.searchsorted(asked)
        own: list[int] = np.where(self.trees.take(places, mode="clip") == asked, places, -1).tolist()
        return own


def tree_totals(snapshot: Snapshot, roots: NDArray[np.int64]) -> list[ClassTotals]:
    """The sums over the trees of *roots*, in their order, for each class of which any of these trees has inventory."""
    tree_of_root = np.full(snapshot.size, -1, np.int64)
    tree_of_root[roots] = np.arange(len(roots))
    totals = []
    for class_id in sorted(snapshot.inventory):
        slices.give_way()
        columns = snapshot.inventory[class_id]
        slots = columns.slots
        tree = tree_of_root[snapshot.forest.root.at(slots)]
        matching = tree >= 0
        if matching.any():
            name = snapshot.class_names.by_id[class_id].name
            totals.append(_class_totals(name, columns, slots[matching], tree[matching], len(roots)))
    return totals


def site_totals(snapshot: Snapshot) -> list[ClassTotals]:
    """`tree_totals` of all trees."""
    return tree_totals(snapshot, np.flatnonzero(snapshot.roots))


def _class_totals(
    name: str, columns: InventoryColumns, slots: NDArray[np.int64], tree: NDArray[np.int64], number: int
) -> ClassTotals:
    if columns.is_rare:
        trees, place = np.unique(tree, return_inverse=True)
    else:  # faster for many: without sorting, but over all trees
        has = np.bincount(tree, minlength=number) > 0
        trees, place = np.flatnonzero(has), (np.cumsum(has) - 1)[tree]
    kinds, kind = np.unique(columns.kind.at(slots), return_inverse=True)
    inventories = [columns.kinds.values[number] for number in kinds.tolist()]

    def summed(values: list[int]) -> list[int]:
        """Sums of *values*, which has one per kind of inventory."""
        return _summed(np.array(values, _dtype(values, len(slots)))[kind], place, len(trees))

    used = columns.used(slots)
    largest = max(abs(int(used.min())), abs(int(used.max())))
    return ClassTotals(
        name,
        trees,
        np.bincount(place, minlength=len(trees)).tolist(),
        summed([inventory[0] for inventory in inventories]),
        summed([inventory[1] for inventory in inventories]),
        summed([columns.kinds.shown(number) for number in kinds.tolist()]),
        _summed(used.astype(_dtype([largest], len(slots))), place, len(trees)),
    )


def _dtype(values: Sequence[int], number: int) -> type[np.float64 | object]:
    """The type for exact sums of *number* values: floats if the largest possible sum fits, else Python integers."""
    return np.float64 if max(map(abs, values)) * number < _EXACT else object


def _summed(values: NDArray[np.float64] | NDArray[np.object_], tree: NDArray[np.int64], trees: int) -> list[int]:
    if values.dtype == np.float64:
        sums: list[int] = np.bincount(tree, weights=values, minlength=trees).astype(np.int64).tolist()
        return sums
    # `bincount` converts its weights to floats, so sums of Python integers are added one by one.
    exact = np.zeros(trees, object)
    np.add.at(exact, tree, values)
    return exact.tolist()
