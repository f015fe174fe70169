"""``stead completion`` in real shells: what stands in the line after a user has pressed the Tab key."""

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from tests.servers.placements import stead_itself
from tests.system.deploy.servers import program
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(180)]  # may install a shell

SITE = "providers: [{name: host-0001, traits: [CUSTOM_RACK_A]}, {name: 'it''s host 2'}, {name: 'other:1'}]"
BASH = """
complete -r
eval "$(stead completion bash)"
PS1='> '
echo REA''DY
"""
ZSH = """
autoload -U compinit
compinit -u -d "$HOME/compdump"
eval "$(stead completion zsh)"
PS1='> '
echo REA''DY
"""
LINES = {
    "stead topology ap": "stead topology apply ",
    "stead tree --sort=u": "stead tree --sort=used ",
    "stead tree host": "stead tree host-0001 ",
    "stead who oth": "stead who other:1 ",
    "stead tree --trait CUSTOM_R": "stead tree --trait CUSTOM_RACK_A ",
    "stead topology apply si": "stead topology apply site.yaml ",
}
"""Typed lines, and what they become."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home directory with a site file, and an environment in which ``stead`` asks a server with that site."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "site.yaml").write_text(SITE)
    commands = folder / "commands"
    commands.mkdir()
    stead = commands / "stead"
    stead.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from stead.cli import main; main()' \"$@\"\n")
    stead.chmod(0o755)
    with stead_itself(tmp_path_factory.mktemp("server")) as (url, token):
        environment = {
            "HOME": str(folder),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "TERM": "dumb",
            "STEAD_URL": url,
            "STEAD_TOKEN": token,
        }
        subprocess.run([stead, "topology", "apply", folder / "site.yaml"], env=environment, check=True)
        yield folder, environment


@pytest.mark.parametrize(
    ("package", "arguments", "start"),
    [("bash", ["--norc", "--noprofile", "-i"], BASH), ("zsh", ["-f", "-i"], ZSH)],
    ids=["bash", "zsh"],
)
def test_the_tab_key_completes_the_line(home, package, arguments, start):
    folder, environment = home
    shell = program(package, package)
    process, terminal = pty.fork()
    if not process:
        os.chdir(folder)
        os.execve(shell, [shell, *arguments], environment)
    seen: list[bytes] = []
    reader = threading.Thread(target=_read, args=(terminal, seen))
    reader.start()
    try:
        os.write(terminal, start.encode())
        for typed, completed in LINES.items():
            _wait_for(seen, rb"READY\r(?s:.*)> ")
            seen.clear()
            os.write(terminal, typed.encode() + b"\t")
            _wait_for(seen, re.escape(completed.encode()) + rb"\Z")
            os.write(terminal, b"\x15echo REA''DY\r")  # Ctrl-U empties the line
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        reader.join(PATIENCE_SECONDS)
        os.close(terminal)


def _wait_for(seen, expected):
    wait_until(lambda: re.search(expected, b"".join(seen)), lambda: str(seen))


def _read(terminal, seen):
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # as Linux tells that the shell has ended
            return
        if not piece:
            return
        seen.append(piece)


def test_fish_completes_the_line(home):
    folder, environment = home
    lines = {**LINES, "stead tree it": "stead tree it's host 2 "}
    script = "stead completion fish | source; for line in $argv; complete --do-complete $line; end"
    command = [program("fish", "fish"), "--no-config", "-c", script, *lines]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    words = [typed.rpartition(" ")[0] for typed in lines]
    assert done.stdout.splitlines() == [
        completed[len(before) + 1 : -1] for before, completed in zip(words, lines.values(), strict=True)
    ]
    assert done.stderr == ""
