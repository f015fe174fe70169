"""Vendor the scripts of the web interface from npm: ``python -m scripts.vendor``.

``PACKAGES`` has the packages, their versions and the hashes of their archives. `npm pack` downloads an archive. Its
hash is checked before a file of it is used. Bare imports (``from "preact"``) become relative ones, since no bundler and
no import map resolve them. The files, their licences, and ``vendored.json`` with the hash of each file are committed.
So building the wheel requires neither npm nor a network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parents[1] / "src/stead/ui/static/vendor"


@dataclass(frozen=True)
class Package:
    """A package of npm; ``files`` are the vendored names by their paths in its archive."""

    name: str
    version: str
    integrity: str
    license: str
    license_file: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "preact",
        "10.29.8",
        "sha512-ej2aVZ+vZ8WO7tvlQWRM9N63A0KzF9q4mWJfDUHgYaIofWY9hu74QdnQrjoPMmZi2/nZ5gN0bJCQF49xQqx09Q==",
        "MIT",
        "LICENSE",
        {"dist/preact.module.js": "preact.js", "hooks/dist/hooks.module.js": "hooks.js"},
    ),
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
        "LICENSE",
        {"dist/htm.module.js": "htm.js"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        "MIT",
        "LICENSE",
        {"dist/signals-core.module.js": "signals-core.js"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        "MIT",
        "LICENSE",
        {"dist/signals.module.js": "signals.js"},
    ),
)

PLACES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
"""The vendored module for each bare import."""

TYPES = {
    "preact.d.ts": 'export * from "preact";\n',
    "hooks.d.ts": 'export * from "preact/hooks";\n',
    "htm.d.ts": 'export { default } from "htm";\n',
    "signals-core.d.ts": 'export * from "@preact/signals-core";\n',
    "signals.d.ts": 'export * from "@preact/signals";\n',
}
"""Type declarations that `tsc` reads in place of a vendored module."""

_IMPORT = re.compile(r'(from\s*|import\s*)"([^".][^"]*)"')
_SOURCE_MAP = re.compile(r"\n?//# sourceMappingURL=\S+\s*$")


def main() -> None:
    """Download, check and write all packages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = dict(TYPES)
    licenses = []
    for package in PACKAGES:
        with TemporaryDirectory() as directory, tarfile.open(packed(package, Path(directory))) as archive:
            licenses.append(
                f"{package.name} {package.version} ({package.license})\n\n{read(archive, package.license_file)}"
            )
            for path, name in package.files.items():
                texts[name] = _SOURCE_MAP.sub("\n", read(archive, path)).rstrip() + "\n"
    texts = {name: _IMPORT.sub(placed, text) if name.endswith(".js") else text for name, text in texts.items()}
    texts["LICENSES.txt"] = f"\n\n{'-' * 72}\n\n".join(text.strip() for text in licenses) + "\n"
    texts["vendored.json"] = json.dumps(manifest(texts), indent=1) + "\n"
    for name, text in texts.items():
        (FOLDER / name).write_text(text)


def packed(package: Package, folder: Path) -> Path:
    """The archive of a package, whose hash was checked."""
    subprocess.run(
        ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (archive,) = folder.iterdir()
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.integrity:
        raise SystemExit(f"{package.name} {package.version} has the hash {found}, not {package.integrity}")
    return archive


def read(archive: tarfile.TarFile, path: str) -> str:
    """The text of a file in an archive of npm."""
    file = archive.extractfile(f"package/{path}")
    assert file is not None
    return file.read().decode()


def placed(found: re.Match[str]) -> str:
    """An import of a vendored module."""
    return f'{found[1]}"{PLACES[found[2]]}"'


def manifest(texts: dict[str, str]) -> dict[str, object]:
    """The packages, and the hash of each file."""
    return {
        "packages": [
            {"name": each.name, "version": each.version, "license": each.license, "integrity": each.integrity}
            for each in PACKAGES
        ],
        "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(texts.items())},
    }


if __name__ == "__main__":
    main()
