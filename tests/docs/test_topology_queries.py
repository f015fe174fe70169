"""The commands of docs/topology.md load the files of the page, and its queries find on the described site what it says.

Which of several candidates come first depends on random uuids. So each query is asked for all of them: those that the
page shows must be among them, and where it sets no limit they must be all.
"""

import re
import shutil
from pathlib import Path

import pytest

import stead
from stead import Group, Node, Request
from stead.testing.serving import placement
from tests.docs.console import Command, commands_of
from tests.docs.test_readme import place_lstopo
from tests.docs.test_worked_examples import DOCS, TOKEN, outputs, require

pytestmark = pytest.mark.timeout(180)  # starts servers

QUERIES = "\n## Queries\n"
LIMIT = re.compile(r" --limit \d+")
ALL = 1000
BARS = set("▓░")

LOWERED = """\
providers:
- name: compute1
  children:
  - name: compute1_NUMA0
    inventories:
      PCPU: {total: 12, reserved: 2}
"""


def candidates(output: str) -> list[tuple[str, ...]]:
    """Those of a picture, each as its lines without what depends on the width and on the other candidates."""
    candidates: list[list[str]] = []
    for line in output.splitlines():
        words = [word for word in line.split() if not set(word) <= BARS]
        if re.match(r" {0,3}\d+ ", line):
            candidates.append(words[1:])
        elif candidates and line.startswith(" ") and words:
            if words[0].startswith("_") and len(candidates[-1][-1].split()) == 1 < len(candidates[-1]):
                words.insert(0, candidates[-1].pop())  # the name had a line of its own, as it does not fit beside
            candidates[-1].append(" ".join(words))
    return [tuple(sorted(lines)) for lines in candidates]


def asked_for_all(command: Command) -> Command:
    text = LIMIT.sub("", command.text)
    return Command(text.replace("stead candidates", f"COLUMNS=200 stead candidates --limit {ALL}"))


def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    commands = commands_of(DOCS / "topology.md")
    place = next(number for number, command in enumerate(commands) if "samples/site/" in command.text)
    for name, part, succeed in [
        ("files", commands[:place], require_files),
        ("queries", commands[place:], require_found),
    ]:
        directory = tmp_path / name
        directory.mkdir()
        with placement() as url:
            succeed(part, directory, url)


def require_files(commands: list[Command], directory: Path, url: str) -> None:
    """The machine on which lstopo runs is a sample; the dry run lowers an inventory of another file."""
    *general, lower, convert, apply = commands
    assert len(general) == 5
    shutil.copy(DOCS.parent / "samples" / "site" / "storage.yaml", directory)
    (directory / "samples").symlink_to(DOCS.parent / "samples")
    environment = {"STEAD_URL": url, "STEAD_TOKEN": TOKEN}
    (directory / "bin").mkdir()
    place_lstopo(directory / "bin")
    ended = [Command(f"{command.text.rstrip()}\n[ $? = 0 ] || echo FAILED") for command in general]
    for command, output in zip(general, outputs(ended, directory, **environment), strict=True):
        assert "FAILED" not in output, f"$ {command.text}{output}"
    dumped = (directory / "everything.yaml").read_text()
    assert "name: mine\n" in dumped
    assert "name: storage\n" in dumped
    with stead.connect(url, token=TOKEN, project="demo") as site:
        site.apply(Node("compute1", children=[Node("compute1_NUMA0", PCPU=12)]))
        site.claim(Request(Group(PCPU=8, in_tree="compute1")))
    (directory / "rack1.yaml").write_text(LOWERED)
    require([lower, convert, apply], directory, **environment)


def require_found(commands: list[Command], directory: Path, url: str) -> None:
    """Each query finds what the page shows, and no more if it has no limit."""
    assert len(commands) > 10
    (directory / "samples").symlink_to(DOCS.parent / "samples")
    everything = [asked_for_all(command) for command in commands]
    printed = outputs(everything, directory, STEAD_URL=url, STEAD_TOKEN=TOKEN)
    for command, output in zip(commands, printed, strict=True):
        if not command.text.startswith("stead candidates"):
            assert command.prints(output), f"$ {command.text}{output}"
            continue
        shown, all_candidates = candidates("".join(command.printed)), candidates(output)
        assert shown, command.text
        assert len(all_candidates) < ALL
        assert set(shown) <= set(all_candidates), f"$ {command.text}{output}"
        assert LIMIT.search(command.text) or len(shown) == len(all_candidates), f"$ {command.text}{output}"


def test_all_queries_of_the_page_are_in_the_section_that_is_run() -> None:
    before, _, section = (DOCS / "topology.md").read_text().partition(QUERIES)
    assert "same_subtree=" in section
    for word in ("resources=", "resources_", "required_", "same_subtree="):
        assert word not in before
    assert "```text" not in section
