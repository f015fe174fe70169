"""Render: candidates and the summaries of their providers, straight to JSON bytes.

Nothing stands between a candidate and its text: an arrangement is rendered once, with gaps for the uuids of those who
stand at its positions; a summary is kept until its provider changes.

Source: "Result" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.candidates.candidate import candidates
from stead.candidates.work import keep_on
from stead.catalog.forest import NOBODY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement, Batch
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest


_GAP = "\0"

PORTION = 512
"""Candidates or summaries that are written together: some of them take a millisecond."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer holds; the newest form if nothing is said. Each was once not there yet."""

    dict_allocations: bool = True
    mappings: bool = True
    summary_traits: bool = True
    summary_all_classes: bool = True
    summary_tree: bool = True


def render(
    snapshot: Snapshot,
    request: CandidateRequest,
    found: Sequence[Batch],
    form: Form,
    give_way: Callable[[], object] = keep_on,
) -> bytes:
    """The whole answer to *request*; *give_way* lets other requests run, and is called about every millisecond.

    The text becomes bytes portion by portion: one conversion of a large answer would keep all other threads waiting.
    Joining bytes does not, because Python releases the interpreter while it copies many.
    """
    requests = b",".join([text.encode() for text in _allocation_requests(snapshot, found, form, give_way)])
    slots = _summarised(snapshot, request, found, give_way)
    classes = None if form.summary_all_classes else {name for group in request.groups for name in group.resources}
    summaries = b",".join([text.encode() for text in _summaries(snapshot, slots, classes, form, give_way)])
    return b"".join([b'{"allocation_requests":[', requests, b'],"provider_summaries":{', summaries, b"}}"])


def _allocation_requests(
    snapshot: Snapshot, found: Iterable[Batch], form: Form, give_way: Callable[[], object]
) -> Iterable[str]:
    """The candidates of each batch that has some, with the commas between them."""
    uuids, writing = snapshot.identities.uuids, _Writing(snapshot, form)
    trees, columns = None, list[list[str]]()
    for batch in found:
        if batch.trees is not trees:
            trees, columns = batch.trees, uuids.at(batch.trees).T.tolist()
        texts = []
        for arrangement in batch.arrangements:
            give_way()  # a batch of one tree can have thousands
            texts.append(writing.texts(arrangement, columns))
        if texts and columns[0]:
            each = iter(texts[0] if len(texts) == 1 else chain.from_iterable(zip(*texts, strict=True)))
            while portion := list(islice(each, PORTION)):
                give_way()
                yield ",".join(portion)


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


def _summarised(
    snapshot: Snapshot, request: CandidateRequest, found: Sequence[Batch], give_way: Callable[[], object]
) -> NDArray[np.int64]:
    """Providers that stand in the summaries, ascending: the whole trees of those that give resources."""
    forest = snapshot.forest
    if request.one_provider_per_tree and forest.has_nested:
        return np.array(sorted({slot for one in candidates(found) for slot in one.allocations}), np.int64)
    shown = np.zeros(snapshot.size, np.bool_)
    others: set[Slot] = set()
    for batch in found:
        give_way()
        size = batch.trees.shape[1]
        giving = {(position, one.reaching) for one in batch.arrangements for position in one.allocations}
        if any(position < size for position, _ in giving):
            shown[batch.trees] = True
        others |= {reaching[position - size] for position, reaching in giving if position >= size}
    for root in {forest.root[slot] for slot in others}:
        shown[np.array(forest.members(root), np.int64)] = True
    return np.flatnonzero(shown)


def _summaries(
    snapshot: Snapshot, slots: NDArray[np.int64], classes: set[str] | None, form: Form, give_way: Callable[[], object]
) -> Iterable[str]:
    """The members of ``provider_summaries`` for *slots*, with these classes (by name) or all, in portions."""
    make = partial(_made_summaries, snapshot, classes, form, dict[int, str]())
    for start in range(0, len(slots), PORTION):
        give_way()
        some = slots[start : start + PORTION]
        yield ",".join(make(some.tolist()) if classes is not None else snapshot.texts(form, some, make))


def _made_summaries(
    snapshot: Snapshot, classes: set[str] | None, form: Form, traits: dict[int, str], slots: Sequence[int]
) -> Iterable[str]:
    """One member for each of *slots*; *traits* has the texts of those trait sets, by number, that were written."""
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
