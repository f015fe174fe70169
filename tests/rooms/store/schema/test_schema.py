"""The schema: from nothing, or from any release of an existing Placement database, to where the service can start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from os_resource_classes import STANDARDS

from stead.cli import app as cli
from stead.cli.arguments import Options, use_options
from stead.domain.errors import Unavailable
from stead.store import resource_classes
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # upgrades databases from every revision

REVISIONS = ["b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366", "a082b8bb98d0"]
STEAD_REVISIONS = [f"stead{number:04}" for number in range(1, 14)]
STAMPS = {"created_at": "DATETIME", "updated_at": "DATETIME"}
NUMBER, SHORT, LONG = "INTEGER", "VARCHAR(36)", "VARCHAR(255)"

COLUMNS = {
    "resource_providers": {
        "id": NUMBER, "uuid": SHORT, "name": "VARCHAR(200)", "generation": NUMBER, "root_provider_id": NUMBER,
        "parent_provider_id": NUMBER,
    },
    "inventories": {
        "id": NUMBER, "resource_provider_id": NUMBER, "resource_class_id": NUMBER, "total": NUMBER, "reserved": NUMBER,
        "min_unit": NUMBER, "max_unit": NUMBER, "step_size": NUMBER, "allocation_ratio": "FLOAT",
    },
    "allocations": {
        "id": NUMBER, "resource_provider_id": NUMBER, "consumer_id": SHORT, "resource_class_id": NUMBER, "used": NUMBER,
    },
    "consumers": {
        "id": NUMBER, "uuid": SHORT, "project_id": NUMBER, "user_id": NUMBER, "generation": NUMBER,
        "consumer_type_id": NUMBER,
    },
    "consumer_types": {"id": NUMBER, "name": LONG},
    "projects": {"id": NUMBER, "external_id": LONG},
    "users": {"id": NUMBER, "external_id": LONG},
    "resource_classes": {"id": NUMBER, "name": LONG},
    "traits": {"id": NUMBER, "name": LONG},
    "resource_provider_traits": {"trait_id": NUMBER, "resource_provider_id": NUMBER},
    "placement_aggregates": {"id": NUMBER, "uuid": SHORT},
    "resource_provider_aggregates": {"resource_provider_id": NUMBER, "aggregate_id": NUMBER},
}  # fmt: skip
NULLABLE = {
    ("resource_providers", "name"), ("resource_providers", "generation"), ("resource_providers", "root_provider_id"),
    ("resource_providers", "parent_provider_id"), ("consumers", "consumer_type_id"), ("placement_aggregates", "uuid"),
}  # fmt: skip
UNIQUE = {
    ("resource_providers", "uniq_resource_providers0uuid", ("uuid",)),
    ("resource_providers", "uniq_resource_providers0name", ("name",)),
    ("inventories", "uniq_inventories0resource_provider_resource_class", ("resource_provider_id", "resource_class_id")),
    ("consumers", "uniq_consumers0uuid", ("uuid",)),
    ("consumer_types", "uniq_consumer_types0name", ("name",)),
    ("projects", "uniq_projects0external_id", ("external_id",)),
    ("users", "uniq_users0external_id", ("external_id",)),
    ("resource_classes", "uniq_resource_classes0name", ("name",)),
    ("traits", "uniq_traits0name", ("name",)),
    ("placement_aggregates", "uniq_placement_aggregates0uuid", ("uuid",)),
}
INDEXES = {
    ("resource_providers", "resource_providers_root_provider_id_idx", ("root_provider_id",)),
    ("resource_providers", "resource_providers_parent_provider_id_idx", ("parent_provider_id",)),
    ("inventories", "inventories_resource_class_id_idx", ("resource_class_id",)),
    (
        "allocations", "allocations_resource_provider_class_used_idx",
        ("resource_provider_id", "resource_class_id", "used"),
    ),
    ("allocations", "allocations_resource_class_id_idx", ("resource_class_id",)),
    ("allocations", "allocations_consumer_id_idx", ("consumer_id",)),
    ("consumers", "consumers_project_id_uuid_idx", ("project_id", "uuid")),
    ("consumers", "consumers_project_id_user_id_uuid_idx", ("project_id", "user_id", "uuid")),
    ("consumers", "consumers_consumer_type_id_idx", ("consumer_type_id",)),
    (
        "resource_provider_traits", "resource_provider_traits_resource_provider_trait_idx",
        ("resource_provider_id", "trait_id"),
    ),
    ("resource_provider_aggregates", "resource_provider_aggregates_aggregate_id_idx", ("aggregate_id",)),
}  # fmt: skip
KEYS = {
    "resource_provider_traits": ["trait_id", "resource_provider_id"],
    "resource_provider_aggregates": ["resource_provider_id", "aggregate_id"],
}
FOREIGN_KEYS = {
    ("resource_providers", "root_provider_id", "resource_providers"),
    ("resource_providers", "parent_provider_id", "resource_providers"),
    ("consumers", "consumer_type_id", "consumer_types"),
    ("resource_provider_traits", "trait_id", "traits"),
    ("resource_provider_traits", "resource_provider_id", "resource_providers"),
}


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Database(database_url))
    yield store
    store.close()


def type_of(column: Any) -> str:
    """Its type as the table in the documentation calls it."""
    kind = column["type"]
    if isinstance(kind, sa.DateTime):
        return "DATETIME"
    if isinstance(kind, sa.Float):
        return "FLOAT"
    if isinstance(kind, sa.Integer):
        return NUMBER
    return f"VARCHAR({kind.length})"


def upgrade_to(engine: sa.Engine, revision: str) -> None:
    """Bring the deployment's own tables only so far."""
    history = schema.HISTORIES[0]
    with engine.begin() as connection, schema.scripts_of(history) as scripts:
        options = {
            "version_table": history.version_table,
            "fn": lambda current, _context: scripts._upgrade_revs(revision, current),
        }
        context = MigrationContext.configure(connection, opts=options)
        with Operations.context(context):
            context.run_migrations()


