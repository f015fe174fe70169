"""How many entries a package of the store or of the command line has. `lint-imports` checks the order of imports."""

from __future__ import annotations

from pathlib import Path

import pytest

import stead

MOST = 20

STEAD = Path(stead.__file__).parent
PACKAGES = sorted(
    {file.parent for room in ("store", "cli") for file in (STEAD / room).rglob("*.py") if "versions" not in file.parts}
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(STEAD)))
def test_a_package_has_few_entries(package: Path) -> None:
    entries = {path.stem for path in package.iterdir() if not path.stem.startswith("__")}
    assert len(entries) <= MOST
