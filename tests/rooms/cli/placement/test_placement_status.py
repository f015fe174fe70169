"""placement-status upgrade check: the checks, how they are shown, and the exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from stead.cli.placement import status as placement_status
from tests.rooms.cli.placement.deployment import OLD, Deployment, exit_code

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["Missing Root Provider IDs", "Incomplete Consumers", "Policy File JSON to YAML Migration"]
ALL_WELL = """\
+-------------------------------------------+
| Upgrade Check Results                     |
+-------------------------------------------+
| Check: Missing Root Provider IDs          |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
| Check: Incomplete Consumers               |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
| Check: Policy File JSON to YAML Migration |
| Result: Success                           |
| Details: None                             |
+-------------------------------------------+
"""
CHECK = ["upgrade", "check"]


def status(deployment: Deployment, *arguments: str) -> int:
    return exit_code(placement_status.run, ["--config-file", str(deployment.file), *arguments])


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["upgrade"], ["upgrade", "nothing"], [*CHECK, "--loud"]])
def test_wrong_usage_is_told_on_stderr(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert exit_code(placement_status.run, arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: placement-status")


@pytest.mark.parametrize("content", [None, "", "[api]\nauth_strategy = noauth2\n"])
def test_without_a_connection_nothing_is_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    for name in ("OS_PLACEMENT_DATABASE__CONNECTION", "OS_PLACEMENT_CONFIG_DIR", "STEAD_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    given = []
    if content is not None:
        (tmp_path / "given.conf").write_text(content)
        given = ["--config-file", str(tmp_path / "given.conf")]
    assert exit_code(placement_status.run, [*given, *CHECK]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "[placement_database] connection is required" in said.err


@pytest.mark.one_database
def test_a_database_that_cannot_be_asked_is_unexpected(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(deployment, *CHECK) == 255
    assert capsys.readouterr().out.startswith("Error:\nTraceback")


@pytest.mark.one_database
def test_a_deployment_that_is_ready_is_told_so_in_a_table(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(deployment.at(OLD), *CHECK) == 0
    assert capsys.readouterr().out == ALL_WELL


@pytest.mark.parametrize(
    ("providers", "consumers", "policy", "code", "results"),
    [
        (0, 0, None, 0, [0, 0, 0]),
        (0, 0, '"admin_api": "role:admin"', 0, [0, 0, 0]),
        (1, 0, None, 2, [2, 0, 0]),
        (0, 3, None, 1, [0, 1, 0]),
        (2, 1, None, 2, [2, 1, 0]),
        (0, 0, '{"admin_api": "role:admin"}', 2, [0, 0, 2]),
        (1, 3, "{}", 2, [2, 1, 2]),
    ],
)
def test_the_worst_result_is_the_exit_code(
    deployment: Deployment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    providers: int,
    consumers: int,
    policy: str | None,
    code: int,
    results: list[int],
) -> None:
    deployment.at(OLD).add_providers_without_root(providers)
    deployment.add_allocations_without_consumer(consumers)
    if policy is not None:
        (tmp_path / "rules").write_text(policy)
        deployment.configure(f"[oslo_policy]\npolicy_file = {tmp_path / 'rules'}\n")
    assert status(deployment, *CHECK, "--json") == code
    printed = json.loads(capsys.readouterr().out)
    assert printed["name"] == "Upgrade Check Results"
    assert [(row["check"], row["result"]) for row in printed["checks"]] == list(zip(NAMES, results, strict=True))
    assert [row["details"] is None for row in printed["checks"]] == [result == 0 for result in results]
    if consumers:
        assert f" {consumers}." in printed["checks"][1]["details"]


@pytest.mark.one_database
def test_the_table_folds_long_details(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    deployment.at(OLD).add_providers_without_root(1)
    deployment.add_allocations_without_consumer(1)
    assert status(deployment, "upgrade", "check") == 2
    lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert max(map(len, lines)) <= 79
    assert [line.split()[2] for line in lines if line.startswith("| Result:")] == ["Failure", "Warning", "Success"]