def execute(engine: sa.Engine, statement: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(statement))


def test_the_tables_are_those_of_a_placement_database(store: Store) -> None:
    schema.upgrade(store.writer)
    inspector = sa.inspect(store.writer)
    assert {t for t in inspector.get_table_names() if not t.startswith("stead_")} == {*COLUMNS, "alembic_version"}
    for table, columns in COLUMNS.items():
        columns_by_name = {column["name"]: column for column in inspector.get_columns(table)}
        assert {name: type_of(column) for name, column in columns_by_name.items()} == {**STAMPS, **columns}
        assert {(table, name) for name, column in columns_by_name.items() if column["nullable"]} == {
            *((table, name) for name in STAMPS),
            *(pair for pair in NULLABLE if pair[0] == table),
        }
        assert inspector.get_pk_constraint(table)["constrained_columns"] == KEYS.get(table, ["id"])
    assert "0" in str(next(c for c in inspector.get_columns("consumers") if c["name"] == "generation")["default"])


def test_the_indexes_and_constraints_are_those_of_a_placement_database(store: Store) -> None:
    schema.upgrade(store.writer)
    inspector = sa.inspect(store.writer)
    unique = {
        (table, constraint["name"], tuple(constraint["column_names"]))
        for table in COLUMNS
        for constraint in inspector.get_unique_constraints(table)
    }
    assert unique == UNIQUE
    indexes = {
        (table, index["name"], tuple(index["column_names"]))
        for table in COLUMNS
        for index in inspector.get_indexes(table)
        if not index["unique"]
    }
    assert indexes == INDEXES
    foreign = {
        (table, key["constrained_columns"][0], key["referred_table"])
        for table in COLUMNS
        for key in inspector.get_foreign_keys(table)
    }
    assert foreign == FOREIGN_KEYS


def test_the_heads_that_starts_compare_with_are_those_of_the_revisions() -> None:
    assert [history.head for history in schema.HISTORIES] == [
        schema._steps_of(history)[-1].revision for history in schema.HISTORIES
    ]


def test_both_histories_are_stamped_at_their_heads_and_a_second_upgrade_does_nothing(store: Store) -> None:
    assert schema.upgrade(store.writer) == [*REVISIONS, *STEAD_REVISIONS]
    assert [each.revision for each in schema.standings(store.writer)] == [
        "a082b8bb98d0",
        STEAD_REVISIONS[-1],
    ]
    execute(store.writer, "UPDATE stead_epoch SET epoch = 'the same'")
    assert schema.upgrade(store.writer) == []
    with store.writer.connect() as connection:
        assert connection.scalars(sa.text("SELECT version_num FROM alembic_version")).all() == ["a082b8bb98d0"]
        assert connection.scalars(sa.text("SELECT epoch FROM stead_epoch")).all() == ["the same"]


