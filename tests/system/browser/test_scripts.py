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

AT_ONCE = {
    "site": ("site_page.js", "flavors.js"),
    "activity": ("activity.js",),
    "provider": ("provider_page.js",),
    "ask": ("builder.js",),
    "consumers": (),
}
"""The modules that `stead.js` imports by itself on each page. What a reader's action imports is not among them."""

_IMPORT = re.compile(r'\b(?:from|import)\s*"(\.{1,2}/[^"]+)"')
_LATER = re.compile(r'\bawait import\("(\.[^"]+)"')


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


def loaded(*names: str, later: bool = False) -> set[Path]:
    """The scripts *names* and all that they import at once; with *later*, also what they import after that."""
    found: set[Path] = set()
    ahead = [STATIC / name for name in names]
    while ahead:
        path = ahead.pop()
        if path not in found:
            found.add(path)
            text = path.read_text()
            imported = [*_IMPORT.findall(text), *(_LATER.findall(text) if later else ())]
            ahead += [(path.parent / name).resolve() for name in imported]
    return found


@pytest.mark.parametrize("page", AT_ONCE)
def test_the_scripts_of_a_page_are_small(page: str) -> None:
    scripts = loaded("stead.js", *AT_ONCE[page])
    size = sum(len(gzip.compress(script.read_bytes(), mtime=0)) for script in scripts)
    assert size <= MOST_BYTES, f"{page}: {size} bytes in {len(scripts)} scripts"


def test_every_script_is_imported() -> None:
    assert loaded("stead.js", later=True) == set(STATIC.rglob("*.js"))


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
