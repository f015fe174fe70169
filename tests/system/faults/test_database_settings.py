"""Settings of a database with which the service runs, or which `db check`, `db upgrade` and `serve` refuse alike."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa

from stead import application
from stead.cli.app import run
from stead.config import load
from stead.domain.errors import SteadError
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from tests.conftest import write_configuration
from tests.system.api.client import NEWEST, Answer, Api, wsgi_door
from tests.system.faults.conftest import Victim, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(180),  # starts a database server, and makes the tables several times
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

POSTGRESQL = {
    "encoded as SQL_ASCII": ("SQL_ASCII", ()),
    "encoded as LATIN1": ("LATIN1", ()),
    "dates as in Germany": ("UTF8", ("datestyle = 'German, DMY'",)),
    "dates as in SQL": ("UTF8", ("datestyle = 'SQL, MDY'",)),
    "another time zone": ("UTF8", ("timezone = 'Asia/Kolkata'",)),
    "few digits": ("UTF8", ("extra_float_digits = -15",)),
    "backslashes escape": ("UTF8", ("standard_conforming_strings = off",)),
    "strict isolation": ("UTF8", ("default_transaction_isolation = 'serializable'",)),
    "clients in LATIN1": ("UTF8", ("client_encoding = 'LATIN1'",)),
}

MARIADB = {
    "a log of statements and rows": ("binlog_format = 'MIXED'",),
    "a log of rows": ("binlog_format = 'ROW'",),
    "other tables by default": ("default_storage_engine = 'MyISAM'",),
    "quotes as in ANSI": ("sql_mode = 'ANSI'",),
    "no mode": ("sql_mode = ''",),
    "another time zone": ("time_zone = '+05:30'",),
    "strict isolation": ("tx_isolation = 'SERIALIZABLE'",),
    "no autocommit": ("autocommit = 0",),
    "a short list": ("group_concat_max_len = 4",),
    "clients in latin1": ("character_set_client = latin1", "character_set_results = latin1"),
}
REFUSED = "binlog_format = 'STATEMENT'"


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim("mariadb", started("mariadb", tmp_path_factory.mktemp("victim")))
    victim.start_again_with("--log-bin=changes")
    yield victim
    victim.running.stop()


@pytest.fixture
def of_mariadb(mariadb: Victim) -> Iterator[Any]:
    """Makes a database of a server with some settings, which another server has never had."""
    before: dict[str, Any] = {}

    def make(*settings: str) -> str:
        for setting in settings:
            name = setting.partition(" = ")[0]
            with mariadb.connected() as connection:
                before[name] = connection.execute(sa.text(f"SELECT @@global.{name}")).scalar_one()
            mariadb.execute(f"SET GLOBAL {setting}")
        mariadb.execute(f"DROP DATABASE {mariadb.name}", f"CREATE DATABASE {mariadb.name}")
        return mariadb.url

    yield make
    for name, value in before.items():
        mariadb.execute(f"SET GLOBAL {name} = {value!r}")


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    victim = Victim("postgresql", started("postgresql", tmp_path_factory.mktemp("victim")))
    yield victim
    victim.running.stop()


def serve(place: Path, url: str) -> list[tuple[str, int]]:
    """Use a service on the database; returns the statuses of requests with characters that few encodings have."""
    settings = load([write_configuration(place, url)])
    with closing(application.build_service(settings)) as service:
        call = Api(wsgi_door(application.assemble(service, settings)), version=NEWEST).call

        def ask(method: str, path: str, body: Any = None) -> Answer:
            return call(method, quote(path, safe="/?=&%"), body)

        uuid, consumer = str(uuid4()), str(uuid4())
        assert ask("POST", "/resource_providers", {"name": "Zürich \\n '", "uuid": uuid}).status == 200
        inventory = {"total": 8, "allocation_ratio": 1.0625}
        body = {"resource_provider_generation": 0, "inventories": {"VCPU": inventory}}
        assert ask("PUT", f"/resource_providers/{uuid}/inventories", body).status == 200
        claim = {
            "allocations": {uuid: {"resources": {"VCPU": 8}}},
            "project_id": "p",
            "user_id": "ü",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        assert ask("PUT", f"/allocations/{consumer}", claim).status == 204
        assert ask("PUT", f"/allocations/{uuid4()}", claim).status == 409
        [provider] = ask("GET", "/resource_providers?name=Zürich%20%5Cn%20'").json["resource_providers"]
        assert provider["name"] == "Zürich \\n '"
        with_ratio = ask("GET", f"/resource_providers/{uuid}/inventories/VCPU")
        assert with_ratio.json["allocation_ratio"] == 1.0625
        assert "GMT" in (with_ratio.header("last-modified") or "")
        rare = "東京"
        asked = [
            ("POST", "/resource_providers", {"name": rare}),
            ("PUT", f"/resource_providers/{uuid}", {"name": rare}),
            ("GET", f"/resource_providers?name={rare}", None),
            ("PUT", f"/allocations/{uuid4()}", {**claim, "project_id": rare}),
            ("PUT", f"/allocations/{uuid4()}", {**claim, "user_id": rare}),
            ("GET", f"/usages?project_id={rare}", None),
            ("GET", f"/usages?project_id=p&user_id={rare}", None),
            ("POST", "/allocations", {consumer: {**claim, "user_id": rare, "consumer_generation": 1}}),
        ]
        return [(f"{method} {path}", ask(method, path, body).status) for method, path, body in asked]


@pytest.mark.parametrize("name", POSTGRESQL)
def test_postgresql(name: str, postgresql: Victim, tmp_path: Path) -> None:
    encoding, settings = POSTGRESQL[name]
    again(postgresql, *settings, encoding=encoding)
    statuses = serve(tmp_path, postgresql.url)
    assert [status for status in statuses if status[1] >= 500] == []
    assert any(status == 400 for _, status in statuses) == (encoding == "LATIN1")


@pytest.mark.parametrize("name", MARIADB)
def test_mariadb(name: str, of_mariadb: Any, tmp_path: Path) -> None:
    statuses = serve(tmp_path, of_mariadb(*MARIADB[name]))
    assert [status for status in statuses if status[1] >= 500] == []


def test_a_log_of_statements_is_refused(of_mariadb: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MariaDB rejects each write at READ COMMITTED, and REPEATABLE READ would claim too much."""
    is_refused_alike(tmp_path, of_mariadb(REFUSED), "binlog_format is STATEMENT", capsys)


