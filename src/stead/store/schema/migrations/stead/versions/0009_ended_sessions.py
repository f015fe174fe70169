"""Sessions of the web interface that users ended."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0009"
down_revision = "stead0008"


def upgrade() -> None:
    steps.create_table(
        "stead_ended_session",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("forget_at", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )


def downgrade() -> None:
    op.drop_table("stead_ended_session")
