"""A snapshot as the sections of a snapshot file, and back.

Slots, columns, indexes and numbers of interned values are stored as they are, so that a reader can map them. What
follows from them (masks, texts of answers) is made again.

Source: docs/decisions/0045-a-snapshot-file-is-a-hint.md.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np
import orjson

from stead.catalog.blocks import BLOCK, Blocks, Directory, IdIndex, Sparse, TextBlock, TextIndex, Texts, TreeIndex
from stead.catalog.columns import Inventories, InventoryColumns, InventoryKinds
from stead.catalog.refresh import new_version
from stead.catalog.snapshot import NO_SLOT, Forest, Identities, Names, ServiceStates, Shape, Sharing, Snapshot
from stead.domain.changes import NameRow, SnapshotUnusable, Totals
from stead.domain.provider import Disabled, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.catalog.blocks import ValueTable
    from stead.catalog.columns import Memberships


T = TypeVar("T", bound="np.generic")

_SLOT = np.dtype(np.int32)

_HASH = np.dtype(np.uint32)

_NUMBER = np.dtype(np.int64)

_NONE = np.empty(0, np.int64)

_INVENTORY_COLUMNS = ("kind", "room", "written")


def totals(snapshot: Snapshot) -> Totals:
    """Sums over all providers, to compare with those of the database."""
    live = snapshot.identities.ids.whole != NO_SLOT
    generations, modified = snapshot.generations.whole[live], snapshot.modified.whole[live]
    return Totals(int(live.sum()), int(generations.sum()), int(modified.sum()))


def write(snapshot: Snapshot, sections: Sections) -> dict[str, Any]:
    """Add the sections of *snapshot*; returns the rest, which belongs into the header."""
    identities, forest = snapshot.identities, snapshot.forest
    # Made again, since those of the snapshot lack what changed after they were made.
    live = np.flatnonzero(identities.ids.whole != NO_SLOT).astype(_SLOT)
    for name, texts, index in (
        ("uuid", identities.uuids, TextIndex.of(identities.uuids, live)),
        ("name", identities.names, TextIndex.of(identities.names, live)),
    ):
        sections.add_bytes(f"{name} texts", (block.data for block in texts.blocks))
        sections.add_numbers(f"{name} ends", (block.ends for block in texts.blocks))
        sections.add_numbers(f"{name} hashes", [index.hashes])
        sections.add_numbers(f"{name} slots", [index.slots])
    for name, column in _columns(snapshot).items():
        sections.add_numbers(name, column.blocks)
    common = _add_common_classes(snapshot, sections)
    _add_rare_classes(snapshot, sections)
    by_id, trees = IdIndex.of(identities.ids.whole[live], live), TreeIndex.of(dict(forest.trees.items()))
    for name, array in (
        ("id ids", by_id.ids),
        ("id slots", by_id.slots),
        ("tree roots", trees.roots),
        ("tree ends", trees.ends),
        ("tree members", trees.members),
    ):
        sections.add_numbers(name, [array])
    sections.add_values("shapes", [shape.leave for shape in list(forest.shapes.values)])
    for name, sets in (("trait sets", snapshot.trait_sets), ("aggregate sets", snapshot.aggregate_sets)):
        sections.add_values(name, sets.sets())
    sections.add_values("aggregates", list(snapshot.aggregate_uuids.items()))
    sections.add_values("trait names", list(map(tuple, snapshot.trait_names.rows)))
    sections.add_values("class names", list(map(tuple, snapshot.class_names.rows)))
    sections.add_values(
        "disabled",
        [(slot, each.reason, each.since, each.until) for slot, each in snapshot.service_states.disabled.items()],
    )
    return {"size": snapshot.size, "classes": common}


def _add_common_classes(snapshot: Snapshot, sections: Sections) -> list[int]:
    """Add the columns of common classes; returns the ids of these classes."""
    common = []
    for class_id, columns in snapshot.inventory.items():
        parts = (columns.kind, columns.room, columns.modified)
        if columns.is_rare or not all(isinstance(part, Blocks) for part in parts):
            continue
        common.append(class_id)
        for name, column in zip(_INVENTORY_COLUMNS, parts, strict=True):
            sections.add_numbers(f"{name} {class_id}", column.blocks if isinstance(column, Blocks) else ())
        # A copy, since a refresh may add values meanwhile.
        sections.add_values(f"kinds {class_id}", list(columns.kinds.values))
    return common


def _add_rare_classes(snapshot: Snapshot, sections: Sections) -> None:
    """Add the inventories of all rare classes, one class after the other, in sections together."""
    rare = sorted((class_id, columns) for class_id, columns in snapshot.inventory.items() if columns.is_rare)
    slots = [columns.slots for _, columns in rare]
    sections.add_numbers("rare slots", [np.concatenate([_NONE, *slots])])
    of_rows = [(columns, at) for (_, columns), at in zip(rare, slots, strict=True)]
    sections.add_numbers("rare kind", [np.concatenate([_NONE, *(columns.kind.at(at) for columns, at in of_rows)])])
    sections.add_numbers("rare room", [np.concatenate([_NONE, *(columns.room.at(at) for columns, at in of_rows)])])
    sections.add_numbers(
        "rare written", [np.concatenate([_NONE, *(columns.modified.at(at) for columns, at in of_rows)])]
    )
    sections.add_values(
        "rare classes",
        [(class_id, len(at), list(columns.kinds.values)) for (class_id, columns), at in zip(rare, slots, strict=True)],
    )


def read(stored: Stored) -> Snapshot:
    """The snapshot in a file.

    Raises:
        Unfit: the sections do not form a snapshot.
    """
    try:
        return _Reading(stored).snapshot()
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise SnapshotUnusable(f"its content is not a snapshot: {error}") from error


def _columns(snapshot: Snapshot) -> dict[str, Blocks[Any]]:
    return {
        "ids": snapshot.identities.ids,
        "generations": snapshot.generations,
        "modified": snapshot.modified,
        "parent": snapshot.forest.parent,
        "root": snapshot.forest.root,
        "position": snapshot.forest.position,
        "shape": snapshot.forest.shape,
        "traits of": snapshot.trait_sets.set_of,
        "aggregates of": snapshot.aggregate_sets.set_of,
    }


class _Reading:
    """One file while its snapshot is made."""

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._size = int(stored.header["size"])
        self._empty = Snapshot.empty()

    def snapshot(self) -> Snapshot:
        empty, size = self._empty, self._size
        columns = {name: self._column(name, column) for name, column in _columns(empty).items()}
        for name in ("parent", "root"):
            _require_below(columns[name], size, NO_SLOT)
        identities = self._identities(columns["ids"])
        forest = self._forest(columns)
        # New versions, since no text of these providers is cached.
        versions = empty.versions.replaced(np.arange(size), new_version(), size)
        traits = self._memberships("trait sets", empty.trait_sets, columns["traits of"])
        aggregates = self._memberships("aggregate sets", empty.aggregate_sets, columns["aggregates of"])
        uuids = {int(id_): str(uuid) for id_, uuid in self._stored.values("aggregates")}
        snapshot = replace(
            empty,
            identities=identities,
            generations=columns["generations"],
            modified=columns["modified"],
            versions=versions,
            forest=forest,
            inventory=self._inventories(),
            trait_sets=traits,
            aggregate_sets=aggregates,
            aggregate_uuids=uuids,
            aggregate_ids={uuid: id_ for id_, uuid in uuids.items()},
            trait_names=self._names("trait names"),
            class_names=self._names("class names"),
        )
        parts = (forest, traits, aggregates, snapshot.sharing_trait)
        states = ServiceStates(forest, self._disabled())
        return replace(snapshot, sharing=Sharing(*parts, snapshot.masks), service_states=states)

    def _column(self, name: str, template: Blocks[T]) -> Blocks[T]:
        return template.holding(self._stored.numbers(name, template.dtype, self._size))

    def _identities(self, ids: Blocks[np.int64]) -> Identities:
        number = int(np.count_nonzero(ids.whole != NO_SLOT))
        texts = self._texts("uuid"), self._texts("name")
        by_uuid, by_name = (
            TextIndex(self._stored.numbers(f"{name} hashes", _HASH, number), self._slots(f"{name} slots", ids), of_name)
            for name, of_name in zip(("uuid", "name"), texts, strict=True)
        )
        by_id = IdIndex(self._stored.numbers("id ids", ids.dtype, number), self._slots("id slots", ids))
        if not np.array_equal(by_id.ids, ids.whole[by_id.slots]):
            raise SnapshotUnusable("its index of ids is wrong")
        return Identities.indexed(*texts, ids, by_uuid, by_name, by_id)

    def _texts(self, name: str) -> Texts:
        data, ends = self._stored.bytes(f"{name} texts"), self._stored.numbers(f"{name} ends", _SLOT, self._size)
        blocks, start = [], 0
        for first in range(0, self._size, BLOCK):
            of_block = ends[first : first + BLOCK]
            stop = start + of_block.item(-1)
            if of_block.item(0) < 0 or (np.diff(of_block) < 0).any() or stop > len(data):
                raise SnapshotUnusable(f"its {name}s are not complete")
            str(data[start:stop], "utf-8", "surrogatepass")  # raises ValueError
            blocks.append(TextBlock(data[start:stop], of_block))
            start = stop
        if start != len(data):
            raise SnapshotUnusable(f"its {name}s are not complete")
        return Texts(tuple(blocks))

    def _slots(self, name: str, ids: Blocks[np.int64]) -> NDArray[np.int32]:
        """The slots of an index: each slot with a provider once."""
        slots = self._stored.numbers(name, _SLOT)
        if not np.array_equal(np.sort(slots), np.flatnonzero(ids.whole != NO_SLOT)):
            raise SnapshotUnusable(f"{name} has other slots than the providers")
        return slots

    def _forest(self, columns: Mapping[str, Blocks[Any]]) -> Forest:
        forest = self._empty.forest
        _filled(forest.shapes, [Shape(tuple(map(int, leave))) for leave in self._stored.values("shapes")])
        _require_below(columns["shape"], len(forest.shapes))
        trees = TreeIndex(*(self._stored.numbers(f"tree {part}", _SLOT) for part in ("roots", "ends", "members")))
        roots, ends, members = trees.roots, trees.ends, trees.members
        if len(members) and (members.min() < 0 or members.max() >= self._size):
            raise SnapshotUnusable("a tree has a provider that does not exist")
        if len(roots) != len(ends) or len(members) != (ends[-1] if len(ends) else 0):
            raise SnapshotUnusable("its trees are not complete")
        if (np.diff(roots) <= 0).any() or (np.diff(ends, prepend=np.int32(0)) <= 1).any():
            raise SnapshotUnusable("its trees are not in order")
        return replace(
            forest,
            parent=columns["parent"],
            root=columns["root"],
            position=columns["position"],
            shape=columns["shape"],
            indexed=trees,
            trees=Directory(trees),
        )

    def _inventories(self) -> Inventories:
        columns = {int(class_id): self._common_class(int(class_id)) for class_id in self._stored.header["classes"]}
        rare = self._stored.values("rare classes")
        number = sum(int(each) for _, each, _ in rare)
        slots, kind, room, written = (
            self._stored.numbers(f"rare {name}", _NUMBER, number) for name in ("slots", *_INVENTORY_COLUMNS)
        )
        start = 0
        for class_id, of_class, rows in rare:
            here = slice(start, start := start + int(of_class))
            kinds, at = _kinds(rows), slots[here]
            if len(at) and (at[0] < 0 or at[-1] >= self._size or (np.diff(at) <= 0).any()):
                raise SnapshotUnusable("the slots of a rare class are not in order")
            if int(class_id) in columns or not len(at) or kind[here].min() < 1 or kind[here].max() >= len(kinds):
                raise SnapshotUnusable("a rare class is not complete")
            columns[int(class_id)] = InventoryColumns.of_few(
                kinds, at, kind[here], room[here], written[here], self._size
            )
        return Inventories.of(columns, self._size)

    def _common_class(self, class_id: int) -> InventoryColumns:
        kinds = _kinds(self._stored.values(f"kinds {class_id}"))
        dtypes: tuple[np.dtype[Any], ...] = (_SLOT, _NUMBER, _NUMBER)
        kind, room, written = (
            self._stored.numbers(f"{name} {class_id}", dtype, self._size)
            for name, dtype in zip(_INVENTORY_COLUMNS, dtypes, strict=True)
        )
        columns = InventoryColumns.holding(kinds, kind, room, written)
        _require_below(columns.kind, len(kinds))
        return columns

    def _memberships(self, name: str, empty: Memberships, set_of: Blocks[np.int32]) -> Memberships:
        sets = [tuple(map(int, members)) for members in self._stored.values(name)]
        memberships = empty.holding(sets, set_of)
        if memberships.sets() != sets:
            raise SnapshotUnusable(f"{name} has a set twice")
        _require_below(set_of, len(sets))
        return memberships

    def _names(self, name: str) -> Names:
        return Names([NameRow(int(id_), str(text), int(modified)) for id_, text, modified in self._stored.values(name)])

    def _disabled(self) -> dict[Slot, Disabled]:
        rows = self._stored.values("disabled")
        return {Slot(int(slot)): Disabled(reason, since, until) for slot, reason, since, until in rows}


def _filled(interned: ValueTable[Any], values: Sequence[Any]) -> None:
    """Give *interned*, which is new, these values, with their places as numbers."""
    interned.numbers(values)
    if interned.values != list(values):
        raise SnapshotUnusable("a value is stored twice")


def _kinds(rows: Sequence[Sequence[Any]]) -> InventoryKinds:
    kinds = InventoryKinds()
    _filled(kinds, [(*map(int, row[:-1]), float(row[-1])) for row in rows])
    return kinds


def _require_below(column: Blocks[np.int32] | Sparse[np.int32], bound: int, least: int = 0) -> None:
    for block in column.blocks if isinstance(column, Blocks) else (column.values,):
        # A right checksum does not prove that the numbers fit together, and a wrong one would fail later requests.
        if block.min() < least or block.max() >= bound:
            raise SnapshotUnusable("a number is out of range")


# The form of a snapshot file: named sections, a header and a checksum. It knows nothing of what the sections mean.
#
# A file contains numbers, bytes and JSON only, so reading it runs no code. The checksum is over everything before it.
# A process replaces the file in one step, so a reader sees the old file or the new one. The file is not flushed to
# the disk: if the machine fails, the checksum shows it, and a start without the file is only slower.
#
# A reader maps the file. So all processes that read the same file share one copy of its numbers in memory, as long as
# they do not change them.
#
# Source: docs/decisions/0045-a-snapshot-file-is-a-hint.md.


MAGIC = b"Stead snapshot 3"
"""The last character is the version of the form."""

_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_END_BYTES = _LENGTH_BYTES + _DIGEST_BYTES

_ALIGNED = 64
"""Each section begins at a multiple of this number of bytes, where the processor reads numbers fastest."""

STALE_SECONDS = 3600.0
"""Age at which an unfinished file belongs to a process that was killed."""

_UNFINISHED = ".unfinished"


class Sections:
    """Writes the sections of one file, one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        """Write the beginning of the file."""
        self._file = file
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._toc: list[tuple[str, str, int, int]] = []
        self._size = 0
        self._write(MAGIC)

    def _write(self, data: bytes | memoryview) -> int:
        self._digest.update(data)
        self._file.write(data)
        self._size += len(data)
        return len(data)

    def _begin(self) -> int:
        """The place where a section begins."""
        self._write(bytes(-self._size % _ALIGNED))
        return self._size

    def add_numbers(self, name: str, parts: Iterable[NDArray[Any]]) -> None:
        """Add an array in parts of one type."""
        start, form = self._begin(), ""
        for part in parts:
            form = part.dtype.str
            self._write(part.tobytes())
        self._toc.append((name, form, start, self._size - start))

    def add_bytes(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Add bytes in parts."""
        start = self._begin()
        for part in parts:
            self._write(part)
        self._toc.append((name, "bytes", start, self._size - start))

    def add_values(self, name: str, values: list[Any]) -> None:
        """Add a list of JSON values."""
        self._toc.append((name, "json", self._begin(), self._write(orjson.dumps(values))))

    def end(self, header: Mapping[str, Any]) -> None:
        """Write the header and the checksum."""
        length = self._write(orjson.dumps({"header": header, "sections": self._toc}))
        self._write(length.to_bytes(_LENGTH_BYTES, "little"))
        self._file.write(self._digest.digest())


class Stored:
    """The sections of a file whose checksum is right."""

    def __init__(self, header: Mapping[str, Any], sections: Mapping[str, tuple[str, memoryview]]) -> None:
        """Use `read`."""
        self.header = header
        self._sections = sections

    def numbers(self, name: str, dtype: np.dtype[Any], size: int | None = None) -> NDArray[Any]:
        """The array *name*; read-only.

        Raises:
            Unfit: it is missing, or of another type or size.
        """
        form, data = self._sections.get(name, ("", memoryview(b"")))
        if data and form != dtype.str:
            raise SnapshotUnusable(f"{name} has the type {form}, not {dtype.str}")
        values = np.frombuffer(data, dtype)
        if size is not None and len(values) != size:
            raise SnapshotUnusable(f"{name} has {len(values)} values, not {size}")
        return values

    def bytes(self, name: str) -> memoryview:
        """The bytes *name*.

        Raises:
            Unfit: they are missing.
        """
        return self._of_form(name, "bytes")

    def values(self, name: str) -> list[Any]:
        """The values of the list *name*.

        Raises:
            Unfit: it is missing.
        """
        return list(orjson.loads(self._of_form(name, "json")))

    def _of_form(self, name: str, expected: str) -> memoryview:
        form, data = self._sections.get(name, ("", memoryview(b"")))
        if form != expected:
            raise SnapshotUnusable(f"{name} is missing")
        return data


def read_file(path: Path) -> Stored:
    """The content of the file at *path*.

    Raises:
        FileNotFoundError: it does not exist.
        Unfit: it is damaged, has another form, or another user may have written it.
        OSError: it cannot be read.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        # The open file, not the path: another user could replace the path between a check and the opening.
        about = os.fstat(file.fileno())
        if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise SnapshotUnusable("another user may have written it")
        end = about.st_size - _END_BYTES
        if not stat.S_ISREG(about.st_mode) or end < len(MAGIC):
            raise SnapshotUnusable("it is not complete")
        # Nothing closes the map: it lives as long as the arrays that read it.
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if content[: len(MAGIC)] != MAGIC:
        raise SnapshotUnusable("it has another form")
    if hashlib.blake2b(content[:-_DIGEST_BYTES], digest_size=_DIGEST_BYTES).digest() != content[-_DIGEST_BYTES:]:
        raise SnapshotUnusable("its checksum is wrong")
    length = int.from_bytes(content[end : end + _LENGTH_BYTES], "little")
    try:
        contents = orjson.loads(content[end - length : end])
        return Stored(
            dict(contents["header"]),
            {str(name): (str(form), content[start : start + size]) for name, form, start, size in contents["sections"]},
        )
    except (ValueError, TypeError, KeyError) as error:
        raise SnapshotUnusable("it is not complete") from error


@contextmanager
def replacing(path: Path) -> Iterator[Sections]:
    """Write the sections of a new file, which takes the place of *path* if the block succeeds. Its mode is 0600.

    Raises:
        OSError: the directory does not exist, cannot be written, or is full. *path* stays as it is.
    """
    _remove_stale(path)
    # In the same directory, since a rename replaces a file in one step only within a file system.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=_UNFINISHED)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield Sections(file)
        os.replace(name, path)  # noqa: PTH105 - beside mkstemp, which returns a text
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _remove_stale(path: Path) -> None:
    for unfinished in path.parent.glob(f"{path.name}.*{_UNFINISHED}"):
        with suppress(OSError):
            if time.time() - unfinished.stat().st_mtime > STALE_SECONDS:
                unfinished.unlink()
