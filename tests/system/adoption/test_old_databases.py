"""A database that a release of the OpenStack service made becomes one on which Stead answers as that release did."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from stead.cli.app import run
from tests.rooms.store.schema.test_schema import REVISIONS, STEAD_REVISIONS
from tests.servers.environment import Unavailable
from tests.system.adoption import dumps
from tests.system.adoption.layout import layout, own_tables
from tests.system.adoption.releases import DUMPED, HEADS, environment
from tests.system.differential import released
from tests.system.differential.pair import Side, stead

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.databases import Server

    Layout = Callable[[str], dict[str, object]]

LAST = DUMPED[-1]


@pytest.fixture(scope="session")
def layout_of_the_last(database_server: Server) -> dict[str, object]:
    """The tables as the newest release makes them."""
    url = database_server.create()
    dumps.restore(database_server.kind, url, LAST)
    found = layout(url)
    database_server.drop(url)
    return found


def pending(release: str) -> list[str]:
    return [*REVISIONS[REVISIONS.index(HEADS[release]) + 1 :], *STEAD_REVISIONS]


def require_same_answers(directory: Path, answers: dumps.Answers) -> None:
    version = max(int(question.rpartition(".")[2]) for question in answers)
    with stead(directory) as door:
        found = dumps.recorded(Side(door).ask, version)
    assert {question: found[question] for question in answers} == answers


@pytest.mark.costly
@pytest.mark.every_database
@pytest.mark.parametrize("release", DUMPED)
def test_an_upgrade_makes_the_tables_of_the_newest_release_and_keeps_what_is_in_them(
    database_server: Server,
    database_url: str,
    layout_of_the_last: dict[str, object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    release: str,
) -> None:
    dumps.restore(database_server.kind, database_url, release)
    configuration = str(released.configure(tmp_path, database_url))
    assert run(["db", "check", "--config-file", configuration]) == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in told if "warning" not in line] == [
        f"would run {revision}" for revision in pending(release)
    ]
    assert run(["db", "upgrade", "--config-file", configuration]) == 0
    assert capsys.readouterr().out.split()[1::2] == pending(release)
    assert run(["db", "check", "--config-file", configuration]) == 0
    assert layout(database_url) == layout_of_the_last
    require_same_answers(tmp_path, dumps.answers(release))
    assert run(["db", "downgrade", "--to", "upstream", "--config-file", configuration]) == 0
    assert own_tables(database_url) == []
    assert layout(database_url) == layout_of_the_last


@pytest.mark.costly
@pytest.mark.every_database
@pytest.mark.parametrize("release", DUMPED[:-1])
def test_the_statements_do_the_same_when_somebody_else_runs_them(
    database_server: Server,
    database_url: str,
    layout_of_the_last: dict[str, object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    release: str,
) -> None:
    def run_printed(*command: str) -> None:
        capsys.readouterr()
        assert run(["db", *command, "--sql", "--config-file", configuration]) == 0
        execute(database_server.kind, database_url, capsys.readouterr().out)

    dumps.restore(database_server.kind, database_url, release)
    configuration = str(released.configure(tmp_path, database_url))
    before = layout(database_url)
    assert run(["db", "upgrade", "--sql", "--config-file", configuration]) == 0
    assert layout(database_url) == before
    assert own_tables(database_url) == []
    run_printed("upgrade")
    assert run(["db", "check", "--config-file", configuration]) == 0
    assert layout(database_url) == layout_of_the_last
    capsys.readouterr()
    assert run(["db", "upgrade", "--sql", "--config-file", configuration]) == 0
    assert capsys.readouterr().out == "-- nothing to do\n"
    run_printed("downgrade", "--to", "upstream")
    assert own_tables(database_url) == []


def execute(kind: str, url: str, script: str) -> None:
    """As an administrator would, who has the statements in a file."""
    if kind != "sqlite":
        dumps.run_script(url, script)
        return
    with closing(sqlite3.connect(str(sa.make_url(url).database))) as connection:
        connection.executescript(script)


@pytest.mark.releases
@pytest.mark.timeout(900)  # a release may have to be installed first
@pytest.mark.parametrize("release", HEADS)
def test_what_the_release_itself_makes_here_is_adopted(
    database_url: str, layout_of_the_last: dict[str, object], tmp_path: Path, release: str
) -> None:
    try:
        answers = dumps.build(release, database_url, tmp_path)
    except Unavailable as unavailable:
        pytest.skip(f"{release} can not be run here: {unavailable} (or give {environment(release).given})")
    place = environment(release).installed()
    version = released.run(place, tmp_path, "placement-manage", "db", "version")
    assert version == (0, f"{HEADS[release]}\n")
    assert run(["db", "upgrade", "--config-file", str(tmp_path / "placement.conf")]) == 0
    assert layout(database_url) == layout_of_the_last
    require_same_answers(tmp_path, answers)
