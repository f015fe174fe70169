"""Providers that are out of service: they keep their allocations, and give no new ones."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0006"
down_revision = "stead0005"


def upgrade() -> None:
    steps.create_table(
        "stead_disabled_provider",
        sa.Column("provider_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("reason", sa.Unicode(255), nullable=False),
        sa.Column("disabled_at", sa.BigInteger, nullable=False),
        sa.Column("enable_at", sa.BigInteger, nullable=True),
        sa.Column("owns_trait", sa.Integer, nullable=False),
        mysql_engine="InnoDB",
    )


def downgrade() -> None:
    op.drop_table("stead_disabled_provider")
