"""The checklists of CONTRIBUTING.md name files that exist, and `scripts.new` prints them."""

from __future__ import annotations

import pytest

from scripts.new import checklist, checklists, path_of, with_paths
from tests.checkout import ROOT


@pytest.mark.parametrize("word", ["endpoint", "command", "parameter", "setting", "metric"])
def test_a_checklist_is_printed_with_the_paths_of_its_files(word: str) -> None:
    assert "`src/stead/" in checklist(word)


@pytest.mark.parametrize(("heading", "items"), checklists().items())
def test_each_file_of_a_checklist_exists(heading: str, items: str) -> None:
    """If its name is a pattern, its folder does."""
    assert with_paths(items), heading


def test_a_file_that_does_not_exist_is_reported() -> None:
    assert path_of("api/app.py") == "src/stead/api/app.py"
    assert (ROOT / path_of("docs/api.md")).exists()
    for name in ("api/nothing.py", "nowhere/<noun>.py"):
        with pytest.raises(FileNotFoundError):
            path_of(name)


def test_an_unknown_word_lists_all_headings() -> None:
    with pytest.raises(LookupError, match="A new endpoint; A new command"):
        checklist("nothing")
