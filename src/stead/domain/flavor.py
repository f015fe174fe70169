"""Flavors: candidate queries that are stored by name."""

from __future__ import annotations

from dataclasses import dataclass

FLAVOR_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:+-]*$"
FLAVOR_NAME_LENGTH = 255
FLAVOR_QUERY_LENGTH = 16_000
"""Maximum length of the query of a flavor in characters."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """A candidate query with a name.

    Attributes:
        query: a query of GET ``/allocation_candidates``, percent-encoded.
        description: one line of text for people; may be empty.
    """

    name: str
    query: str
    description: str
