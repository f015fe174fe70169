"""docs/architecture.md is short, and each package below the server has a sentence about what it is for."""

from __future__ import annotations

import re

from scripts.packages import STEAD, page
from tests.checkout import ROOT


def test_each_package_and_each_module_says_what_it_is_about() -> None:
    assert re.findall(r"^## (.*)/\n\n\n|^\| `(.*)` \|  \|$", page(), re.MULTILINE) == []


def test_the_architecture_is_two_screens_and_its_drawing_and_tables() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    prose = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if not line.startswith("|")]
    assert len(prose) <= 100  # lines


def test_each_place_of_a_request_exists() -> None:
    """A module, and beside it the name of a function or a class in it."""
    text = (ROOT / "docs" / "one-request.md").read_text()
    places = re.findall(r"`([\w/]+\.py)`(?:, `(\w+)`)?", text)
    assert len(places) > 30
    for module, name in places:
        source = (STEAD / module).read_text()
        assert not name or re.search(rf"^(?:def|class) {name}\b", source, re.MULTILINE), f"{module} has no {name}"
