"""The server that runs on a data directory. There is at most one, and commands find it through the directory.

``server.lock`` is never removed. The server holds record locks on two of its bytes, which the kernel releases when the
process ends in any way: the first from its start, the second as soon as ``server.json`` has its address. Decision 6
compares this lock with others.

``server.json`` has the server's ``url``, its ``pid``, the ``network`` in which the URL is valid, and its TLS
``certificate`` if it has one. A killed server leaves the file behind; without the lock it is ignored.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import stat
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stead.cli.errors import CommandError
from stead.cli.server.addresses import NotServed

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "server.lock"
NOTE = "server.json"

_STARTED, _LISTENS = 0, 1
"""The bytes of the lock file, and the meaning of a lock on each."""

_ATTEMPTS = 3

_FLOCK = "hhqqi0q"  # l_type, l_whence, l_start, l_len, l_pid and padding. Source: fcntl(2), fcntl_locking(2)


@dataclass(frozen=True, slots=True)
class Running:
    """A listening server. ``certificate`` is the PEM file of its TLS certificate, None for plain HTTP."""

    url: str
    pid: int
    certificate: Path | None = None


class Occupation:
    """A data directory that this process uses exclusively, during :func:`occupied`."""

    def __init__(self, directory: Path, lock: int) -> None:
        self._note = directory / NOTE
        self._lock = lock

    def decide(self, url: str) -> None:
        """Publish the URL at which this process will listen, for the error message of a second server."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps({"url": url}).encode() + b"\n", 0)

    def announce(self, url: str, certificate: Path | None = None) -> None:
        """Publish *url*, at which commands find this process."""
        from stead.auth.private_files import replace_privately

        note = {"url": url, "pid": os.getpid(), "network": _network()}
        if certificate is not None:
            note["certificate"] = str(certificate)
        # The note before the lock: a command that sees the second byte locked must find the note.
        replace_privately(self._note, json.dumps(note) + "\n")
        fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LISTENS)


@contextmanager
def occupied(directory: Path) -> Iterator[Occupation]:
    """Lock *directory*, which exists, against other servers.

    Raises:
        NotServed: another server runs on it, or it cannot be locked.
    """
    path = directory / LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise NotServed(f"cannot lock {path}: {error.strerror}") from error
    try:
        _require_file(path, lock)
        _take(directory, lock)
        note = directory / NOTE
        note.unlink(missing_ok=True)  # left by a killed server; removed before the second byte is locked
        try:
            yield Occupation(directory, lock)
        finally:
            note.unlink(missing_ok=True)
    finally:
        os.close(lock)  # releases the locks


def running(directory: Path) -> Running | None:
    """The server that listens for *directory*; None if none runs.

    Raises:
        CommandError: one is starting but does not listen yet, is unreachable from here, or the directory is unreadable.
    """
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CommandError(f"cannot read data directory {directory}: {error.strerror}") from error
    try:
        if _holder(lock, _LISTENS) is not None:
            return _noted(directory)
        pid = _holder(lock, _STARTED)
    finally:
        os.close(lock)
    if pid is None:
        return None
    raise CommandError(f"the server of data directory {directory} ({_named(pid)}) does not listen yet; retry")


def _require_file(path: Path, lock: int) -> None:
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise NotServed(f"cannot lock {path}: not a regular file")


def _take(directory: Path, lock: int) -> None:
    holder = None
    for _ in range(_ATTEMPTS):
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _STARTED)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                reason = f"{error.strerror}. Use a file system with locks"
                raise NotServed(f"cannot lock {directory / LOCK}: {reason}") from error
        else:
            return
        holder = _holder(lock, _STARTED)
        if holder is not None:  # otherwise it has just ended
            break
    url = _decided(lock)
    listens = f", which listens on {url}" if url else ""
    raise NotServed(
        f"data directory {directory} is in use by {_named(holder or 0)}{listens}. "
        "Stop that server first, or choose another directory with --data-dir"
    )


def _holder(lock: int, byte: int) -> int | None:
    """The process that locks *byte*, 0 if its pid is not visible here (another container); None if none does."""
    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _decided(lock: int) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(os.pread(lock, 65536, 0))["url"])
    return None


def _named(pid: int) -> str:
    return f"process {pid}" if pid > 0 else "a process of another container or host"


def _noted(directory: Path) -> Running | None:
    try:
        note = json.loads((directory / NOTE).read_text())
        certificate = Path(note["certificate"]) if "certificate" in note else None
        server = Running(str(note["url"]), int(note["pid"]), certificate)
        network = str(note["network"])
    except FileNotFoundError:  # it has just stopped
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"cannot read {directory / NOTE}. Restart the server of this directory") from error
    if network != _network() and not server.url.startswith("unix:"):
        raise CommandError(
            f"the server of data directory {directory} listens on {server.url} of another host or container "
            f"({network.partition(' ')[0]}). Run the command there, or name the server with --url"
        )
    return server


def _network() -> str:
    """Host and network namespace, which determine the meaning of 127.0.0.1. Hosts may share a home directory."""
    try:
        namespace = str(Path("/proc/self/ns/net").readlink())
    except OSError:
        namespace = "-"
    return f"{socket.gethostname()} {namespace}"
