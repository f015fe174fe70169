"""The documentation as a site: whatever it would be warned of is an error."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT


@pytest.mark.timeout(240)  # mkdocs renders all pages
def test_the_site_is_built_without_warnings(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # which is about what the next release will want
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not (tmp_path / page / "index.html").exists()} == {Path("index")}


def test_every_page_is_in_the_sites_navigation() -> None:
    named = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in named


def test_the_site_has_the_colours_of_the_web_interface() -> None:
    of_pages = (ROOT / "src/stead/ui/static/stead.css").read_text()
    colours = set(re.findall(r"#[0-9a-f]{6}\b", (ROOT / "docs/theme.css").read_text()))
    assert colours
    assert {colour for colour in colours if colour not in of_pages} == set()
