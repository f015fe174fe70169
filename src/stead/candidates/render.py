"""Render: candidates and the summaries of their providers, straight to JSON bytes.

Nothing stands between a candidate and its text: an arrangement is rendered once, with gaps for the uuids of those who
stand at its positions; a summary is kept until its provider changes.

Source: "Result" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.candidates.candidate import candidates
from stead.catalog.forest import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement, Batch
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest


_GAP = "\0"


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer holds; the newest form if nothing is said. Each was once not there yet."""

    dict_allocations: bool = True
    mappings: bool = True
    summary_traits: bool = True
    summary_all_classes: bool = True
    summary_tree: bool = True


def render(snapshot: Snapshot, request: CandidateRequest, found: Sequence[Batch], form: Form) -> bytes:
    """The whole answer to *request*."""
    body = ",".join(_allocation_requests(snapshot, found, form))
    slots = _summarised(snapshot, request, found)
    classes = None if form.summary_all_classes else {name for group in request.groups for name in group.resources}
    summaries = ",".join(_summaries(snapshot, slots, classes, form))
    return f'{{"allocation_requests":[{body}],"provider_summaries":{{{summaries}}}}}'.encode()


def _allocation_requests(snapshot: Snapshot, found: Iterable[Batch], form: Form) -> Iterable[str]:
    """The candidates of each batch that has some, with the commas between them."""
    uuids, writing = snapshot.identities.uuids, _Writing(snapshot, form)
    trees, columns = None, list[list[str]]()
    for batch in found:
        if batch.trees is not trees:
            trees, columns = batch.trees, uuids.at(batch.trees).T.tolist()
        texts = [writing.texts(arrangement, columns) for arrangement in batch.arrangements]
        if texts and columns[0]:
            yield ",".join(texts[0] if len(texts) == 1 else chain.from_iterable(zip(*texts, strict=True)))


class _Writing:
    """Writes arrangements; what is alike in many of them is written once."""

    def __init__(self, snapshot: Snapshot, form: Form) -> None:
        self._snapshot = snapshot
        self._names = {class_id: row.name for class_id, row in snapshot.class_names.by_id.items()}
        self._form = form
        self._given: dict[tuple[tuple[int, int], ...], str] = {}

    def texts(self, arrangement: Arrangement, columns: Sequence[Sequence[str]]) -> Iterable[str]:
        """*arrangement* for some trees, the uuids of whose own providers are in *columns*, by position."""
        others = [self._snapshot.uuid(slot) for slot in arrangement.reaching]
        if len(columns[0]) == 1:
            return [self._text(arrangement, [*(uuid for (uuid,) in columns), *others])]
        pieces = self._text(arrangement, [_GAP] * (len(columns) + len(others))).split(_GAP)
        turns: list[Iterable[str]] = [repeat(pieces[0], len(columns[0]))]
        for gap, piece in zip(self._gaps(arrangement), pieces[1:], strict=True):
            turns.append(columns[gap] if gap < len(columns) else repeat(others[gap - len(columns)]))
            turns.append(repeat(piece))
        return map("".join, zip(*turns, strict=False))  # what is repeated has no end

    def _text(self, arrangement: Arrangement, uuids: Sequence[str]) -> str:
        """*arrangement*, with *uuids* for its positions."""
        given = [(uuids[position], self._resources(some)) for position, some in arrangement.allocations.items()]
        if self._form.dict_allocations:
            text = ",".join([f'"{uuid}":{{"resources":{resources}}}' for uuid, resources in given])
            text = f'{{"allocations":{{{text}}}'
        else:
            text = ",".join(
                [f'{{"resource_provider":{{"uuid":"{uuid}"}},"resources":{resources}}}' for uuid, resources in given]
            )
            text = f'{{"allocations":[{text}]'
        if self._form.mappings:
            serving = [
                (suffix, '","'.join([uuids[position] for position in some]))
                for suffix, some in arrangement.mappings.items()
            ]
            mappings = ",".join([f'"{suffix}":["{some}"]' for suffix, some in serving])
            text += f',"mappings":{{{mappings}}}'
        return text + "}"

    def _gaps(self, arrangement: Arrangement) -> Iterable[int]:
        """The positions of those whose uuids are in the text, in its order."""
        return chain(arrangement.allocations, *(arrangement.mappings.values() if self._form.mappings else ()))

    def _resources(self, amounts: Mapping[int, int]) -> str:
        key = tuple(amounts.items())
        text = self._given.get(key)
        if text is None:
            named = {self._names[class_id]: amount for class_id, amount in key}
            text = self._given[key] = orjson.dumps(named).decode()
        return text


def _summarised(snapshot: Snapshot, request: CandidateRequest, found: Sequence[Batch]) -> NDArray[np.int64]:
    """Providers that stand in the summaries, ascending: the whole trees of those that give resources."""
    forest = snapshot.forest
    if request.one_provider_per_tree and forest.has_nested:
        return np.array(sorted({slot for one in candidates(found) for slot in one.allocations}), np.int64)
    shown = np.zeros(snapshot.size, np.bool_)
    others: set[Slot] = set()
    for batch in found:
        size = batch.trees.shape[1]
        giving = {(position, one.reaching) for one in batch.arrangements for position in one.allocations}
        if any(position < size for position, _ in giving):
            shown[batch.trees] = True
        others |= {reaching[position - size] for position, reaching in giving if position >= size}
    for root in {forest.root[slot] for slot in others}:
        shown[np.array(forest.members(root), np.int64)] = True
    return np.flatnonzero(shown)


def _summaries(snapshot: Snapshot, slots: NDArray[np.int64], classes: set[str] | None, form: Form) -> Iterable[str]:
    """One member of ``provider_summaries`` for each of *slots*, with these classes (by name) or all."""
    make = partial(_made_summaries, snapshot, classes, form)
    return make(slots.tolist()) if classes is not None else snapshot.texts(form, slots, make)


def _made_summaries(snapshot: Snapshot, classes: set[str] | None, form: Form, slots: Sequence[int]) -> Iterable[str]:
    traits: dict[int, str] = {}
    for slot, resources in zip(slots, _resources(snapshot, slots, classes), strict=True):
        text = f'"{snapshot.uuid(slot)}":{{"resources":{{{",".join(resources)}}}'
        if form.summary_traits:
            number = snapshot.trait_sets.set_of[slot]
            if number not in traits:
                traits[number] = orjson.dumps([row.name for row in snapshot.traits(slot)]).decode()
            text += f',"traits":{traits[number]}'
        if form.summary_tree:
            parent = snapshot.forest.parent[slot]
            above = "null" if parent == NOBODY else f'"{snapshot.uuid(parent)}"'
            root = snapshot.uuid(snapshot.forest.root[slot])
            text += f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        yield text + "}"


def _resources(snapshot: Snapshot, slots: Sequence[int], classes: set[str] | None) -> list[list[str]]:
    """For each of *slots* what it has and what is used of it, a text per class; worked out class by class."""
    texts: list[list[str]] = [[] for _ in slots]
    places = np.asarray(slots, np.int64)
    for class_id in sorted(snapshot.inventory):
        name = snapshot.class_names.by_id[class_id].name
        if classes is not None and name not in classes:
            continue
        columns = snapshot.inventory[class_id]
        having = np.flatnonzero(columns.having(places))
        capacities, used = columns.amounts(places[having])
        for place, capacity, taken in zip(having.tolist(), capacities, used, strict=True):
            texts[place].append(f'"{name}":{{"capacity":{capacity},"used":{taken}}}')
    return texts
