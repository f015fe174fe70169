"""The schema: its two histories of migrations, whether a database stands at their heads, and how it gets there.

One history is that of the deployment's own tables, with the revision ids and the version table it has always had; the
other is that of the ``stead_`` tables, with a version table of its own, so that Stead can be added and taken away.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from stead.domain.errors import SteadError
from stead.store.dialect import dialect_of, telling_why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine


@dataclass(frozen=True, slots=True)
class History:
    """One line of migrations: the folder with its revisions, and the table that says where a database stands."""

    name: str
    version_table: str


HISTORIES = (History("placement", "alembic_version"), History("stead", "stead_version"))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a database stands in one history; ``revision`` None: the history never began there."""

    history: str
    revision: str | None
    head: str

    @property
    def is_current(self) -> bool:
        """Whether nothing is to be done."""
        return self.revision == self.head


@dataclass(eq=False)
class SchemaOutdated(SteadError):
    """The database lacks tables, or has those of another release."""

    standings: tuple[Standing, ...]

    def __str__(self) -> str:
        behind = ", ".join(
            f"{standing.history} is at {standing.revision or 'nothing'}, not at {standing.head}"
            for standing in self.standings
            if not standing.is_current
        )
        return f"The database is not ready ({behind}). Run: stead db upgrade"


def standings(engine: Engine) -> tuple[Standing, ...]:
    """Where the database stands in each history."""
    with engine.connect() as connection:
        return tuple(_standing(connection, history) for history in HISTORIES)


def _standing(connection: Connection, history: History) -> Standing:
    with _scripts(history) as scripts:
        context = MigrationContext.configure(connection, opts={"version_table": history.version_table})
        return Standing(history.name, context.get_current_revision(), str(scripts.get_current_head()))


def require_current(engine: Engine) -> None:
    """Refuse a database that does not stand at the head of both histories.

    Raises:
        SchemaOutdated: with the command that helps.
    """
    found = standings(engine)
    if not all(standing.is_current for standing in found):
        raise SchemaOutdated(found)


def prepare(engine: Engine, *, may_upgrade: bool) -> None:
    """Make sure that the database is ready for the service.

    Args:
        may_upgrade: bring it to its heads first.

    Raises:
        SchemaOutdated: it is not at its heads.
        Unavailable: it does not answer.
    """
    with telling_why(engine.url):
        if may_upgrade:
            upgrade(engine)
        require_current(engine)


def upgrade(engine: Engine) -> list[str]:
    """Bring the database to the head of both histories; returns the revisions that were run, in order.

    Processes that start together may all call it: one does the work, the others wait and find nothing to do.

    Raises:
        RuntimeError: the database holds what a revision refuses, or is of a release that is not known yet.
    """
    done: list[str] = []
    with dialect_of(engine.url).alone(engine):
        for history in HISTORIES:
            with engine.begin() as connection, _scripts(history) as scripts:
                done += _run(connection, history, scripts)
    return done


def stamp(engine: Engine, revision: str) -> None:
    """Note that the deployment's tables are at *revision* (or ``head``), whatever they are; nothing else changes.

    Raises:
        alembic.util.CommandError: there is no such revision.
    """
    history = HISTORIES[0]
    with dialect_of(engine.url).alone(engine), engine.begin() as connection, _scripts(history) as scripts:
        context = MigrationContext.configure(connection, opts={"version_table": history.version_table})
        context.stamp(scripts, revision)


def _run(connection: Connection, history: History, scripts: ScriptDirectory) -> list[str]:
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": history.version_table,
            # Alembic's public way to this wants a configuration file and an env.py for each history.
            "fn": lambda revision, _context: scripts._upgrade_revs(str(scripts.get_current_head()), revision),  # noqa: SLF001
        },
    )
    before = context.get_current_revision()
    if before is not None and before not in {script.revision for script in scripts.walk_revisions()}:
        raise RuntimeError(f"{history.name} is at {before}, of which this release knows nothing: a newer one made it")
    with Operations.context(context):
        context.run_migrations()
    return [
        script.revision
        for script in reversed(list(scripts.walk_revisions(before or "base", "heads")))
        if script.revision != before
    ]


@contextmanager
def _scripts(history: History) -> Iterator[ScriptDirectory]:
    with as_file(files("stead.store.migrations").joinpath(history.name)) as folder:
        yield ScriptDirectory(str(folder))
