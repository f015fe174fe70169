"""The two histories of migrations, and their revisions run by Alembic.

One history has the deployment's own tables, with OpenStack's revision ids and version table. The other history has the
``stead_`` tables, with its own version table, so that Stead can be added and removed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa
    from sqlalchemy.engine import Connection


@dataclass(frozen=True, slots=True)
class History:
    """One history of migrations: the folder with its revisions, and the version table of a database."""

    name: str
    version_table: str


PLACEMENT = History("placement", "alembic_version")
STEAD = History("stead", "stead_version")
HISTORIES = (PLACEMENT, STEAD)

OWN_PREFIX = "stead_"


def context_of(
    connection: Connection | None,
    history: History,
    target: str = "head",
    *,
    dialect: sa.Dialect | None = None,
    **options: Any,
) -> MigrationContext:
    """Alembic's state of *history* on a database, which runs the revisions up to *target*.

    Args:
        connection: None writes the statements without a database.
        dialect: for which they are written.
        options: of Alembic.
    """

    def steps(revision: Any, _context: MigrationContext) -> Any:
        # Alembic's public API for this requires a configuration file and an env.py for each history.
        with scripts_of(history) as scripts:
            return scripts._upgrade_revs(target, revision)  # noqa: SLF001 - what `alembic upgrade` itself calls

    options = {"version_table": history.version_table, "fn": steps, **options}
    return MigrationContext.configure(connection, dialect=dialect, opts=options)


def run(context: MigrationContext, history: History) -> None:
    """Run the revisions that *context* selects."""
    # The folder must exist while its scripts run: they are modules in it.
    with scripts_of(history), Operations.context(context):
        context.run_migrations()


@contextmanager
def scripts_of(history: History) -> Iterator[ScriptDirectory]:
    """The revisions of *history*. Their folder exists within this context only: the package may be a zip file."""
    with as_file(files("stead.store.schema.migrations").joinpath(history.name)) as folder:
        yield ScriptDirectory(str(folder))
