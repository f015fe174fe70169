"""Print the checklist of CONTRIBUTING.md for something new, with its files: ``python -m scripts.new endpoint``.

A word of the heading selects the checklist: ``endpoint``, ``command``, ``parameter``, ``setting``, ``metric``, …
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

_SECTION = re.compile(r"^### (?P<heading>.+)\n(?P<items>(?:(?!^#).*\n)+)", re.MULTILINE)
_FILE = re.compile(r"`([\w./<>-]+(?:\.(?:json|md|py|toml|yaml)|/))`")


def checklists() -> dict[str, str]:
    """The items of each checklist, by its heading."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return {
        section["heading"]: section["items"].strip() for section in _SECTION.finditer(text) if "- [ ]" in section[0]
    }


def path_of(name: str) -> str:
    """The path of a file from the root of the repository. The checklists name those of ``src/stead`` from there.

    Raises:
        FileNotFoundError: neither the file nor, if its name is only a pattern, its folder exists.
    """
    known = name.partition("<")[0].rpartition("/")[0] if "<" in name else name
    for folder in ("src/stead/", ""):
        if (ROOT / folder / known).exists():
            return folder + name
    raise FileNotFoundError(name)


def with_paths(items: str) -> str:
    """The items of a checklist with the full paths of all files.

    Raises:
        FileNotFoundError: as `path_of`.
    """
    return _FILE.sub(lambda match: f"`{path_of(match[1])}`", items)


def checklist(word: str) -> str:
    """The checklist whose heading has *word*, with full paths.

    Raises:
        LookupError: no heading has it.
    """
    for heading, items in checklists().items():
        if word in heading.lower().split():
            return f"{heading}\n\n{with_paths(items)}"
    raise LookupError(f"no checklist has the word {word!r}: {'; '.join(checklists())}")


if __name__ == "__main__":
    try:
        print(checklist(sys.argv[1] if len(sys.argv) > 1 else ""))
    except LookupError as error:
        sys.exit(str(error))
