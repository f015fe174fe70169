"""What changed of a provider, by clock slot and tick: its inventories, its traits, its place in the tree."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0007"
down_revision = "stead0006"


def upgrade() -> None:
    steps.create_table(
        "stead_part_change",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("tick", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.create_index("stead_part_change_slot_tick_idx", "stead_part_change", ["slot", "tick"])


def downgrade() -> None:
    op.drop_table("stead_part_change")
