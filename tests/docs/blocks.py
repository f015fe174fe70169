"""The blocks of the pages that have commands: which test runs those of a page, and which blocks no test can run.

A page in none of the tables has no block with a command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WORKED = "tests/docs/test_worked_examples.py::test_every_command_prints_what_the_page_says"

RUN_BY = {
    "README.md": "tests/docs/test_readme.py::test_each_command_works_as_printed",
    "adoption.md": "tests/docs/test_operators_pages.py::test_a_database_that_is_not_ready_is_checked",
    "authentication.md": "tests/docs/test_authentication_page.py::test_every_command_works",
    "configuration.md": "tests/docs/test_operators_pages.py::test_what_is_in_effect_is_printed",
    "cookbook.md": "tests/docs/test_cookbook.py::test_every_recipe_prints_what_the_page_shows",
    "deployment.md": "tests/docs/test_operators_pages.py::test_the_service_starts_as_the_pages_start_it",
    "everyday.md": "tests/docs/test_everyday.py::test_every_command_prints_what_the_page_says",
    "extensions.md": _WORKED,
    "gpu-box.md": "tests/docs/test_gpu_box.py::test_every_command_prints_what_the_page_says",
    "getting-started.md": "tests/docs/test_newcomers_pages.py::test_who_gets_started_gets_as_far_as_the_page_says",
    "library.md": "tests/docs/test_newcomers_pages.py::test_the_library_is_installed_as_its_page_says",
    "operations.md": "tests/docs/test_operators_pages.py::test_the_service_starts_as_the_pages_start_it",
    "other-languages.md": _WORKED,
    "own-placement.md": "tests/docs/test_library.py::test_the_races_of_the_page_are_won_by_nobody",
    "topology.md": "tests/docs/test_topology_queries.py::test_every_command_does_what_the_page_says",
}
"""The test that runs every block of a page with a command, except those in `NOT_RUN`."""

NOT_RUN = {
    ("CONTRIBUTING.md", "make run"): "a list of targets: among them are all tests, and what CI does",
    ("CONTRIBUTING.md", ".venv/bin/pytest tests/system/api"): "two folders of tests, against another server",
    ("README.md", "$ make test"): "all tests",
    ("deployment.md", "$ pip uninstall --yes openstack-placement"): (
        "changes an environment with packages from the network; tests/distributions installs the same distribution"
    ),
    (
        "own-placement.md",
        "stead-bench claims",
    ): "a benchmark of a minute; test_command_lines checks that its options exist",
    ("other-languages.md", "$ cd samples/clients/go"): "needs Go and Java: `make clients` runs these steps",
    ("topology.md", "stead topology provider-yaml"): (
        "needs the hosts of nova's files; tests/rooms/cli/test_topology_command.py runs it"
    ),
}
"""The page, how the block starts, and why no test of these pages can run it."""

NOT_RUN_PAGES = {
    "benchmarks.md": "benchmarks take minutes to hours; test_command_lines checks that their options exist",
    "commands.md": "the usage of each command, made of the code",
    "orders.md": "benchmarks, likewise, of files that are not in this repository",
    "tables.md": "benchmarks, likewise: the tables of bench/results",
}
"""Pages of which no block is run, and why."""

_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?P<text>(?: {4,}\S[^\n]*\n)+)")
_SHELLS = frozenset({"bash", "console", "fish", "sh", "shell", "zsh"})
_PROGRAM = re.compile(
    r"(?:apt|apt-get|bash|cp|curl|docker|dnf|export|git|kubectl|lstopo|make|mariadb|mkdir|mysql|nova-manage|openstack"
    r"|oslopolicy-[a-z-]+|pip3?|placement-[a-z]+|pipx|podman|psql|pytest|python3?|sh|stead|stead-bench|sudo|systemctl"
    r"|uv|uwsgi|wget)"
)


@dataclass(frozen=True)
class Block:
    """A block of a page, from the line *line* on."""

    page: str
    line: int
    language: str
    text: str

    @property
    def has_command(self) -> bool:
        """Whether a reader may type a line of it into a shell."""
        return self.language in _SHELLS or any(_is_command(line) for line in self.text.splitlines())

    @property
    def is_run(self) -> bool:
        """Whether it is none of those that cannot be run."""
        return not any(self.page == page and self.text.startswith(start) for page, start in NOT_RUN)


def _is_command(line: str) -> bool:
    first, blank, _ = line.partition(" ")
    return line.startswith("$ ") or bool(blank and _PROGRAM.fullmatch(first.rpartition("bin/")[2]))


def blocks_of(page: Path) -> Iterator[Block]:
    """Every block of *page*, fenced or indented."""
    text = page.read_text()
    for block in _FENCED.finditer(text):
        yield Block(page.name, _line(text, block.start()), block["language"], dedent(block["text"]))
    prose = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    for block in _INDENTED.finditer(prose):
        yield Block(page.name, _line(prose, block.start()), "", dedent(block["text"]))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
