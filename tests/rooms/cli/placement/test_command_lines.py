"""placement-manage and placement-status: where the configuration comes from, and where the log goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stead.application import init_application
from stead.cli.placement import manage as placement_manage
from stead.cli.placement import status as placement_status
from tests.rooms.cli.placement.deployment import HEAD, OLD, Deployment, exit_code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.one_database

VERSION = ["db", "version"]
CHECK = ["upgrade", "check"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a test looks for configuration, with nothing there but what it writes."""
    for variable in [*os.environ]:
        if variable.startswith(("OS_", "STEAD_")):
            monkeypatch.delenv(variable)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Write a configuration file that names a database of its own, at the revision with which it is called."""
    made = []

    def write(path: str, revision: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        deployment = Deployment(tmp_path, f"sqlite:///{file}.db").at(OLD)
        deployment.execute("UPDATE alembic_version SET version_num = :revision", [{"revision": revision}])
        made.append(deployment)
        file.write_text(f"[placement_database]\nconnection = {deployment.url}\n")
        return file

    yield write
    for deployment in made:
        deployment.store.close()


@pytest.fixture
def version(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """At which revision ``placement-manage`` finds its database."""

    def ask(*arguments: object) -> str:
        assert exit_code(placement_manage.run, [*map(str, arguments), *VERSION]) == 0
        return capsys.readouterr().out.strip()

    return ask


USUAL = "home/.placement/placement.conf"


def test_a_directory_is_read_after_the_usual_file(
    home: Path, databases: Callable[[str, str], Path], version: Callable[..., str]
) -> None:
    databases(USUAL, "b1")
    more = home / "more"
    more.mkdir()
    assert version("--config-dir", more) == "b1"
    databases("home/more/a.conf", "b2")
    assert version("--config-dir", more) == "b2"


def test_a_file_is_read_after_the_usual_directory(
    databases: Callable[[str, str], Path], version: Callable[..., str], home: Path
) -> None:
    databases("home/placement.conf.d/a.conf", "b1")
    databases("home/placement.conf", "b2")
    assert version() == "b1"
    file = home / "other.conf"
    file.write_text("")
    assert version("--config-file", file) == "b1"
    databases("home/other.conf", "b3")
    assert version("--config-file", file) == "b3"


def test_what_stands_later_in_the_command_line_counts(
    databases: Callable[[str, str], Path], version: Callable[..., str]
) -> None:
    directory = databases("d/a.conf", "b1").parent
    last = databases("last/z.conf", "b2").parent
    file = databases("file.conf", "b3")
    assert version("--config-file", file, "--config-dir", directory) == "b1"
    assert version("--config-dir", directory, "--config-file", file) == "b3"
    assert version(f"--config-dir={directory}", f"--config-file={file}", f"--config-dir={last}") == "b2"


def test_the_command_has_files_of_its_own_name(
    databases: Callable[[str, str], Path], version: Callable[..., str]
) -> None:
    databases(USUAL, "b1")
    databases("home/placement-status.conf", "b2")
    assert version() == "b1"
    databases("home/placement-manage.conf", "b3")
    assert version() == "b3"
    databases("home/.placement/placement.conf.d/a.conf", "b4")
    assert version() == "b4"
    databases("home/.placement/placement-manage.conf.d/a.conf", "b5")
    assert version() == "b5"


def test_the_variable_of_the_wsgi_application_is_not_for_commands(
    home: Path, databases: Callable[[str, str], Path], version: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    databases("home/placement.conf", "b1")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(databases("there/placement.conf", "b2").parent))
    assert version() == "b1"
    (home / "placement.conf").unlink()
    assert exit_code(placement_manage.run, VERSION) == 1
    assert exit_code(placement_status.run, CHECK) == 1


def test_a_directory_that_does_not_exist_is_refused(
    databases: Callable[[str, str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    databases(USUAL, "b1")
    assert exit_code(placement_manage.run, ["--config-dir", str(tmp_path / "none"), *VERSION]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--config-file", "--config-dir"])
def test_an_option_without_its_value_is_wrong_usage(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert exit_code(placement_manage.run, [option]) == 2
    assert capsys.readouterr().err.startswith("usage: placement-manage")


def test_an_unknown_option_of_ours_is_refused_wherever_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.conf").write_text("[stead]\nwrite_timout = 3\n")
    assert exit_code(placement_manage.run, ["--config-dir", str(tmp_path), *VERSION]) == 1
    assert f"write_timout ({tmp_path / 'a.conf'})" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--debug"],
        ["-d"],
        ["--nodebug"],
        ["--log-file", "x.log"],
        ["--logfile", "x.log"],
        ["--log-dir", "."],
        ["--logdir", "."],
        ["--log-date-format", "%H"],
        ["--nouse-syslog"],
        ["--nouse-journal"],
        ["--use-json"],
        ["--nouse-json"],
        ["--syslog-log-facility", "LOG_USER"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("run", "command", "out"),
    [(placement_manage.run, VERSION, f"{HEAD}\n"), (placement_status.run, CHECK, "+---")],
    ids=["manage", "status"],
)
def test_the_options_of_logging_stand_before_the_command(
    tmp_path: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    run: Callable[[list[str]], int],
    command: list[str],
    out: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    deployment = Deployment(tmp_path, database_url).at(HEAD)
    assert exit_code(run, ["--config-file", str(deployment.file), *options, *command]) == 0
    assert capsys.readouterr().out.startswith(out)
    deployment.store.close()


@pytest.mark.parametrize("named", ["--log-config-append", "--log-config", "--log_config"])
def test_a_configuration_of_logging_is_used(tmp_path: Path, database_url: str, named: str) -> None:
    deployment = Deployment(tmp_path, database_url).at(HEAD)
    (tmp_path / "logging.ini").write_text(
        "[loggers]\nkeys=root\n[handlers]\nkeys=file\n[formatters]\nkeys=\n"
        "[logger_root]\nlevel=DEBUG\nhandlers=file\n"
        f"[handler_file]\nclass=FileHandler\nargs=({str(tmp_path / 'own.log')!r},)\n"
    )
    given = ["--config-file", str(deployment.file), named, str(tmp_path / "logging.ini")]
    assert exit_code(placement_manage.run, [*given, *VERSION]) == 0
    assert "log_config_append" in (tmp_path / "own.log").read_text()
    deployment.store.close()


def test_a_log_that_can_not_be_written_is_told_in_one_line(
    tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = Deployment(tmp_path, database_url)
    for option in ("--log-config-append", "--log-file"):
        given = ["--config-file", str(deployment.file), option, str(tmp_path / "none" / "x")]
        assert exit_code(placement_manage.run, [*given, *VERSION]) == 1
        said = capsys.readouterr().err
        assert said.startswith("placement-manage: cannot set up the log")
        assert said.count("\n") == 1
    deployment.store.close()


def test_the_log_goes_where_the_command_line_says(
    tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = Deployment(tmp_path, database_url).at(HEAD)
    log = tmp_path / "own.log"
    given = ["--config-file", str(deployment.file), "--debug", "--log-file", str(log)]
    assert exit_code(placement_manage.run, [*given, *VERSION]) == 0
    assert " DEBUG " in log.read_text()
    assert capsys.readouterr().err == ""
    deployment.store.close()


def test_the_log_of_the_service_is_left_alone(
    tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root may run the command, and the service could not write to a file that root made."""
    deployment = Deployment(tmp_path, database_url)
    deployment.configure(f"[DEFAULT]\nlog_file = {tmp_path / 'service.log'}\ndebug = true\n")
    deployment.at(HEAD)
    given = ["--config-file", str(deployment.file)]
    assert exit_code(placement_manage.run, [*given, *VERSION]) == 0
    assert exit_code(placement_manage.run, [*given, "--debug", *VERSION]) == 0
    assert " DEBUG " in capsys.readouterr().err
    assert not (tmp_path / "service.log").exists()
    deployment.store.close()


def test_the_application_reads_the_files_of_its_server_and_the_usual_directories(
    home: Path, databases: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the existing service does: the variable takes the place of the files only."""
    monkeypatch.setattr("sys.argv", ["/usr/bin/server.py"])
    asked: list[str] = []
    monkeypatch.setattr("stead.application.build_application", lambda settings: asked.append(settings.database.url))

    def connection() -> str:
        init_application()
        return asked[-1]

    places = [
        "home/placement.conf",
        "home/server.conf",
        "home/placement.conf.d/a.conf",
        "home/placement.conf.d/b.conf",
        "home/server.conf.d/a.conf",
    ]
    for place in places:
        databases(place, HEAD)
        assert connection() == f"sqlite:///{tmp_path / place}.db"
    there = databases("there/placement.conf", HEAD)
    (there.parent / "placement.conf.d").mkdir()
    (there.parent / "placement.conf.d" / "a.conf").write_text("[placement_database]\nconnection = sqlite:///never\n")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(there.parent))
    for place in places[:1:-1]:
        assert connection() == f"sqlite:///{tmp_path / place}.db"
        (tmp_path / place).unlink()
    assert connection() == f"sqlite:///{there}.db"
