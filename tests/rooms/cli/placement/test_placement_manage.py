"""placement-manage: exit codes, output, and what becomes of the database."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from alembic.util import CommandError

from stead import __version__
from stead.cli.placement import manage as placement_manage
from stead.config.options import UNKNOWN_CONSUMER
from tests.rooms.cli.placement.deployment import HEAD, OLD, Deployment, exit_code
from tests.rooms.store.books import Books

if TYPE_CHECKING:
    from pathlib import Path

RULE = "+-----------------------------+-------------+-----------+"
BOTH = f"""\
{RULE}
|          Migration          | Total Found | Completed |
{RULE}
|    set_root_provider_ids    |{{:^13}}|{{:^11}}|
| create_incomplete_consumers |{{:^13}}|{{:^11}}|
{RULE}
"""
ROOTS_ONLY = """\
+-----------------------+-------------+-----------+
|       Migration       | Total Found | Completed |
+-----------------------+-------------+-----------+
| set_root_provider_ids |      5      |     5     |
+-----------------------+-------------+-----------+
"""
BATCHES = "Running batches of 50 until complete\n"
ROOTS = "{0} rows matched query set_root_provider_ids, {0} migrated\n"
CONSUMERS = "{0} rows matched query create_incomplete_consumers, {0} migrated\n"
NOT_POSITIVE = "Must supply a positive value for max_count\n"
MIGRATE = ("db", "online_data_migrations")


def manage(deployment: Deployment, *arguments: str) -> int:
    return exit_code(placement_manage.run, ["--config-file", str(deployment.file), *arguments])


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        ([], 1, "usage: placement-manage", ""),
        (["--help"], 0, "usage: placement-manage", ""),
        (["db"], 0, "usage: placement-manage db", ""),
        (["--version"], 0, f"{__version__}\n", ""),
        (["nothing"], 2, "", "usage: placement-manage"),
        (["db", "nothing"], 2, "", "usage: placement-manage db"),
        (["db", "stamp"], 2, "", "usage: placement-manage db stamp"),
        ([*MIGRATE, "--max-count"], 2, "", "usage: placement-manage db online_data_migrations"),
        *(([*MIGRATE, f"--max-count={count}"], 127, NOT_POSITIVE, "") for count in ("0", "-1", "many", "1.5", "")),
    ],
)
def test_the_arguments_decide_what_is_said_and_the_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, out: str, err: str
) -> None:
    assert exit_code(placement_manage.run, arguments) == code
    said = capsys.readouterr()
    assert said.out.startswith(out)
    assert said.err.startswith(err)
    assert bool(said.out) == bool(out)
    assert bool(said.err) == bool(err)


@pytest.mark.parametrize("command", [["db", "sync"], ["db", "version"], ["db", "stamp", HEAD], list(MIGRATE)])
def test_a_deployment_without_a_configuration_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
) -> None:
    monkeypatch.delenv("OS_PLACEMENT_DATABASE__CONNECTION", raising=False)
    (tmp_path / "placement.conf").touch()
    assert exit_code(placement_manage.run, ["--config-file", str(tmp_path / "placement.conf"), *command]) == 1
    assert "[placement_database] connection is required" in capsys.readouterr().err


def test_sync_brings_both_histories_to_their_heads_and_is_silent(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [manage(deployment, "db", "version"), capsys.readouterr().out] == [0, "None\n"]
    for _ in range(2):
        assert manage(deployment, "db", "sync") == 0
        assert capsys.readouterr() == ("", "")
    assert [manage(deployment, "db", "version"), capsys.readouterr().out] == [0, f"{HEAD}\n"]
    assert deployment.scalar("SELECT count(*) FROM stead_clock") == 64


@pytest.mark.parametrize(("before", "stamp", "after"), [(HEAD, OLD, OLD), (None, HEAD, HEAD), (None, "head", HEAD)])
def test_stamp_changes_the_version_only(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], before: str | None, stamp: str, after: str
) -> None:
    deployment.at(before)
    assert manage(deployment, "db", "stamp", stamp) == 0
    assert capsys.readouterr() == ("", "")
    assert [manage(deployment, "db", "version"), capsys.readouterr().out] == [0, f"{after}\n"]
    assert deployment.rows("SELECT version_num FROM alembic_version") == [(after,)]


@pytest.mark.one_database
@pytest.mark.parametrize("revision", ["", " ", "nonsense"])
def test_a_revision_that_is_none_is_not_stamped(deployment: Deployment, revision: str) -> None:
    deployment.at(OLD)
    with pytest.raises(CommandError):
        manage(deployment, "db", "stamp", revision)
    assert deployment.rows("SELECT version_num FROM alembic_version") == [(OLD,)]


@pytest.mark.one_database
@pytest.mark.parametrize("command", [["sync"], ["stamp", "nonsense"]])
def test_what_cannot_be_done_ends_with_a_traceback(deployment: Deployment, command: list[str]) -> None:
    deployment.at(OLD).add_providers_without_root(1)
    main = "from stead.cli.placement.manage import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", main, "--config-file", str(deployment.file), "db", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Traceback")


@pytest.mark.parametrize(
    ("providers", "consumers", "arguments", "code", "out"),
    [
        (0, 0, [], 0, BATCHES + BOTH.format(0, 0, 0, 0)),
        (0, 0, ["--max-count", "3"], 0, BOTH.format(0, 0, 0, 0)),
        (1, 1, [], 0, BATCHES + ROOTS.format(1) + CONSUMERS.format(1) + BOTH.format(1, 1, 1, 1)),
        (
            5, 52, [], 0,
            BATCHES + ROOTS.format(5) + CONSUMERS.format(45) + CONSUMERS.format(7)
            + BOTH.format(5, 5, "     52 ", "    52 "),
        ),
        (7, 3, ["--max-count", "5"], 1, ROOTS.format(5) + ROOTS_ONLY),
        (5, 3, ["--max-count", "5"], 1, ROOTS.format(5) + ROOTS_ONLY),
        (2, 3, ["--max-count", "4"], 1, ROOTS.format(2) + CONSUMERS.format(2) + BOTH.format(2, 2, 2, 2)),
        (1, 1, ["--max-count", "9" * 30], 1, ROOTS.format(1) + CONSUMERS.format(1) + BOTH.format(1, 1, 1, 1)),
    ],
)  # fmt: skip
@pytest.mark.one_database
def test_batches_are_told_and_summed_up(
    deployment: Deployment,
    capsys: pytest.CaptureFixture[str],
    providers: int,
    consumers: int,
    arguments: list[str],
    code: int,
    out: str,
) -> None:
    deployment.at(OLD).add_providers_without_root(providers)
    deployment.add_allocations_without_consumer(consumers)
    assert manage(deployment, *MIGRATE, *arguments) == code
    assert _one_blank(capsys.readouterr().out) == _one_blank(out)


def test_the_table_centres_as_operators_know_it() -> None:
    assert placement_manage.table([("set_root_provider_ids", 55, 55), ("create_incomplete_consumers", 2, 2)]) == (
        f"{RULE}\n"
        "|          Migration          | Total Found | Completed |\n"
        f"{RULE}\n"
        "|    set_root_provider_ids    |      55     |     55    |\n"
        "| create_incomplete_consumers |      2      |     2     |\n"
        f"{RULE}"
    )


def _one_blank(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


@pytest.mark.one_database
@pytest.mark.parametrize("arguments", [[], ["--max-count", "3"]])
def test_migrations_that_fail_are_told_and_the_rest_is_tried(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert manage(deployment, *MIGRATE, *arguments) == 2
    out = capsys.readouterr().out
    assert "Error attempting to run set_root_provider_ids\nError attempting to run create_incomplete_consumers\n" in out
    assert out.endswith(BOTH.format(0, 0, 0, 0) + "Some migrations failed unexpectedly. Check log for details.\n")


@pytest.mark.one_database
def test_a_database_of_an_unknown_kind_fails_every_migration(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.file.write_text("[placement_database]\nconnection = nonsense://host/name\n")
    assert manage(deployment, *MIGRATE) == 2
    out = capsys.readouterr().out
    assert "Error attempting to run set_root_provider_ids\nError attempting to run create_incomplete_consumers\n" in out
    assert out.endswith(BOTH.format(0, 0, 0, 0) + "Some migrations failed unexpectedly. Check log for details.\n")


@pytest.mark.one_database
def test_a_batch_in_which_something_was_done_did_not_fail(deployment: Deployment) -> None:
    deployment.at(OLD).add_providers_without_root(1)
    deployment.execute("DROP TABLE consumers", [{}])
    assert manage(deployment, *MIGRATE, "--max-count", "5") == 1
    assert manage(deployment, *MIGRATE, "--max-count", "5") == 2


@pytest.mark.parametrize("revision", [OLD, HEAD])
def test_the_migrations_make_an_old_database_fit_for_the_head(deployment: Deployment, revision: str) -> None:
    deployment.configure("[placement]\nincomplete_consumer_user_id = somebody\n")
    deployment.at(revision).add_providers_without_root(3)
    deployment.add_allocations_without_consumer(2)
    assert manage(deployment, *MIGRATE) == 0
    assert deployment.rows("SELECT root_provider_id - id, generation FROM resource_providers") == [(0, 0)] * 3
    assert deployment.scalar("SELECT count(*) FROM resource_providers WHERE updated_at IS NULL") == 0
    assert (
        deployment.rows(
            "SELECT external_id, generation FROM consumers c JOIN projects p ON p.id = c.project_id ORDER BY c.id"
        )
        == [(UNKNOWN_CONSUMER, 0)] * 2
    )
    assert deployment.rows("SELECT external_id FROM users") == [("somebody",)]
    assert deployment.scalar("SELECT count(*) FROM consumers WHERE created_at IS NULL") == 0
    assert manage(deployment, "db", "sync") == 0


def test_the_incomplete_project_and_user_are_made_even_when_nothing_is_to_be_done(deployment: Deployment) -> None:
    assert manage(deployment.at(OLD), *MIGRATE) == 0
    assert deployment.rows("SELECT external_id FROM projects") == [(UNKNOWN_CONSUMER,)]
    assert deployment.rows("SELECT external_id FROM users") == [(UNKNOWN_CONSUMER,)]


@pytest.mark.parametrize(
    "fault",
    ["UPDATE resource_providers SET name = 'new', root_provider_id = NULL", "UPDATE resource_providers SET name='new'"],
)
def test_a_service_that_runs_sees_what_the_migrations_touched(deployment: Deployment, fault: str) -> None:
    books = Books(deployment.url)
    provider = books.provider(VCPU=8)
    before = books.service.snapshot()
    deployment.execute(fault, [{}])  # behind the service's back: nothing ticks
    assert books.service.snapshot().provider(before.find(provider)).name != "new"
    if "NULL" not in fault:
        deployment.add_allocations_without_consumer(1)
    assert manage(deployment, *MIGRATE) == 0
    after = books.service.snapshot()
    assert after.provider(after.find(provider)).name == "new"
    books.close()
