"""Leases: the ends of claims."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0012"
down_revision = "stead0011"


def upgrade() -> None:
    steps.create_table(
        "stead_lease",
        sa.Column("consumer_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("renewed_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Integer, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.create_index("stead_lease_state_expires_at_idx", "stead_lease", ["state", "expires_at"])


def downgrade() -> None:
    op.drop_table("stead_lease")
