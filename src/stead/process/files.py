"""Files of one owner, such as those with tokens: read without waiting, inspected, and replaced as a whole."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def read_regular(path: Path) -> bytes:
    """The content of a regular file. Other files are refused: a FIFO or a device could block forever.

    Raises:
        ValueError: it is not a regular file.
        OSError: it cannot be read.
    """
    _require_regular(path.stat())
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        _require_regular(os.fstat(file.fileno()))  # another process may have replaced it after the first check
        return file.read()


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"it is {_KINDS.get(stat.S_IFMT(status.st_mode), 'something else')}, not a regular file")


def exposure_of(path: Path) -> str | None:
    """What other users can do with a file; None if nothing, or if it cannot be inspected."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None
    if not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return None
    can = "write to it and become administrator" if mode & (stat.S_IWGRP | stat.S_IWOTH) else "read it"
    return f"other users can {can} (its mode is {mode:04o}, and should be 0600)"


def replace_privately(path: Path, text: str, like: os.stat_result | None = None) -> None:
    """Replace the content of *path* with *text*. The file is private to its owner, or has the mode of *like*."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        # O_EXCL refuses a file or link that another user created under this name meanwhile.
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            if like is not None:
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            file.write(text)
            file.flush()
            # Before the rename: after a crash of the machine, the name could otherwise point to an empty file.
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
