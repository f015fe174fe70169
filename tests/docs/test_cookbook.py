"""The recipes of docs/cookbook.md print on the sample site what the page shows."""

import shutil
from pathlib import Path

import pytest

from stead.testing.serving import placement
from tests.docs.console import commands_of
from tests.docs.test_topology_queries import ALL, asked_for_all, candidates
from tests.docs.test_worked_examples import DOCS, TOKEN, outputs

pytestmark = [
    pytest.mark.timeout(300),  # starts a server and runs what the page shows
    pytest.mark.skipif(not shutil.which("curl"), reason="the page uses curl"),
]


def test_every_recipe_prints_what_the_page_shows(tmp_path: Path) -> None:
    """Which candidate is first depends on random uuids: the one of the page must be among all of them."""
    commands = commands_of(DOCS / "cookbook.md")
    (tmp_path / "samples").symlink_to(DOCS.parent / "samples")
    with placement() as url:
        is_query = [command.text.startswith("stead candidates") for command in commands]
        run = [asked_for_all(command) if query else command for command, query in zip(commands, is_query, strict=True)]
        printed = outputs(run, tmp_path, STEAD_URL=url, STEAD_TOKEN=TOKEN)
    assert sum(is_query) > 15
    for command, query, output in zip(commands, is_query, printed, strict=True):
        if not query:
            assert command.prints(output), f"$ {command.text}{output}"
            continue
        shown, all_candidates = candidates("".join(command.printed)), candidates(output)
        assert shown, command.text
        assert len(all_candidates) < ALL
        assert set(shown) <= set(all_candidates), f"$ {command.text}{output}"


def test_there_are_twenty_recipes() -> None:
    headings = [line for line in (DOCS / "cookbook.md").read_text().splitlines() if line.startswith("## ")]
    assert len(headings) == 20
