"""Sessions of the web interface that users ended before their time, one row each until then.

Source: decision 61.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.tables import stead_ended_session

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = stead_ended_session.c


def end(tx: Transaction, session: str, until: int) -> None:
    """End *session*, which is valid *until* a time in seconds since 1970 otherwise. Forgets those that are over."""
    tx.connection.execute(sa.delete(stead_ended_session).where(_columns.forget_at < int(time.time())))
    if not has_ended(tx.connection, session):
        tx.connection.execute(sa.insert(stead_ended_session), {"digest": _digest(session), "forget_at": until})


def has_ended(connection: Connection, session: str) -> bool:
    """Whether *session* was ended, by any worker or host."""
    row = sa.select(_columns.digest).where(_columns.digest == _digest(session))
    return connection.execute(row).first() is not None


def _digest(session: str) -> str:
    """What is stored: with the session itself, a reader of the database could be its user if the row comes too late."""
    return hashlib.sha256(session.encode()).hexdigest()
