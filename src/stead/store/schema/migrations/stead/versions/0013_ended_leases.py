"""Which consumers of the change log were released or marked because their leases ended."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0013"
down_revision = "stead0012"


def upgrade() -> None:
    steps.add_column("stead_change_log", sa.Column("ended", sa.Integer, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("stead_change_log") as batch:
        batch.drop_column("ended")
