"""``stead completion``: what the shell offers, from the commands themselves and from a real server."""

import json

import pytest

from stead.cli.app import SUBCOMMANDS, run
from stead.cli.completion import complete
from tests.servers.placements import other_placement, stead_itself

pytestmark = pytest.mark.one_database

NAMES = {
    "PROVIDER": ["host-1", "host-2"],
    "HOST": ["host-1"],
    "TRAIT": ["CUSTOM_A", "HW_X"],
    "CLASS": ["VCPU"],
    "FLAVOR": ["m1.a"],
}


def names(noun, typed):
    return [name for name in NAMES.get(noun, []) if name.startswith(typed)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("stead ", sorted([*SUBCOMMANDS, "help", "version"])),
        ("stead to", ["token", "top", "topology"]),
        ("stead topology ", ["apply", "csv", "dump", "hwloc", "nvidia-smi", "provider-yaml"]),
        ("stead topology a", ["apply"]),
        ("stead bogus ", []),
        ("stead tree --s", ["--sort", "--summary"]),
        ("stead --url http://x tree --sort ", ["free", "name", "used"]),
        ("stead tree --sort u", ["used"]),
        ("stead tree --sort=u", ["--sort=used"]),
        ("stead tree --all=u", []),
        ("stead tree --trait=CUSTOM", ["--trait=CUSTOM_A"]),
        ("stead tree ", ["host-1", "host-2"]),
        ("stead tree host-2", ["host-2"]),
        ("stead tree host-2 ", []),
        ("stead tree --trait CUSTOM", ["CUSTOM_A"]),
        ("stead tree --trait HW_X --depth 2 --trait ", ["CUSTOM_A", "HW_X"]),
        ("stead tree --depth ", []),
        ("stead provider s", ["set", "show"]),
        ("stead provider set host", ["host-1", "host-2"]),
        ("stead provider set host-1 --remove-inventory V", ["VCPU"]),
        ("stead provider set host-1 --remove-trait C", ["CUSTOM_A"]),
        ("stead who 'ho", ["host-1"]),
        ("stead release --all-of ", ["host-1"]),
        ("stead usage --by p", ["project"]),
        ("stead completion ", ["bash", "fish", "zsh"]),
        ("stead claim ", []),
        ("stead claim --flavor m", ["m1.a"]),
        ("stead flavors d", ["delete"]),
        ("stead flavor d", ["delete"]),
        ("stead flavors show ", ["m1.a"]),
        ("", sorted([*SUBCOMMANDS, "help", "version"])),
    ],
)
def test_what_may_follow_a_line(line, words):
    assert complete(line, names) == words


def test_files_are_completed_for_a_shell_that_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").touch()
    assert complete("stead topology apply s", names, files=True) == ["site.yaml"]
    assert complete("stead topology apply s", names) == []


@pytest.mark.parametrize("server", [stead_itself, other_placement], ids=["stead", "released"])
def test_names_come_from_the_server(server, tmp_path, capsys):
    with server(tmp_path) as (url, token):
        asking = ["--url", url, "--token", token]
        (tmp_path / "site.yaml").write_text(
            "providers: [{name: 'host_0000:16', inventories: {CUSTOM_GPU: 8}, traits: [CUSTOM_RACK_A]}, {name: other}]"
        )
        assert run([*asking, "topology", "apply", str(tmp_path / "site.yaml")]) == 0

        def offered(line, shell="zsh"):
            capsys.readouterr()
            assert run([*asking, "completion", shell, "--line", line, "--json"]) == 0
            return json.loads(capsys.readouterr().out)["candidates"]

        assert offered("stead tree host") == ["host_0000:16"]
        assert offered("stead tree host_0000:1", "bash") == ["16"]  # bash begins a word after a colon
        assert offered("stead tree --trait CUSTOM_RACK") == ["CUSTOM_RACK_A"]
        assert offered("stead provider set other --inventory CUSTOM_G") == ["CUSTOM_GPU"]
        stored = run([*asking, "flavors", "set", "m1.gpu", "resources=CUSTOM_GPU:1"]) == 0
        assert offered("stead headroom --flavor m1") == (["m1.gpu"] if stored else [])
        capsys.readouterr()
        line = f"stead --url {url} --token {token} tree oth"
        assert run(["completion", "fish", "--line", line]) == 0
        assert capsys.readouterr().out == "other\n"


def test_without_a_server_nothing_is_offered_and_nothing_is_said(capsys):
    assert run(["--url", "http://127.0.0.1:1", "completion", "bash", "--line", "stead tree h"]) == 0
    assert capsys.readouterr() == ("", "")
