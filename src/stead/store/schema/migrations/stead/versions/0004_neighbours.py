"""The oldest release that may use these tables, so that two releases can run on one database."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0004"
down_revision = "stead0003"

OLDEST = "stead0003"  # the statements of that release find everything they need


def upgrade() -> None:
    schema = steps.create_table(
        "stead_schema",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest", sa.String(32), nullable=False),
        mysql_engine="InnoDB",
    )
    steps.insert(schema, [{"id": 1, "oldest": OLDEST}])


def downgrade() -> None:
    op.drop_table("stead_schema")
