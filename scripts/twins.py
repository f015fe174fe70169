"""Generate ``stead.client.blocking``, the synchronous client, from ``stead.client.aio``.

    python -m scripts.twins          # write it
    python -m scripts.twins --check  # exit 1 if it differs

Words are replaced (``async def`` → ``def``, ``await`` → nothing, …), then ruff formats the text. The module `running`
has what differs, so it is not generated.
"""

from __future__ import annotations

import re
import subprocess
import sys
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
    return _formatted(NOTE.format(name=name) + text)


def generated() -> dict[Path, str]:
    """The text of each generated file."""
    return {
        TARGET / source.name: twin_of(source.name, source.read_text())
        for source in sorted(SOURCE.glob("*.py"))
        if source.name not in WRITTEN
    }


def _formatted(text: str) -> str:
    """*text* as ruff writes it, with sorted imports."""
    for command in (["check", "--select=I", "--fix", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET / "module.py"), "-"]
        text = subprocess.run(ruff, input=text, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return text


def main() -> None:
    """Write the files, or compare them."""
    texts = generated()
    if "--check" not in sys.argv[1:]:
        for path, text in texts.items():
            path.write_text(text)
        return
    stale = [path.name for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if stale:
        sys.exit(f"run `python -m scripts.twins`; changed: {', '.join(stale)}")


if __name__ == "__main__":
    main()
