"""The usage of each provider, maintained as sums, and change rows for writes that change nothing else.

The sums start empty instead of being computed from the allocations. Otherwise they would include allocations that
another service releases between this revision and the first start of Stead.
"""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0002"
down_revision = "stead0001"


def upgrade() -> None:
    steps.create_table(
        "stead_usage",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("class_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.create_table(
        "stead_usage_change",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("tick", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.create_index("stead_usage_change_slot_tick_idx", "stead_usage_change", ["slot", "tick"])


def downgrade() -> None:
    op.drop_table("stead_usage_change")
    op.drop_table("stead_usage")
