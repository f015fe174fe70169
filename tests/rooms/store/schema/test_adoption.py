"""What `stead db check` says beforehand: what would be done to a database, and what stands against it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.cli.app import run
from stead.store.protocol.store import Store
from stead.store.schema import adoption, schema
from stead.store.sql.dialects import Database
from stead.store.tables import metadata
from tests.rooms.store.books import Books, fresh_uuid
from tests.rooms.store.schema.test_schema import REVISIONS, STEAD_REVISIONS, execute, upgrade_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Server

pytestmark = pytest.mark.timeout(300)  # upgrades databases, some of them twice

LAST = STEAD_REVISIONS[-1]
WITHOUT_CONSUMER = (
    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES (1, 'c', 0, 5)"
)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Database(database_url))
    yield store
    store.close()


def against(store: Store) -> list[str]:
    return list(adoption.examine(store.writer).objections)


def layout(store: Store) -> Any:
    inspector = sa.inspect(store.writer)
    return {name: inspector.get_columns(name) for name in inspector.get_table_names()}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_sound_database_is_told_what_would_be_done_and_not_changed(store: Store, revision: str) -> None:
    upgrade_to(store.writer, revision)
    before = str(layout(store))
    examined = adoption.examine(store.writer)
    pending = [step.revision for usage_left in examined.standings for step in usage_left.pending]
    assert pending == [*REVISIONS[REVISIONS.index(revision) + 1 :], *STEAD_REVISIONS]
    assert all(step.meaning for usage_left in examined.standings for step in usage_left.pending)
    assert examined.objections == ()
    assert not examined.is_ready
    assert str(layout(store)) == before


def test_after_an_upgrade_nothing_stands_against_it(store: Store) -> None:
    schema.upgrade(store.writer)
    assert adoption.examine(store.writer).is_ready


def test_an_empty_database_gets_everything(store: Store) -> None:
    examined = adoption.examine(store.writer)
    assert [len(usage_left.pending) for usage_left in examined.standings] == [len(REVISIONS), len(STEAD_REVISIONS)]
    assert examined.objections == ()


def test_rows_that_a_revision_refuses_are_counted(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[0])
    execute(store.writer, f"INSERT INTO resource_providers (uuid, name) VALUES ('{fresh_uuid()}', 'h')")
    execute(store.writer, WITHOUT_CONSUMER)
    assert against(store) == [
        "there are resource providers without a root; run: stead audit --repair",
        "1 consumers hold allocations and do not exist; run: stead audit --repair",
    ]


def test_the_statements_are_not_printed_for_rows_that_a_revision_refuses(
    store: Store, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upgrade_to(store.writer, REVISIONS[0])
    execute(store.writer, WITHOUT_CONSUMER)
    configuration = tmp_path / "placement.conf"
    configuration.write_text(f"[placement_database]\nconnection = {database_url}\n")
    assert run(["db", "upgrade", "--sql", "--config-file", str(configuration)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "stead audit --repair" in said.err
    assert run(["--json", "db", "check", "--config-file", str(configuration)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ready"], len(told["objections"])) == (False, 1)


def test_tables_of_an_unknown_age_are_not_touched(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[2])
    execute(store.writer, "DROP TABLE alembic_version")
    [objection] = against(store)
    assert "placement-manage db stamp REVISION" in objection
    assert adoption.examine(store.writer).pending == ()
    assert isinstance(schema.refusal_of(schema.standings(store.writer)), schema.Unversioned)
    for refused in (schema.upgrade, schema.upgrade_statements):
        with pytest.raises(schema.Unversioned):
            refused(store.writer)
    schema.stamp(store.writer, REVISIONS[2])
    assert against(store) == []
    assert schema.upgrade(store.writer) == [*REVISIONS[3:], *STEAD_REVISIONS]


def test_what_a_release_that_is_not_known_made_is_refused_without_advice_to_upgrade(store: Store) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, "UPDATE alembic_version SET version_num = 'ffffffffffff'")
    examined = adoption.examine(store.writer)
    [objection] = examined.objections
    assert "placement is at ffffffffffff" in objection
    assert "stead db upgrade" not in f"{objection}{schema.refusal_of(examined.standings)}"
    with pytest.raises(schema.SchemaTooNew):
        schema.upgrade(store.writer)


def test_what_is_missing_is_named(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[-2])
    drop_index(store, "resource_providers_name_idx", "resource_providers")
    drop_index(store, "allocations_consumer_id_idx", "allocations")
    execute(store.writer, "ALTER TABLE users DROP COLUMN updated_at")
    execute(store.writer, "DROP TABLE projects")
    examined = adoption.examine(store.writer)
    assert examined.objections == (
        f"the table projects is missing, which revision {REVISIONS[-2]} has made",
        f"users lacks the columns updated_at, which revision {REVISIONS[-2]} has made",
    )
    assert [warning for warning in examined.warnings if "index" in warning] == [
        "allocations lacks the index allocations_consumer_id_idx, which is needed",
        "resource_providers lacks the index resource_providers_name_idx, which is to be dropped",
    ]


def test_an_index_that_is_to_be_dropped_may_be_gone_already(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[-2])
    drop_index(store, "resource_providers_name_idx", "resource_providers")
    assert against(store) == []
    schema.upgrade(store.writer)
    assert adoption.examine(store.writer).is_ready


def drop_index(store: Store, index: str, table: str) -> None:
    on = f" ON {table}" if store.writer.dialect.name in ("mysql", "mariadb") else ""
    execute(store.writer, f"DROP INDEX {index}{on}")


def test_tables_without_transactions_are_named(store: Store, database_server: Server) -> None:
    if database_server.kind != "mariadb":
        pytest.skip("all tables have them here")
    schema.upgrade(store.writer)
    execute(store.writer, "ALTER TABLE allocations ENGINE=Aria")
    assert [objection for objection in against(store) if "allocations" in objection and "ENGINE=InnoDB" in objection]


@pytest.fixture
def account(store: Store, database_server: Server, database_url: str) -> Iterator[Store]:
    """A store whose account may read and write the deployment's tables, and change none."""
    if database_server.kind == "sqlite":
        pytest.skip("there are no accounts")
    upgrade_to(store.writer, REVISIONS[-1])
    name, password = f"u{fresh_uuid().replace('-', '')[:16]}", fresh_uuid()
    url = sa.make_url(database_url)
    rights = "SELECT, INSERT, UPDATE, DELETE"
    if database_server.kind == "mariadb":
        with store.writer.connect() as connection:
            host = connection.execute(sa.text("SELECT SUBSTRING_INDEX(USER(), '@', -1)")).scalar_one()
        user = f"'{name}'@'{host}'"  # from where the server sees us come: a socket, or some address
        create = [f"CREATE USER {user} IDENTIFIED BY '{password}'", f"GRANT {rights} ON {url.database}.* TO {user}"]
        drop = [f"DROP USER {user}"]
    else:
        create = [f"CREATE ROLE {name} LOGIN PASSWORD '{password}'"]
        create += [f"GRANT {rights} ON ALL TABLES IN SCHEMA public TO {name}"]
        drop = [f"DROP OWNED BY {name}", f"DROP ROLE {name}"]
    for statement in create:
        execute(store.writer, statement)
    limited = Store(Database(url.set(username=name, password=password).render_as_string(hide_password=False)))
    yield limited
    limited.close()
    for statement in drop:
        execute(store.writer, statement)