def test_tables_without_transactions_are_refused(
    mariadb: Victim, of_mariadb: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = of_mariadb()
    serve(tmp_path, url)
    mariadb.execute(f"ALTER TABLE {mariadb.name}.stead_usage ENGINE=MyISAM")
    is_refused_alike(tmp_path, url, "tables without transactions: stead_usage", capsys)
    mariadb.execute(f"DROP TABLE {mariadb.name}.stead_usage")


def test_an_account_without_grants_is_refused(
    postgresql: Victim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again(postgresql)
    serve(tmp_path, postgresql.url)
    engine = sa.create_engine(postgresql.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in (
            "CREATE ROLE reading LOGIN",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reading",
            "REVOKE UPDATE ON allocations FROM reading",
        ):
            connection.exec_driver_sql(statement)
    url = sa.make_url(postgresql.url).set(username="reading").render_as_string(hide_password=False)
    is_refused_alike(tmp_path, url, "this account may not read and write allocations", capsys)


def test_tables_of_other_programs_do_not_matter(postgresql: Victim, mariadb: Victim, of_mariadb: Any) -> None:
    other = "CREATE TABLE of_another_program (id INT)"
    again(postgresql)
    for url, statements in (
        (postgresql.url, (other, "CREATE ROLE writing LOGIN", "ALTER SCHEMA public OWNER TO writing")),
        (of_mariadb(), (f"{other} ENGINE=MyISAM",)),
    ):
        engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        used = sa.make_url(url)
        if engine.dialect.name == "postgresql":
            used = used.set(username="writing")
        with closing(Store(Database(used.render_as_string(hide_password=False)))) as store:
            assert schema.upgrade(store.writer)


def test_a_server_that_takes_no_writes_is_refused(
    postgresql: Victim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again(postgresql, "default_transaction_read_only = on")
    is_refused_alike(tmp_path, postgresql.url, "default_transaction_read_only is on", capsys)


def again(postgresql: Victim, *settings: str, encoding: str = "UTF8") -> None:
    """Make the database of *postgresql* again, empty, with these settings."""
    postgresql.execute(
        f"DROP DATABASE {postgresql.name} WITH (FORCE)",
        f"CREATE DATABASE {postgresql.name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
        *(f"ALTER DATABASE {postgresql.name} SET {setting}" for setting in settings),
    )


def is_refused_alike(place: Path, url: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`db check`, `db upgrade` and the start of the service all refuse the database, with the reason."""
    file = write_configuration(place, url)
    for command in ("check", "upgrade"):
        assert run(["db", command, "--config-file", str(file)]) != 0
        assert why in "".join(capsys.readouterr())
    for may_upgrade in ("true", "false"):
        file.write_text(file.read_text().replace("sync_on_startup = true", f"sync_on_startup = {may_upgrade}"))
        with pytest.raises(SteadError, match=why):
            application.build_service(load([file]))
