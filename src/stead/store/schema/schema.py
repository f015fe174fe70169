"""The schema of a database: its two histories of revisions, its place in them, and upgrades."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from io import StringIO
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.schema import DropTable

from stead.domain.errors import SteadError
from stead.store.sql.dialects import dialect_of, telling_why
from stead.store.tables import metadata, resource_providers, stead_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy.engine import Connection, Engine


def prepare(engine: Engine, *, may_upgrade: bool) -> None:
    """Check that the database is ready for the service.

    Args:
        may_upgrade: upgrade it to its heads first.

    Raises:
        SchemaOutdated, SchemaTooNew, TablesMissing: it does not have this release's tables.
        Unversioned, SeveralRevisions: its revision is unknown.
        RequirementsUnmet: it cannot be used as it is, whatever its revision.
        Unavailable: it does not answer.
    """
    with telling_why(engine.url), engine.connect() as connection:
        if _is_at_heads(connection):
            require_fit(connection)
            require_tables(connection, HISTORIES)
            return
    if may_upgrade and not upgrade(engine):
        return  # under its lock it has checked what follows
    with telling_why(engine.url), engine.connect() as connection:
        require_fit(connection)
        require_current_on(connection)


def _is_at_heads(connection: Connection) -> bool:
    """Whether both histories are at their heads: the usual start, which needs no Alembic."""
    inspector = sa.inspect(connection)
    for history in HISTORIES:
        if not inspector.has_table(history.version_table):
            return False
        version = sa.table(history.version_table, sa.column("version_num"))
        if connection.scalars(sa.select(version.c.version_num)).all() != [history.head]:
            return False
    return True


@dataclass(eq=False)
class RequirementsUnmet(SteadError):
    """The database cannot be used as it is, whatever its revision."""

    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return f"The database cannot be used: {'; '.join(self.sentences)}"


def require_fit(connection: Connection) -> None:
    """Refuse a database that lacks one of the `requirements`.

    Raises:
        RequirementsUnmet
    """
    if sentences := requirements(connection):
        raise RequirementsUnmet(tuple(sentences))


def requirements(connection: Connection) -> list[str]:
    """What the database of *connection*, a writer's, lacks that every use of it requires, each with what to do.

    This is the one list for ``db check``, ``db upgrade`` and the start of the service.
    """
    dialect, lacking = dialect_of(connection.engine.url), []
    if reason := dialect.refuses_writes(connection):
        lacking.append(f"nothing can be written here: {reason}")
    lacking += closed_tables(connection)
    # The schema may have tables of other programs.
    if names := [name for name in dialect.without_transactions(connection) if name in metadata.tables]:
        lacking.append(f"tables without transactions: {', '.join(names)}; run for each: ALTER TABLE … ENGINE=InnoDB")
    return lacking + dialect.misfits(connection)


def closed_tables(connection: Connection, more: Iterable[str] = ()) -> list[str]:
    """A sentence if the account may not use all tables of the service and *more* of them, with what to do."""
    expected = {*metadata.tables, *more}
    closed = [name for name in dialect_of(connection.engine.url).unwritable(connection) if name in expected]
    if not closed:
        return []
    return [f"this account may not read and write {', '.join(closed)}; grant it SELECT, INSERT, UPDATE and DELETE"]


def upgrade(engine: Engine) -> list[str]:
    """Upgrade the database to the head of both histories; returns the revisions that were run, in order.

    Several processes may call this at the same time: one upgrades, the others wait and find nothing to do. It continues
    an interrupted upgrade, whatever part of that the database kept.

    Raises:
        RequirementsUnmet: it cannot be used as it is; nothing was changed.
        RuntimeError: the database has rows that a revision refuses.
        Unavailable: another process upgrades it, and did not finish in time.
        SchemaTooNew: a newer release has upgraded it.
        TablesMissing: it lacks tables that earlier revisions created.
        Unversioned, SeveralRevisions: its revision is unknown.
    """
    done: list[str] = []
    with _alone(engine) as connection:
        require_fit(connection)
        # Read under the lock: another process may have upgraded the database while this one waited.
        standings = _require_upgradable(connection)
        for history, standing in zip(HISTORIES, standings, strict=True):
            if standing.pending:
                bring(connection, history)
                done += [step.revision for step in standing.pending]
        if done:
            require_current_on(connection)
    return done


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that locks out every other process that changes the tables.

    Raises:
        Unavailable: another process held the lock too long, or the database does not answer.
    """
    with telling_why(engine.url), engine.begin() as connection:
        dialect_of(engine.url).alone(connection)
        yield connection


