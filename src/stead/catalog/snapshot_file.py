"""The form of a snapshot file: named sections, a header and a checksum. It knows nothing of what the sections mean.

A file contains numbers and JSON only, so reading it runs no code. The checksum is over everything before it. A process
replaces the file in one step, so a reader sees the old file or the new one. The file is not flushed to the disk: if the
machine fails, the checksum shows it, and a start without the file is only slower.

Source: docs/decisions/0045-a-snapshot-file-is-a-hint.md.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from stead.domain.changes import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

MAGIC = b"Stead snapshot 1"
"""The last character is the version of the form."""

_LENGTH_BYTES, _DIGEST_BYTES = 8, 32
_END_BYTES = _LENGTH_BYTES + _DIGEST_BYTES

STALE_SECONDS = 3600.0
"""Age at which an unfinished file belongs to a process that was killed."""

_UNFINISHED = ".unfinished"


class Sections:
    """Writes the sections of one file, one after the other."""

    def __init__(self, file: IO[bytes]) -> None:
        """Write the beginning of the file."""
        self._file = file
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._toc: list[tuple[str, str, int]] = []
        self._write(MAGIC)

    def _write(self, data: bytes) -> int:
        self._digest.update(data)
        self._file.write(data)
        return len(data)

    def add_numbers(self, name: str, parts: Iterable[NDArray[Any]]) -> None:
        """Add an array in parts of one type."""
        size, form = 0, ""
        for part in parts:
            form = part.dtype.str
            size += self._write(part.tobytes())
        self._toc.append((name, form, size))

    def add_texts(self, name: str, parts: Iterable[list[Any]]) -> None:
        """Add a list of JSON values in parts; one part is in memory at a time."""
        self._toc.append((name, "json", sum(self._write(orjson.dumps(part) + b"\n") for part in parts)))

    def end(self, header: Mapping[str, Any]) -> None:
        """Write the header and the checksum."""
        length = self._write(orjson.dumps({"header": header, "sections": self._toc}))
        self._write(length.to_bytes(_LENGTH_BYTES, "little"))
        self._file.write(self._digest.digest())


class Stored:
    """The sections of a file whose checksum is right."""

    def __init__(self, header: Mapping[str, Any], sections: dict[str, tuple[str, bytes]]) -> None:
        """Use `read`."""
        self.header = header
        self._sections = sections

    def numbers(self, name: str, dtype: np.dtype[Any], size: int | None = None) -> NDArray[Any]:
        """The array *name*; read-only.

        Raises:
            Unfit: it is missing, or of another type or size.
        """
        form, data = self._sections.pop(name, ("", b""))
        if data and form != dtype.str:
            raise Unfit(f"{name} has the type {form}, not {dtype.str}")
        values = np.frombuffer(data, dtype)
        if size is not None and len(values) != size:
            raise Unfit(f"{name} has {len(values)} values, not {size}")
        return values

    def texts(self, name: str) -> Iterator[list[Any]]:
        """The parts of the list *name*.

        Raises:
            Unfit: it is not a list of JSON values.
        """
        form, data = self._sections.pop(name, ("", b""))
        if form != "json":
            raise Unfit(f"{name} is missing")
        # JSON text escapes line breaks, so each line is one part.
        return (orjson.loads(part) for part in data.splitlines())

    def values(self, name: str) -> list[Any]:
        """All values of the list *name*."""
        return [value for part in self.texts(name) for value in part]


def read(path: Path) -> Stored:
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
            raise Unfit("another user may have written it")
        end = about.st_size - _END_BYTES
        if not stat.S_ISREG(about.st_mode) or end < len(MAGIC):
            raise Unfit("it is not complete")
        file.seek(end)
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        expected = file.read(_DIGEST_BYTES)
        if length > end - len(MAGIC):
            raise Unfit("it is not complete")
        file.seek(end - length)
        toc = file.read(length)
        file.seek(0)
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        magic = file.read(len(MAGIC))
        if magic != MAGIC:
            raise Unfit("it has another form")
        digest.update(magic)
        # The table is checked with the rest. Until then it decides only how many bytes are read at a time.
        header, sections = _sections(toc, end - length - len(MAGIC))
        read_sections: dict[str, tuple[str, bytes]] = {}
        for name, form, size in sections:
            data = file.read(size)
            digest.update(data)
            read_sections[name] = form, data
    digest.update(toc)
    digest.update(length.to_bytes(_LENGTH_BYTES, "little"))
    if digest.digest() != expected:
        raise Unfit("its checksum is wrong")
    return Stored(header, read_sections)


def _sections(toc: bytes, bytes_in_all: int) -> tuple[Mapping[str, Any], list[tuple[str, str, int]]]:
    try:
        contents = orjson.loads(toc)
        sections = [(str(name), str(form), int(size)) for name, form, size in contents["sections"]]
        header = dict(contents["header"])
    except (ValueError, TypeError, KeyError) as error:
        raise Unfit("it is not complete") from error
    if sum(size for *_, size in sections) != bytes_in_all or any(size < 0 for *_, size in sections):
        raise Unfit("it is not complete")
    return header, sections


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
