"""Changes of the schema: upgrades, the removal of Stead's own tables, and recorded revisions."""

from __future__ import annotations

from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic.util import CommandError
from sqlalchemy.schema import DropTable

from stead.store.schema.histories import HISTORIES, OWN_PREFIX, PLACEMENT, History, context_of, run, scripts_of
from stead.store.schema.migrations.steps import FOR
from stead.store.schema.positions import (
    Standing,
    require_current,
    require_current_on,
    require_tables,
    standings_on,
    upgrade_refusal_of,
)
from stead.store.sql.dialects import dialect_of, telling_why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine


def prepare(engine: Engine, *, may_upgrade: bool) -> None:
    """Check that the database is ready for the service.

    Args:
        may_upgrade: upgrade it to its heads first.

    Raises:
        SchemaOutdated, SchemaTooNew, TablesMissing: it does not have this release's tables.
        Unversioned, SeveralRevisions: its revision is unknown.
        Unavailable: it does not answer.
    """
    if may_upgrade:
        upgrade(engine)
    with telling_why(engine.url):
        require_current(engine)


def upgrade(engine: Engine) -> list[str]:
    """Upgrade the database to the head of both histories; returns the revisions that were run, in order.

    Several processes may call this at the same time: one upgrades, the others wait and find nothing to do. It continues
    an interrupted upgrade, whatever part of that the database kept.

    Raises:
        RuntimeError: the database has rows that a revision refuses.
        Unavailable: another process upgrades it, and did not finish in time.
        SchemaTooNew: a newer release has upgraded it.
        TablesMissing: it lacks tables that earlier revisions created.
        Unversioned, SeveralRevisions: its revision is unknown.
    """
    done: list[str] = []
    with _alone(engine) as connection:
        # Read under the lock: another process may have upgraded the database while this one waited.
        standings = _require_upgradable(connection)
        for history, standing in zip(HISTORIES, standings, strict=True):
            if standing.pending:
                bring(connection, history)
                done += [step.revision for step in standing.pending]
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


def _require_upgradable(connection: Connection) -> tuple[Standing, ...]:
    standings = standings_on(connection)
    if refusal := upgrade_refusal_of(standings):
        raise refusal
    require_tables(connection, standings)
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
    if not revision.strip():
        raise CommandError("no revision is named")
    with _alone(engine) as connection, scripts_of(PLACEMENT) as scripts:
        context = context_of(connection, PLACEMENT)
        if len(context.get_current_heads()) > 1:  # Alembic would treat them as branches and keep the others
            connection.execute(sa.delete(sa.table(PLACEMENT.version_table)))
        context.stamp(scripts, revision)
