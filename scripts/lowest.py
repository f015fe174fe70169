"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip.

python -m scripts.lowest > lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"

_LOWEST = re.compile(r"(?P<name>[\w.-]+)(?:\[[^\]]*\])?\s*>=\s*(?P<version>[\w.]+)")


def requirements() -> list[str]:
    """All requirements of the project and of its extras, without those of the project on itself."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    found = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    return [one for one in found if not one.startswith(f"{project['name']}[")]


def constraints() -> list[str]:
    """A line for each requirement that has a lower bound."""
    bounds = filter(None, map(_LOWEST.match, requirements()))
    return sorted(f"{bound['name']}=={bound['version']}" for bound in bounds)


if __name__ == "__main__":
    print(*constraints(), sep="\n")
