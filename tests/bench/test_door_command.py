"""``stead-bench door`` with real servers, and itself as the peer."""

import shutil
import sys

import pytest

pytestmark = pytest.mark.timeout(120)  # starts servers

PEER = (
    "from importlib import import_module; from wsgiref.simple_server import make_server; import sys; "
    "module, _, name = sys.argv[2].partition(':'); "
    "make_server('127.0.0.1', int(sys.argv[1]), getattr(import_module(module), name)).serve_forever()"
)


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_both_servers_are_measured_in_turns(bench):
    ran = bench(
        *("door", "--question", "bytes", "--question", "small query", "--connections", "2", "--hosts", "30"),
        *(
            "--seconds",
            "1",
            "--rounds",
            "1",
            "--peer-command",
            f'{sys.executable} -c "{PEER}" {{port}} {{application}}',
        ),
    )
    assert ran.code == 0, ran.err
    assert [row["question"] for row in ran.json["rows"]] == ["bytes", "small query"]
    assert ran.json["rows"][0]["bytes"] == 150
    for row in ran.json["rows"]:
        assert row["connections"] == 2
        for server in ("stead", "peer"):
            cost = row[server]
            assert cost["failed"] == cost["refused"] == 0
            assert 0 < cost["p50_ms"] <= cost["p99_ms"]
            assert cost["cpu_us"] > 0
        assert row["rate_ratio"] == pytest.approx(
            row["stead"]["requests_per_second"] / row["peer"]["requests_per_second"], abs=0.01
        )


def test_without_the_load_generator_the_command_says_so(bench, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ran = bench("door", "--hosts", "3")
    assert ran.code == 2
    assert "wrk is not installed" in ran.err


def test_an_unknown_question_is_refused(bench):
    ran = bench("door", "--question", "nothing")
    assert ran.code == 2
    assert "no question nothing" in ran.err
