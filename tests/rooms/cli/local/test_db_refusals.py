"""What `stead db` and the start of the service say of a database that can not be used: one line, with what helps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import run
from stead.cli.local.serve import prepare_database
from stead.cli.server import NotServed
from stead.config import load
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database
from tests.rooms.store.schema.test_schema import REVISIONS, STEAD_REVISIONS, execute, upgrade_to

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMANDS = ("version", "check", "upgrade")


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    store = Store(Database(database_url))
    yield store
    store.close()


@pytest.fixture
def configuration(database_url: str, tmp_path: Path) -> Path:
    return configured(tmp_path, database_url)


def configured(directory: Path, url: str) -> Path:
    file = directory / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = {url}\nmax_retries = 0\n")
    return file


def complaint(capsys: pytest.CaptureFixture[str], configuration: Path, command: str) -> str:
    """The one line that `stead db` says then."""
    assert run(["db", command, "--config-file", str(configuration)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("stead: ")
    return line


UNUSABLE = {
    "mysql+pymysql://root@127.0.0.1:1/": "it names no database",
    "mysql+pymysql://root@127.0.0.1:1": "it names no database",
    "mysql+pymysql://root@127.0.0.1:1/name?bogus=1": "bogus",
    "mysql+pymysql://root@127.0.0.1:1/name?charset=bogus": "encoding",
    "mysql+pymysql://root@127.0.0.1:1/name?connect_timeout=soon": "soon",
    "mysql+pymysql://root@127.0.0.1:1/name?plugin=dbcounter": "dbcounter",
    "postgresql+psycopg://me@127.0.0.1:1/name?plugin=dbcounter": "dbcounter",
    "postgresql+psycopg://me@127.0.0.1:1/name?bogus=1": "bogus",
    "oracle://me@127.0.0.1/name": "databases of kind oracle are not supported",
}


@pytest.mark.parametrize("url", UNUSABLE)
def test_a_url_that_can_not_be_used_is_one_line(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configuration = configured(tmp_path, url)
    for command in COMMANDS:
        assert UNUSABLE[url] in complaint(capsys, configuration, command)
    with pytest.raises(NotServed, match=UNUSABLE[url]):
        prepare_database(load([configuration]))


def test_check_refuses_an_unknown_word_of_an_option(configuration: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with configuration.open("a") as more:
        more.write("[stead]\ndefault_order = best\n")
    line = complaint(capsys, configuration, "check")
    assert "default_order" in line
    assert "off, pack, spread, headroom" in line


def test_waiting_does_not_help_a_url_that_can_not_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stead.application.time.sleep", lambda _: pytest.fail("it is tried again"))
    configuration = configured(tmp_path, "oracle://me@127.0.0.1/name")
    configuration.write_text(configuration.read_text().replace("max_retries = 0\n", ""))
    with pytest.raises(NotServed, match="oracle"):
        prepare_database(load([configuration]))


@pytest.mark.parametrize(
    ("table", "more", "mend"),
    [
        ("alembic_version", REVISIONS[0], "placement-manage db stamp"),
        ("stead_version", STEAD_REVISIONS[0], "DELETE FROM stead_version"),
    ],
)
def test_several_revisions_are_one_line_that_says_what_helps(
    store: Store, configuration: Path, capsys: pytest.CaptureFixture[str], table: str, more: str, mend: str
) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, f"INSERT INTO {table} (version_num) VALUES ('{more}')")
    for command in COMMANDS:
        line = complaint(capsys, configuration, command)
        assert f"{table} names several revisions" in line
        assert mend in line
    with pytest.raises(NotServed, match="several revisions"):
        prepare_database(load([configuration]))
    if table == "alembic_version":
        schema.stamp(store.writer, REVISIONS[-1])
    else:
        execute(store.writer, f"DELETE FROM {table}")
        assert schema.upgrade(store.writer) == STEAD_REVISIONS
    schema.require_current(store.writer)


@pytest.mark.parametrize("stamped", REVISIONS)
def test_whichever_of_several_revisions_is_stamped_is_the_only_one_then(store: Store, stamped: str) -> None:
    schema.upgrade(store.writer)
    execute(store.writer, f"INSERT INTO alembic_version (version_num) VALUES ('{REVISIONS[2]}')")
    schema.stamp(store.writer, stamped)
    assert schema.standings(store.writer)[0].revision == stamped


@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-1]])
def test_check_says_of_tables_of_an_unknown_age_what_an_upgrade_says(
    store: Store, configuration: Path, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    upgrade_to(store.writer, revision)
    execute(store.writer, "DROP TABLE alembic_version")
    assert run(["db", "check", "--config-file", str(configuration)]) == 1
    out, error = capsys.readouterr()
    assert "would run" not in out
    assert "Run: stead db upgrade" not in out + error
    refused = error.removeprefix("stead: ").strip()
    assert "placement-manage db stamp REVISION" in refused
    assert refused in complaint(capsys, configuration, "upgrade")
    assert run(["--json", "db", "check", "--config-file", str(configuration)]) == 1
    assert json.loads(capsys.readouterr().out)["pending"] == []
