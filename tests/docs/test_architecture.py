"""The table of docs/packages.md is that of the folder tree, and docs/architecture.md is short."""

from __future__ import annotations

import re

from tests.checkout import ROOT

SOURCE = ROOT / "src" / "stead"
ROW = re.compile(r"^\| `([a-z/]+)/` \| (.+) \|$", re.MULTILINE)
NAME = re.compile(r"`([a-z_]+)/?`")


def rows() -> dict[str, str]:
    return dict(ROW.findall((ROOT / "docs" / "packages.md").read_text()))


def test_each_package_has_a_row() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    described = {name.split("/")[0] for name in rows()}
    assert packages - described == {"testing"}  # a sentence beside the table
    assert described <= packages


def test_each_name_in_a_row_is_a_module_or_a_package_of_it() -> None:
    unknown = {
        (package, name)
        for package, text in rows().items()
        for name in NAME.findall(text)
        if not {path.stem for path in (SOURCE / package).rglob("*")} & {name}
    }
    assert unknown == set()


def test_the_architecture_is_two_screens_and_its_drawing_and_tables() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    prose = [line for line in re.sub(r"```.*?```", "", text, flags=re.DOTALL).splitlines() if not line.startswith("|")]
    assert len(prose) <= 100  # lines