def test_an_account_that_may_not_change_tables_gets_them_from_one_that_may(store: Store, account: Store) -> None:
    [objection] = against(account)
    assert "stead db upgrade --sql" in objection
    for statement in schema.upgrade_statements(account.writer).split(";"):
        lines = [line for line in statement.splitlines() if line.strip() and not line.startswith("--")]
        if lines and lines[0] not in ("BEGIN", "COMMIT"):
            execute(store.writer, "\n".join(lines))
    if store.writer.dialect.name == "postgresql":  # where rights are given table by table
        [objection] = against(account)
        assert "stead_clock" in objection
        execute(
            store.writer,
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {account.writer.url.username}",
        )
    assert adoption.examine(account.writer).is_ready


def own_tables() -> list[str]:
    return sorted(name for name in metadata.tables if name.startswith("stead_"))


@pytest.mark.parametrize("table", own_tables())
def test_a_lost_table_of_our_own_is_named_with_what_brings_it_back(
    empty_books: Books, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    host = empty_books.provider(VCPU=4)
    empty_books.claim(fresh_uuid(), {host: {"VCPU": 3}})
    store = empty_books.store
    configuration = tmp_path / "placement.conf"
    configuration.write_text(f"[placement_database]\nconnection = {empty_books.url}\n")
    execute(store.writer, f"DROP TABLE {table}")
    assert against(store) == [f"the table {table} is missing, which revision {LAST} has made. {schema.BEGIN_ANEW}"]
    assert run(["db", "check", "--config-file", str(configuration)]) == 1
    assert "is ready" not in capsys.readouterr().out
    for refusing in (schema.upgrade, schema.upgrade_statements, schema.require_current):
        with pytest.raises(schema.TablesMissing, match=f"{table}.*stead db downgrade --to upstream"):
            refusing(store.writer)
    assert run(["db", "upgrade", "--config-file", str(configuration)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    schema.remove(store.writer)
    schema.upgrade(store.writer)
    assert adoption.examine(store.writer).is_ready
    anew = Books(empty_books.url, upgrade=False)
    assert anew.used(host) == 3
    anew.close()


@pytest.mark.parametrize("table", ["consumers", "projects"])
def test_a_lost_table_of_the_deployment_is_for_a_backup_to_restore(store: Store, table: str) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, f"DROP TABLE {table}")
    assert f"the table {table} is missing, which revision {REVISIONS[-1]} has made" in against(store)
    for refusing in (schema.upgrade, schema.upgrade_statements, schema.require_current):
        with pytest.raises(schema.TablesMissing, match=f"{table}. Restore it from a backup"):
            refusing(store.writer)


def test_a_table_that_was_lost_before_an_upgrade_does_not_go_unnoticed_in_it(store: Store) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, "DROP TABLE stead_usage")
    execute(store.writer, f"UPDATE stead_version SET version_num = '{STEAD_REVISIONS[-2]}'")
    assert [objection for objection in against(store) if "stead_usage" in objection]
    with pytest.raises(schema.TablesMissing, match="stead_usage"):
        schema.upgrade(store.writer)


def test_a_column_of_our_own_that_is_missing_is_named(store: Store) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, "ALTER TABLE stead_clock DROP COLUMN earlier")
    drop_index(store, "stead_usage_change_slot_tick_idx", "stead_usage_change")
    examined = adoption.examine(store.writer)
    [objection] = examined.objections
    assert objection.startswith("stead_clock lacks the columns earlier")
    assert "stead_usage_change lacks the index stead_usage_change_slot_tick_idx, which is needed" in examined.warnings
