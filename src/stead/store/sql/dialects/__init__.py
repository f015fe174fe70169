"""All differences between databases: engines, locks, upserts, meanings of errors, guarantees.

Only the modules in :mod:`stead.store.sql.dialects` know how SQLite, PostgreSQL and MariaDB implement an operation, and
only they know error numbers. No other module checks which database it uses.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import SteadError, Unavailable, Unusable
from stead.store.sql.dialects.base import LOCK_WAIT_SECONDS, Database, Dialect, UrlUnusable, Weakness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Engine

__all__ = [
    "LOCK_WAIT_SECONDS",
    "MANY",
    "Database",
    "Dialect",
    "NotDurable",
    "NotWritable",
    "UrlUnusable",
    "Weakness",
    "check",
    "dialect_of",
    "in_memory",
    "telling_why",
]

_log = logging.getLogger(__name__)

MANY = 999
"""Maximum number of values in one ``IN (…)``: below every driver's limit on parameters.

MariaDB converts 1,000 and more to a join (``in_predicate_conversion_threshold``), and might then lock in another order.
"""

_DIALECTS = {
    "sqlite": ("sqlite", "Sqlite"),
    "postgresql": ("postgresql", "Postgresql"),
    "mysql": ("mysql", "Mysql"),
    "mariadb": ("mysql", "Mysql"),
}
"""The module and the class of each kind of database. A process uses one, and psycopg alone takes 0.1 s to import."""


def dialect_of(url: URL) -> Dialect:
    """The dialect of the database at *url*.

    Raises:
        UrlUnusable: Stead does not support this kind of database.
    """
    return _dialect(url.get_backend_name())


@cache
def _dialect(kind: str) -> Dialect:
    if kind not in _DIALECTS:
        raise UrlUnusable(f"databases of kind {kind} are not supported")
    module, name = _DIALECTS[kind]
    dialect: Dialect = getattr(import_module(f"{__name__}.{module}"), name)()
    return dialect


def in_memory() -> Engine:
    """An engine on an empty database in memory, which exists until the engine is disposed of."""
    return sa.create_engine("sqlite://", poolclass=sa.StaticPool)


@contextmanager
def telling_why(url: URL) -> Iterator[None]:
    """At start, report database failures in the driver's words; Stead's own errors pass unchanged.

    Raises:
        Unavailable, Unusable
    """
    try:
        yield
    except sa.exc.DBAPIError as error:
        dialect = dialect_of(url)
        failure = dialect.failure(error)
        if not (error.connection_invalidated or dialect.is_unavailable(error) or failure.is_lasting):
            raise
        kind = Unusable if failure.is_lasting else Unavailable
        raise kind(f"{failure.words}: {dialect.details(error, url)}") from error


# Checks of a server: it must accept writes, and acknowledged commits must be durable.
#
# Source: "The write and refresh protocol", docs/protocol.md (rule 14).


@dataclass(eq=False)
class NotWritable(SteadError):
    """The database rejects writes, so that the service could not claim anything."""

    reason: str

    def __str__(self) -> str:
        return f"The database is read-only ({self.reason}). Name the server that takes the writes."


@dataclass(eq=False)
class NotDurable(SteadError):
    """The database may lose acknowledged commits, and the settings require durable commits."""

    weaknesses: tuple[Weakness, ...]

    def __str__(self) -> str:
        weaknesses = "; ".join(map(str, self.weaknesses))
        return f"[stead] require_durable_commits is set, and the database does not keep it: {weaknesses}"


def check(writer: Engine, *, required: bool) -> None:
    """Check the server's settings, and log those that endanger commits, with the consequence.

    Args:
        required: refuse a server with such settings.

    Raises:
        NotWritable: it is a replica, or read-only.
        NotDurable: it has such settings, and *required* is set.
        Unavailable: it does not answer.
    """
    dialect = dialect_of(writer.url)
    with telling_why(writer.url), writer.connect() as connection:
        reason = dialect.refuses_writes(connection)
        weaknesses = tuple(dialect.weaknesses(connection))
    if reason is not None:
        raise NotWritable(reason)
    if weaknesses and required:
        raise NotDurable(weaknesses)
    for weakness in weaknesses:
        _log.warning("the database's %s", weakness)
