"""The command lines that the pages name have subcommands and options that exist, in blocks that no test runs too."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from scripts.commands import leaves
from scripts.language import pages
from stead.cli.app import present_words
from stead_bench.app import app as bench
from tests.checkout import ROOT
from tests.docs.blocks import blocks_of

if TYPE_CHECKING:
    from pathlib import Path

SHARED = {"--data-dir", "--help", "--json", "--token", "--url", "--version"}
"""Options before the name of a command."""

_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:stead|stead-bench) [^`]+)`")
_VERSION = re.compile(r"stead (?:\d|latest)")
_OPERATOR = re.compile(r"[|>;&]|<<?<?")
_TARGET = re.compile(r"`make ([a-z-]+)[^`]*`")


def command_lines(page: Path) -> set[str]:
    """Each command line of a program of Stead on *page*: those of its blocks, and those within a sentence."""
    prose = " ".join(_FENCE.sub("", page.read_text()).split())
    inline = {text.replace("\\|", "|") for text in _INLINE.findall(prose) if not _VERSION.match(text)}
    script = "".join(block.text for block in blocks_of(page) if block.language == "console")
    typed = re.findall(r"^\$ ((?:stead|stead-bench) (?:.*\\\n)*.*)", script, re.MULTILINE)
    return {text for text in inline | set(typed) if text.count("'") % 2 == 0}


def words_of(line: str) -> list[str]:
    """The words of the first command of *line*. ``…`` stands for omitted words; of ``a|b``, it has the first."""
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    end = next((place for place, word in enumerate(words) if _OPERATOR.match(word)), len(words))
    return [re.sub(r"(?<=[a-z])\|[a-z|]+$", "", word) for word in words[:end] if word != "…"]


@cache
def commands() -> dict[tuple[str, ...], set[str]]:
    """The options of each command, by its words."""
    by_words: dict[str, Any] = {f"stead {words}": command for words, command in leaves()}
    measuring: Any = get_command(bench)
    by_words |= {f"stead-bench {name}": command for name, command in measuring.commands.items()}
    return {tuple(words.split()): {name for each in by_words[words].params for name in each.opts} for words in by_words}


def fault(line: str) -> str | None:
    """What is wrong with *line*: its command, or an option, does not exist."""
    words = words_of(line)
    while len(words) > 1 and words[1].startswith("--"):
        words = [words[0], *words[2 if words[1] in {"--json", "--help", "--version"} else 3 :]]
    if words[0] == "stead":
        if words[1:2] == ["version"] or words[1:] in (["help"], ["help", "options"], ["help", "COMMAND"]):
            return None
        words = [words[0], *present_words(words[2:] if words[1:2] == ["help"] else words[1:])]
    names = tuple(takewhile(lambda word: not word.startswith("-"), words))
    below = [command for command in commands() if command[: len(names)] == names[: len(command)]]
    if not below:
        return "no such command"
    options = {word.partition("=")[0] for word in words if re.match("--[a-z]", word)}
    accepted = set().union(*(commands()[command] for command in below)) | SHARED
    return ", ".join(sorted(options - accepted)) or None


@pytest.mark.parametrize("page", [page for page in pages() if command_lines(page)], ids=lambda page: page.name)
def test_command_lines_have_subcommands_and_options_that_exist(page: Path) -> None:
    assert {line: fault(line) for line in command_lines(page) if fault(line)} == {}


@pytest.mark.parametrize(
    "line",
    ["stead trees", "stead provider", "stead --data-dir x tree --depth 1", "stead-bench load --providers 1 …",
     "stead whatif --drain a -- headroom 'q'", "stead --json watch", "stead tree | head"],
)  # fmt: skip
def test_faults_of_command_lines_are_found(line: str) -> None:
    assert fault(line) == ("no such command" if "trees" in line else None)
    assert fault(f"{line.partition(' | ')[0]} --deep") == ("no such command" if "trees" in line else "--deep")


def test_the_targets_of_make_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {target for page in pages() for target in _TARGET.findall(page.read_text())}
    assert len(named) > 10
    assert named <= targets


def programs() -> dict[str, str]:
    """The command line of each program of the tests that a target of make runs, by its module."""
    makefile = (ROOT / "Makefile").read_text().replace("$(BIN)/", "")
    variables = dict(re.findall(r"^([A-Z_]+) := (.*)$", makefile, re.MULTILINE))
    lines = [line.strip() for line in makefile.splitlines() if " -m tests." in line]
    expanded = [re.sub(r"\$\(([A-Z_]+)\)", lambda named: variables.get(named[1], ""), line) for line in lines]
    return {line.partition(" -m ")[2].split()[0]: line for line in expanded}


@pytest.mark.parametrize("module", programs())
def test_the_program_of_a_target_finds_all_that_it_imports(module: str) -> None:
    given = dict(word.split("=", 1) for word in programs()[module].partition("python -m")[0].split())
    # pytest finds the tools of other distributions by pyproject.toml; a program does not.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | given
    found = importlib.util.find_spec(module)
    assert found is not None
    name = f"{module}.__main__" if found.submodule_search_locations is not None else module
    run = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
