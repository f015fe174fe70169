"""A pattern for names, in which ``*`` matches any text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

ANY = "*"


@dataclass(frozen=True)
class NamePattern:
    """``compute*`` is a prefix; a pattern without ``*`` is one name. No other character is special."""

    text: str

    @property
    def is_exact(self) -> bool:
        """Whether only one name matches."""
        return ANY not in self.text

    def matches(self, name: str) -> bool:
        """Whether *name* matches. The time grows with the length of the name, not with that of the pattern."""
        if self.is_exact:
            return name == self.text
        if len(name) < self._shortest:
            return False
        first, *middle, last = self._parts
        if not (name.startswith(first) and name.endswith(last)):
            return False
        position, end = len(first), len(name) - len(last)
        # The earliest position for each part leaves the most text for the parts after it.
        for part in middle:
            start = name.find(part, position, end)
            if start < 0:
                return False
            position = start + len(part)
        return True

    @cached_property
    def _parts(self) -> list[str]:
        """The texts between the ``*``; only the first and the last can be empty."""
        first, *middle, last = self.text.split(ANY)
        return [first, *filter(None, middle), last]

    @cached_property
    def _shortest(self) -> int:
        """The length of the shortest name that matches."""
        return sum(map(len, self._parts))
