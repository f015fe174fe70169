"""Provider trees as the JSON text of GET ``/provider_trees``, straight from the columns of a snapshot.

What many providers have alike (an inventory, a set of traits or aggregates) is written once for each part of an answer.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.api.shapes import show_inventory
from stead.catalog.forest import NOBODY
from stead.domain.inventory import Inventory
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stead.candidates.provider_trees import ShownTree
    from stead.candidates.tree_totals import ClassTotals
    from stead.catalog.memberships import Memberships
    from stead.catalog.snapshot import Snapshot

FIELDS = ("name", "parent_provider_uuid", "generation", "inventories", "usages", "traits", "aggregates")
"""What can be shown of a provider beside its uuid, in the order in which it is shown."""

TOTALS = ("total", "reserved", "capacity", "used")
"""The sums of one resource class."""

PROVIDERS_AT_ONCE = 200
"""Written together: that takes about a millisecond, and their intermediate texts are small."""


def tree_texts(
    snapshot: Snapshot, trees: Sequence[ShownTree], fields: Collection[str], totals: Sequence[str] | None
) -> Iterator[str]:
    """The objects of *trees*, several in each text, with the commas between them; it gives way between two texts.

    Args:
        fields: those of :data:`FIELDS` that are shown.
        totals: the text of each tree's sums, if they are shown.
    """
    start = 0
    for some in _portions(trees):
        slices.give_way()
        slots = np.fromiter(chain.from_iterable(tree.slots for tree in some), np.int64)
        providers = iter(_provider_texts(snapshot, slots, fields))
        texts = []
        for number, tree in enumerate(some, start):
            shown = ",".join([next(providers) for _ in tree.slots])
            sums = "" if totals is None else f',"totals":{totals[number]}'
            texts.append(
                f'{{"root_provider_uuid":"{snapshot.uuid(tree.root)}","provider_count":{tree.size}{sums},'
                f'"providers":[{shown}]}}'
            )
        start += len(some)
        yield ",".join(texts)


def _portions(trees: Sequence[ShownTree]) -> Iterator[list[ShownTree]]:
    """Trees that show about :data:`PROVIDERS_AT_ONCE` providers together."""
    portion: list[ShownTree] = []
    number = 0
    for tree in trees:
        portion.append(tree)
        number += len(tree.slots)
        if number >= PROVIDERS_AT_ONCE:
            yield portion
            portion, number = [], 0
    if portion:
        yield portion


def _provider_texts(snapshot: Snapshot, slots: NDArray[np.int64], fields: Collection[str]) -> Iterable[str]:
    """One object for each of *slots*."""
    columns: list[Iterable[str]] = [[f'{{"uuid":"{uuid}"' for uuid in snapshot.identities.uuids.at(slots).tolist()]]
    for field in FIELDS:
        if field in fields:
            texts = _WRITERS[field](snapshot, slots)
            columns.append([f',"{field}":{text}' for text in texts])
    return [f"{''.join(parts)}}}" for parts in zip(*columns, strict=True)]


def _names(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    return [orjson.dumps(name).decode() for name in snapshot.identities.names.at(slots).tolist()]


def _parents(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    uuids = snapshot.identities.uuids
    parents = snapshot.forest.parent.at(slots).tolist()
    return ["null" if parent == NOBODY else f'"{uuids[parent]}"' for parent in parents]


def _generations(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    return map(str, snapshot.generations.at(slots).tolist())


def _inventories(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    texts: list[list[str]] = [[] for _ in slots]
    for class_id in sorted(snapshot.inventory):
        kinds, kind = snapshot.inventory[class_id].kinds.values, snapshot.inventory[class_id].kind.at(slots)
        having = np.flatnonzero(kind)
        name = snapshot.class_names.by_id[class_id].name
        written = {
            number: f'"{name}":{orjson.dumps(show_inventory(Inventory(*kinds[number]))).decode()}'
            for number in np.unique(kind[having]).tolist()
        }
        for place, number in zip(having.tolist(), kind[having].tolist(), strict=True):
            texts[place].append(written[number])
    return [f"{{{','.join(some)}}}" for some in texts]


def _usages(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    texts: list[list[str]] = [[] for _ in slots]
    for class_id in sorted(snapshot.inventory):
        columns = snapshot.inventory[class_id]
        having = np.flatnonzero(columns.having(slots))
        name = snapshot.class_names.by_id[class_id].name
        for place, used in zip(having.tolist(), columns.used(slots[having]).tolist(), strict=True):
            texts[place].append(f'"{name}":{used}')
    return [f"{{{','.join(some)}}}" for some in texts]


def _traits(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    return _sets(snapshot.trait_sets, slots, lambda slot: [row.name for row in snapshot.traits(slot)])


def _aggregates(snapshot: Snapshot, slots: NDArray[np.int64]) -> Iterable[str]:
    return _sets(snapshot.aggregate_sets, slots, snapshot.aggregates)


def _sets(sets: Memberships, slots: NDArray[np.int64], members: Callable[[int], list[str]]) -> Iterable[str]:
    """The members at each of *slots*, whose text is made once for each set."""
    written: dict[int, str] = {}
    texts = []
    for slot, number in zip(slots.tolist(), sets.set_of.at(slots).tolist(), strict=True):
        text = written.get(number)
        if text is None:
            text = written[number] = orjson.dumps(members(slot)).decode()
        texts.append(text)
    return texts


_WRITERS: dict[str, Callable[[Snapshot, NDArray[np.int64]], Iterable[str]]] = {
    "name": _names,
    "parent_provider_uuid": _parents,
    "generation": _generations,
    "inventories": _inventories,
    "usages": _usages,
    "traits": _traits,
    "aggregates": _aggregates,
}


def totals_texts(totals: Sequence[ClassTotals], places: Sequence[int]) -> list[str]:
    """The sums of the trees at *places*, an object by resource class for each of them."""
    texts: list[list[str]] = [[] for _ in places]
    for sums in totals:
        slices.give_way()
        for text, place in zip(texts, places, strict=True):
            if sums.having[place]:
                text.append(
                    f'"{sums.name}":{{"total":{sums.total[place]},"reserved":{sums.reserved[place]},'
                    f'"capacity":{sums.capacity[place]},"used":{sums.used[place]}}}'
                )
    return [f"{{{','.join(text)}}}" for text in texts]


def whole_text(totals: Sequence[ClassTotals]) -> str:
    """The sums over all trees, an object by resource class."""
    whole = {
        sums.name: {
            "total": sum(sums.total),
            "reserved": sum(sums.reserved),
            "capacity": sum(sums.capacity),
            "used": sum(sums.used),
        }
        for sums in totals
    }
    return json.dumps(whole, separators=(",", ":"))  # integers of any size, which orjson refuses
