"""Provider trees as columns: the JSON text of GET ``/provider_trees?columns=true``, made of the columns of a snapshot.

A list has one value for each provider shown, or for each tree. Values that many providers share (inventories, sets of
traits and aggregates) are listed once, and a column has their numbers. -1 means none.

Source: "GET /provider_trees", docs/stead-api.md; decision 40 (docs/decisions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from stead.api.answers import encoded
from stead.api.bodies import show_inventory
from stead.api.tree_text import TOTALS, show_disabled
from stead.domain.provider import Inventory
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.provider_trees import ClassTotals, TreeRows
    from stead.catalog.columns import InventoryColumns, Memberships
    from stead.catalog.snapshot import Snapshot

NONE = -1
"""In a column: no value."""

FEW = 16
"""A class that at most one of this number of rows has is written as values of these rows alone.

So the size of the document follows the inventories, not the product of classes and providers.
"""


def column_texts(
    snapshot: Snapshot, rows: TreeRows, fields: Collection[str], totals: Sequence[ClassTotals] | None
) -> Iterator[bytes]:
    """The members ``trees`` and ``providers`` of the document. Gives way between two columns.

    Args:
        totals: the sums of the trees, in the order of ``rows.roots``, if they are shown.
    """
    yield b'"trees":{"row":' + _text(rows.first) + b',"provider_count":' + _text(rows.sizes)
    if totals is not None:
        trees = len(rows.roots)
        shown = [b'"%s":{%s}' % (sums.name.encode(), b",".join(_sums(sums, trees))) for sums in totals]
        yield b',"totals":{' + b",".join(shown) + b"}"
    yield b'},"providers":{"row_count":%d' % len(rows.slots)
    for field, key, column in _COLUMNS:
        if field in fields:
            runtime.give_way()
            yield b',"%s":' % key.encode() + column(snapshot, rows)
    yield b"}"


def _text(value: object) -> bytes:
    """JSON of *value*, which may have arrays, and integers of any size."""
    return encoded(value, orjson.OPT_SERIALIZE_NUMPY)


def _sums(sums: ClassTotals, trees: int) -> Iterator[bytes]:
    runtime.give_way()
    columns = {"provider_count": sums.having, **{name: getattr(sums, name) for name in TOTALS}}
    if len(sums.trees) * FEW <= trees:
        columns = {"tree": sums.trees, **columns}
    else:
        places = sums.places(range(trees))
        columns = {name: [0 if at < 0 else values[at] for at in places] for name, values in columns.items()}
    for name, values in columns.items():
        yield b'"%s":' % name.encode() + _text(values)


def _uuids(snapshot: Snapshot, rows: TreeRows) -> bytes:
    return _text(snapshot.identities.uuids.at(rows.slots).tolist())


def _names(snapshot: Snapshot, rows: TreeRows) -> bytes:
    return _text(snapshot.identities.names.at(rows.slots).tolist())


def _parents(snapshot: Snapshot, rows: TreeRows) -> bytes:
    """The row of each provider's parent."""
    row_of = np.full(snapshot.size + 1, NONE, np.int64)  # the last one is for roots, whose parent is -1
    row_of[rows.slots] = np.arange(len(rows.slots))
    return _text(row_of[snapshot.forest.parent.at(rows.slots)])


def _generations(snapshot: Snapshot, rows: TreeRows) -> bytes:
    return _text(snapshot.generations.at(rows.slots))


def _inventories(snapshot: Snapshot, rows: TreeRows) -> bytes:
    shown: dict[str, dict[str, Any]] = {}
    for name, columns, row in _classes(snapshot, rows):
        at = rows.slots if row is None else rows.slots[row]
        numbers, number = np.unique(columns.kind.at(at), return_inverse=True)
        having = numbers > 0
        kinds = [Inventory(*columns.kinds.values[kind]) for kind in numbers[having].tolist()]
        values = [{**show_inventory(kind), "capacity": kind.capacity} for kind in kinds]
        # Kind 0 means no inventory. It is the least number, so without it all others keep their order.
        kind_of = number if having[0] else number - 1
        shown[name] = {**_of_few(row), "kinds": values, "kind": kind_of}
    return _by_class(shown)


