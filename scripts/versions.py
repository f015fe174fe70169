"""Which versions of the dependencies are installed: the locked ones, and the lowest that pyproject.toml files allow.

python -m scripts.versions lowest > lowest.txt    a constraint for pip per lower bound
python -m scripts.versions lock [--upgrade]       writes locks/: versions and hashes, for every supported Python

`--upgrade` takes the newest version of everything; without it, versions stay that still satisfy pyproject.toml.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
OF_BENCHMARKS = ROOT / "bench" / "pyproject.toml"
LOCKS = {
    "for-development": ["dev", "docs", "postgresql", "mysql", "plot"],
    "for-use": [],
}
"""The extras in each file of locks/. The first file has all that the second one has, in the same versions."""

FOR_EDITABLE = "editables"
"""What hatchling needs for `pip install --editable`, beside the requirements of a build."""

OTHER_LOCKS = {
    name: ROOT / "tests" / "system" / name / "requirements.txt" for name in ("clients", "differential", "keystone")
}
"""Further files of locks/: environments of tests for programs that do not live beside Stead's own packages."""

_LOWEST = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[\w.]+)")
_SELF = re.compile(r"stead(?:\[(?P<extras>[^\]]*)\]|==)")


def _projects() -> list[dict[str, Any]]:
    return [tomllib.loads(file.read_text()) for file in (PYPROJECT, OF_BENCHMARKS)]


def requirements(extras: list[str] | None = None) -> list[str]:
    """The requirements of the project and of its benchmarks, without those on the project itself.

    Args:
        extras: the extras whose requirements are included, with the extras that they name; None includes all.
    """
    projects = [project["project"] for project in _projects()]
    optional = {name: lines for project in projects for name, lines in project["optional-dependencies"].items()}
    lines = [line for project in projects for line in project["dependencies"]]
    pending, included = list(optional if extras is None else extras), set()
    while pending:
        extra = pending.pop(0)
        if extra in included:
            continue
        included.add(extra)
        lines += optional[extra]
        for line in optional[extra]:
            match = _SELF.match(line)
            pending += match["extras"].split(",") if match and match["extras"] else []
    return [line for line in lines if not _SELF.match(line)]


def constraints() -> list[str]:
    """A line for each requirement that has a lower bound."""
    bounds = filter(None, map(_LOWEST.match, requirements()))
    return sorted(f"{bound['name']}=={bound['version']}" for bound in bounds)


def write_locks(*, upgrade: bool) -> None:
    """Resolve the requirements of every supported Python at once, and write locks/.

    The files also lock what builds the project, since pip checks no hash of what it installs for a build of its own.
    They name no index, so that every mirror serves.
    """
    (python,) = re.findall(r"[\d.]+", _projects()[0]["project"]["requires-python"])
    builders = {line for project in _projects() for line in project["build-system"]["requires"]}
    whole: Path | None = None
    for name, extras in LOCKS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".in") as listing:
            listing.write("\n".join([*requirements(extras), *sorted(builders), FOR_EDITABLE]))
            listing.flush()
            whole = _write_lock(name, Path(listing.name), python, upgrade=upgrade, like=whole)
    for name, file in OTHER_LOCKS.items():
        _write_lock(name, file, python, upgrade=upgrade)


def _write_lock(name: str, listing: Path, python: str, *, upgrade: bool, like: Path | None = None) -> Path:
    lock = ROOT / "locks" / f"{name}.txt"
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", python, "--generate-hashes"]
    command += ["--no-annotate", "--no-header", "--only-binary", ":all:", *(["--upgrade"] if upgrade else [])]
    command += ["--constraint", str(like)] if like else []
    subprocess.run([*command, "--output-file", str(lock), str(listing)], check=True)
    return lock


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lowest", "lock"))
    parser.add_argument("--upgrade", action="store_true", help="lock the newest versions that pyproject.toml allows")
    arguments = parser.parse_args()
    if arguments.what == "lowest":
        print(*constraints(), sep="\n")
    else:
        write_locks(upgrade=arguments.upgrade)


if __name__ == "__main__":
    _main()
