"""All differences between databases: engines, locks, upserts, meanings of errors, guarantees.

Only the modules in :mod:`stead.store.sql.dialects` know how SQLite, PostgreSQL and MariaDB implement an operation, and
only they know error numbers. No other module checks which database it uses.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import Unavailable, Unusable
from stead.store.sql.dialects.base import LOCK_WAIT_SECONDS, Database, Dialect, UrlUnusable, Weakness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import URL, Engine

__all__ = [
    "LOCK_WAIT_SECONDS",
    "MANY",
    "Database",
    "Dialect",
    "UrlUnusable",
    "Weakness",
    "dialect_of",
    "in_memory",
    "telling_why",
]

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
