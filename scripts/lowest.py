"""Print the lowest version of each dependency that our pyproject.toml files allow, as constraints for pip.

python -m scripts.lowest > lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
OF_BENCHMARKS = ROOT / "bench" / "pyproject.toml"

_LOWEST = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[\w.]+)")


def requirements() -> list[str]:
    """All requirements of the project, of its benchmarks and of their extras, without those on the project itself."""
    projects = [tomllib.loads(file.read_text())["project"] for file in (PYPROJECT, OF_BENCHMARKS)]
    found = [one for project in projects for one in project["dependencies"]]
    found += [one for project in projects for extra in project["optional-dependencies"].values() for one in extra]
    return [one for one in found if not re.match(rf"{projects[0]['name']}(\[|==)", one)]


def constraints() -> list[str]:
    """A line for each requirement that has a lower bound."""
    bounds = filter(None, map(_LOWEST.match, requirements()))
    return sorted(f"{bound['name']}=={bound['version']}" for bound in bounds)


if __name__ == "__main__":
    print(*constraints(), sep="\n")
