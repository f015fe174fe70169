"""The stamps of the last ticks of each slot, which identify a commit that was not acknowledged."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0003"
down_revision = "stead0002"


def upgrade() -> None:
    steps.add_column("stead_clock", sa.Column("earlier", sa.String(480), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("stead_clock", "earlier")
