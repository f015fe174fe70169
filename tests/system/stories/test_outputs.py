"""The outputs of commands: what becomes of a command whose reader is gone, and files that any locale may read."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import SUBCOMMANDS
from tests.conftest import write_configuration
from tests.servers.stead import STEAD, started
from tests.system.api.client import NEWEST, Api, fresh_uuid, holding, http_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.timeout(180),  # starts a server, and a process for each command
]

SITE = "providers:\n- name: loaded\n  inventories: {VCPU: 4}\n"
ACCENTED = "hôte-é"


class Shop:
    """A running server, its files, and the command line."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.configuration = directory / "placement.conf"
        self.api = Api(http_door(url)).at(f"{NEWEST}, stead 1.1")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*STEAD, *arguments], env=self._environment(environment), capture_output=True, cwd=self.directory
        )

    def run_without_reader(self, *arguments: str) -> int:
        """The exit code of a command whose output and errors go to a pipe that was closed before."""
        read, write = os.pipe()
        os.close(read)
        try:
            return subprocess.run(
                [*STEAD, *arguments], env=self._environment({}), stdout=write, stderr=write, cwd=self.directory
            ).returncode
        finally:
            os.close(write)

    def _environment(self, more: dict[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            "STEAD_ALIASES": str(self.directory / "aliases.json"),
            "STEAD_URL": self.url,
            "STEAD_TOKEN": "admin",
            **more,
        }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("shop")
    configuration = write_configuration(directory, f"sqlite:///{directory}/placement.db")
    with started(configuration, workers=1) as server:
        yield Shop(directory, server.url)


def test_a_command_that_changes_something_finishes_without_a_reader(shop: Shop) -> None:
    api, config = shop.api, ("--config-file", str(shop.configuration))
    (shop.directory / "site.yaml").write_text(SITE)
    specs = {"Name": "m1", "RAM": 0, "Disk": 0, "Ephemeral": 0, "VCPUs": 1, "Swap": 0, "Properties": {}}
    (shop.directory / "flavors.json").write_text(json.dumps([specs]))
    tokens = shop.directory / "with-tokens.conf"
    tokens.write_text(
        f"[placement_database]\nconnection = sqlite:///{shop.directory}/new.db\n[stead]\n"
        f"token_file = {shop.directory}/tokens.json\n"
    )
    own = ("--config-file", str(tokens))
    consumer = fresh_uuid()
    commands = [
        ("provider", "create", "host", "--inventory", "VCPU=8"),
        ("provider", "create", "other", "--inventory", "VCPU=8"),
        ("provider", "set", "host", "--inventory", "VCPU=16"),
        ("flavor", "set", "small", "resources=VCPU:1"),
        ("flavor", "import", "flavors.json"),
        ("mix", "--forget"),
        ("alias", "set", consumer, "web-1"),
        ("topology", "apply", "site.yaml"),
        ("claim", "--flavor", "small", "--project", "p", "--user", "u", "--consumer", consumer),
        ("release", "--project", "p", "--yes"),
        ("run", "-r", "VCPU:1", "--", "true"),
        ("claim", "--flavor", "small", "--project", "job", "--user", "u", "--type", "RUN"),
        ("kill", "job"),
        ("plan", "drain", "host", "--execute"),
        ("token", "create", "ci", "--role", "admin", *own),
        ("db", "upgrade", *own),
        ("audit", *own),
    ]
    for command in commands:
        assert shop.run_without_reader(*command) == 0, (command, shop.run(*command).stderr)
    providers = {each["name"] for each in api.get("/resource_providers").json["resource_providers"]}
    assert providers == {"host", "other", "loaded"}
    assert {each["name"] for each in api.get("/flavors").json["flavors"]} >= {"small"}
    assert api.get(f"/allocations/{consumer}").json["allocations"] == {}
    assert '"ci"' in shop.run("--json", "token", "list", *own).stdout.decode()
    assert shop.run("db", "check", *own).returncode == 0
    assert shop.run("audit", *config).returncode == 0

    tried = {command[0] for command in commands} | {"serve"}  # which says that it listens, and goes on
    assert tried == {name for name, row in SUBCOMMANDS.items() if not row.changes_nothing}


def test_several_consumers_are_released_without_a_reader(shop: Shop) -> None:
    host = shop.api.create_provider(inventories={"VCPU": 100})
    consumers = [fresh_uuid() for _ in range(40)]
    for consumer in consumers:
        shop.api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), project_id="many")).expect(204)
    assert shop.run_without_reader("release", "--project", "many", "--yes") == 0
    assert shop.api.used(host) == {"VCPU": 0}


@pytest.mark.parametrize(
    "arguments",
    [("topology", "dump"), ("--json", "topology", "dump"), ("topology", "dump", "--csv"), ("--json", "tree")],
    ids=" ".join,
)
def test_what_programs_read_is_utf_8_in_every_locale(shop: Shop, arguments: tuple[str, ...]) -> None:
    if not _exists(shop):
        shop.api.create_provider(ACCENTED, inventories={"VCPU": 1})
    done = shop.run(*arguments, PYTHONIOENCODING="latin-1", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert ACCENTED in done.stdout.decode("utf-8")
    assert "?" not in done.stdout.decode("utf-8")


def _exists(shop: Shop) -> bool:
    return ACCENTED in {each["name"] for each in shop.api.get("/resource_providers").json["resource_providers"]}
