"""What upgrades or repairs a database is alone in it as long as it changes anything, or refuses.

Source: "The database", docs/protocol.md.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.audit.checks import audit
from stead.store.audit.repairs import repair
from stead.store.protocol.store import Store
from stead.store.schema import adoption, schema
from stead.store.sql.dialects import Database, base, sqlite
from tests.rooms.store.books import Books

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IDLE = (
    "INSERT INTO consumers (uuid, project_id, user_id, generation) SELECT 'idle', project_id, user_id, 0 FROM consumers"
)
UNROOTED = "UPDATE resource_providers SET root_provider_id = NULL"
UNKNOWN = "DELETE FROM consumers"

HOLDERS = {
    "postgresql": "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    "mysql": "SELECT IS_USED_LOCK(CONCAT('stead ', DATABASE()))",
}
KILLS = {"postgresql": "SELECT pg_terminate_backend({holder})", "mysql": "KILL {holder}"}


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Database(database_url), write_timeout=1.0)
    yield store
    store.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ALONE_SECONDS", 1)
    monkeypatch.setattr(sqlite, "LOCK_WAIT_SECONDS", 1)


def repaired(store: Store) -> None:
    findings = store.read(audit, lambda _done, _total: None)
    assert findings
    repair(store, findings, lambda _done, _total: None)


OPERATIONS: dict[str, tuple[str, Callable[[Store], Any]]] = {
    "upgrade": ("DROP TABLE stead_version", lambda store: schema.upgrade(store.writer)),
    "upgrade of what is current": ("", lambda store: schema.upgrade(store.writer)),
    "start": ("DROP TABLE stead_version", lambda store: schema.prepare(store.writer, may_upgrade=True)),
    "downgrade": ("", lambda store: schema.remove(store.writer)),
    "stamp": ("", lambda store: schema.stamp(store.writer, "head")),
    "roots": (UNROOTED, lambda store: adoption.set_root_provider_ids(store, 10)),
    "consumers": (
        UNKNOWN,
        lambda store: adoption.create_incomplete_consumers(store, 10, project="p", user="u"),
    ),
    "repair": (IDLE, repaired),
}


def contents(store: Store) -> dict[str, Any]:
    """All rows of all tables, but of those that name owners, which may be made at any time."""

    def read(connection: sa.Connection) -> dict[str, Any]:
        names = sorted({*sa.inspect(connection).get_table_names()} - {"projects", "users"})
        return {name: sorted(map(str, connection.execute(sa.text(f"SELECT * FROM {name}")))) for name in names}

    return store.read(read)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.usefixtures("impatient")
def test_while_another_process_has_the_lock_nothing_is_changed(database_url: str, store: Store, operation: str) -> None:
    books = Books(database_url)
    books.claim("00000000-0000-4000-8000-000000000001", {books.provider(VCPU=4): {"VCPU": 1}})
    plant, run = OPERATIONS[operation]
    if plant:
        books.execute(plant)
    before = contents(store)
    with books.store.writer.begin() as connection:
        books.store.dialect.alone(connection)
        with pytest.raises(Unavailable) as refused:
            run(store)
    assert contents(store) == before
    assert any(words in str(refused.value) for words in ("Lock for upgrades", "database is locked", "too busy"))
    run(store)
    books.close()


def test_who_loses_the_lock_changes_nothing_more(store: Store) -> None:
    """As if a proxy or an operator ended the connection that has the lock, or the server did since it was idle."""
    kind = store.writer.dialect.name
    if kind not in HOLDERS:
        pytest.skip("the lock is that of the file, and ends with the process")
    made: list[str] = []
    killed: list[str] = []

    @sa.event.listens_for(store.writer, "after_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        words = statement.split()
        if words[:2] == ["CREATE", "TABLE"]:
            (killed or made).append(words[2])
            if len(made) == 3 and not killed:
                killed.append("")
                kill_holder(store, kind)

    with pytest.raises((Unavailable, sa.exc.DBAPIError)):
        schema.upgrade(store.writer)
    assert made
    assert killed == [""], "went on without the lock"
    sa.event.remove(store.writer, "after_cursor_execute", note)
    schema.upgrade(store.writer)
    schema.require_current(store.writer)


def kill_holder(store: Store, kind: str) -> None:
    engine = sa.create_engine(store.writer.url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        holder = connection.exec_driver_sql(HOLDERS[kind]).scalar_one()
        with suppress(sa.exc.DBAPIError):
            connection.exec_driver_sql(KILLS[kind].format(holder=holder))


def test_the_lock_is_free_once_the_operation_has_ended(store: Store) -> None:
    """Also for processes that stay: the connection goes to no pool with the lock."""
    schema.upgrade(store.writer)
    kind = store.writer.dialect.name
    if kind in HOLDERS:
        holders = store.read(lambda connection: connection.exec_driver_sql(HOLDERS[kind]).scalars().all())
        assert [holder for holder in holders if holder is not None] == []
    schema.stamp(store.writer, "head")
