"""Checks of a server: it must accept writes, and acknowledged commits must be durable.

Source: "The write and refresh protocol", docs/protocol.md (rule 14).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.domain.errors import SteadError
from stead.store.sql.dialects import Weakness, dialect_of, telling_why

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

_log = logging.getLogger(__name__)


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
