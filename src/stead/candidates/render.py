"""Render: writes candidates and the summaries of their providers as JSON bytes.

An arrangement is rendered once, with gaps for uuids, and the uuids of each tree are filled in. A summary is cached
until its provider changes.

Source: "Result" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.candidates.work import keep_on
from stead.catalog.forest import NO_SLOT
from stead.process.pieces import PORTION, Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.candidate import Arrangement, Batch, Needs
    from stead.candidates.demand import Way
    from stead.candidates.match import Pool
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

    _Picked = int | tuple[int, ...]
    """The position of one need, or those of several."""

# JSON text contains this character only escaped, so a gap cannot be confused with content.
_GAP = "\0"


@dataclass(frozen=True, slots=True)
class Form:
    """The parts of an answer. By default all of them, as in the newest microversion; older ones lack some."""

    dict_allocations: bool = True
    mappings: bool = True
    summary_traits: bool = True
    summary_all_classes: bool = True
    summary_tree: bool = True


class Rendering:
    """Writes the body of one answer, while its candidates are found."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, form: Form, give_way: Callable[[], object] = keep_on
    ) -> None:
        """Begin the answer to *request*. *give_way* lets other requests run and is called about every millisecond."""
        self._snapshot = snapshot
        self._form = form
        self._give_way = give_way
        self._classes = (
            None if form.summary_all_classes else {name for group in request.groups for name in group.resources}
        )
        self._summarised = _Summarised(snapshot, request)
        self._writing = _Writing(snapshot, form)
        self._trees: NDArray[np.int64] | None = None
        self._columns: list[list[str]] = []
        self._pieces = Pieces(give_way)
        self._pieces.add('{"allocation_requests":[')

    def add(self, batches: Iterable[Batch]) -> None:
        """Write the candidates of *batches*."""
        for batch in batches:
            self._summarised.add(batch)
            # Consecutive batches often have the same trees, one arrangement each.
            if batch.trees is not self._trees:
                self._trees, self._columns = batch.trees, self._snapshot.identities.uuids.at(batch.trees).T.tolist()
            texts = []
            for arrangement in batch.arrangements:
                self._give_way()  # a batch of one tree can have thousands
                texts.append(self._writing.texts(arrangement, self._columns))
            if texts and self._columns[0]:
                self._pieces.add_members(texts[0] if len(texts) == 1 else chain.from_iterable(zip(*texts, strict=True)))

    def finish(self) -> list[bytes]:
        """Write the summaries, and return all pieces."""
        pieces = self._pieces
        pieces.add('],"provider_summaries":{')
        slots = self._summarised.slots()
        make = partial(_made_summaries, self._snapshot, self._classes, self._form, dict[int, str]())
        for start in range(0, len(slots), PORTION):
            portion = slots[start : start + PORTION]
            # Summaries with a choice of classes are not cached: there would be one per request.
            if self._classes is None:
                pieces.add_members(self._snapshot.texts(self._form, portion, make))
            else:
                pieces.add_members(make(portion.tolist()))
        pieces.add("}}")
        return pieces.encoded()


class _Writing:
    """Writes arrangements."""

    def __init__(self, snapshot: Snapshot, form: Form) -> None:
        self._snapshot = snapshot
        self._names = {class_id: row.name for class_id, row in snapshot.class_names.by_id.items()}
        self._form = form
        self._columns: Sequence[Sequence[str]] = ()
        self._members: _Members | None = None

    def texts(self, arrangement: Arrangement, columns: Sequence[Sequence[str]]) -> Iterable[str]:
        """*arrangement* for some trees; *columns* has the uuids of their own providers, by position."""
        others = [self._snapshot.uuid(slot) for slot in arrangement.reaching]
        is_alone = len(columns[0]) == 1
        members = self._members
        # The arrangements of a tree differ in a few choices, so they share most members.
        if members is None or columns is not self._columns or arrangement.pools is not members.pools:
            # A single tree gets its uuids at once, because splitting a text at gaps pays off only for several trees.
            uuids = [uuid for (uuid,) in columns] if is_alone else [_GAP] * len(columns)
            uuids += others if is_alone else [_GAP] * len(others)
            self._members = members = _Members(arrangement.pools, uuids, self._form, self._names)
            self._columns = columns
        text = members.text(arrangement)
        if is_alone:
            return (text,)
        pieces = text.split(_GAP)
        # One column per piece and per gap, so that the rows are joined without a loop in Python.
        columns_of_text: list[Iterable[str]] = [repeat(pieces[0], len(columns[0]))]
        for gap, piece in zip(self._gaps(arrangement), pieces[1:], strict=True):
            columns_of_text.append(columns[gap] if gap < len(columns) else repeat(others[gap - len(columns)]))
            columns_of_text.append(repeat(piece))
        return map("".join, zip(*columns_of_text, strict=False))  # repeats are endless, except the first

    def _gaps(self, arrangement: Arrangement) -> Iterable[int]:
        """The positions whose uuids are in the text, in its order."""
        return chain(arrangement.needs_at, *(arrangement.mappings.values() if self._form.mappings else ()))


