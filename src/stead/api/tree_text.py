"""Provider trees as the JSON text of GET ``/provider_trees``, written directly from the columns of a snapshot.

Equal values of many providers (an inventory, a set of traits or aggregates) are written once for each part of an
answer.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING

import orjson

from stead.api.bodies import show_inventory
from stead.catalog.listing import Listing
from stead.domain.moments import in_utc
from stead.process import runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from stead.candidates.provider_trees import ClassTotals, ShownTree
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Disabled

FIELDS = ("name", "parent_provider_uuid", "generation", "inventories", "usages", "traits", "aggregates", "disabled")
"""Optional fields of a provider, in the order in which they are shown."""

TOTALS = ("total", "reserved", "capacity", "used")
"""The sums of one resource class."""

PROVIDERS_AT_ONCE = 200
"""Providers that are written together: that takes about 1 ms, and the intermediate texts stay small."""


def tree_texts(
    snapshot: Snapshot, trees: Sequence[ShownTree], fields: Collection[str], totals: Sequence[str] | None
) -> Iterator[str]:
    """The objects of *trees*, several in each text, with commas between them. Gives way between two texts.

    Args:
        fields: the :data:`FIELDS` that are shown.
        totals: the text of each tree's sums, if they are shown.
    """
    start = 0
    for portion in _portions(trees):
        runtime.give_way()
        listed = Listing(snapshot, chain.from_iterable(tree.slots for tree in portion))
        providers = iter(_provider_texts(snapshot, listed, fields))
        texts = []
        for number, tree in enumerate(portion, start):
            shown = ",".join([next(providers) for _ in tree.slots])
            sums = "" if totals is None else f',"totals":{totals[number]}'
            texts.append(
                f'{{"root_provider_uuid":"{snapshot.uuid(tree.root)}","provider_count":{tree.size}{sums},'
                f'"providers":[{shown}]}}'
            )
        start += len(portion)
        yield ",".join(texts)


def _portions(trees: Sequence[ShownTree]) -> Iterator[list[ShownTree]]:
    """Groups of trees that show about :data:`PROVIDERS_AT_ONCE` providers together."""
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


def _provider_texts(snapshot: Snapshot, listed: Listing, fields: Collection[str]) -> Iterable[str]:
    """One object for each provider of *listed*."""
    columns: list[Iterable[str]] = [[f'{{"uuid":"{uuid}"' for uuid in listed.uuids()]]
    for field in FIELDS:
        if field in fields:
            texts = _WRITERS[field](snapshot, listed)
            columns.append([f',"{field}":{text}' for text in texts])
    return [f"{''.join(parts)}}}" for parts in zip(*columns, strict=True)]


def _names(_snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    return [orjson.dumps(name).decode() for name in listed.names()]


def _parents(_snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    return ["null" if parent is None else f'"{parent}"' for parent in listed.parents()]


def _generations(_snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    return map(str, listed.generations())


def _inventories(_snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    texts: list[list[str]] = [[] for _ in range(len(listed))]
    for name, places, numbers, kinds in listed.inventories():
        written = {
            number: f'"{name}":{orjson.dumps(show_inventory(inventory)).decode()}'
            for number, inventory in kinds.items()
        }
        for place, number in zip(places, numbers, strict=True):
            texts[place].append(written[number])
    return [f"{{{','.join(by_class)}}}" for by_class in texts]


def _usages(_snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    texts: list[list[str]] = [[] for _ in range(len(listed))]
    for name, places, amounts in listed.usages():
        for place, used in zip(places, amounts, strict=True):
            texts[place].append(f'"{name}":{used}')
    return [f"{{{','.join(by_class)}}}" for by_class in texts]


def _traits(snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    return _sets(listed, listed.trait_sets(), lambda slot: [row.name for row in snapshot.traits(slot)])


def _aggregates(snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    return _sets(listed, listed.aggregate_sets(), snapshot.aggregates)


def _sets(listed: Listing, numbers: Sequence[int], members: Callable[[int], list[str]]) -> Iterable[str]:
    """The members of the sets with these *numbers*; the text of each distinct set is built once."""
    written: dict[int, str] = {}
    texts = []
    for slot, number in zip(listed.slots(), numbers, strict=True):
        text = written.get(number)
        if text is None:
            text = written[number] = orjson.dumps(members(slot)).decode()
        texts.append(text)
    return texts


def _states(snapshot: Snapshot, listed: Listing) -> Iterable[str]:
    all_disabled = listed.disabled()
    if all_disabled is None:
        return ["null"] * len(listed)
    return [
        orjson.dumps(show_disabled(snapshot, slot)).decode() if disabled else "null"
        for slot, disabled in zip(listed.slots(), all_disabled, strict=True)
    ]


def show_disabled(snapshot: Snapshot, slot: int) -> dict[str, object] | None:
    """Why the provider at a slot gives no new allocation, and by which provider; None if it gives some."""
    cause = snapshot.service_states.cause(slot)
    if cause is None:
        return None
    by, disabled = cause
    return state_object(snapshot.uuid(by), disabled)


def state_object(by: str, disabled: Disabled) -> dict[str, object]:
    """Why a provider gives no new allocation; *by* is the disabled provider, itself or one above it."""
    until = None if disabled.until is None else in_utc(disabled.until)
    return {"reason": disabled.reason, "since": in_utc(disabled.since), "until": until, "provider_uuid": by}


_WRITERS: dict[str, Callable[[Snapshot, Listing], Iterable[str]]] = {
    "name": _names,
    "parent_provider_uuid": _parents,
    "generation": _generations,
    "inventories": _inventories,
    "usages": _usages,
    "traits": _traits,
    "aggregates": _aggregates,
    "disabled": _states,
}


def totals_texts(totals: Sequence[ClassTotals], places: Sequence[int]) -> list[str]:
    """The sums of the trees at *places*, an object by resource class for each of them."""
    texts: list[list[str]] = [[] for _ in places]
    for sums in totals:
        runtime.give_way()
        for text, place in zip(texts, sums.places(places), strict=True):
            if place >= 0:
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
    return json.dumps(whole, separators=(",", ":"))  # integers of any size, which orjson rejects
