"""The tests of the packages mirror them: whoever has a module finds its tests, and whoever has a test its package."""

from __future__ import annotations

from pathlib import Path

import stead

STEAD = Path(stead.__file__).parent
ROOMS = Path(__file__).parent / "rooms"


def packages_of(root: Path) -> set[Path]:
    """The folders below *root* that have modules, or of which a folder has."""
    return {
        parent
        for module in root.rglob("*.py")
        for parent in module.relative_to(root).parents
        if parent != Path() and "migrations" not in parent.parts
    }


def test_each_folder_of_tests_is_named_after_a_package() -> None:
    assert packages_of(ROOMS) - packages_of(STEAD) == set()


def test_each_package_below_stead_has_a_folder_of_tests() -> None:
    outermost = {package for package in packages_of(STEAD) if len(package.parts) == 1}
    assert outermost - packages_of(ROOMS) == set()


def test_no_module_of_tests_lies_beside_the_folders() -> None:
    assert {file.name for file in ROOMS.glob("*.py")} == {"conftest.py"}
