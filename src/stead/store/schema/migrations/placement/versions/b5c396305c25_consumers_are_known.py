"""Refuse to continue while an allocation has no consumer; nothing is changed."""

import sqlalchemy as sa
from alembic import op

revision = "b5c396305c25"
down_revision = "611cd6dffd7b"


def upgrade() -> None:
    if op.get_context().as_sql:
        return  # the code that writes the statements has already checked this
    query = sa.text(
        "SELECT count(*) FROM allocations a LEFT JOIN consumers c ON c.uuid = a.consumer_id WHERE c.uuid IS NULL"
    )
    if op.get_bind().execute(query).scalar_one():
        raise RuntimeError("There are allocations without a consumer. Run: stead audit --repair")
