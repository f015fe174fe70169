"""Refuse to continue while a provider has no root; nothing is changed."""

import sqlalchemy as sa
from alembic import op

revision = "611cd6dffd7b"
down_revision = "b4ed3a175331"


def upgrade() -> None:
    if op.get_context().as_sql:
        return  # the code that writes the statements has already checked this
    query = sa.text("SELECT count(*) FROM resource_providers WHERE root_provider_id IS NULL")
    if op.get_bind().execute(query).scalar_one():
        raise RuntimeError("There are resource providers without a root. Run: stead audit --repair")
