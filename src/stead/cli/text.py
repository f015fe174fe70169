"""Styled text of one line, its width in cells, and its colors on a terminal: what commands draw with.

Rich can do all of this and more, but its import takes longer than most commands. It still draws what moves, in
``stead top`` and in progress bars.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.text import Text as RichText

_SINGLE_CELLS = re.compile("[ -~–…⊂⇄→─-▟]*")
"""Characters of one cell each: almost everything that commands print."""

_CODES = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
    "bright_black": "90",
}  # fmt: skip


def cell_len(text: str) -> int:
    """The width of *text* on a terminal. A CJK character or an emoji takes two cells."""
    if _SINGLE_CELLS.fullmatch(text):
        return len(text)
    from rich.cells import cell_len as measure

    return measure(text)


class Text:
    """A text whose parts have styles: words such as ``bold red``, or ``not bold``. Operators return new texts."""

    __slots__ = ("_parts", "_style")

    def __init__(self, text: str = "", style: str = "") -> None:
        """*style* also applies to what is appended."""
        self._parts = [(text, "")] if text else []
        self._style = style

    @classmethod
    def assemble(cls, *parts: str | tuple[str, str]) -> Text:
        """A text of *parts*: texts, or pairs of a text and its style."""
        return cls._of((part, "") if isinstance(part, str) else part for part in parts)

    @classmethod
    def _of(cls, parts: Iterable[tuple[str, str]], style: str = "") -> Text:
        made = cls("", style)
        made._parts = [part for part in parts if part[0]]
        return made

    def __repr__(self) -> str:
        return f"Text({self.plain!r})"

    def __len__(self) -> int:
        return sum(len(text) for text, _ in self._parts)

    def __add__(self, other: Text) -> Text:
        return self._of([*self._parts, *other._styled()], self._style)

    def __getitem__(self, part: slice) -> Text:
        start, stop, _ = part.indices(len(self))
        cut, position = [], 0
        for text, style in self._parts:
            cut.append((text[max(start - position, 0) : max(stop - position, 0)], style))
            position += len(text)
        return self._of(cut, self._style)

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self._parts)

    @property
    def cell_len(self) -> int:
        """The width in cells."""
        return cell_len(self.plain)

    def append(self, text: str, style: str = "") -> Text:
        """Append *text* to this one, and return this."""
        if text:
            self._parts.append((text, style))
        return self

    def rstrip(self) -> None:
        """Remove the blanks at the end of this text."""
        while self._parts:
            text, style = self._parts.pop()
            if kept := text.rstrip():
                self._parts.append((kept, style))
                return

    def stylize(self, style: str) -> None:
        """Add *style* to all parts of this text."""
        self._parts = [(text, f"{own} {style}") for text, own in self._parts]

    def _styled(self) -> Iterator[tuple[str, str]]:
        for text, style in self._parts:
            yield text, f"{self._style} {style}".strip()

    def colored(self) -> str:
        """The text with the control sequences of its styles, which every terminal with colors has."""
        return "".join(_colored(text, style) for text, style in self._styled())

    def __rich__(self) -> RichText:
        from rich.text import Text as RichText

        return RichText.assemble(*self._styled())


def _colored(text: str, style: str) -> str:
    codes: dict[str, None] = {}
    words = iter(style.split())
    for word in words:
        if word == "not":
            codes.pop(_CODES[next(words)], None)
        else:
            codes[_CODES[word]] = None
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if codes else text


def is_terminal(stream: TextIO) -> bool:
    """Whether *stream* is a terminal, or the environment says that it is to be treated as one."""
    forced = os.environ.get("FORCE_COLOR")
    return stream.isatty() if forced is None else forced != ""


def has_colors(stream: TextIO) -> bool:
    """Whether *stream* shows colors, as far as the environment says."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return False
    return is_terminal(stream)
