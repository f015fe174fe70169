"""Names: which resource classes and traits are standard, which names clients may create, and patterns of names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import os_resource_classes
import os_traits

from stead.domain.errors import InvalidTraitName

CUSTOM_NAME = r"^CUSTOM_[A-Z0-9_]+$"
RESOURCE_CLASS_NAME = r"^[A-Z0-9_]+$"
NAME_LENGTH = 255

MOST_NAMES = 100_000
"""Maximum number of resource classes, and of traits, of a site: each takes memory in every worker."""

FIRST_CUSTOM_CLASS_ID = 10000
"""Ids of standard classes are their positions in the library's list; custom classes start here."""

SHARES_VIA_AGGREGATE = "MISC_SHARES_VIA_AGGREGATE"
"""The trait that makes a provider a sharing provider."""

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
"""The trait by which other services see that a provider is disabled."""

STANDARD_RESOURCE_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)
"""Position in this tuple = id in the database."""

STANDARD_TRAITS: frozenset[str] = frozenset(os_traits.get_traits())

_CUSTOM = re.compile(CUSTOM_NAME)


def is_standard_class(class_id: int) -> bool:
    """Whether a resource class is standard, so that it can be neither renamed nor deleted."""
    return class_id < FIRST_CUSTOM_CLASS_ID


def is_custom(name: str) -> bool:
    """Whether clients may create a resource class or trait with this name."""
    return _CUSTOM.fullmatch(name) is not None and len(name) <= NAME_LENGTH


def require_custom_trait(name: str) -> None:
    """Refuse a trait name that clients must not create.

    Raises:
        InvalidTraitName: not of the form ``CUSTOM_…``, or too long.
    """
    if not is_custom(name):
        raise InvalidTraitName(name)


# A pattern for names, in which ``*`` matches any text.


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
