"""Flavors: candidate queries with a name."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

from stead.store.schema.migrations import steps

revision = "stead0008"
down_revision = "stead0007"

# Names are ASCII. They are compared and sorted by bytes on every kind of database, whatever its default collation is.
NAME = (
    sa.String(255)
    .with_variant(postgresql.VARCHAR(255, collation="C"), "postgresql")
    .with_variant(mysql.VARCHAR(255, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
)


def upgrade() -> None:
    steps.create_table(
        "stead_flavor",
        sa.Column("name", NAME, primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("description", sa.Unicode(255), nullable=False),
        mysql_engine="InnoDB",
    )


def downgrade() -> None:
    op.drop_table("stead_flavor")
