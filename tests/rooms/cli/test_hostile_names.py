"""Whatever names a server or a database has, no command sends a terminal anything but text."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from stead.cli.app import SUBCOMMANDS, run
from stead.cli.terminal import json_text
from stead.client.blocking.connecting import connect
from tests.servers.stead import serving
from tests.system.api.client import Api, Provider, fresh_uuid, holding, http_door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(180),  # starts servers
    pytest.mark.one_database,
    pytest.mark.filterwarnings("ignore:'cgi' is deprecated:DeprecationWarning"),
]

# Escape, C1 introducer, bell, backspace, DEL, directions and their isolates, line separators, a mark that is no space,
# a plane beyond the first, half a pair; and what Rich would take for markup.
STEERING = "\x1b[2J\x9b2J\x07\x08\x7f\r\u202e\u2066\u200f\u061c\u2028\u0085\ufeff\U000e0001"
HOSTILE = f"evil{STEERING}[red]host"


class Site:
    """A server on which whatever can have a name has a hostile one."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.url = url
        self.configuration = directory / "placement.conf"
        api = Api(http_door(url))
        with connect(url, "admin") as client:
            self.token = client.changes().token
        self.host: Provider = api.create_provider(HOSTILE, inventories={"VCPU": 40})
        api.create_provider(f"child of {HOSTILE}", parent=self.host, inventories={"DISK_GB": 4})
        self.consumer = api.claim((self.host, {"VCPU": 1}), project=HOSTILE, user=HOSTILE)
        self.released = api.claim((self.host, {"VCPU": 1}), project=HOSTILE, user=HOSTILE)
        api.put(f"/allocations/{fresh_uuid()}", holding((self.host, {"VCPU": 1}))).expect(204)
        with connect(url, "admin") as client:
            client.claim({"VCPU": 1}, project=HOSTILE, user=HOSTILE, type="RUN", lease=100_000)
        self.described = directory / "site.yaml"
        self.described.write_text(
            yaml.safe_dump({"providers": [{"name": f"new {HOSTILE}", "inventories": {"VCPU": 1}}]})
        )
        self.flavors = directory / "flavors.json"
        columns = dict.fromkeys(("VCPUs", "RAM", "Disk", "Ephemeral", "Swap"), 1)
        self.flavors.write_text(json.dumps([{"Name": f"new {HOSTILE}", "Properties": {}, **columns}]))
        token = {"name": "one", "sha256": "ab" * 32, "user": "a", "project": "b", "roles": ["admin"]}
        (directory / "tokens.json").write_text(json.dumps({"tokens": [token]}))
        (directory / "tokens.json").chmod(0o600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("hostile")
    file = directory / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
        f"[api]\nauth_strategy = noauth2\n[stead]\ntoken_file = {directory}/tokens.json\n"
        f"[placement]\nincomplete_consumer_user_id = evil\x1b[2J\x9b2J\u202e[red]host\n"
    )
    with serving(file, workers=1) as url:
        yield Site(directory, url)


def spoil(site: Site) -> None:
    """An allocation of a consumer that no service would write, for the audit."""
    with closing(sqlite3.connect(site.directory / "placement.db", timeout=30)) as direct, direct:
        direct.execute(
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES (1, ?, 0, 1)",
            (HOSTILE,),
        )


def texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from (key, *texts(value))
    elif isinstance(data, list):
        for value in data:
            yield from texts(value)
    elif isinstance(data, str):
        yield data