def bring(connection: Connection, history: History, revision: str = "head") -> None:
    """Run the revisions of one history up to *revision*, in the transaction of *connection*."""
    run(context_of(connection, history, revision), history)


def upgrade_statements(engine: Engine) -> str:
    """The statements that :func:`upgrade` would run now, for an account with more rights: SQL, ended by semicolons.

    The database is read and not changed. Rows that the revisions would refuse are not checked here;
    `stead.store.schema.adoption` checks them.

    Raises:
        SchemaTooNew, Unversioned, SeveralRevisions, TablesMissing
    """
    from stead.store.schema.migrations.steps import FOR

    written = StringIO()
    with engine.connect() as connection:
        standings = _require_upgradable(connection)
        for history, standing in zip(HISTORIES, standings, strict=True):
            if standing.pending:
                if standing.revision is None and sa.inspect(connection).has_table(history.version_table):
                    written.write(_drop_statement(history.version_table, engine))  # empty; a later statement creates it
                offline: dict[str, Any] = {
                    "as_sql": True,
                    "output_buffer": written,
                    "starting_rev": standing.revision,
                    "transactional_ddl": dialect_of(engine.url).defines_in_transactions,
                    FOR: connection,
                }
                context = context_of(None, history, dialect=engine.dialect, **offline)
                with context.begin_transaction():
                    run(context, history)
    return written.getvalue()


def _require_upgradable(connection: Connection) -> tuple[SchemaPosition, ...]:
    standings = standings_on(connection)
    if refusal := upgrade_refusal_of(standings):
        raise refusal
    require_tables(connection, _current(standings))
    return standings


def own_tables(database: Engine | Connection) -> list[str]:
    """Stead's own tables, whichever release created them."""
    return [name for name in sa.inspect(database).get_table_names() if name.startswith(OWN_PREFIX)]


def remove(engine: Engine) -> list[str]:
    """Drop Stead's own tables, whichever release created them; returns their names.

    The deployment's tables do not change. No Stead may run on the database.
    """
    with _alone(engine) as connection:
        names = own_tables(connection)
        for name in names:
            connection.execute(_drop(name))
    return names


def remove_statements(engine: Engine) -> str:
    """The statements that :func:`remove` would run now."""
    return "".join(_drop_statement(name, engine) for name in own_tables(engine))


def _drop(name: str) -> DropTable:
    return DropTable(sa.Table(name, sa.MetaData()))


def _drop_statement(name: str, engine: Engine) -> str:
    return f"{_drop(name).compile(dialect=engine.dialect)};\n".lstrip()


def stamp(engine: Engine, revision: str) -> None:
    """Record *revision* (or ``head``) as that of the deployment's tables, without checking them; nothing else changes.

    Raises:
        alembic.util.CommandError: the revision does not exist. An empty one counts as none in Alembic, and would delete
            the recorded revision.
    """
    from alembic.util import CommandError

    if not revision.strip():
        raise CommandError("no revision is named")
    with _alone(engine) as connection, scripts_of(PLACEMENT) as scripts:
        context = context_of(connection, PLACEMENT)
        if len(context.get_current_heads()) > 1:  # Alembic would treat them as branches and keep the others
            connection.execute(sa.delete(sa.table(PLACEMENT.version_table)))
        context.stamp(scripts, revision)


# At which revisions a database is, and whether this release can use or upgrade it.


BEGIN_ANEW = "Stop every Stead on the database, then run: stead db downgrade --to upstream && stead db upgrade"
"""Repairs Stead's own tables after any damage. A single table cannot be recreated while the others refer to its lost
contents.
"""


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """A revision, with its description in one line."""

    revision: str
    meaning: str


