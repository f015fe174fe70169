"""The mix that is learned: which forms of requests clients ask for, and how often."""

import sqlalchemy as sa
from alembic import op

from stead.store.schema.migrations import steps

revision = "stead0011"
down_revision = "stead0010"


def upgrade() -> None:
    steps.create_table(
        "stead_asked_form",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("times", sa.Double, nullable=False),
        sa.Column("surplus", sa.Double, nullable=False),
        sa.Column("counted_at", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    learned = steps.create_table(
        "stead_learned_mix",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        mysql_engine="InnoDB",
    )
    steps.insert(learned, [{"id": 1, "number": 0}])


def downgrade() -> None:
    op.drop_table("stead_learned_mix")
    op.drop_table("stead_asked_form")
