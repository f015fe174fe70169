"""The console blocks of a page, run as they stand, in one shell and in their order.

A command begins with ``$ `` and goes on until the shell reads a whole one: after a backslash, up to the end of a
string, a loop or a here-document. It has no ``> ``, so that a reader can paste it. What follows, up to the next command
or the end of the block, is what it must print: ``…`` stands for anything, a random uuid for any other, and blanks and
line breaks for nothing, so that a page may break lines where it likes. A picture must be as it is printed on a terminal
of 80 columns.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from tests.docs.blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_MARK = "@@@ {} @@@"


@dataclass
class Command:
    """One command, and what the page says that it prints."""

    text: str
    printed: list[str] = field(default_factory=list)

    @property
    def draws(self) -> bool:
        """Whether the page shows a picture: bars, or the branches of a tree."""
        return any(sign in "".join(self.printed) for sign in "█▓░─")

    def prints(self, output: str) -> bool:
        if self.draws and _lines(output) != _lines("".join(self.printed)):
            return False
        pieces = [re.escape(_bare(piece)) for piece in "".join(self.printed).split("…")]
        return re.fullmatch(".*?".join(pieces), _bare(output), re.DOTALL) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in _RANDOM.sub("UUID", text).strip("\n").splitlines()]


def _bare(text: str) -> str:
    return "".join(_RANDOM.sub("UUID", text).split())


def commands_of(page: Path, part: str | None = None) -> list[Command]:
    """All commands of a page, except those in blocks that cannot be run. *part*: only those below this heading."""
    lines = page.read_text().splitlines()
    first, end = 0, len(lines) + 1
    if part is not None:
        first = lines.index(f"## {part}")
        end = next((place for place in range(first + 1, len(lines)) if lines[place].startswith("## ")), end)
    commands: list[Command] = []
    for block in blocks_of(page):
        if not first <= block.line <= end:
            continue
        if block.language != "console" or not block.is_run:
            continue
        for line in block.text.splitlines(keepends=True):
            if commands and is_unfinished(commands[-1].text):
                commands[-1].text += line
            elif line.startswith("$ "):
                commands.append(Command(line[2:]))
            else:
                commands[-1].printed.append(line)
        assert not is_unfinished(commands[-1].text), f"{page}: the block ends in a command: {commands[-1].text}"
    return commands


@cache
def is_unfinished(text: str) -> bool:
    """Whether the shell waits for more lines of a command: it reads *text* without running it."""
    if text.endswith("\\\n"):
        return True
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    return any(sign in read.stderr for sign in ("unexpected end of file", "unexpected EOF", "delimited by end-of-file"))


def run(commands: list[Command], environment: Mapping[str, str], directory: Path) -> list[str]:
    """What each of the commands prints, errors included."""
    script = "".join(f"printf '\\n%s\\n' '{_MARK.format(n)}'\n{command.text}\n" for n, command in enumerate(commands))
    done = subprocess.run(
        ["bash", "-c", script], cwd=directory, env={**environment, "COLUMNS": "80"}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=280, check=False,
    )  # fmt: skip
    pieces = re.split(r"\n@@@ \d+ @@@\n", "\n" + done.stdout)[1:]
    assert len(pieces) == len(commands), done.stdout
    return pieces
