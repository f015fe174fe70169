"""The form of a snapshot file: named sections, a header and a checksum. It knows nothing of what the sections mean.

A file contains numbers, bytes and JSON only, so reading it runs no code. The checksum is over everything before it. A
process replaces the file in one step, so a reader sees the old file or the new one. The file is not flushed to the
disk: if the machine fails, the checksum shows it, and a start without the file is only slower.

A reader maps the file. So all processes that read the same file share one copy of its numbers in memory, as long as
they do not change them.

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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import orjson

from stead.domain.changes import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

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
            raise Unfit(f"{name} has the type {form}, not {dtype.str}")
        values = np.frombuffer(data, dtype)
        if size is not None and len(values) != size:
            raise Unfit(f"{name} has {len(values)} values, not {size}")
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
            raise Unfit(f"{name} is missing")
        return data


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
        # Nothing closes the map: it lives as long as the arrays that read it.
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if content[: len(MAGIC)] != MAGIC:
        raise Unfit("it has another form")
    if hashlib.blake2b(content[:-_DIGEST_BYTES], digest_size=_DIGEST_BYTES).digest() != content[-_DIGEST_BYTES:]:
        raise Unfit("its checksum is wrong")
    length = int.from_bytes(content[end : end + _LENGTH_BYTES], "little")
    try:
        contents = orjson.loads(content[end - length : end])
        return Stored(
            dict(contents["header"]),
            {str(name): (str(form), content[start : start + size]) for name, form, start, size in contents["sections"]},
        )
    except (ValueError, TypeError, KeyError) as error:
        raise Unfit("it is not complete") from error


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
