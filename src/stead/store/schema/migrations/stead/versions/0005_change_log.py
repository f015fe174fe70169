"""The uuids of changed consumers and deleted providers, by clock slot and tick; the change rows do not have them.

The floors store where the log starts.
"""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0005"
down_revision = "stead0004"


def upgrade() -> None:
    steps.create_table(
        "stead_change_log",
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("tick", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36), primary_key=True),
        sa.Column("kind", sa.Integer, nullable=False),
        mysql_engine="InnoDB",
        sqlite_with_rowid=False,
    )
    floors = steps.create_table(
        "stead_change_floor",
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("floor", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    # The log lacks earlier writes, so tokens cannot be older than this moment.
    clock = sa.table("stead_clock", sa.column("slot"), sa.column("tick"))
    missing = clock.c.slot.not_in(sa.select(floors.c.slot))
    op.execute(sa.insert(floors).from_select(["slot", "floor"], sa.select(clock.c.slot, clock.c.tick).where(missing)))


def downgrade() -> None:
    op.drop_table("stead_change_floor")
    op.drop_table("stead_change_log")
