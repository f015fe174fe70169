"""Two neighbouring releases of Stead run on one database: its tables only grow, and either release says if it can.

The rule is "Two releases on one database" of docs/protocol.md.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from alembic.operations import MigrateOperation, Operations, ops
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from stead.cli import app as cli
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from stead.store.tables import metadata
from tests.rooms.store.books import Books, faults, fresh_custom, fresh_uuid
from tests.rooms.store.schema.test_schema import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # upgrades databases, some of them twice

BEFORE_THE_RULE = ("stead0001", "stead0002", "stead0003")
CONTRACTIONS: dict[str, str] = {}
"""By revision that takes something away, the last release that still needed it: older ones must be told by
``stead_schema.oldest`` that they can not run any more."""


def asked_by(upgrade: Callable[[], None]) -> list[MigrateOperation]:
    """What *upgrade* does, one operation after the other; none of it is done."""
    asked: list[MigrateOperation] = []

    def note(operation: MigrateOperation) -> Any:
        asked.append(operation)
        return operation.to_table() if isinstance(operation, ops.CreateTableOp) else None

    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": io.StringIO()}
    )
    with Operations.context(context) as operations:
        operations.invoke = note
        upgrade()
    return asked


def objections(asked: list[MigrateOperation]) -> list[str]:
    """What a release that knows nothing of it can not live with."""
    made = {operation.table_name for operation in asked if isinstance(operation, ops.CreateTableOp)}
    complaints = []
    for operation in asked:
        match operation:
            case ops.CreateTableOp(table_name=name):
                allowed = name.startswith("stead_")  # the deployment's tables have a history of their own
            case ops.AddColumnOp(column=column):
                # It may be added to a table of the same revision; else whoever leaves it out must be able to insert.
                allowed = operation.table_name in made or column.nullable or column.server_default is not None
            case ops.CreateIndexOp():
                allowed = operation.table_name in made or not operation.unique
            case ops.BulkInsertOp(table=table) | ops.ExecuteSQLOp(sqltext=sa.Insert(table=table)):
                allowed = table.name in made
            case _:
                allowed = getattr(operation, "table_name", None) in made
        if not allowed:
            complaints.append(f"{type(operation).__name__} {getattr(operation, 'table_name', '')}".strip())
    return complaints


def revisions() -> list[Any]:
    place = files("stead.store.schema.migrations").joinpath("stead")
    return [script for script in ScriptDirectory(str(place)).walk_revisions() if script.revision not in BEFORE_THE_RULE]


@pytest.mark.parametrize("script", revisions(), ids=lambda script: script.revision)
def test_a_revision_only_adds(script: Any) -> None:
    if script.revision not in CONTRACTIONS:
        assert objections(asked_by(script.module.upgrade)) == []


def column(name: str = "added", **how: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, **how)


@pytest.mark.parametrize(
    ("name", "does", "allowed"),
    [
        ("nullable column", lambda op: op.add_column("stead_clock", column(nullable=True)), True),
        ("default", lambda op: op.add_column("stead_clock", column(nullable=False, server_default="0")), True),
        ("obligatory column", lambda op: op.add_column("stead_clock", column(nullable=False)), False),
        ("index", lambda op: op.create_index("i", "stead_clock", ["tick"]), True),
        ("unique index", lambda op: op.create_index("i", "stead_clock", ["tick"], unique=True), False),
        ("unique", lambda op: op.create_unique_constraint("u", "stead_clock", ["tick"]), False),
        ("dropped column", lambda op: op.drop_column("stead_clock", "floor"), False),
        ("dropped table", lambda op: op.drop_table("stead_usage"), False),
        ("dropped index", lambda op: op.drop_index("stead_usage_change_slot_tick_idx", "stead_usage_change"), False),
        ("renamed", lambda op: op.rename_table("stead_usage", "stead_sums"), False),
        ("other type", lambda op: op.alter_column("stead_clock", "tick", type_=sa.Integer), False),
        ("data", lambda op: op.execute("UPDATE stead_clock SET tick = 0"), False),
        ("somebody else's", lambda op: op.add_column("consumers", column(nullable=False)), False),
        ("table", lambda op: op.create_table("stead_more", column("id", primary_key=True)), True),
        ("table of the deployment", lambda op: op.create_table("more", column("id", primary_key=True)), False),
    ],
)
def test_what_only_adds_is_told_from_what_does_not(name: str, does: Callable[[Any], None], allowed: bool) -> None:
    from alembic import op

    assert (objections(asked_by(lambda: does(op))) == []) == allowed, name


# What the release at stead0003 reads and writes: its statements name these columns and no others.
PREVIOUS = {
    "stead_clock": {"slot": 0, "tick": 0, "stamp": 0, "floor": 0},
    "stead_provider_change": {"provider_id": -901, "slot": 0, "tick": 1},
    "stead_usage_change": {"provider_id": -901, "slot": 0, "tick": 1},
    "stead_usage": {"provider_id": -901, "class_id": 0, "used": 1, "generation": 1},
    "stead_epoch": {"id": 1, "epoch": "e"},
    "stead_counter": {"name": "resource_class", "value": 10000},
}

SINCE = {
    "stead_schema",
    "stead_change_log",
    "stead_change_floor",
    "stead_disabled_provider",
    "stead_part_change",
    "stead_flavor",
    "stead_ended_session",
    "stead_asked_form",
    "stead_learned_mix",
    "stead_lease",
}
"""Tables that it does not know."""


def test_the_previous_release_finds_what_it_reads_and_writes(database_url: str) -> None:
    store = Store(Database(database_url))
    schema.upgrade(store.writer)
    for table, row in PREVIOUS.items():
        key = next(iter(row))
        values = ", ".join(f":{name}" for name in row)
        with store.writer.begin() as connection:
            connection.execute(sa.text(f"DELETE FROM {table} WHERE {key} = :{key}"), row)
            connection.execute(sa.text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values})"), row)
    store.close()


NEXT = (
    "ALTER TABLE stead_clock ADD COLUMN later INTEGER DEFAULT 7 NOT NULL",
    "ALTER TABLE stead_usage ADD COLUMN later VARCHAR(20)",
    "CREATE INDEX stead_usage_later_idx ON stead_usage (class_id)",
    "CREATE TABLE stead_later (id INTEGER NOT NULL PRIMARY KEY)",
    "UPDATE stead_version SET version_num = 'stead9999'",
)
"""What a next release may do to the tables."""


@contextmanager
def upgraded(url: str, oldest: str) -> Iterator[Store]:
    """The database after a next release, which says which is the *oldest* that may go on."""
    store = Store(Database(url))
    schema.upgrade(store.writer)
    for statement in (*NEXT, f"UPDATE stead_schema SET oldest = '{oldest}'"):
        execute(store.writer, statement)
    yield store
    store.close()


def use(books: Books) -> None:
    """Every kind of write."""
    host, consumer = books.provider(VCPU=8), fresh_uuid()
    child = books.provider(parent=host, DISK_GB=10)
    books.claim(consumer, {host: {"VCPU": 1}, child: {"DISK_GB": 2}})
    books.claim(fresh_uuid(), {host: {"VCPU": 7}})
    books.release(consumer)
    books.trait(host, "HW_NUMA_ROOT")
    books.aggregate(host, fresh_uuid())
    books.reshape({host: books.shape(host, VCPU=9)}, {fresh_uuid(): {host: {"VCPU": 2}}})
    books.rename(child, fresh_custom())
    books.drop(child)
    assert books.used(host) == 9
    assert faults(books) == {}


def test_a_release_goes_on_while_the_next_one_upgrades_and_after_a_restart(database_url: str) -> None:
    running = Books(database_url)
    use(running)
    with upgraded(database_url, oldest="stead0004") as store:
        use(running)
        restarted = Books(database_url, upgrade=False)
        use(restarted)
        use(running)
        assert schema.upgrade(store.writer) == []  # with sync_on_startup
        restarted.close()
    running.close()


@pytest.mark.parametrize("oldest", ["stead9999", "stead9998", ""])
def test_a_release_that_is_too_old_does_not_start_and_says_why(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], oldest: str
) -> None:
    configuration = tmp_path / "placement.conf"
    configuration.write_text(f"[placement_database]\nconnection = {database_url}\n[api]\nauth_strategy = noauth2\n")
    with upgraded(database_url, oldest) as store:
        for may_upgrade in (False, True):
            with pytest.raises(schema.SchemaTooNew, match="stead is at stead9999"):
                schema.prepare(store.writer, may_upgrade=may_upgrade)
        for command in ("check", "upgrade"):
            assert cli.run(["db", command, "--config-file", str(configuration)]) in (1, 2)
            said = capsys.readouterr()
            assert "newer release" in said.err
            assert "stead db upgrade" not in said.out + said.err


def test_the_oldest_release_that_may_go_on_is_one_that_is_known(empty_books: Books) -> None:
    known_revisions = {script.revision for script in revisions()} | set(BEFORE_THE_RULE)
    assert empty_books.scalar("SELECT oldest FROM stead_schema") in known_revisions
    assert PREVIOUS.keys() | SINCE == {name for name in metadata.tables if name.startswith("stead_")}
