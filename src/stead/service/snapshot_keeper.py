"""Stores the snapshot of this process in a file, and begins with that file at the next start.

The file is a hint. If anything about it does not fit, the start loads everything, as without it.

Source: "The write and refresh protocol", docs/protocol.md (rule 20).
"""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import random
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from stead.catalog import stored
from stead.domain.changes import SnapshotUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from stead.catalog.catalog import Catalog, Resumable

JUST_WRITTEN_SECONDS = 10.0
"""At the end of a service, the first of its workers writes the file. The others find it as new as this, and do not."""

ALONE_SECONDS = 120.0
"""Time to wait for other workers that start. Then a worker loads by itself."""

_BETWEEN_TRIES_SECONDS = 0.05

_log = logging.getLogger(__name__)


class SnapshotKeeper:
    """Reads and writes the snapshot file of one process."""

    def __init__(self, path: Path, interval: float, catalog: Catalog, source: Resumable) -> None:
        """Read and write nothing yet.

        Args:
            path: the file; several processes may have the same.
            interval: seconds between two writes, by whichever process.
        """
        self.interval = interval
        self._path = path
        self._catalog = catalog
        self._source = source
        self._writing = threading.Lock()
        self._last: Mapping[str, Any] | None = None

    def start(self) -> None:
        """Load the catalog: from the file and what changed since, or everything if the file does not fit.

        Workers that start together do so one after the other. So the first one loads everything and writes the file,
        and the others map it.

        Raises:
            Unavailable: the database does not answer.
        """
        with _alone_in(self._path.parent):
            began = time.monotonic()
            try:
                changed = self._resume()
            except FileNotFoundError:
                pass
            except (SnapshotUnusable, OSError) as error:
                _log.warning("snapshot file %s ignored: %s", self._path, error)
            else:
                _log.info(
                    "started from the snapshot file: %s providers, %s changed since, %.1f s",
                    f"{self._catalog.providers:,}",
                    f"{changed:,}",
                    time.monotonic() - began,
                )
                return
            self._catalog.fresh()
            self._write()
            if self._last is not None:
                # From now on, this process has the pages of the file too, in place of memory of its own.
                with suppress(SnapshotUnusable, OSError):
                    self._resume()

    def _resume(self) -> int:
        """Load from the file, and what changed since; returns the number of changed providers.

        Raises:
            FileNotFoundError
            Unfit: the catalog is as before.
            OSError: the file cannot be read.
            Unavailable
        """
        file = stored.read_file(self._path)
        if file.header.get("made by") != _maker():
            raise SnapshotUnusable(f"another version wrote it: {file.header.get('made by')}")
        moment = file.header.get("moment")
        if not isinstance(moment, dict):
            raise SnapshotUnusable("it has no clock")
        changed = self._catalog.resume(stored.read(file), self._source, moment)
        self._last = moment
        return changed

    def pause(self) -> float:
        """Seconds before the first step: different in each process, so that one of them writes for all."""
        return self.interval * random.uniform(1, 1.25)

    def step(self) -> float:
        """Write the file if it is older than the interval; returns the seconds until the next step."""
        age = self._age()
        if age is not None and age < self.interval:
            return self.interval - age
        self._write()
        return self.pause()

    def write_at_end(self) -> None:
        """Write the file, unless another worker of the service has just done it, or nothing has changed since."""
        age = self._age()
        if age is None or age >= JUST_WRITTEN_SECONDS:
            self._write()

    def _age(self) -> float | None:
        """Seconds since some process wrote the file; None if it does not exist."""
        try:
            return max(time.time() - self._path.stat().st_mtime, 0.0)
        except OSError:
            return None

    def _write(self) -> None:
        # The periodic step may still run when the end of the service writes.
        with self._writing:
            snapshot, at = self._catalog.present()
            moment = self._source.stored(at)
            if moment is None or moment == self._last:
                return
            try:
                with stored.replacing(self._path) as sections:
                    sections.end({"made by": _maker(), "moment": moment, **stored.write(snapshot, sections)})
            except OSError as error:
                _log.warning("snapshot file %s not written: %s", self._path, error)
                return
            self._last = moment


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Run the block while no other process runs it for the same directory, or after ``ALONE_SECONDS``."""
    with ExitStack() as closing:
        # Without the directory, there is no file to share.
        with suppress(OSError):
            # The directory itself, since a file for the lock would stay behind.
            descriptor = os.open(directory, os.O_RDONLY)
            closing.callback(os.close, descriptor)
            deadline = time.monotonic() + ALONE_SECONDS
            # The kernel releases the lock of a process that ends. One that hangs must not keep others from starting.
            while not _is_locked(descriptor) and time.monotonic() < deadline:
                time.sleep(_BETWEEN_TRIES_SECONDS)
        yield


def _is_locked(descriptor: int) -> bool:
    """Lock it for this process, if no other one has; returns False if one has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _maker() -> str:
    """What must be equal in the process that writes a file and the one that reads it."""
    from stead import __version__

    return f"stead {__version__}, {sys.byteorder} {platform.machine()}"
