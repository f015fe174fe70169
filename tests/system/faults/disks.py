"""Disks that get full: one that is small, and files that may not grow."""

from __future__ import annotations

import os
import pwd
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK = 4096


class SmallDisk:
    """A file system of its own; what fills it is a file that is not the database's."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self._filler = at / "filler"

    @contextmanager
    def full(self) -> Iterator[None]:
        """In the context, there is no room; what became free since the filler was written is not filled again."""
        try:
            with self._filler.open("ab", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(bytes(CHUNK))
            yield
        finally:
            self._filler.unlink()


@contextmanager
def small_disk(at: Path, megabytes: int, owner: Path | None = None) -> Iterator[SmallDisk]:
    """A file system of so many megabytes, which belongs to whom *owner* belongs to.

    Skips the test where nothing may be mounted: that takes more than to be root, and containers mostly do not have it.
    """
    at.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(at)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing may be mounted here: {mounted.stderr.strip()}")
    try:
        if owner is not None:
            whose = owner.stat()
            os.chown(at, whose.st_uid, whose.st_gid)
        yield SmallDisk(at)
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


@contextmanager
def no_file_longer_than(size: int, pids: Iterable[int], user: str | None = None) -> Iterator[None]:
    """Writes of these processes, and of those that they start, fail beyond *size* bytes with EFBIG.

    *user* is theirs: whoever is root in a container may not do this to others.
    """
    some = list(pids)
    _limit(str(size), some, user)
    try:
        yield
    finally:
        _limit("unlimited", some, user)


def _limit(size: str, pids: Iterable[int], user: str | None) -> None:
    group = None if user is None else pwd.getpwnam(user).pw_gid
    for pid in pids:  # the soft limit alone may be raised again
        command = ["prlimit", "--pid", str(pid), f"--fsize={size}:"]
        done = subprocess.run(command, user=user, group=group, capture_output=True, text=True)
        assert done.returncode == 0 or not Path(f"/proc/{pid}").exists(), done.stderr
