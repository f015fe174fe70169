"""All that differs between databases: engines, locks, upserts, what their errors mean, what they promise.

A store function says what it wants; only the modules in :mod:`stead.store.sql.dialects` know how SQLite, PostgreSQL and
MariaDB are asked for it, and they are the one place that knows an error number. Nobody else asks which database it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.sql.dialects.base import LOCK_WAIT_SECONDS, Database, Dialect, UrlUnusable, Weakness
from stead.store.sql.dialects.mysql import Mysql
from stead.store.sql.dialects.postgresql import Postgresql
from stead.store.sql.dialects.sqlite import Sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
"""Values in one ``IN (…)``: below every driver's limit on parameters.

MariaDB makes a join of 1,000 and more (``in_predicate_conversion_threshold``), and might lock in another order then.
"""

_DIALECTS: Mapping[str, Dialect] = {
    "sqlite": Sqlite(),
    "postgresql": Postgresql(),
    "mysql": Mysql(),
    "mariadb": Mysql(),
}


def dialect_of(url: URL) -> Dialect:
    """The abilities of the database behind *url*.

    Raises:
        UrlUnusable: it is of a kind that Stead does not know.
    """
    try:
        return _DIALECTS[url.get_backend_name()]
    except KeyError:
        raise UrlUnusable(f"databases of kind {url.get_backend_name()} are not supported") from None


def in_memory() -> Engine:
    """An engine on an empty database in memory, which is gone when the engine is disposed of."""
    return sa.create_engine("sqlite://", poolclass=sa.StaticPool)


@contextmanager
def telling_why(url: URL) -> Iterator[None]:
    """Tell an operator, at start, in the driver's words that the database failed; errors of ours stay as they are.

    Raises:
        Unavailable
    """
    try:
        yield
    except sa.exc.DBAPIError as error:
        if not (error.connection_invalidated or dialect_of(url).is_unavailable(error)):
            raise
        words = str(error.orig).partition("\n")[0]  # the first line names no password
        raise Unavailable(f"The database does not answer: {words}") from error
