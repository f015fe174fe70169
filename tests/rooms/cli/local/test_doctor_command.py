"""``stead doctor``: the verdict first, a line for each finding with its cure, and the exit code."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import run
from stead.cli.local.doctor import State, Symptom, draw_symptoms
from tests.rooms.cli.placement.deployment import HEAD, Deployment
from tests.rooms.cli.server.occupant import occupant
from tests.servers.stead import STEAD

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning")


def examined(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    code = run(["doctor", *arguments, "--json"])
    findings: dict[str, list[dict[str, str]]] = {}
    for each in json.loads(capsys.readouterr().out)["findings"]:
        findings.setdefault(each["subject"], []).append(each)
    return code, findings


def test_what_a_database_lacks_is_a_problem_with_its_cure(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    code, findings = examined(capsys, "--config-file", str(deployment.file))  # the database is empty
    assert code == 1
    (tables,) = findings["tables"]
    assert (tables["state"], tables["cure"]) == ("problem", "Run `stead db upgrade`.")
    assert run(["db", "upgrade", "--config-file", str(deployment.file)]) == 0
    capsys.readouterr()
    code, findings = examined(capsys, "--config-file", str(deployment.file))
    assert {each["state"] for each in findings["tables"] + findings["policy"] + findings["rows"]} == {"ok"}
    assert findings["database"][0]["text"].split()[0] in ("SQLite", "PostgreSQL", "MariaDB", "MySQL")
    assert [each["state"] for each in findings.get("clock", [])] in ([], ["ok"])
    assert code == (1 if "durability" in findings else 0)  # the servers of tests do without


@pytest.mark.one_database
def test_faulty_rows_are_warnings(deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    deployment.at(HEAD).add_allocations_without_consumer(1)
    _, findings = examined(capsys, "--config-file", str(deployment.file))
    assert {each["state"] for each in findings["rows"]} == {"warning"}
    assert all("stead audit" in each["cure"] for each in findings["rows"])


@pytest.mark.parametrize(
    ("text", "state", "told"),
    [
        ("[nova]\nsize = 3\n", "warning", "unknown option [nova] size"),
        ("[stead]\nmax_wachers = 3\n", "problem", "[stead] has no option max_wachers"),
        ("[placement]\nmax_allocation_candidates = many\n", "problem", "max_allocation_candidates"),
    ],
)
def test_a_configuration_is_examined_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, state: str, told: str
) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = sqlite:///{tmp_path}/x.db\n{text}")
    _, findings = examined(capsys, "--config-file", str(file))
    (configuration,) = findings["configuration"]
    assert configuration["state"] == state
    assert told in configuration["text"]
    assert configuration["cure"]


def test_a_policy_that_cannot_be_read_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text("placement:usages: [\n")
    file = tmp_path / "placement.conf"
    connection = f"[placement_database]\nconnection = sqlite:///{tmp_path}/x.db\n"
    file.write_text(f"{connection}[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    code, findings = examined(capsys, "--config-file", str(file))
    assert (code, findings["policy"][0]["state"]) == (1, "problem")


def test_without_a_data_directory_it_says_what_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--data-dir", str(tmp_path / "none")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "healthy, 2 warnings"
    assert any("serve`" in line for line in lines)


@pytest.mark.timeout(120)  # starts a server
def test_a_server_that_runs_is_asked_whether_it_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = ["--data-dir", str(data), "--json", "serve", "--port", "0", "--metrics", metrics]
    with subprocess.Popen([*STEAD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            assert run(["doctor", "--data-dir", str(data)]) == 0
            out = capsys.readouterr().out
        finally:
            server.terminate()
    assert out.startswith("healthy, 0 warnings\n")
    assert f"{url} is ready" in out
    assert re.search(r"^ok +workers +1 worker, whose snapshots are up to \d\.\d s old$", out, re.MULTILINE)


def test_without_metrics_it_says_how_to_see_the_lag_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with occupant(tmp_path, "unix:/no/socket"):
        run(["doctor", "--data-dir", str(tmp_path)])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " workers " in line]
    assert "lag not checked" in line
    assert line.endswith("`stead serve --metrics 9100` enables them")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    symptoms = [Symptom("configuration", state, "text " * 30, "cure " * 20) for state in State]
    lines = [line.plain for line in draw_symptoms(symptoms, width)]
    assert lines[0] == "1 problem, 1 warning"
    assert max(map(len, lines)) <= width
