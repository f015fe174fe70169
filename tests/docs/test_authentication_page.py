"""The commands of docs/authentication.md, with a real Keystone, OpenStack's commands and the sample of the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.console import Command, commands_of, run
from tests.docs.test_operators_pages import free_port
from tests.docs.test_readme import serving
from tests.docs.test_worked_examples import DOCS, shell_of
from tests.system.clients.environment import CLIENTS
from tests.system.keystone.environment import KEYSTONE
from tests.system.keystone.identity import bootstrapped, of_project

pytestmark = pytest.mark.timeout(400)  # starts a Keystone and some twenty programs of OpenStack

PASSWORD = "of-the-service"


def test_every_command_works(tmp_path: Path) -> None:
    """In the order of the page; Stead serves before its endpoints are tested."""
    commands = commands_of(DOCS / "authentication.md")
    groups = {
        word: [each for each in commands if each.text.startswith(word)] for word in ("openstack", "stead", "oslo")
    }
    assert {word: len(group) for word, group in groups.items()} == {"openstack": 7, "stead": 4, "oslo": 4}
    place = tmp_path / "keystone"
    place.mkdir()
    url = f"http://127.0.0.1:{free_port()}"
    with bootstrapped(KEYSTONE.required_for("a real Keystone"), place) as keystone:
        keystone.token("admin", of_project("admin"))
        keystone.ask("POST", "/regions", {"region": {"id": "RegionOne"}})
        environment = shell_of(tmp_path, HOME=str(tmp_path))
        configuration = configure(tmp_path, keystone.url)
        administrator = {
            "OS_AUTH_URL": keystone.url, "OS_USERNAME": "admin", "OS_PASSWORD": keystone.passwords["admin"],
            "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }  # fmt: skip
        programs = CLIENTS.required_for("OpenStack's clients") / "bin"
        client = {**environment, **administrator, "PATH": f"{programs}:{environment['PATH']}"}
        client.pop("PYTHONPATH")
        for command in groups["openstack"]:
            command.text = re.sub(r"https?://placement\.\S+", url, command.text)
            command.text = command.text.replace("--password-prompt", f"--password {PASSWORD}")
        *before, listing = groups["openstack"]
        succeed(before, client, tmp_path)
        serve = Command(f"stead serve --port {url.rpartition(':')[2]} --config-file {configuration}")
        with serving(serve, tmp_path, environment):
            succeed([listing], client, tmp_path)
        succeed(groups["oslo"], {**environment, "PATH": f"{Path(sys.executable).parent}:{client['PATH']}"}, tmp_path)
        tokens = tmp_path / "tokens.conf"
        tokens.write_text(
            f"{configuration.read_text()}[api]\nauth_strategy = token\n[stead]\ntoken_file = {tmp_path}/tokens.json\n"
        )
        created = succeed(groups["stead"], {**environment, "STEAD_CONFIG_FILE": str(tokens)}, tmp_path)
    assert all(re.fullmatch("[0-9a-f]{64}", token.strip()) for token in (created[0], *groups["stead"][0].printed))


def configure(directory: Path, keystone: str) -> Path:
    """The samples of the page, where the commands look for them; with the addresses here, and without memcached."""
    blocks = list(blocks_of(DOCS / "authentication.md"))
    (sample,) = [block.text for block in blocks if block.language == "ini"]
    (policy,) = [block.text for block in blocks if block.language == "yaml"]
    database = f"sqlite:///{directory}/placement.db"
    text = re.sub(r"(?m)^memcached_servers.*\n", "", sample).replace("PASSWORD", PASSWORD)
    text = re.sub(r"(?m)^connection = .*", f"connection = {database}\nsync_on_startup = true", text)
    text = re.sub(r"(?m)^auth_url = .*", f"auth_url = {keystone}", text)
    configuration = directory / ".placement" / "placement.conf"
    configuration.parent.mkdir()
    configuration.write_text(f"{text}[oslo_policy]\npolicy_file = {directory}/policy.yaml\n")
    (directory / "policy.yaml").write_text(policy)
    return configuration


def succeed(commands: list[Command], environment: dict[str, str], directory: Path) -> list[str]:
    """What each of *commands* prints; all of them succeed."""
    ended = [Command(f"{command.text.rstrip()}\n[ $? = 0 ] || echo FAILED") for command in commands]
    printed = run(ended, environment, directory)
    for command, output in zip(commands, printed, strict=True):
        assert "FAILED" not in output, f"$ {command.text}{output}"
    return printed
