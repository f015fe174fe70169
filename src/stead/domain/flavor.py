"""Flavors: candidate queries that are stored by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


class FlavorRoom(NamedTuple):
    """How many times a flavor fits, as two bounds: into all trees, or into those of an aggregate, which has a label."""

    flavor: str
    aggregate: str
    at_least: int
    at_most: int
