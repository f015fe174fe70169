"""Nothing that the clients offer for Placement is left out of these tests; a new release of them may offer more."""

import inspect
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from tests.system.clients.clients import Inside, OpenStack

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first

OTHERS = sorted(set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)})
MODULES = [import_module(f"tests.system.clients.{file.stem}") for file in OTHERS]
NOT_OF_PLACEMENT = {"wait_for_status", "wait_for_delete"}
"""What every proxy of the SDK has and no resource of Placement can do: none has a status."""
DEPRECATED = {"get_resource_provider_aggregates"}


def promises(fixture: str) -> set[str]:
    """What the tests with *fixture* promise to run; the fixture holds each of them to it."""
    return {
        name
        for module in MODULES
        for test in vars(module).values()
        if inspect.isfunction(test) and fixture in inspect.signature(test).parameters
        for mark in getattr(test, "pytestmark", [])
        if mark.name == "runs"
        for name in mark.args
    }


def test_every_command_of_the_plugin_is_run(inside: Inside) -> None:
    offered = set(inside.facts["commands"])
    assert {"resource provider create", "resource usage show", "allocation candidate list"} <= offered
    assert promises("openstack") == offered


def test_every_method_of_the_sdk_is_called(inside: Inside) -> None:
    offered = set(inside.facts["methods"])
    assert {"create_resource_provider", "allocation_candidates"} <= offered
    assert promises("sdk") == offered - NOT_OF_PLACEMENT - DEPRECATED


def test_the_installed_command_does_what_its_fork_does(
    inside: Inside, client_environment: Path, openstack: OpenStack, tmp_path: Path
) -> None:
    arguments = openstack.argv("resource provider show", "nowhere")
    typed = subprocess.run(
        [client_environment / "bin" / "openstack", *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    forked = openstack.run("resource provider show", "nowhere")
    assert (typed.returncode, typed.stdout, typed.stderr) == (forked.code, forked.out, forked.err)
    assert forked.refused("No resource provider with uuid nowhere found (HTTP 404)")
