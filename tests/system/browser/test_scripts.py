"""The scripts of the pages: types, size, and the vendored packages. No browser is needed."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from scripts import vendor
from tests.system.browser.conftest import HERE
from tests.system.browser.window import UI

if TYPE_CHECKING:
    from pathlib import Path

STATIC = UI / "static"
MOST_BYTES = 50_000
"""Maximum size of all scripts that one page loads, compressed."""

_IMPORT = re.compile(r'(?:from|import)\s*\(?"(\.[^"]+)"')


def tsc(node_modules: Path, folder: Path, static: Path) -> subprocess.CompletedProcess[str]:
    """Check the scripts in *static*; the configuration is written to *folder*."""
    configuration = json.loads((HERE / "tsconfig.json").read_text())
    options = configuration["compilerOptions"]
    for name, (place,) in options["paths"].items():
        options["paths"][name] = [str(node_modules / place.removeprefix("./node_modules/"))]
    configuration["files"] = [str(static / "stead.js")]
    file = folder / "tsconfig.json"
    file.write_text(json.dumps(configuration))
    command = [node_modules / ".bin/tsc", "-p", file, "--pretty", "false"]
    return subprocess.run(command, capture_output=True, text=True)


def test_types_are_right(node_modules: Path, tmp_path: Path) -> None:
    assert tsc(node_modules, tmp_path, STATIC).stdout == ""


def test_a_wrong_type_is_found(node_modules: Path, tmp_path: Path) -> None:
    (tmp_path / "stead.js").write_text("/** @param {number} size */ function f(size) { return size.length; } f(1);\n")
    assert "Property 'length' does not exist on type 'number'" in tsc(node_modules, tmp_path, tmp_path).stdout


def loaded(script: Path, without: set[str]) -> set[Path]:
    """*script* and all that it imports, at once or later, except the modules *without*."""
    found: set[Path] = set()
    ahead = [script]
    while ahead:
        path = ahead.pop()
        if path not in found and path.name not in without:
            found.add(path)
            ahead += [(path.parent / name).resolve() for name in _IMPORT.findall(path.read_text())]
    return found


@pytest.mark.parametrize(("page", "without"), [("Site", "activity.js"), ("Activity", "site_page.js")])
def test_the_scripts_of_a_page_are_small(page: str, without: str) -> None:
    scripts = loaded(STATIC / "stead.js", {without})
    size = sum(len(gzip.compress(script.read_bytes(), mtime=0)) for script in scripts)
    assert size <= MOST_BYTES, f"{page}: {size} bytes in {len(scripts)} scripts"


def test_all_scripts_together_are_small() -> None:
    scripts = loaded(STATIC / "stead.js", set())
    assert scripts == set(STATIC.rglob("*.js"))
    assert len(gzip.compress(b"".join(script.read_bytes() for script in sorted(scripts)), mtime=0)) <= MOST_BYTES


def test_vendored_files_are_those_of_the_command() -> None:
    folder = STATIC / "vendor"
    listed = json.loads((folder / "vendored.json").read_text())
    present = {file.name for file in folder.iterdir()} - {"vendored.json"}
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in present}
    assert listed["files"] == hashes
    assert listed["packages"] == [
        {"name": each.name, "version": each.version, "license": each.license, "integrity": each.integrity}
        for each in vendor.PACKAGES
    ]
    licenses = (folder / "LICENSES.txt").read_text()
    assert all(f"{each.name} {each.version} ({each.license})" in licenses for each in vendor.PACKAGES)


def test_the_checks_use_the_vendored_versions() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())["packages"]
    for package in vendor.PACKAGES:
        locked = lock[f"node_modules/{package.name}"]
        assert (locked["version"], locked["integrity"]) == (package.version, package.integrity)


def test_nothing_is_loaded_from_elsewhere() -> None:
    for file in (*STATIC.glob("*.js"), *STATIC.rglob("*.css")):
        assert not re.search(r"""(?:from|import|url)\s*\(?\s*["']?(?:https?:)?//""", file.read_text()), file
