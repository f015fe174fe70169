"""A newcomer's day: an embedded server, the sample site, questions about NUMA nodes and GPUs, claims to the last."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from stead.cli.app import run
from tests.checkout import ROOT

SAMPLES = ROOT / "samples"

ONE_NODE = "resources_A=PCPU:8,MEMORY_MB:16384&resources_N=SRIOV_NET_VF:1&same_subtree=_A,_N&group_policy=none"
TWO_GPUS = (
    "resources_G1=PGPU:1&resources_G2=PGPU:1&required_N1=HW_NUMA_ROOT&required_N2=HW_NUMA_ROOT"
    "&same_subtree=_N1,_G1&same_subtree=_N2,_G2&group_policy=isolate"
)
NO_GPU = "resources=PCPU:4&root_required=!CUSTOM_HAS_GPU"

pytestmark = pytest.mark.timeout(120)  # starts servers


class Newcomer:
    """Somebody with a shell."""

    def run(self, *arguments: str) -> tuple[int, Any, str]:
        """Exit code, what it said in JSON, and what it complained about."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as complaint:
            code = run(["--json", *arguments])
        return code, json.loads(out.getvalue() or "null"), complaint.getvalue()

    def candidates(self, query: str) -> list[set[str]]:
        """The names of each candidate's providers."""
        code, said, _ = self.run("candidates", query, "--limit", "1000")
        return [{row["name"] for row in found["providers"]} for found in said["candidates"]] if code == 0 else []


def places_for(query_takes: dict[str, int], node: dict[str, Any]) -> int:
    """How often so much fits into a NUMA node and the devices below it."""
    left: dict[str, int] = {}
    for provider in (node, *node["children"]):
        for name, inventory in provider["inventories"].items():
            left[name] = left.get(name, 0) + inventory["total"]
    return min(left.get(name, 0) // amount for name, amount in query_takes.items())


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Newcomer]:
    """With an embedded server that runs."""
    monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path / "data"))
    command = [sys.executable, "-c", "from stead.cli import main; main()", "--json", "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        yield Newcomer()
        server.terminate()
    assert server.returncode == 0


def test_a_site_is_described_asked_and_claimed_until_it_is_full(newcomer: Newcomer) -> None:
    assert newcomer.run("topology", "apply", str(SAMPLES / "site.yaml"))[0] == 0
    again = newcomer.run("topology", "apply", str(SAMPLES / "site.yaml"), "--dry-run")
    assert (again[0], again[1]["steps"]) == (0, [])

    for found in newcomer.candidates(TWO_GPUS):
        hosts = {name.partition("_")[0] for name in found}
        assert len(hosts) == 1
        assert next(iter(hosts)).startswith("gpu")
    without = newcomer.candidates(NO_GPU)
    assert without
    assert not any(name.startswith("gpu") for found in without for name in found)

    hosts = newcomer.run("tree")[1]["roots"]
    takes = {"PCPU": 8, "MEMORY_MB": 16384, "SRIOV_NET_VF": 1}
    places = sum(places_for(takes, node) for host in hosts for node in host["children"])
    assert places > 8
    ways = len(newcomer.candidates(ONE_NODE))
    claimed = []
    for _ in range(places):
        code, said, complaint = newcomer.run("claim", ONE_NODE, "--project", "demo", "--user", "me")
        assert code == 0, complaint
        claimed.append(said["consumer"])
        left = len(newcomer.candidates(ONE_NODE))
        assert left <= ways
        ways = left
    assert ways == 0

    code, said, complaint = newcomer.run("claim", ONE_NODE, "--project", "demo", "--user", "me")
    assert (code, said) == (1, None)
    assert "nothing fits" in complaint
    assert newcomer.run("release", claimed[0])[0] == 0
    assert newcomer.run("claim", ONE_NODE, "--project", "demo", "--user", "me")[0] == 0
