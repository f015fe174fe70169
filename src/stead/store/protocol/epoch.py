"""A new epoch: after a restore, every process discards its catalog, and all derived sums are deleted.

Source: "The write and refresh protocol", docs/protocol.md (rules 12, 15 and 16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import sqlalchemy as sa

from stead.store.tables import stead_epoch, stead_usage

if TYPE_CHECKING:
    from stead.store.protocol.transaction import Transaction


def renew(tx: Transaction) -> str:
    """Begin a new epoch, and delete the maintained sums; returns the epoch's name.

    Every process reloads everything at its next poll. No tick is needed: the epoch is read together with the clock.
    """
    epoch = str(uuid4())
    # Not an UPDATE, since a restore may have lost the row.
    tx.connection.execute(sa.delete(stead_epoch))
    tx.connection.execute(sa.insert(stead_epoch), {"id": 1, "epoch": epoch})
    tx.connection.execute(sa.delete(stead_usage))
    return epoch
