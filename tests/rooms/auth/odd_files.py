"""What is no regular file, in the place of one."""

import os
import socket
from contextlib import chdir
from pathlib import Path

KINDS = ("a FIFO", "a directory", "a character device", "a socket")


def replace_with(path: Path, kind: str) -> None:
    """Let *path* be of this kind."""
    path.unlink(missing_ok=True)
    if kind == "a FIFO":
        os.mkfifo(path, 0o600)
    elif kind == "a directory":
        path.mkdir()
    elif kind == "a character device":
        path.symlink_to("/dev/zero")
    else:
        with chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:  # a path may have some 100 bytes only
            bound.bind(path.name)
