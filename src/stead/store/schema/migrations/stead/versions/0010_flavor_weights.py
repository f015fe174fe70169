"""Weights of flavors: how often each is asked for, in proportion to the others."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0010"
down_revision = "stead0009"


def upgrade() -> None:
    steps.add_column("stead_flavor", sa.Column("weight", sa.Double, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("stead_flavor") as batch:
        batch.drop_column("weight")
