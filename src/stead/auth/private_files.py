"""Files with secrets in them: one writer at a time, and readers see the old content or the new."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stead.config.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def exposure_of(path: Path) -> str | None:
    """What others than its owner may do with a file; None if nothing, or if the file can not be looked at."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    can = "write to it, and so become administrator" if mode & (stat.S_IWGRP | stat.S_IWOTH) else "read it"
    return f"others than its owner may {can} (its mode is {mode:04o}, and should be 0600)"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let nobody else who asks for it change *path* meanwhile. The lock is a file beside it.

    Raises:
        ConfigError: anybody may write to the directory.
        OSError: the directory can not be used.
    """
    directory = path.parent
    if directory.stat().st_mode & stat.S_IWOTH:
        raise ConfigError(f"data directory {directory}: anybody may write to it, and so become administrator")
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)  # and with it the lock


def replace_privately(path: Path, text: str, like: os.stat_result | None = None) -> None:
    """Make *text* the content of *path*, which only its owner may read, or who may read a file *like* that."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            if like is not None:
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