@dataclass(frozen=True, slots=True)
class SchemaPosition:
    """The position of a database in one history; ``revision`` None: no revision has run.

    ``pending`` are the steps to this release's head, in order. If a newer release has upgraded the database, its
    revision is unknown here; it is ``usable`` if that release declares so (see :data:`stead_schema`).
    """

    history: str
    revision: str | None
    head: str
    pending: tuple[SchemaStep, ...] = ()
    is_known: bool = True
    usable: bool = True
    is_told: bool = True
    """Whether the database states its revision; otherwise there are tables but no version table."""

    @property
    def is_current(self) -> bool:
        """Whether no step is pending."""
        return self.usable and self.is_told and not self.pending


@dataclass(eq=False)
class SchemaOutdated(SteadError):
    """The database lacks tables, or has those of an older release."""

    standings: tuple[SchemaPosition, ...]

    def __str__(self) -> str:
        behind = "; ".join(_distance(standing) for standing in self.standings if standing.pending)
        return f"The database is not ready: {behind}. Run: stead db upgrade"


def _distance(standing: SchemaPosition) -> str:
    if standing.revision is None:
        return f"the tables of {standing.history} are missing"
    return f"the tables of {standing.history} are at revision {standing.revision}, {standing.head} is required"


@dataclass(eq=False)
class SchemaTooNew(SteadError):
    """A newer release changed the tables so that this one cannot use them."""

    standings: tuple[SchemaPosition, ...]

    def __str__(self) -> str:
        ahead = ", ".join(f"{each.history} is at {each.revision}" for each in self.standings if not each.usable)
        return f"The database is of a newer release ({ahead}, unknown to this release). Run the newer release"


@dataclass(eq=False)
class TablesMissing(SteadError):
    """The database is at the head of a history, but lacks tables that earlier revisions created."""

    tables: tuple[str, ...]

    def __str__(self) -> str:
        lost = f"The database has lost tables: {', '.join(self.tables)}"
        if all(name.startswith(OWN_PREFIX) for name in self.tables):
            return f"{lost}. {BEGIN_ANEW}"
        return f"{lost}. Restore it from a backup"


@dataclass(eq=False)
class Unversioned(SteadError):
    """The tables of a Placement service exist, but their revision is unknown."""

    def __str__(self) -> str:
        return (
            "The database has tables of a Placement service, but alembic_version does not say at which revision they "
            "are, as where they were copied from nova's database. Run: placement-manage db stamp REVISION"
        )


@dataclass(eq=False)
class SeveralRevisions(SteadError):
    """A version table names more than one revision, so that the actual one is unknown."""

    history: History
    revisions: tuple[str, ...]

    def __str__(self) -> str:
        table = self.history.version_table
        advice = (
            "Run: placement-manage db stamp REVISION"
            if self.history is PLACEMENT
            else f"Run: DELETE FROM {table}, and then stead db upgrade, which leaves as it is what is there already"
        )
        return (
            f"{table} names several revisions ({', '.join(sorted(self.revisions))}), and can be at one only. {advice}"
        )


def standings(engine: Engine) -> tuple[SchemaPosition, ...]:
    """The position of the database in each history.

    Raises:
        SeveralRevisions
    """
    with engine.connect() as connection:
        return standings_on(connection)


def standings_on(connection: Connection) -> tuple[SchemaPosition, ...]:
    """:func:`standings`, on an open connection."""
    return tuple(_standing(connection, history) for history in HISTORIES)


def _standing(connection: Connection, history: History) -> SchemaPosition:
    heads = context_of(connection, history).get_current_heads()
    if len(heads) > 1:
        raise SeveralRevisions(history, heads)
    revision = heads[0] if heads else None
    steps = _steps_of(history)
    revisions, head = [step.revision for step in steps], steps[-1].revision
    if revision is None:
        if history is PLACEMENT and _is_untold(connection):
            return SchemaPosition(history.name, None, head, is_told=False)
        return SchemaPosition(history.name, None, head, steps)
    if revision not in revisions:
        usable = history is STEAD and _oldest_release(connection) in revisions
        return SchemaPosition(history.name, revision, head, is_known=False, usable=usable)
    return SchemaPosition(history.name, revision, head, steps[revisions.index(revision) + 1 :])


@cache
def _steps_of(history: History) -> tuple[SchemaStep, ...]:
    """All steps of *history*, from the first to the head.

    They are kept, since Alembic imports each file of a revision again for every call.
    """
    with scripts_of(history) as scripts:
        down = scripts.iterate_revisions(scripts.get_current_head(), "base")
        return tuple(SchemaStep(each.revision, each.doc) for each in down)[::-1]


