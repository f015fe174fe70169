"""Render: writes candidates and the summaries of their providers as JSON bytes.

An arrangement is rendered once, with gaps for uuids, and the uuids of each tree are filled in. A summary is cached
until its provider changes.

Source: "Result" of allocation candidates, docs/api.md.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import orjson

from stead.candidates.kinds import amounts_of
from stead.candidates.work import keep_on
from stead.catalog.snapshot import NO_SLOT
from stead.process.runtime import PIECE, PORTION, Pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.combine import Way
    from stead.candidates.kinds import Arrangement, Batch, Needs
    from stead.candidates.match import Pool
    from stead.catalog.blocks import Texts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import NameRow
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

    _Picked = int | tuple[int, ...]
    """The position of one need, or those of several."""


_Key = TypeVar("_Key", bound=Hashable)


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
        self,
        snapshot: Snapshot,
        request: CandidateRequest,
        form: Form,
        give_way: Callable[[], object] = keep_on,
        most: int = sys.maxsize,
    ) -> None:
        """Begin the answer to *request*, of at most *most* bytes.

        *give_way* lets other requests run and is called about every millisecond.
        """
        self._snapshot = snapshot
        self._form = form
        self._give_way = give_way
        self._classes = (
            None if form.summary_all_classes else {name for group in request.groups for name in group.resources}
        )
        self._summarised = _Summarised(snapshot, request)
        self._writing = _Writing(snapshot, form)
        self._trees: NDArray[np.int64] | None = None
        self._tree_uuids: TreeUuids
        self._pieces = Pieces(give_way, most)
        self._pieces.add('{"allocation_requests":[')

    def add(self, batches: Iterable[Batch]) -> None:
        """Write the candidates of *batches*."""
        alone: list[bytes] = []
        size = 0
        for batch in batches:
            self._summarised.add(batch)
            if batch.trees is not self._trees:  # consecutive batches often have the same trees, one arrangement each
                self._trees, self._tree_uuids = batch.trees, TreeUuids(self._snapshot.identities.uuids, batch.trees)
            if len(batch.trees) > 1:
                self._pieces.add_members(alone)
                alone, size = [], 0
                self._add_rows(batch)
                continue
            for arrangement in batch.arrangements if len(batch.trees) else ():
                text = self._writing.text(arrangement, self._tree_uuids.own).encode()
                alone.append(text)
                size += len(text)
                if size >= PIECE:  # a batch of one tree can have thousands, and adding members gives way
                    self._pieces.add_members(alone)
                    alone, size = [], 0
        self._pieces.add_members(alone)

    def _add_rows(self, batch: Batch) -> None:
        """Write a batch of several trees."""
        templates = list(self._templates(batch))
        # Several trees are written together, up to a piece. But all candidates of one tree come before the next tree.
        step = max(PIECE // templates[0].size, 1) if len(templates) == 1 else 1
        for start in range(0, len(batch.trees), step):
            for template in templates:
                self._give_way()
                self._pieces.add_joined(template.filled(self._tree_uuids, slice(start, start + step)))

    def _templates(self, batch: Batch) -> Iterator[Template]:
        """The text of the arrangements for each tree, in parts of about one piece."""
        texts: list[str] = []
        gaps: list[int] = []
        size = 0
        for arrangement in batch.arrangements:
            self._give_way()
            text = self._writing.text(arrangement, self._tree_uuids.own)
            texts.append(text)
            gaps += self._writing.gaps(arrangement)
            size += len(text)
            if size >= PIECE:
                yield Template(",".join(texts), gaps)
                texts, gaps, size = [], [], 0
        if texts:
            yield Template(",".join(texts), gaps)

    def finish(self) -> list[bytes]:
        """Write the summaries, and return all pieces."""
        pieces = self._pieces
        pieces.add('],"provider_summaries":{')
        slots = self._summarised.slots()
        make = partial(_made_summaries, self._snapshot, self._classes, self._form, dict[int, str]())
        if self._classes is None:
            for joined in self._snapshot.texts(self._form, slots, make):
                self._give_way()
                pieces.add_joined(joined)
        else:  # summaries with a choice of classes are not cached: there would be one per request
            for start in range(0, len(slots), PORTION):
                pieces.add_members(make(slots[start : start + PORTION].tolist()))
        pieces.add("}}")
        return pieces.all()


class _Writing:
    """Writes arrangements."""

    def __init__(self, snapshot: Snapshot, form: Form) -> None:
        self._snapshot = snapshot
        self._form = form
        self._own: Sequence[str] = ()
        self._members: _Members | None = None

    def text(self, arrangement: Arrangement, own: Sequence[str]) -> str:
        """The object of *arrangement*; *own* has the uuids of its tree's own providers, or gaps for them."""
        members = self._members
        # The arrangements of a tree differ in a few choices, so they share most members.
        if members is None or own is not self._own or arrangement.pools is not members.pools:
            uuids = [*own, *map(self._snapshot.uuid, arrangement.reaching)]
            self._members = members = _Members(arrangement.pools, uuids, self._form, self._snapshot.class_names.by_id)
            self._own = own
        return members.text(arrangement)

    def gaps(self, arrangement: Arrangement) -> list[int]:
        """The position of each gap in the text of *arrangement*, in its order."""
        shown = chain(arrangement.needs_at, *(arrangement.mappings.values() if self._form.mappings else ()))
        return [position for position in shown if position < len(self._own)]


class _Texts(dict[_Key, str]):
    """Texts by what they depend on, each made on first use."""

    def __init__(self, make: Callable[[_Key], str]) -> None:
        """*make* makes the text for a key."""
        self._make = make

    def __missing__(self, key: _Key) -> str:
        text = self[key] = self._make(key)
        return text


