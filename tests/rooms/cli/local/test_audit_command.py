"""stead audit: the table, the JSON, the question before a repair, and the exit codes."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import run
from tests.rooms.cli.placement.deployment import HEAD, OLD, Deployment

if TYPE_CHECKING:
    from pathlib import Path

IDLE = "INSERT INTO consumers (uuid, project_id, user_id, generation) VALUES (:uuid, 1, 1, 0)"
OWNERS = (
    "INSERT INTO projects (id, external_id) VALUES (:id, 'p')",
    "INSERT INTO users (id, external_id) VALUES (:id, 'u')",
)


def audit(deployment: Deployment, *arguments: str) -> int:
    return run(["audit", "--config-file", str(deployment.file), *arguments])


def with_idle_consumers(deployment: Deployment, count: int) -> Deployment:
    for statement in OWNERS:
        deployment.execute(statement, [{"id": 1}])
    deployment.execute(IDLE, [{"uuid": f"idle-{number}"} for number in range(count)])
    return deployment


def idle(deployment: Deployment) -> int:
    return int(deployment.scalar("SELECT COUNT(*) FROM consumers"))


@pytest.mark.parametrize("revision", [OLD, HEAD])
def test_clean_books_are_said_to_be_right(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    deployment.at(revision)
    assert audit(deployment) == 0
    assert capsys.readouterr().out == "no errors found\n"
    assert audit(deployment, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"clean": True, "faults": {}, "findings": [], "repaired": []}


@pytest.mark.parametrize("revision", [OLD, HEAD])
def test_json_has_every_finding_and_what_helps(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    with_idle_consumers(deployment.at(revision), 30).add_allocations_without_consumer(1)
    assert audit(deployment, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["clean"] is False
    assert said["faults"]["consumer-without-allocations"]["count"] == 30
    assert said["faults"]["allocation-without-provider"]["help"]
    rows = [row for row in said["findings"] if row["fault"] == "consumer-without-allocations"]
    assert rows[0] == {
        "fault": "consumer-without-allocations",
        "subject": "consumer idle-0",
        "detail": "holds nothing",
        "repairable": True,
    }
    assert len(rows) == 30
    assert idle(deployment) == 30


def test_a_repair_repairs_what_it_can_and_says_what_is_left(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    with_idle_consumers(deployment.at(HEAD), 2).add_allocations_without_consumer(1)
    assert audit(deployment, "--json", "--repair", "--yes") == 1
    said = json.loads(capsys.readouterr().out)
    missing, *gone = [row["subject"] for row in said["repaired"]]
    assert gone == ["consumer idle-0", "consumer idle-1"]
    assert missing.startswith("consumer ")
    assert set(said["faults"]) == {f"allocation-without-{what}" for what in ("provider", "class")}
    assert not any(row["repairable"] for row in said["findings"])
    assert idle(deployment) == 1  # the one that was missing


@pytest.mark.one_database
def test_when_all_is_repaired_the_answer_is_yes(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    with_idle_consumers(deployment.at(HEAD), 25)
    assert audit(deployment, "--repair", "--yes") == 0
    out = capsys.readouterr().out
    assert out.endswith("no errors found\n")
    assert all(f"idle-{number} " in out for number in range(25))  # each repair, however many


@pytest.mark.one_database
def test_the_table_is_cut_and_says_so(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    with_idle_consumers(deployment.at(HEAD), 25)
    assert audit(deployment) == 1
    out = capsys.readouterr().out
    assert "consumer-without-allocations: a consumer without allocations (25)" in out
    assert "A repair removes the consumer." in out
    assert "and 5 more" in out


@pytest.mark.one_database
@pytest.mark.parametrize(("answer", "remaining", "code"), [("y\n", 0, 0), ("n\n", 3, 1), ("\n", 3, 1), ("", 3, 1)])
def test_a_repair_asks_first(
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
    remaining: int,
    code: int,
) -> None:
    with_idle_consumers(deployment.at(HEAD), 3)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    assert audit(deployment, "--repair") == code
    assert "consumer idle-2" in capsys.readouterr().out
    assert idle(deployment) == remaining


@pytest.mark.one_database
@pytest.mark.parametrize("arguments", [["--yes"], ["--json", "--repair"], ["--loud"]])
def test_wrong_usage_changes_nothing(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with_idle_consumers(deployment.at(HEAD), 1)
    assert audit(deployment, *arguments) == 2
    said = capsys.readouterr()
    assert (said.out, idle(deployment)) == ("", 1)
    assert said.err.startswith("stead: ")


@pytest.mark.one_database
def test_a_database_without_tables_cannot_be_audited(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(deployment) == 2
    assert "The database has no tables of a Placement service." in capsys.readouterr().err


@pytest.mark.one_database
def test_a_database_that_does_not_answer_is_no_finding(
    deployment: Deployment, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    deployment.url = f"sqlite:///{tmp_path}/nowhere/books.db"
    deployment.configure("")
    assert audit(deployment) == 2
    assert f"{tmp_path}/nowhere/books.db: no such directory" in capsys.readouterr().err
