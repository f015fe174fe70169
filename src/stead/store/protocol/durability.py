"""What a server must be to keep the promises: writable, and durable when it says that it committed.

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
    """The database takes no writes, so the service could not claim anything."""

    reason: str

    def __str__(self) -> str:
        return f"The database is read-only ({self.reason}). Name the server that takes the writes."


@dataclass(eq=False)
class NotDurable(SteadError):
    """The database may lose what it acknowledged, and the operator demands that it does not."""

    weaknesses: tuple[Weakness, ...]

    def __str__(self) -> str:
        found = "; ".join(map(str, self.weaknesses))
        return f"[stead] require_durable_commits is set, and the database does not keep it: {found}"


def check(writer: Engine, *, required: bool) -> None:
    """Look at the server's settings; say in the log which of them break a promise, and which promise.

    Args:
        required: refuse a server with such settings.

    Raises:
        NotWritable: it is a replica, or read-only.
        NotDurable: it has such settings, and they are refused.
        Unavailable: it does not answer.
    """
    dialect = dialect_of(writer.url)
    with telling_why(writer.url), writer.connect() as connection:
        reason = dialect.refuses_writes(connection)
        found = tuple(dialect.weaknesses(connection))
    if reason is not None:
        raise NotWritable(reason)
    if found and required:
        raise NotDurable(found)
    for weakness in found:
        _log.warning("the database's %s", weakness)
