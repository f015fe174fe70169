"""A site that was described before memory, groups and links had places moves to them, in use."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stead.cli.app import run
from stead.topology.document import load
from stead.topology.site import Site
from tests.checkout import ROOT
from tests.conftest import write_configuration
from tests.servers.stead import started

SAMPLES = ROOT / "samples" / "site"
FORMER = Path(__file__).parent / "former-site.yaml"

NEAR_HBM = (
    "resources_C=PCPU:4&resources_H=MEMORY_MB:8192&required_H=CUSTOM_MEMORY_HBM&same_subtree=_C,_H&group_policy=none"
)
TWO_NODES = (
    "resources_A=MEMORY_MB:1024&required_A=HW_NUMA_ROOT,{0}&resources_B=MEMORY_MB:1024&required_B=HW_NUMA_ROOT,{0}"
    "&group_policy=isolate"
)

pytestmark = pytest.mark.timeout(120)  # starts servers

Stead = Callable[..., Any]


@pytest.fixture
def stead(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Stead]:
    """The command, with a server that runs; gives what it says in JSON."""
    with started(write_configuration(tmp_path, database_url), workers=1) as server:
        monkeypatch.setenv("STEAD_URL", server.url)
        monkeypatch.setenv("STEAD_TOKEN", server.token)

        def call(*arguments: str) -> Any:
            code = run(["--json", *arguments])
            said = capsys.readouterr()
            assert code == 0, said.err
            return json.loads(said.out or "null")

        yield call


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The same machines as they are described today."""
    file = tmp_path / "site.yaml"
    texts = []
    for name in ("hbm", "cxl", "nvlink"):
        assert run(["topology", "hwloc", str(SAMPLES / f"{name}.xml"), "--name", name]) == 0
        texts.append(capsys.readouterr().out)
    file.write_text("".join(texts))
    return file


def without_uuids(site: Site) -> dict[str, tuple[object, ...]]:
    return {
        name: (provider.parent, dict(provider.inventories), provider.traits)
        for name, provider in site.providers.items()
    }


def on_the_server(stead: Stead) -> Site:
    return load(json.dumps(stead("topology", "dump")))


def test_providers_in_use_move_and_keep_their_uuids_and_allocations(stead: Stead, site: Path):
    stead("topology", "apply", str(FORMER))
    before = on_the_server(stead).providers
    claims = [
        stead("claim", query, "--project", "p", "--user", "u")
        for query in (
            "resources=MEMORY_MB:1024&required=CUSTOM_MEMORY_HBM",
            "resources=MEMORY_MB:1024&required=CUSTOM_MEMORY_CXL_DRAM",
            *["resources=PGPU:1"] * 9,  # all of them
        )
    ]
    rehearsed = stead("topology", "apply", "--exact", "--dry-run", str(site))["steps"]
    moved = [step["text"] for step in rehearsed if step["action"] == "MoveProvider"]
    assert "move provider hbm_NUMA2 below hbm_NUMA0" in moved
    assert "move provider cxl_NUMA0 below cxl_NUMA0-1" in moved
    assert "move provider nvlink_GPU_0000:17:00.0 below nvlink_NVLINK0" in moved

    done = stead("topology", "apply", "--exact", str(site))
    assert (done["steps"], done["kept"]) == (rehearsed, [])
    assert stead("topology", "apply", "--exact", str(site))["steps"] == []
    after = on_the_server(stead)
    assert without_uuids(after) == without_uuids(load(site.read_text()))
    assert {name: after.providers[name].uuid for name in before} == {
        name: provider.uuid for name, provider in before.items()
    }
    for claim in claims:
        stead("release", claim["consumer"])  # which is an error if it holds nothing


@pytest.mark.one_database
def test_queries_find_the_new_places_and_no_longer_memory_as_a_node(stead: Stead, site: Path):
    stead("topology", "apply", str(FORMER))
    kind = "CUSTOM_MEMORY_CXL_DRAM"
    assert len(stead("candidates", TWO_NODES.format(kind))["candidates"]) == 2
    stead("topology", "apply", "--exact", str(site))
    assert run(["candidates", TWO_NODES.format(kind)]) == 1
    assert len(stead("candidates", NEAR_HBM)["candidates"]) == 2


@pytest.mark.one_database
def test_without_exact_providers_move_and_keep_the_traits_they_had(stead: Stead, site: Path):
    stead("topology", "apply", str(FORMER))
    stead("topology", "apply", str(site))
    after = on_the_server(stead).providers
    assert after["hbm_NUMA2"].parent == "hbm_NUMA0"
    assert after["hbm_NUMA2"].traits == {"HW_NUMA_ROOT", "CUSTOM_MEMORY_HBM", "CUSTOM_NUMA_MEMORY_ONLY"}
