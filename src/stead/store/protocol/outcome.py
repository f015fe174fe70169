"""The outcome of a commit that the database did not acknowledge: determined before the client gets an answer.

If a connection breaks during COMMIT, the transaction may or may not be committed. If it is still alive at the server,
it holds the lock on the row of its slot. So this module ticks that slot with a void tick, which waits for the end of
the transaction. On a Galera cluster, where nodes do not wait for each other's locks, the void tick is certified against
it. Afterwards the transaction can no longer commit. The earlier ticks of the slot show whether its stamp is among them.
The void tick is committed before the answer: what it read is then as durable as the void tick itself, even if the
first commit was still on its way to the disk.

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
    """A commit had no answer; ``ticked`` is what its transaction wrote in the clock, None for nothing."""

    def __init__(self, ticked: Ticked | None) -> None:
        super().__init__(ticked)
        self.ticked = ticked


def commit(transaction: Transaction, dialect: Dialect, ticked: Ticked | None) -> None:
    """Commit a transaction that wrote *ticked* in the clock.

    Raises:
        DBAPIError: it was not committed.
        OutcomeUnknown: it may have been committed.
    """
    try:
        transaction.commit()
    except sa.exc.DBAPIError as error:
        transaction.rollback()  # otherwise SQLAlchemy leaves it open for the next user of the connection
        if dialect.is_undone(error):
            raise
        _log.warning("the database failed during a commit: %s", error.orig)
        raise OutcomeUnknown(ticked) from error


def has_happened(writer: Engine, ticked: Ticked | None, until: float) -> bool:
    """Whether an unacknowledged commit happened. If not, it never will.

    Args:
        ticked: what it wrote in the clock. None: it touched nothing, so that the caller may repeat it.
        until: deadline on the monotonic clock for a database that does not answer; there is at least one attempt.

    Raises:
        Unavailable: the outcome cannot be determined, or not in time.
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
        void = tick(connection, ticked.slot, (), ())  # waits for the lost transaction, so it comes before the read
        earlier = earlier_stamps(connection, ticked.slot)
    if void.tick <= ticked.tick:
        return False  # it was rolled back, or the database was restored to an earlier state
    if ticked.tick not in earlier:
        _log.warning("the outcome of a commit was overwritten by %d later ones", void.tick - ticked.tick - 1)
        raise Unavailable(_UNKNOWN)
    return earlier[ticked.tick] == ticked.stamp