def _is_untold(connection: Connection) -> bool:
    """Whether the deployment's tables exist without a version table.

    An empty version table comes from an upgrade that was interrupted during its first revision.
    """
    inspector = sa.inspect(connection)
    return inspector.has_table(resource_providers.name) and not inspector.has_table(PLACEMENT.version_table)


def _oldest_release(connection: Connection) -> str | None:
    """The head of the oldest release that may use Stead's tables in their present form; None if unknown."""
    if not sa.inspect(connection).has_table(stead_schema.name):
        return None
    return connection.scalars(sa.select(stead_schema.c.oldest)).first()


def refusal_of(standings: tuple[SchemaPosition, ...]) -> SteadError | None:
    """Why the service cannot start on a database in this position; None if it can."""
    if refusal := upgrade_refusal_of(standings):
        return refusal
    return None if all(standing.is_current for standing in standings) else SchemaOutdated(standings)


def upgrade_refusal_of(standings: tuple[SchemaPosition, ...]) -> SteadError | None:
    """Why a database in this position cannot be upgraded; None if it can."""
    if not all(standing.usable for standing in standings):
        return SchemaTooNew(standings)
    return None if all(standing.is_told for standing in standings) else Unversioned()


def require_current(engine: Engine) -> None:
    """Refuse a database that does not have this release's tables.

    Raises:
        SchemaOutdated: it is not at the head of both histories; the message has the command to run.
        SchemaTooNew: it is beyond them, and this release cannot use its tables.
        TablesMissing: it lacks tables despite its revision.
    """
    with engine.connect() as connection:
        require_current_on(connection)


def require_current_on(connection: Connection) -> None:
    """:func:`require_current`, on an open connection, such as that of the upgrade itself."""
    standings = standings_on(connection)
    if refusal := refusal_of(standings):
        raise refusal
    require_tables(connection, _current(standings))


def _current(standings: Iterable[SchemaPosition]) -> list[History]:
    current = {standing.history for standing in standings if standing.is_current}
    return [history for history in HISTORIES if history.name in current]


def require_tables(connection: Connection, histories: Iterable[History]) -> None:
    """Refuse a database that lacks tables of *histories*, at whose heads it is."""
    inspector = sa.inspect(connection)
    current = {history.name for history in histories}
    expected = [name for name in metadata.tables if _history_of(name).name in current]
    if lost := tuple(name for name in expected if not inspector.has_table(name)):
        raise TablesMissing(lost)


def _history_of(table: str) -> History:
    return STEAD if table.startswith(OWN_PREFIX) else PLACEMENT


# The two histories of migrations, and their revisions run by Alembic.
#
# One history has the deployment's own tables, with OpenStack's revision ids and version table. The other history has
# the ``stead_`` tables, with its own version table, so that Stead can be added and removed.


@dataclass(frozen=True, slots=True)
class History:
    """One history of migrations: the folder with its revisions, the version table of a database, and the last one."""

    name: str
    version_table: str
    head: str


PLACEMENT = History("placement", "alembic_version", "a082b8bb98d0")
STEAD = History("stead", "stead_version", "stead0013")
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
    from alembic.runtime.migration import MigrationContext

    def steps(revision: Any, _context: MigrationContext) -> Any:
        # Alembic's public API for this requires a configuration file and an env.py for each history.
        with scripts_of(history) as scripts:
            return scripts._upgrade_revs(target, revision)  # noqa: SLF001 - what `alembic upgrade` itself calls

    options = {"version_table": history.version_table, "fn": steps, **options}
    return MigrationContext.configure(connection, dialect=dialect, opts=options)


def run(context: MigrationContext, history: History) -> None:
    """Run the revisions that *context* selects."""
    from alembic.operations import Operations

    # The folder must exist while its scripts run: they are modules in it.
    with scripts_of(history), Operations.context(context):
        context.run_migrations()


@contextmanager
def scripts_of(history: History) -> Iterator[ScriptDirectory]:
    """The revisions of *history*. Their folder exists within this context only: the package may be a zip file."""
    from alembic.script import ScriptDirectory

    with as_file(files("stead.store.schema.migrations").joinpath(history.name)) as folder:
        yield ScriptDirectory(str(folder))
