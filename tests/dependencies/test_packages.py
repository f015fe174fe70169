"""How many entries a package of the store has. In which order its modules import each other, `lint-imports` checks."""

from __future__ import annotations

from pathlib import Path

import pytest

import stead.store

MOST = 20

STORE = Path(stead.store.__file__).parent
PACKAGES = sorted({file.parent for file in STORE.rglob("*.py") if "versions" not in file.parts})


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(STORE.parent)))
def test_a_package_of_the_store_has_few_entries(package: Path) -> None:
    entries = {path.stem for path in package.iterdir() if not path.stem.startswith("__")}
    assert len(entries) <= MOST