def _usages(snapshot: Snapshot, rows: TreeRows) -> bytes:
    shown: dict[str, dict[str, Any]] = {}
    for name, columns, row in _classes(snapshot, rows):
        at = rows.slots if row is None else rows.slots[row]
        shown[name] = {**_of_few(row), "used": np.where(columns.having(at), columns.used(at), NONE)}
    return _by_class(shown)


def _classes(snapshot: Snapshot, rows: TreeRows) -> Iterator[tuple[str, InventoryColumns, NDArray[np.int64] | None]]:
    """The classes of which any row has inventory: the name, the columns, and the rows that have it if these are few."""
    order = np.argsort(rows.slots)
    slots = rows.slots[order]
    for class_id in snapshot.in_class_order(snapshot.inventory.at(slots)):
        columns = snapshot.inventory[class_id]
        having = columns.places(slots)
        if len(having):
            few = np.sort(order[having]) if len(having) * FEW <= len(slots) else None
            yield snapshot.class_names.by_id[class_id].name, columns, few


def _of_few(row: NDArray[np.int64] | None) -> dict[str, Any]:
    return {} if row is None else {"row": row}


def _by_class(shown: dict[str, dict[str, Any]]) -> bytes:
    classes = []
    for name, columns in shown.items():
        runtime.give_way()
        text = b",".join(
            # orjson rejects arrays that are not contiguous.
            b'"%s":' % key.encode() + _text(np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column)
            for key, column in columns.items()
        )
        classes.append(b'"%s":{%s}' % (name.encode(), text))
    return b"{" + b",".join(classes) + b"}"


def _traits(snapshot: Snapshot, rows: TreeRows) -> bytes:
    return _sets(snapshot.trait_sets, rows, lambda trait: snapshot.trait_names.by_id[trait].name)


def _aggregates(snapshot: Snapshot, rows: TreeRows) -> bytes:
    return _sets(snapshot.aggregate_sets, rows, snapshot.aggregate_uuids.__getitem__)


def _sets(memberships: Memberships, rows: TreeRows, name_of: Callable[[int], str]) -> bytes:
    """The names that occur, the distinct sets as numbers of names, and the number of each provider's set."""
    of_rows = memberships.set_of.at(rows.slots)
    _, examples, number = np.unique(of_rows, return_index=True, return_inverse=True)
    sets = [memberships.of(slot) for slot in rows.slots[examples].tolist()]
    place = {member: place for place, member in enumerate(sorted(set().union(*sets)))}
    return _text(
        {
            "names": [name_of(member) for member in place],
            "sets": [[place[member] for member in members] for members in sets],
            "set": np.ascontiguousarray(number),
        }
    )


def _states(snapshot: Snapshot, rows: TreeRows) -> bytes:
    """The distinct states of disabled providers, and the number of each provider's state."""
    state_of = np.full(len(rows.slots), NONE, np.int64)
    states: dict[int, int] = {}
    out_of_service = snapshot.service_states.out_of_service
    shown: list[object] = []
    if out_of_service is not None:
        for row in np.flatnonzero(out_of_service[rows.slots]).tolist():
            slot = int(rows.slots[row])
            cause = snapshot.service_states.cause(slot)
            assert cause is not None
            if cause[0] not in states:
                states[cause[0]] = len(shown)
                shown.append(show_disabled(snapshot, slot))
            state_of[row] = states[cause[0]]
    return _text({"states": shown, "state": state_of})


_COLUMNS: tuple[tuple[str, str, Callable[[Snapshot, TreeRows], bytes]], ...] = (
    ("uuid", "uuid", _uuids),
    ("name", "name", _names),
    ("parent_provider_uuid", "parent_row", _parents),
    ("generation", "generation", _generations),
    ("inventories", "inventories", _inventories),
    ("usages", "usages", _usages),
    ("traits", "traits", _traits),
    ("aggregates", "aggregates", _aggregates),
    ("disabled", "disabled", _states),
)
"""Field, its key among the columns, and what writes the column."""
