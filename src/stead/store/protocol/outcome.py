"""What became of a commit that the database did not answer: found out before a client is told, or the write repeated.

A connection that breaks during COMMIT leaves both open. The transaction, if it lives on at the server, holds the row of
the slot that it ticked. So a void tick of that slot waits for its end, and where nobody waits for locks of another (the
nodes of a Galera cluster) is certified against it; after it, nothing can become of the transaction any more. The ticks
that the slot had before say whether the one with its stamp was among them. The void tick is committed before anybody is
told: what it saw is then as durable as it is itself, even if the first commit was still on its way to the disk.

Source: "The write and refresh protocol", docs/protocol.md (rule 8).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.protocol.clock import LostTick, earlier_stamps, tick
from stead.store.protocol.pauses import Pauses

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine, Transaction

    from stead.store.protocol.clock import Ticked
    from stead.store.sql.dialects import Dialect

_UNKNOWN = "The database failed while it committed the write. It is not known whether it happened."

_log = logging.getLogger(__name__)


class OutcomeUnknown(Exception):
    """A commit ended without an answer; ``ticked`` is what its transaction wrote in the clock, None for nothing."""

    def __init__(self, ticked: Ticked | None) -> None:
        super().__init__(ticked)
        self.ticked = ticked


def commit(transaction: Transaction, dialect: Dialect, ticked: Ticked | None) -> None:
    """Commit a transaction that wrote *ticked* in the clock.

    Raises:
        DBAPIError: it did not happen.
        OutcomeUnknown: it may have happened.
    """
    try:
        transaction.commit()
    except sa.exc.DBAPIError as error:
        transaction.rollback()  # else SQLAlchemy takes it for ended, and the next user of the connection finds it open
        if dialect.is_undone(error):
            raise
        _log.warning("the database failed during a commit: %s", error.orig)
        raise OutcomeUnknown(ticked) from error


def has_happened(writer: Engine, ticked: Ticked | None, until: float) -> bool:
    """Whether a commit in doubt happened. If not, it never will.

    Args:
        ticked: what it wrote in the clock. None: it touched nothing, and may as well be repeated.
        until: for how long to ask a database that does not answer, by the monotonic clock; it is asked at least once.

    Raises:
        Unavailable: it can not be told, or not in time.
    """
    if ticked is None:
        return False
    pauses = Pauses(first=0.01, longest=0.5)
    while True:
        try:
            return _settled(writer, ticked)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, LostTick) as error:
            if not pauses.end_before(until):
                raise Unavailable(_UNKNOWN) from error
        pauses.pause()


def _settled(writer: Engine, ticked: Ticked) -> bool:
    with writer.begin() as connection:
        void = tick(connection, ticked.slot, (), ())
        earlier = earlier_stamps(connection, ticked.slot)
    if void.tick <= ticked.tick:
        return False  # it was rolled back, or the database was set back behind it
    if ticked.tick not in earlier:
        _log.warning("the outcome of a commit was overwritten by %d later ones", void.tick - ticked.tick - 1)
        raise Unavailable(_UNKNOWN)
    return earlier[ticked.tick] == ticked.stamp
