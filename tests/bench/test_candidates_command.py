"""``stead-bench candidates`` against real servers: a second Stead is the peer."""

import socket
import subprocess
import sys

import pytest

from stead_bench.app import run
from stead_bench.sites import Site
from tests.bench.conftest import serving
from tests.checkout import ROOT

SAMPLES = ROOT / "samples" / "site"
COST = {"requests", "median_ms", "p99_ms", "requests_per_second", "cpu_ms", "kept_ms"}
QUICK = ("--seconds", "0.05")

pytestmark = pytest.mark.timeout(120)  # starts servers


def test_stead_is_measured_beside_a_bare_server_and_a_peer_that_agrees(bench, tmp_path):
    with serving(tmp_path / "peer", None) as peer:
        ran = bench(
            *("candidates", "--suite", "flat", "--suite", "torn-apart", "--size", "12", *QUICK),
            *("--peer", peer.url, "--peer-pid", str(peer.pids[0])),
        )
    assert ran.code == 0, ran.err
    assert ran.json["kind"] == "candidates"
    assert ran.json["machine"]["cores"]
    assert ran.json["differences"] == []
    rows = ran.json["rows"]
    assert [(row["limit"], row["answers"]) for row in rows] == [(None, 12), (10, 10), (1000, 12), (None, 0)]
    assert [row["compared"] for row in rows] == [
        "same set",
        "same number, all known to the peer",
        "same number, all known to the peer",
        "same set",
    ]
    for row in rows:
        assert row["stead"].keys() == row["peer"].keys() == row["bare"].keys() == COST
        assert row["stead"]["cpu_ms"] > 0
        assert row["peer"]["cpu_ms"] > 0
        assert row["bytes"] > 0
        assert row["stead_memory_mib"] > 1
        assert row["stead_to_bare"] > 0
        assert row["peer_to_stead"] > 0
        assert row["peer_to_stead_cpu"] > 0
    assert "host in zones" in ran.out


def test_a_peer_that_differs_is_reported_and_the_exit_code_is_one(bench, tmp_path):
    with serving(tmp_path / "peer", Site("flat", 13)) as peer:
        ran = bench(
            *("candidates", "--suite", "flat", "--size", "12", "--limit", "0", *QUICK),
            *("--peer", peer.url, "--peer-loaded"),
        )
    assert ran.code == 1
    assert ran.json["rows"][0]["compared"] == "DIFFERENT"
    assert any("only in the peer's answer" in line for line in ran.json["differences"])
    assert "DIFFERENCES" in ran.err


def test_a_peer_that_does_not_answer_in_time_is_given_up(bench):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        ran = bench(
            *("candidates", "--suite", "wide", "--size", "3", *QUICK),
            *("--peer", url, "--peer-loaded", "--patience", "1"),
        )
    assert ran.code == 0
    (row,) = ran.json["rows"]
    assert (row["peer"], row["peer_note"], row["compared"]) == (None, "> 1 s", None)
    assert row["answers"] == 6
    assert row["stead"]["requests"] >= 3


def test_every_request_of_a_suite_has_as_many_answers_from_a_stead_that_runs(bench, tmp_path):
    """A row with another number of answers than its first would be a difference."""
    suites = ["nested", "numa", "shared", "machines", "list", "too-many"]
    chosen = [word for suite in suites for word in ("--suite", suite)]
    with serving(tmp_path / "stead", None) as server:
        ran = bench("candidates", *chosen, "--size", "4", *QUICK, "--machines", str(SAMPLES), "--stead", server.url)
    assert ran.code == 0, ran.err
    assert {row["suite"] for row in ran.json["rows"]} == set(suites)
    for row in ran.json["rows"]:
        assert (row["answers"] > 0) == (row["suite"] != "too-many")
        assert row["stead"]["requests"] >= 3


def test_a_picture_is_drawn(bench, tmp_path):
    picture = tmp_path / "cost.png"
    assert bench("candidates", "--suite", "too-many", "--size", "2", *QUICK, "--plot", str(picture)).code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_picture_is_refused_before_anything_is_measured(bench, tmp_path, monkeypatch):
    monkeypatch.setattr("stead_bench.plot.find_spec", lambda _name: None)
    ran = bench("candidates", "--plot", str(tmp_path / "cost.png"))
    assert ran.code == 2
    assert "stead-bench[plot]" in ran.err
    assert not ran.file.exists()


@pytest.mark.parametrize("arguments", [["--suite", "bogus"], ["--suite", "machines"]])
def test_what_can_not_be_measured_is_refused_in_one_line(arguments, capsys):
    assert run(["candidates", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_and_commands_do_not_wait_for_matplotlib():
    script = (
        "import sys; from stead_bench.app import run; run(['candidates', '--help']); "
        "print(sorted({'matplotlib', 'sqlalchemy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "matplotlib" not in done.stdout.splitlines()[-1]