class _Members:
    """The members of the objects that arrangements become; each is written once for all arrangements that have it."""

    def __init__(self, pools: Sequence[Pool], uuids: Sequence[str], form: Form, classes: Mapping[int, NameRow]) -> None:
        """*uuids* is by position, *classes* by id."""
        self.pools = pools
        self._uuids = uuids
        self._form = form
        self._classes = classes
        self._allocations = _Texts(self._allocation)
        needs_of: dict[str, list[int]] = {}
        for need, pool in enumerate(pools):
            needs_of.setdefault(pool.suffix, []).append(need)
        # By suffix: what picks the positions of its needs from a way (a tuple if there are several), and the texts.
        self._mappings: list[tuple[Callable[[Way], _Picked], _Texts[_Picked]]] = (
            [(itemgetter(*needs), _Texts(partial(self._mapping, suffix))) for suffix, needs in needs_of.items()]
            if form.mappings
            else []
        )

    def text(self, arrangement: Arrangement) -> str:
        """The object of *arrangement*."""
        way = arrangement.way
        members = ",".join(map(self._allocations.__getitem__, arrangement.needs_at.items()))
        written = f'{{"allocations":{{{members}}}' if self._form.dict_allocations else f'{{"allocations":[{members}]'
        if not self._form.mappings:
            return written + "}"
        mappings = ",".join([texts[pick(way)] for pick, texts in self._mappings])
        return f'{written},"mappings":{{{mappings}}}}}'

    def _allocation(self, key: tuple[int, Needs]) -> str:
        position, needs = key
        amounts = amounts_of(self.pools, needs)
        by_name = {self._classes[class_id].name: amount for class_id, amount in amounts.items()}
        resources = orjson.dumps(by_name).decode()
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
        return self._shown.nonzero()[0]


def _made_summaries(
    snapshot: Snapshot, classes: set[str] | None, form: Form, traits: dict[int, str], slots: Sequence[int]
) -> Iterator[bytes]:
    """One encoded member for each of *slots*. *traits* caches the texts of trait sets, by number, across portions."""
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
        yield f"{text}}}".encode()


def _resources(snapshot: Snapshot, slots: Sequence[int], classes: set[str] | None) -> list[list[str]]:
    """For each of *slots* its capacities and usages, a text per class. Computed class by class, on whole columns."""
    texts: list[list[str]] = [[] for _ in slots]
    places = np.asarray(slots, np.int64)
    for class_id in snapshot.inventory.at(places):
        name = snapshot.class_names.by_id[class_id].name
        if classes is not None and name not in classes:
            continue
        columns = snapshot.inventory[class_id]
        having = np.flatnonzero(columns.having(places))
        capacities, usages = columns.amounts(places[having])
        for place, capacity, used in zip(having.tolist(), capacities, usages, strict=True):
            texts[place].append(f'"{name}":{{"capacity":{capacity},"used":{used}}}')
    return texts


# Templates: the text of arrangements with gaps for uuids, filled for many trees at a time.
#
# Uuids nearly always have the same length, and then so have the texts of all trees. So they are the rows of a matrix
# of bytes, and a gap is filled for all trees with one copy.


# JSON text contains this character only escaped, so a gap cannot be confused with content.
GAP = "\0"

_LENGTH = 36
"""Characters of a uuid in its usual form. Clients may also have sent other forms, which are stored as they are."""


class TreeUuids:
    """The uuids of the providers of some trees of one shape.

    Attributes:
        own: by position the uuid if there is one tree, otherwise a gap.
        bytes: the uuids in bytes, shape ``(trees, providers of each, 36)``; None if one has another length.
    """

    def __init__(self, uuids: Texts, trees: NDArray[np.int64]) -> None:
        """*trees* has the slots of their members, with the shape ``(trees, providers of each)``."""
        self._uuids = uuids
        self._trees = trees
        number, size = trees.shape
        self.own: list[str] = uuids.at(trees[0]).tolist() if number == 1 else [GAP] * size
        self.bytes = uuids.matrix(trees, _LENGTH) if number > 1 else None

    def texts(self, trees: slice) -> list[list[str]]:
        """The uuids of the providers of each of *trees*."""
        texts: list[list[str]] = self._uuids.at(self._trees[trees]).tolist()
        return texts


class Template:
    """A text with gaps for the uuids of a tree."""

    def __init__(self, text: str, gaps: Sequence[int]) -> None:
        """*gaps* has the position of the provider whose uuid belongs into each gap."""
        self._pieces = f",{text}".encode().split(GAP.encode())
        self._gaps = gaps

    @property
    def size(self) -> int:
        """Bytes of the text of one tree."""
        return sum(map(len, self._pieces)) + len(self._gaps) * _LENGTH

    def filled(self, uuids: TreeUuids, trees: slice) -> bytes:
        """The text for each of *trees*, with a comma before each."""
        if uuids.bytes is None:
            return b"".join([self._row(own) for own in uuids.texts(trees)])
        own_bytes = uuids.bytes[trees]
        row = (b" " * _LENGTH).join(self._pieces)
        rows = np.empty((len(own_bytes), len(row)), np.uint8)
        rows[:] = np.frombuffer(row, np.uint8)
        start = 0
        for piece, gap in zip(self._pieces[:-1], self._gaps, strict=True):
            start += len(piece)
            rows[:, start : start + _LENGTH] = own_bytes[:, gap]
            start += _LENGTH
        return rows.tobytes()

    def _row(self, own: Sequence[str]) -> bytes:
        filled = [self._pieces[0]]
        for gap, piece in zip(self._gaps, self._pieces[1:], strict=True):
            filled += own[gap].encode(), piece
        return b"".join(filled)
