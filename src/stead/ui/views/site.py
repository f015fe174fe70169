"""The Site page: sums per class, and one page of the trees that match, with their amounts."""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.tree_totals import tree_totals
from stead.catalog.capacity import sums
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.columns import InventoryColumns
    from stead.catalog.snapshot import Snapshot
    from stead.domain.capacity import Sums

ROWS = 50
"""Trees in one page of the table."""

CLASSES = 6
"""Resource classes in the table, unless the reader chooses others."""


class Amounts(NamedTuple):
    """Capacity and usage of one class in one tree."""

    capacity: int
    used: int


class Row(NamedTuple):
    """One tree. ``amounts`` has one entry for each class of the table; None: no inventory."""

    uuid: str
    name: str
    providers: int
    disabled: str | None
    amounts: Sequence[Amounts | None]


class Sites(NamedTuple):
    """The page: ``sums`` over the trees that match, ``classes`` and ``rows`` of the table, ``page`` of ``pages``."""

    trees: int
    disabled: int
    sums: Sequence[Sums]
    classes: Sequence[str]
    rows: Sequence[Row]
    page: int
    pages: int


def site(
    snapshot: Snapshot, roots: NDArray[np.int64], sort: str, page: int, chosen: Sequence[str], *, disabled: bool
) -> Sites:
    """What the page shows.

    Args:
        roots: slots of the roots of all trees that match.
        sort: ``name``, or a class: the fullest tree first; with ``-`` before it, the reverse.
        page: number of the page from 1; one that does not exist is the nearest.
        chosen: the classes of the table; those that most providers have, if empty.
        disabled: only trees whose root is disabled.
    """
    out = _out_of_service(snapshot, roots)
    if disabled:
        roots, out = roots[out], out[out]
    of_class = list(sums(snapshot, _members(snapshot, roots)))
    widespread = nlargest(CLASSES, of_class, key=lambda each: each.providers)
    classes = list(chosen) or [each.resource_class for each in widespread]
    pages = max(1, -(-len(roots) // ROWS))
    page = min(max(1, page), pages)
    slices.give_way()
    shown = _sorted(snapshot, roots, sort, page * ROWS)[(page - 1) * ROWS :]
    return Sites(len(roots), int(out.sum()), of_class, classes, _rows(snapshot, shown, classes), page, pages)


def _members(snapshot: Snapshot, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of all providers of the trees of *roots*."""
    matching = np.zeros(snapshot.size, np.bool_)
    matching[roots] = True
    members: NDArray[np.bool_] = matching[snapshot.forest.root.whole] & snapshot.live
    return members


def _out_of_service(snapshot: Snapshot, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = snapshot.service_states.out_of_service
    return np.zeros(len(roots), np.bool_) if mask is None else mask[roots]


def _sorted(snapshot: Snapshot, roots: NDArray[np.int64], sort: str, number: int) -> NDArray[np.int64]:
    """The first *number* of *roots*."""
    name = sort.removeprefix("-")
    row = snapshot.class_names.by_name.get(name)
    columns = None if row is None else snapshot.inventory.get(row.id)
    if columns is not None:
        return roots[_by_fill(snapshot, columns, roots, reverse=sort.startswith("-"))][:number]
    names: list[str] = snapshot.identities.names.at(roots).tolist()
    pairs = zip(names, roots.tolist(), strict=True)
    ordered = nlargest(number, pairs) if sort == "-name" else nsmallest(number, pairs)
    return np.array([root for _, root in ordered], np.int64)


def _by_fill(
    snapshot: Snapshot, columns: InventoryColumns, roots: NDArray[np.int64], *, reverse: bool
) -> NDArray[np.int64]:
    """Places of *roots* by the used part of a class; trees without inventory are last in both directions."""
    tree = np.full(snapshot.size, -1, np.int64)
    tree[roots] = np.arange(len(roots))
    slots = columns.slots
    of_slot = tree[snapshot.forest.root.at(slots)]
    slots, of_slot = slots[of_slot >= 0], of_slot[of_slot >= 0]
    capacities = columns.kinds.capacities()[columns.kind.at(slots)].astype(np.float64)
    capacity = np.bincount(of_slot, capacities, len(roots))
    used = np.bincount(of_slot, columns.used(slots).astype(np.float64), len(roots))
    fill = used / np.maximum(capacity, 1)
    # Stable, so that trees of equal use keep their places from page to page.
    return np.argsort(np.where(capacity > 0, fill if reverse else -fill, np.inf), kind="stable")


def _rows(snapshot: Snapshot, roots: NDArray[np.int64], classes: Sequence[str]) -> list[Row]:
    totals = {each.name: each for each in tree_totals(snapshot, roots) if each.name in classes}
    places = {name: each.places(range(len(roots))) for name, each in totals.items()}
    rows = []
    for place, root in enumerate(roots.tolist()):
        amounts = []
        for name in classes:
            of_class = totals.get(name)
            at = -1 if of_class is None else places[name][place]
            amounts.append(Amounts(of_class.capacity[at], of_class.used[at]) if of_class and at >= 0 else None)
        cause = snapshot.service_states.cause(root)
        size = snapshot.forest.shape_of(root).size
        reason = None if cause is None else cause[1].reason
        rows.append(Row(snapshot.uuid(root), snapshot.identities.names[root], size, reason, amounts))
    return rows


def choice_of_classes(of_class: Sequence[Sums], chosen: Sequence[str]) -> Mapping[str, bool]:
    """Each class of the site, by name, and whether the table shows it."""
    return {name: name in chosen for name in sorted(each.resource_class for each in of_class)}
