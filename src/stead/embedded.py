"""Stead in the process of a program: the application on a database, called without a socket.

It differs from a server in three ways. It reads no configuration files. It has no authentication, since a program that
can open the database has full access anyway. It leaves the log and the memory settings of the process alone.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from stead.application import assemble, build_service
from stead.auth.tokens import private_directory
from stead.client.errors import CannotOpen, Unavailable
from stead.config import ConfigError, read_conf, settings_of
from stead.config.masking import complete_url
from stead.config.settings import absolute
from stead.domain import errors as domain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from tempfile import TemporaryDirectory
    from wsgiref.types import WSGIApplication

    from stead.auth.authentication import Credentials
    from stead.auth.policy import Policy
    from stead.config import Settings

WATCHERS = 64
"""Threads of the program that may wait for changes at the same time."""

RETRIES = 3
"""Further attempts after the first one fails to reach the database."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A running application. *close* ends it; *shown* names its database, without a password.

    *pass_time* lets leases end sooner by a number of seconds, for tests.
    """

    application: WSGIApplication
    shown: str
    close: Callable[[], None]
    settings: Settings
    pass_time: Callable[[int], None]


def start_here(database: str | Path, upgrade: bool | None = None) -> Opened:
    """:func:`start` for calls of this process only: it starts faster."""
    return start(database, upgrade, is_served=False)


class _Unrestricted:
    """A policy that allows everything, without oslo.policy."""

    def require(self, rule: str, credentials: Credentials, target: Mapping[str, str] | None = None) -> None:
        """Return."""


def start(
    database: str | Path, upgrade: bool | None = None, *, is_durable: bool = True, is_served: bool = True
) -> Opened:
    """Stead on *database*: a data directory, the URL of a database, or ``:memory:``.

    Args:
        upgrade: whether missing tables are created; None: for a directory and for SQLite.
        is_served: whether it has pages, and rules for clients that are no administrators.
        is_durable: whether SQLite waits for the disk.

    Raises:
        CannotOpen: the database cannot be used.
        Unavailable: it does not answer.
    """
    if database in _IN_MEMORY:
        return _start_in_memory(is_served=is_served)
    try:
        url, shown = _location(database)
        settings = _settings(url, upgrade=url.startswith("sqlite") if upgrade is None else upgrade, durable=is_durable)
        service = build_service(settings)
    except domain.Unavailable as error:
        raise Unavailable(0, f"cannot open {database}: {error}") from error
    except (domain.SteadError, ConfigError, OSError) as error:
        raise CannotOpen(f"cannot open {database}: {error}") from error
    policy = None if is_served else cast("Policy", _Unrestricted())
    if not is_served:
        settings = replace(settings, ui=replace(settings.ui, enabled=False, public_docs=False))
    return Opened(assemble(service, settings, policy=policy), shown, service.close, settings, service.pass_time)


_MEMORY = ":memory:"
_IN_MEMORY = frozenset({_MEMORY, "sqlite://", "sqlite:///:memory:"})


def _start_in_memory(*, is_served: bool) -> Opened:
    """Stead on an empty database of its own, which is deleted when it is closed.

    A database in the memory of SQLite belongs to one connection, and Stead has several. So this is a file in memory.
    """
    from stead.observe.log import silenced

    directory = directory_in_memory()
    try:
        with silenced("stead.store.protocol.connections"):  # that a crash of the machine loses claims
            opened = start(directory.name, is_durable=False, is_served=is_served)
    except Exception:
        directory.cleanup()
        raise

    def close() -> None:
        opened.close()
        directory.cleanup()

    return replace(opened, shown=_MEMORY, close=close)


_SHARED_MEMORY = Path("/dev/shm")  # a file system in memory; absent outside of Linux


def directory_in_memory() -> TemporaryDirectory[str]:
    """An empty directory, in memory if that is possible."""
    from tempfile import TemporaryDirectory

    return TemporaryDirectory(prefix="placement-", dir=_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None)


def _location(database: str | Path) -> tuple[str, str]:
    """The complete URL of the database, and its name for messages."""
    text = str(database)
    if "://" in text:
        return complete_url(text, ""), text.partition("://")[0] + "://" + text.rpartition("@")[2].rpartition("://")[2]
    directory = absolute(Path(text))
    if is_shared(directory):
        _share_database(directory / "stead.db")
    else:
        private_directory(directory)
    return f"sqlite:///{directory}/stead.db", str(directory)


_SHARED = stat.S_ISGID | stat.S_IRWXG


def is_shared(directory: Path) -> bool:
    """Whether a group shares a data directory: mode 2770, which no umask gives.

    All members of the group may do everything with the database. Files in the directory belong to the group, because of
    the bit that `chmod g+s` sets. A server has secrets in its data directory, and refuses a shared one.
    """
    with suppress(OSError):
        mode = directory.stat().st_mode
        return mode & _SHARED == _SHARED and not mode & stat.S_IRWXO
    return False


def _share_database(path: Path) -> None:
    """Create the database so that the group may write to it. SQLite gives its other files the same mode."""
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660)
        os.fchmod(descriptor, 0o660)  # whatever the umask is
        os.close(descriptor)


@contextmanager
def _same_log_handlers() -> Iterator[None]:
    """Let the root logger have no other handlers afterwards: oslo.log gives it one if it has none."""
    root = logging.getLogger()
    before = list(root.handlers)
    yield
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)


def _settings(url: str, *, upgrade: bool, durable: bool) -> Settings:
    with _same_log_handlers():
        conf = read_conf([], [])
    conf.set_override("connection", url, group="placement_database")
    conf.set_override("auth_strategy", "noauth2", group="api")
    settings = settings_of(conf)
    database = replace(
        settings.database,
        url=url,
        sync_on_startup=upgrade,
        sqlite_synchronous=durable,
        max_retries=RETRIES,
        retry_interval=1,
    )
    limits = replace(settings.limits, watchers=max(settings.limits.watchers, WATCHERS), watcher_threads=WATCHERS)
    return replace(settings, database=database, limits=limits, embedded=False, auth_strategy="noauth2")
