"""The queries of docs/topology.md find on the described site what the page says.

Which of several candidates come first depends on random uuids. So each query is asked for all of them: those that the
page shows must be among them, and where it sets no limit they must be all.
"""

import re
from pathlib import Path

import pytest

from tests.conftest import write_configuration
from tests.docs.console import Command, commands_of
from tests.docs.test_worked_examples import DOCS, outputs
from tests.servers.stead import started

pytestmark = pytest.mark.timeout(180)  # starts servers

QUERIES = "\n## Queries\n"
LIMIT = re.compile(r" --limit \d+")
ALL = 1000
BARS = set("▓░")


def candidates(output: str) -> list[tuple[str, ...]]:
    """Those of a picture, each as its lines without what depends on the width and on the other candidates."""
    candidates: list[list[str]] = []
    for line in output.splitlines():
        words = [word for word in line.split() if not set(word) <= BARS]
        if re.match(r" {0,3}\d+ ", line):
            candidates.append(words[1:])
        elif candidates and line.startswith(" ") and words:
            candidates[-1].append(" ".join(words))
    return [tuple(sorted(lines)) for lines in candidates]


def asked_for_all(command: Command) -> Command:
    text = LIMIT.sub("", command.text)
    return Command(text.replace("stead candidates", f"COLUMNS=200 stead candidates --limit {ALL}"))


def test_every_query_of_the_page_finds_what_the_page_says(tmp_path: Path) -> None:
    section = tmp_path / "queries.md"
    section.write_text((DOCS / "topology.md").read_text().partition(QUERIES)[2])
    commands = commands_of(section)
    assert len(commands) > 10
    (tmp_path / "samples").symlink_to(DOCS.parent / "samples")
    with started(write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db"), workers=1) as server:
        everything = [asked_for_all(command) for command in commands]
        printed = outputs(everything, tmp_path, STEAD_URL=server.url, STEAD_TOKEN=server.token)
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
