"""A pattern for names, in which ``*`` stands for any text."""

from __future__ import annotations

from dataclasses import dataclass

ANY = "*"


@dataclass(frozen=True, slots=True)
class NamePattern:
    """``compute*`` is a prefix; a pattern without ``*`` is one name. No other character is special."""

    text: str

    @property
    def is_exact(self) -> bool:
        """Whether only one name matches."""
        return ANY not in self.text

    def matches(self, name: str) -> bool:
        """Whether *name* matches, in time that grows with the lengths of both and not with the number of ``*``."""
        first, *middle = self.text.split(ANY)
        if not middle:
            return name == first
        last = middle.pop()
        end = len(name) - len(last)
        position = len(first)
        if position > end or not (name.startswith(first) and name.endswith(last)):
            return False
        # The earliest place for each part leaves the most room for the parts after it.
        for part in middle:
            found = name.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return True
