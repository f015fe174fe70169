"""Generate ``stead.client.blocking``, the synchronous client, from ``stead.client.aio``: ``python -m scripts.twins``.

Words are replaced: ``async def`` by ``def``, ``await`` by nothing, and so on. The module `running` has what differs, so
it is written by hand. The build, `make` and the tests generate the others; they are not committed. This module imports
only the standard library, because it also runs where Stead is built.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/stead/client/aio"
TARGET = ROOT / "src/stead/client/blocking"

WRITTEN = frozenset({"__init__.py", "running.py"})

NOTE = "# Generated from stead/client/aio/{name} by `python -m scripts.twins`. Change that file.\n"

REPLACEMENTS = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\bAsync(Iterator|Client|HTTPTransport)\b", r"\1"),
    (r" \| Awaitable\[str \| None\]", ""),
    (r"import Awaitable, Callable", "import Callable"),
    (r"\bstead\.client\.aio\b", "stead.client.blocking"),
)


def twin_of(name: str, text: str) -> str:
    """The synchronous form of the module *name* with this text."""
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return NOTE.format(name=name) + text


def generated() -> dict[Path, str]:
    """The text of each generated file."""
    return {
        TARGET / source.name: twin_of(source.name, source.read_text())
        for source in sorted(SOURCE.glob("*.py"))
        if source.name not in WRITTEN
    }


def write() -> None:
    """Write the files that differ, and remove those whose source is gone."""
    texts = generated()
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in TARGET.glob("*.py"):
        if path not in texts and path.name not in WRITTEN:
            path.unlink()


if __name__ == "__main__":
    write()