COMMANDS: dict[str, Callable[[Site], list[str]]] = {
    "tree": lambda site: ["tree"],
    "provider list": lambda _: ["provider", "list"],
    "provider show": lambda _: ["provider", "show", HOSTILE],
    "provider set": lambda _: ["provider", "set", HOSTILE, "--inventory", "VCPU=41", "--dry-run"],
    "provider move": lambda _: ["provider", "move", f"child of {HOSTILE}", "--root", "--dry-run"],
    "provider delete": lambda _: ["provider", "delete", f"child of {HOSTILE}", "--dry-run"],
    "consumer list": lambda _: ["consumer", "list"],
    "consumer show": lambda site: ["consumer", "show", site.consumer],
    "usage": lambda _: ["usage"],
    "completion": lambda _: ["completion", "zsh", "--line", "stead tree --so"],
    "top": lambda _: ["top"],
    "who": lambda _: ["who", HOSTILE],
    "candidates": lambda site: ["candidates", "resources=VCPU:1"],
    "explain": lambda site: ["explain", "resources=VCPU:50"],
    "headroom": lambda site: ["headroom", "resources=VCPU:1"],
    "mix": lambda _: ["mix"],
    "flavor list": lambda _: ["flavor", "list"],
    "flavor set": lambda _: ["flavor", "set", "m1.small", "resources=VCPU:1", "--description", "[red]"],
    "flavor show": lambda _: ["flavor", "show", HOSTILE],
    "flavor import": lambda site: ["flavor", "import", "--dry-run", str(site.flavors)],
    "whatif": lambda _: ["whatif", "--copy", f"{HOSTILE}=1", "--", "headroom", "resources=VCPU:1"],
    "plan drain": lambda _: ["plan", "drain", HOSTILE],
    "claim": lambda site: ["claim", "resources=VCPU:1", "--project", HOSTILE, "--user", HOSTILE],
    "release": lambda site: ["release", site.released],
    "ps": lambda _: ["ps"],
    "kill": lambda _: ["kill", f"no {HOSTILE}"],
    "run": lambda _: ["run", "-r", "VCPU:1", f"no {HOSTILE}"],
    "watch": lambda site: ["watch", "--once", "--since", site.token],
    "topology dump": lambda site: ["topology", "dump"],
    "topology apply": lambda site: ["topology", "apply", "--dry-run", str(site.described)],
    "audit": lambda site: (spoil(site), ["audit", "--config-file", str(site.configuration)])[1],
    "alias set": lambda _: ["alias", "set", "u-1", HOSTILE],
    "doctor": lambda site: ["doctor", "--config-file", str(site.configuration)],
    "config show": lambda site: ["config", "show", "--config-file", str(site.configuration)],
    "token list": lambda site: ["token", "list", "--config-file", str(site.configuration)],
    "db version": lambda site: ["db", "version", "--config-file", str(site.configuration)],
    "db check": lambda site: ["db", "check", "--config-file", str(site.configuration)],
    "token revoke": lambda site: ["token", "revoke", HOSTILE, "--config-file", str(site.configuration)],
}
UNNAMED = {
    "mix",
    "completion",
    "flavor list",
    "flavor set",
    "flavor show",
    "watch",
    "token list",
    "db version",
    "db check",
    "release",
    "run",
    "kill",
    "token revoke",
    "doctor",
}
"""Commands that show nothing that has a name of a client's choice, if all is well."""


@pytest.mark.parametrize("as_json", [False, True], ids=["human", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_steers_the_terminal(
    site: Site, command: str, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = COMMANDS[command](site)
    if command == "release" and as_json:
        arguments = ["release", site.consumer]
    asking = [] if "--config-file" in arguments else ["--url", site.url, "--token", "admin"]
    run([*asking, *(["--json"] if as_json else []), *arguments])
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert text.replace("\n", "").isprintable(), ascii(text)
    assert said.out or said.err
    if as_json and said.out:
        told = list(texts(json.loads(said.out)))
        assert command in UNNAMED or any("[red]host" in text and "\x1b[2J\x9b" in text for text in told)
    elif command not in UNNAMED:
        assert "evil" in said.out
        assert "[red]" in said.out


@pytest.mark.parametrize("output", ["yaml", "csv", "name"])
@pytest.mark.parametrize("command", ["tree", "provider list", "consumer list", "usage", "candidates"])
def test_no_format_steers_the_terminal(
    site: Site, command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", site.url, "--token", "admin", *COMMANDS[command](site), "-o", output]) == 0
    out = capsys.readouterr().out
    assert out
    assert out.replace("\n", "").isprintable()
    if output == "yaml":
        assert any("[red]host" in text and "\x1b[2J\x9b" in text for text in texts(yaml.safe_load(out)))


def test_each_command_is_among_them_or_shows_no_name() -> None:
    tested = {command.split()[0] for command in COMMANDS}
    assert set(SUBCOMMANDS) - tested == {"serve"}  # which shows addresses and numbers


def test_what_is_dumped_with_hostile_names_is_read_again(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--url", site.url, "--token", "admin", "topology", "dump"]) == 0
    assert HOSTILE in set(texts(yaml.safe_load(capsys.readouterr().out)))


@pytest.mark.parametrize(
    "code", [*range(0x100), 0x61C, 0x200B, 0x2028, 0x202E, 0x2066, 0xFEFF, 0xD800, 0x1F600, 0xE0001]
)
def test_json_has_each_character_as_it_is_or_escaped(code: int) -> None:
    text = json_text({chr(code): [chr(code)]}, indent=2)
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {chr(code): [chr(code)]}
    assert (chr(code) in text) or not chr(code).isprintable() or chr(code) in '"\\'
