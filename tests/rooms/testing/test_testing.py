"""A Placement for the tests of other projects: the context managers, the pytest plugin, the faults."""

import importlib
import os
import subprocess
import sys
import tomllib
from uuid import UUID

import pytest

import stead
from stead import Group, Node, Request, testing
from tests.checkout import ROOT
from tests.waiting import wait_until

USERS_TESTS = """
import stead

def test_over_http(placement_uuids, placement):
    site = stead.connect(placement, project="lab")
    assert site.apply(stead.Node("host", VCPU=4)).changes == {"host": ["created", "inventories"]}
    print("claimed by", site.claim(stead.Request(stead.Group(VCPU=1))).consumer)
    placement.faults.fail_next(503)
    assert site.usages()["INSTANCE"].consumers == 1

def test_each_test_begins_with_an_empty_placement(placement_site):
    assert list(placement_site.providers()) == []
    assert placement_site.faults.requests == [("GET", "/resource_providers")]
"""


def run_users_tests(directory):
    (directory / "test_users.py").write_text(USERS_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "stead.testing.plugin"]
    # Without the entry points: if that of Stead is installed, the plugin would be registered twice.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [*command, str(directory)], capture_output=True, text=True, cwd=directory, env=environment, check=False
    )


def test_the_fixtures_work_in_another_project_with_the_same_uuids_in_every_run(tmp_path):
    runs = [run_users_tests(tmp_path), run_users_tests(tmp_path)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stdout + runs[0].stderr
    claimed = [line for run in runs for line in run.stdout.splitlines() if "claimed by" in line]
    assert len(claimed) == 2
    assert len(set(claimed)) == 1


def test_pytest_finds_the_plugin_where_stead_is_installed():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert {name: importlib.import_module(module).__name__ for name, module in declared.items()} == {
        "stead": "stead.testing.plugin"
    }


def test_the_plugin_loads_nothing_of_the_server_until_a_fixture_is_used():
    code = "import sys, stead.testing.plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"falcon", "numpy", "sqlalchemy", "httpx2"} & set(loaded)


def test_two_placements_run_side_by_side_and_share_nothing():
    with testing.placement() as first, testing.placement() as second:
        first.site().apply(Node("host", VCPU=1))
        assert len(list(first.site().providers())) == 1
        assert list(second.site().providers()) == []


def test_any_user_is_believed_and_only_admin_may_do_everything():
    with testing.placement() as url, stead.connect(url, "somebody:lab") as site:
        with pytest.raises(stead.NotAllowed) as refused:
            list(site.providers())
        assert refused.value.status == 403
        assert "resource_providers:list" in str(refused.value)


def test_an_upstream_only_placement_has_none_of_steads_own_features():
    with testing.placement(upstream_only=True) as url, url.site() as site:
        uuid = str(UUID(int=1))
        site.request("POST", "/resource_providers", {"name": "host", "uuid": uuid})
        site.request(
            "PUT",
            f"/resource_providers/{uuid}/inventories",
            {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}},
        )
        assert len(site.candidates(Request(Group(VCPU=1)))) == 1
        assert site.tree("host").root.name == "host"
        with pytest.raises(stead.Unsupported, match="requires Stead"):
            site.claim(Request(Group(VCPU=1)), "train-1")
        for ask in (
            lambda: list(site.flavors()),
            lambda: site.flavor("small"),
            lambda: site.advice(Request(Group(VCPU=1)), make_room_for=2),
            lambda: site.headroom(Request(Group(VCPU=1))),
            lambda: site.what_if(stead.Drain("host")),
        ):
            with pytest.raises(stead.Unsupported, match="requires Stead"):
                ask()
        with pytest.raises(stead.Invalid):
            site.candidates(Request(Group(VCPU=1), order="pack"))
        assert "stead" not in site.request("GET", "/", stead="1.0")["versions"][0]


def test_a_delay_holds_until_it_is_ended():
    with testing.placement() as url:
        url.faults.delay(0.3)
        with pytest.raises(stead.Unreachable, match="did not answer"):
            url.site(timeout=0.1).usages()
        url.faults.delay(0)
        assert url.site().usages() == {}


def test_the_uuids_of_providers_that_were_applied_are_the_same_in_every_run():
    def uuids():
        with testing.deterministic_uuids(), testing.site() as site:
            return site.apply(Node("host", VCPU=1, children=[Node("gpu", PGPU=1)])).uuids

    assert uuids() == uuids()


def test_time_passes_for_leases_on_demand():
    with testing.placement() as url, testing.site() as here:
        for placement, site in ((url, url.site()), (here, here)):
            site.apply(Node("host", VCPU=8))
            for name, lease in (("short", 30), ("long", 3600)):
                site.claim(Request(Group(VCPU=1)), name, lease=lease)
            site.claim(Request(Group(VCPU=1)), "marked", lease=30, on_expiry="mark")
            placement.pass_time(25)
            assert {claim.amounts["VCPU"] for claim in site.claims(expires_before="1h")} == {1}
            assert site.find("short") is not None
            placement.pass_time(20)
            assert (site.find("short"), site.find("long") is None) == (None, False)
            assert site.find("marked").expires_at < site.find("long").expires_at


def test_a_hold_notices_that_its_time_has_passed():
    with testing.placement() as url:
        site = url.site()
        site.apply(Node("host", VCPU=8))
        with pytest.raises(stead.LeaseLost), site.hold(Request(Group(VCPU=1)), lease=2) as claim:
            wait_until(lambda: url.pass_time(10) or claim.lost.is_set())