@pytest.mark.parametrize("moment", ["checkout", "checkin"])
def test_workers_that_start_together_do_not_disturb_each_other(store: Store, database_url: str, moment: str) -> None:
    """Whenever one is not at it, another may bring the database to its heads."""
    others, done = [Store(Database(database_url))], []

    def somebody_else(*_: object) -> None:
        if others:
            other = others.pop()
            done.extend(schema.upgrade(other.writer))
            other.close()

    sa.event.listen(store.writer, moment, somebody_else)
    done += schema.upgrade(store.writer)
    somebody_else()  # unless it was before: on MariaDB the connection with the lock goes to no pool
    assert done == [*REVISIONS, *STEAD_REVISIONS]
    schema.require_current(store.writer)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_of_any_release_is_brought_to_the_head_with_all_that_is_in_it(
    store: Store, database_url: str, revision: str
) -> None:
    upgrade_to(store.writer, revision)
    with pytest.raises(schema.SchemaOutdated, match="stead db upgrade"):
        schema.require_current(store.writer)
    host, consumer = fresh_uuid(), fresh_uuid()
    for statement in (
        "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id)"
        f" VALUES (7, '{host}', 'h', 3, 7)",
        "INSERT INTO inventories (resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,"
        " step_size, allocation_ratio) VALUES (7, 0, 8, 0, 1, 8, 1, 2.0)",
        "INSERT INTO projects (id, external_id) VALUES (1000, 'p')",
        "INSERT INTO users (id, external_id) VALUES (1000, 'u')",
        f"INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES ('{consumer}', 1000, 1000, 4)",
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        f" VALUES (7, '{consumer}', 0, 5)",
    ):
        execute(store.writer, statement)
    assert schema.upgrade(store.writer) == [*REVISIONS[REVISIONS.index(revision) + 1 :], *STEAD_REVISIONS]
    books = Books(database_url, upgrade=False)
    assert books.used(host) == 5
    assert books.held(consumer) == {host: {"VCPU": 5}}
    assert (books.generation(host), books.consumer_generation(consumer)) == (3, 4)
    books.claim(consumer, {host: {"VCPU": 6}}, 4)
    assert books.used(host) == 6
    books.close()


def test_the_kept_sums_and_what_came_after_them_can_be_taken_away_and_added_again(empty_books: Books) -> None:
    books, history = empty_books, schema.HISTORIES[1]
    host = books.provider(VCPU=4)
    books.claim(fresh_uuid(), {host: {"VCPU": 1}})
    with books.store.writer.begin() as connection, schema.scripts_of(history) as scripts:
        options = {
            "version_table": history.version_table,
            "fn": lambda current, _context: scripts._downgrade_revs("stead0001", current),
        }
        context = MigrationContext.configure(connection, opts=options)
        with Operations.context(context):
            context.run_migrations()
    inspector = sa.inspect(books.store.writer)
    assert {table for table in inspector.get_table_names() if table.startswith("stead_")} == {
        "stead_clock", "stead_counter", "stead_epoch", "stead_provider_change", "stead_version",
    }  # fmt: skip
    assert [usage_left.revision for usage_left in schema.standings(books.store.writer)] == ["a082b8bb98d0", "stead0001"]
    assert schema.upgrade(books.store.writer) == STEAD_REVISIONS[1:]
    [index] = sa.inspect(books.store.writer).get_indexes("stead_usage_change")
    assert index["column_names"] == ["slot", "tick"]
    assert books.scalar("SELECT COUNT(*) FROM stead_usage") == 0
    books.claim(fresh_uuid(), {host: {"VCPU": 3}})
    assert (books.used(host), books.scalar("SELECT used FROM stead_usage")) == (4, 4)


def test_a_provider_without_a_root_is_refused_and_nothing_is_changed(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[0])
    execute(store.writer, f"INSERT INTO resource_providers (uuid, name) VALUES ('{fresh_uuid()}', 'h')")
    with pytest.raises(RuntimeError, match=r"without a root.*stead audit --repair"):
        schema.upgrade(store.writer)
    assert [each.revision for each in schema.standings(store.writer)] == [REVISIONS[0], None]


def test_an_allocation_without_a_consumer_is_refused(store: Store) -> None:
    upgrade_to(store.writer, REVISIONS[1])
    execute(
        store.writer,
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
        f" VALUES (7, '{fresh_uuid()}', 0, 5)",
    )
    with pytest.raises(RuntimeError, match=r"without a consumer.*stead audit --repair"):
        schema.upgrade(store.writer)
    assert schema.standings(store.writer)[0].revision == REVISIONS[1]


def test_the_standard_names_are_put_in_once(database_url: str) -> None:
    for _ in range(2):
        books = Books(database_url)
        assert books.scalar("SELECT COUNT(*) FROM resource_classes") == 21
        assert books.scalar("SELECT name FROM resource_classes WHERE id = 0") == "VCPU"
        assert books.scalar("SELECT name FROM resource_classes WHERE id = 20").endswith("IGR_KILOPACKET_PER_SEC")
        assert books.scalar("SELECT COUNT(*) FROM traits WHERE name NOT LIKE 'CUSTOM%'") == books.scalar(
            "SELECT COUNT(*) FROM traits"
        )
        books.close()