class _Members:
    """The members of the objects that arrangements become; each is written once for all arrangements that have it."""

    def __init__(self, pools: Sequence[Pool], uuids: Sequence[str], form: Form, names: Mapping[int, str]) -> None:
        """*uuids* is by position, *names* by class id."""
        self.pools = pools
        self._uuids = uuids
        self._form = form
        self._names = names
        self._allocations: dict[tuple[int, Needs], str] = {}
        needs_of: dict[str, list[int]] = {}
        for need, pool in enumerate(pools):
            needs_of.setdefault(pool.suffix, []).append(need)
        # By suffix: what picks the positions of its needs from a way (a tuple if there are several), and the texts.
        self._mappings: list[tuple[str, Callable[[Way], _Picked], dict[_Picked, str]]] = (
            [(suffix, itemgetter(*needs), {}) for suffix, needs in needs_of.items()] if form.mappings else []
        )

    def text(self, arrangement: Arrangement) -> str:
        """The object of *arrangement*."""
        allocations, way = [], arrangement.way
        for position, needs in arrangement.needs_at.items():
            text = self._allocations.get((position, needs))
            if text is None:
                text = self._allocations[position, needs] = self._allocation(position, arrangement.amounts_of(needs))
            allocations.append(text)
        members = ",".join(allocations)
        written = f'{{"allocations":{{{members}}}' if self._form.dict_allocations else f'{{"allocations":[{members}]'
        if not self._form.mappings:
            return written + "}"
        mappings = []
        for suffix, pick, texts in self._mappings:
            picked = pick(way)
            text = texts.get(picked)
            if text is None:
                text = texts[picked] = self._mapping(suffix, picked)
            mappings.append(text)
        return f'{written},"mappings":{{{",".join(mappings)}}}}}'

    def _allocation(self, position: int, amounts: Mapping[int, int]) -> str:
        resources = orjson.dumps({self._names[class_id]: amount for class_id, amount in amounts.items()}).decode()
        if self._form.dict_allocations:
            return f'"{self._uuids[position]}":{{"resources":{resources}}}'
        return f'{{"resource_provider":{{"uuid":"{self._uuids[position]}"}},"resources":{resources}}}'

    def _mapping(self, suffix: str, picked: _Picked) -> str:
        positions = dict.fromkeys(picked) if isinstance(picked, tuple) else (picked,)
        uuids = '","'.join([self._uuids[position] for position in positions])
        return f'"{suffix}":["{uuids}"]'


class _Summarised:
    """The providers in the summaries: the whole trees of those that give resources."""

    def __init__(self, snapshot: Snapshot, request: CandidateRequest) -> None:
        self._snapshot = snapshot
        self._is_whole = not (request.one_provider_per_tree and snapshot.forest.has_nested)
        self._shown = np.zeros(snapshot.size, np.bool_)
        self._others: set[Slot] = set()
        self._trees: NDArray[np.int64] | None = None

    def add(self, batch: Batch) -> None:
        """Add the providers of *batch*."""
        if not self._is_whole:
            self._shown[[slot for candidate in batch.candidates() for slot in candidate.allocations]] = True
            return
        size, gives = batch.trees.shape[1], False
        for arrangement in batch.arrangements:
            # Arrangements of trees that are shown already can only add sharing providers.
            if batch.trees is self._trees and not arrangement.reaching:
                continue
            for position in arrangement.needs_at:
                if position < size:
                    gives = True
                else:
                    self._others.add(arrangement.reaching[position - size])
        if gives:
            self._trees = batch.trees
            self._shown[batch.trees] = True

    def slots(self) -> NDArray[np.int64]:
        """Their slots, ascending."""
        forest = self._snapshot.forest
        for root in {forest.root[slot] for slot in self._others}:
            self._shown[np.array(forest.members(root), np.int64)] = True
        return np.flatnonzero(self._shown)


def _made_summaries(
    snapshot: Snapshot, classes: set[str] | None, form: Form, traits: dict[int, str], slots: Sequence[int]
) -> Iterable[str]:
    """One member for each of *slots*. *traits* caches the texts of trait sets, by number, across portions."""
    for slot, resources in zip(slots, _resources(snapshot, slots, classes), strict=True):
        text = f'"{snapshot.uuid(slot)}":{{"resources":{{{",".join(resources)}}}'
        if form.summary_traits:
            number = snapshot.trait_sets.set_of[slot]
            if number not in traits:
                traits[number] = orjson.dumps([row.name for row in snapshot.traits(slot)]).decode()
            text += f',"traits":{traits[number]}'
        if form.summary_tree:
            parent = snapshot.forest.parent[slot]
            above = "null" if parent == NO_SLOT else f'"{snapshot.uuid(parent)}"'
            root = snapshot.uuid(snapshot.forest.root[slot])
            text += f',"parent_provider_uuid":{above},"root_provider_uuid":"{root}"'
        yield text + "}"


def _resources(snapshot: Snapshot, slots: Sequence[int], classes: set[str] | None) -> list[list[str]]:
    """For each of *slots* its capacities and usages, a text per class. Computed class by class, on whole columns."""
    texts: list[list[str]] = [[] for _ in slots]
    places = np.asarray(slots, np.int64)
    for class_id in sorted(snapshot.inventory):
        name = snapshot.class_names.by_id[class_id].name
        if classes is not None and name not in classes:
            continue
        columns = snapshot.inventory[class_id]
        having = np.flatnonzero(columns.having(places))
        capacities, usages = columns.amounts(places[having])
        for place, capacity, used in zip(having.tolist(), capacities, usages, strict=True):
            texts[place].append(f'"{name}":{{"capacity":{capacity},"used":{used}}}')
    return texts
