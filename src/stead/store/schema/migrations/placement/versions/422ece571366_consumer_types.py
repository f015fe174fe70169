"""Consumers may have a type."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "422ece571366"
down_revision = "b5c396305c25"

KEY, INDEX = "consumers_consumer_type_id_fkey", "consumers_consumer_type_id_idx"


def upgrade() -> None:
    steps.create_table(
        "consumer_types",
        sa.Column("created_at", sa.DateTime, nullable=True),
        sa.Column("updated_at", sa.DateTime, nullable=True),
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("name", sa.Unicode(255), nullable=False),
        sa.UniqueConstraint("name", name="uniq_consumer_types0name"),
        mysql_engine="InnoDB",
    )
    # SQLite copies the table to a new one. Without a connection it cannot be read from the database, so define it here.
    with op.batch_alter_table("consumers", copy_from=_consumers() if op.get_context().as_sql else None) as consumers:
        if not steps.has_column("consumers", "consumer_type_id"):
            consumers.add_column(sa.Column("consumer_type_id", sa.Integer, nullable=True))
        if not steps.has_foreign_key("consumers", KEY):
            consumers.create_foreign_key(KEY, "consumer_types", ["consumer_type_id"], ["id"])
        if not steps.has_index("consumers", INDEX):
            consumers.create_index(INDEX, ["consumer_type_id"])


def _consumers() -> sa.Table:
    """The table before this revision."""
    return sa.Table(
        "consumers",
        sa.MetaData(),
        sa.Column("created_at", sa.DateTime, nullable=True),
        sa.Column("updated_at", sa.DateTime, nullable=True),
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("user_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.UniqueConstraint("uuid", name="uniq_consumers0uuid"),
        sa.Index("consumers_project_id_user_id_uuid_idx", "project_id", "user_id", "uuid"),
        sa.Index("consumers_project_id_uuid_idx", "project_id", "uuid"),
    )