def test_the_id_of_a_class_is_its_place_in_the_library_and_custom_ones_follow_from_10000(empty_books: Books) -> None:
    for name in ("CUSTOM_FIRST", "CUSTOM_SECOND"):
        empty_books.service.write(resource_classes.create, name)
    ids = {
        name: empty_books.scalar("SELECT id FROM resource_classes WHERE name = :name", name=name)
        for name in [*STANDARDS, "CUSTOM_FIRST", "CUSTOM_SECOND"]
    }
    assert ids == {
        **{name: place for place, name in enumerate(STANDARDS)},
        "CUSTOM_FIRST": 10000,
        "CUSTOM_SECOND": 10001,
    }


def test_an_allocation_names_its_consumer_by_uuid(empty_books: Books) -> None:
    consumer = fresh_uuid()
    empty_books.claim(consumer, {empty_books.provider(VCPU=1): {"VCPU": 1}})
    assert empty_books.scalar("SELECT consumer_id FROM allocations") == consumer
    assert empty_books.scalar("SELECT uuid FROM consumers") == consumer


@pytest.mark.one_database
@pytest.mark.usefixtures("database_url")
@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////nowhere/at/all.db",
        "postgresql+psycopg://nobody@127.0.0.1:1/nothing",
        "mysql+pymysql://nobody@127.0.0.1:1/nothing",
    ],
)
def test_a_database_that_does_not_answer_is_unavailable(url: str) -> None:
    store = Store(Database(url))
    with pytest.raises(Unavailable):
        schema.prepare(store.writer, may_upgrade=True)


class TestTheCommand:
    @pytest.fixture
    def run(
        self, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> Any:
        monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path))
        configuration = tmp_path / "placement.conf"
        configuration.write_text(f"[placement_database]\nconnection = {database_url}\n[api]\nauth_strategy = noauth2\n")

        def run(*words: str) -> tuple[int, str, str]:
            code = cli.run([*words, "--config-file", str(configuration)])
            return code, *capsys.readouterr()

        yield run
        use_options(Options())

    def test_on_an_empty_database(self, run: Any) -> None:
        code, _, error = run("db", "check")
        assert code == 1
        assert "the tables of placement are missing" in error
        assert "stead db upgrade" in error
        code, out, _ = run("--json", "db", "version")
        assert (code, json.loads(out)) == (0, {"placement": None, "stead": None})
        code, out, _ = run("db", "upgrade")
        assert (code, out.split()) == (0, [word for rev in [*REVISIONS, *STEAD_REVISIONS] for word in ("ran", rev)])
        code, out, error = run("db", "check")
        # The servers of tests do not wait for the disk, of which they are warned before.
        assert (code, out.splitlines()[-1], error) == (0, "the database is ready", "")
        code, out, _ = run("--json", "db", "upgrade")
        assert (code, json.loads(out)) == (0, {"upgraded": []})
        code, out, _ = run("db", "version")
        assert (code, out.split()) == (0, ["placement", "a082b8bb98d0", "stead", STEAD_REVISIONS[-1]])

    def test_on_an_old_database(self, run: Any, store: Store) -> None:
        upgrade_to(store.writer, "b5c396305c25")
        code, _, error = run("db", "check")
        assert code == 1
        assert "b5c396305c25" in error
        ran = ["422ece571366", "a082b8bb98d0", *STEAD_REVISIONS]
        assert run("db", "upgrade") == (0, "".join(f"ran {revision}\n" for revision in ran), "")

    def test_on_a_database_that_can_not_be_upgraded(self, run: Any, store: Store) -> None:
        upgrade_to(store.writer, REVISIONS[0])
        execute(store.writer, f"INSERT INTO resource_providers (uuid, name) VALUES ('{fresh_uuid()}', 'h')")
        code, _, error = run("db", "upgrade")
        assert code == 2
        assert "stead audit --repair" in error
        assert "Traceback" not in error

    def test_on_a_database_of_a_release_that_is_not_known_yet(self, run: Any, store: Store) -> None:
        schema.upgrade(store.writer)
        execute(store.writer, "UPDATE alembic_version SET version_num = 'ffffffffffff'")
        code, _, error = run("db", "check")
        assert code == 1
        assert "ffffffffffff" in error
        assert "db upgrade" not in error
        code, _, error = run("db", "upgrade")
        assert code == 2
        assert "Traceback" not in error


@pytest.mark.parametrize("lost", [None, "stead_usage"])
def test_the_service_does_not_start_on_a_database_without_its_tables(
    store: Store, database_url: str, tmp_path: Path, lost: str | None
) -> None:
    upgrade_to(store.writer, REVISIONS[-1])
    if lost is not None:
        schema.upgrade(store.writer)
        execute(store.writer, f"DROP TABLE {lost}")
    done = subprocess.run(
        [sys.executable, "-c", "from stead.cli import main; main()", "serve", "--port", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OS_PLACEMENT_DATABASE__CONNECTION": database_url, "STEAD_DATA_DIR": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "stead db upgrade" in done.stderr
    assert (lost or "the tables of stead are missing") in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("stead: ")]) == 1
