"""At which revisions a database is, and whether this release can use or upgrade it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import SteadError
from stead.store.schema.histories import HISTORIES, OWN_PREFIX, PLACEMENT, STEAD, History, context_of, scripts_of
from stead.store.tables import metadata, resource_providers, stead_schema

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Engine

BEGIN_ANEW = "Stop every Stead on the database, then run: stead db downgrade --to upstream && stead db upgrade"
"""Repairs Stead's own tables after any damage. A single table cannot be recreated while the others refer to its lost
contents.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A revision, with its description in one line."""

    revision: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The position of a database in one history; ``revision`` None: no revision has run.

    ``pending`` are the steps to this release's head, in order. If a newer release has upgraded the database, its
    revision is unknown here; it is ``usable`` if that release declares so (see :data:`stead_schema`).
    """

    history: str
    revision: str | None
    head: str
    pending: tuple[Step, ...] = ()
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

    standings: tuple[Standing, ...]

    def __str__(self) -> str:
        behind = "; ".join(_distance(standing) for standing in self.standings if standing.pending)
        return f"The database is not ready: {behind}. Run: stead db upgrade"


def _distance(standing: Standing) -> str:
    if standing.revision is None:
        return f"the tables of {standing.history} are missing"
    return f"the tables of {standing.history} are at revision {standing.revision}, {standing.head} is required"


@dataclass(eq=False)
class SchemaTooNew(SteadError):
    """A newer release changed the tables so that this one cannot use them."""

    standings: tuple[Standing, ...]

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


def standings(engine: Engine) -> tuple[Standing, ...]:
    """The position of the database in each history.

    Raises:
        SeveralRevisions
    """
    with engine.connect() as connection:
        return standings_on(connection)


def standings_on(connection: Connection) -> tuple[Standing, ...]:
    """:func:`standings`, on an open connection."""
    return tuple(_standing(connection, history) for history in HISTORIES)


def _standing(connection: Connection, history: History) -> Standing:
    with scripts_of(history) as scripts:
        heads = context_of(connection, history).get_current_heads()
        if len(heads) > 1:
            raise SeveralRevisions(history, heads)
        revision = heads[0] if heads else None
        head = str(scripts.get_current_head())
        if revision is None and history is PLACEMENT and _is_untold(connection):
            return Standing(history.name, None, head, is_told=False)
        revisions = {script.revision for script in scripts.walk_revisions()}
        if revision is not None and revision not in revisions:
            usable = history is STEAD and _oldest_release(connection) in revisions
            return Standing(history.name, revision, head, is_known=False, usable=usable)
        steps = reversed(list(scripts.iterate_revisions(head, revision or "base")))
        return Standing(history.name, revision, head, tuple(Step(each.revision, each.doc) for each in steps))


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


def refusal_of(standings: tuple[Standing, ...]) -> SteadError | None:
    """Why the service cannot start on a database in this position; None if it can."""
    if refusal := upgrade_refusal_of(standings):
        return refusal
    return None if all(standing.is_current for standing in standings) else SchemaOutdated(standings)


def upgrade_refusal_of(standings: tuple[Standing, ...]) -> SteadError | None:
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
    require_tables(connection, standings)


def require_tables(connection: Connection, standings: tuple[Standing, ...]) -> None:
    """Refuse a database that is at the head of a history but lacks tables of it."""
    inspector = sa.inspect(connection)
    current = {standing.history for standing in standings if standing.is_current}
    expected = [name for name in metadata.tables if _history_of(name).name in current]
    if lost := tuple(name for name in expected if not inspector.has_table(name)):
        raise TablesMissing(lost)


def _history_of(table: str) -> History:
    return STEAD if table.startswith(OWN_PREFIX) else PLACEMENT
