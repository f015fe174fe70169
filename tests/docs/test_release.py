"""One version number: that of the package, of the changelog, and of the pages that name it."""

from __future__ import annotations

import datetime as dt
import re
from importlib.metadata import version

import stead
from scripts.language import ROOT, pages

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
RELEASE = re.compile(r"(\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)")
NAMED = re.compile(r"\b(?:stead(?:-placement|-bench)?==|[Ss]tead:?v?|Stead )(\d+\.\d+\.\d+)\b")
"""The version in a command or a sentence: `stead==0.1.0`, `stead:0.1.0`, Stead 0.1.0."""


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package() -> None:
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    released = [heading for heading in headings if heading != "Unreleased"]
    newest = RELEASE.fullmatch(released[0])
    assert newest, released[0]
    assert newest[1] == stead.__version__ == version("stead")
    dt.date.fromisoformat(newest[2])
    assert headings.index(released[0]) <= 1, "only Unreleased may stand above the newest release"


def test_pages_name_no_other_version_of_stead() -> None:
    named = {page.name: set(NAMED.findall(page.read_text())) for page in pages()}
    assert {name: versions for name, versions in named.items() if versions - {stead.__version__}} == {}


def test_a_version_in_a_command_or_a_sentence_is_found() -> None:
    assert NAMED.findall("pip install stead==0.1.0 stead-bench==0.2.0; stead:0.3.0. Since Stead 0.4.0. stead 1.1") == [
        "0.1.0", "0.2.0", "0.3.0", "0.4.0",
    ]  # fmt: skip
