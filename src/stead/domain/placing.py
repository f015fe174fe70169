"""Claims by query: the request of each consumer, and the places that were found.

Source: "POST /claims", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.request import CandidateRequest


@dataclass(frozen=True, slots=True)
class Wish:
    """The request of one consumer, replacing its allocations; ``expected`` is its generation, None if it is new."""

    consumer: str
    request: CandidateRequest
    project: str
    user: str
    consumer_type: str
    expected: int | None


@dataclass(frozen=True, slots=True)
class Granted:
    """The result for one consumer: amounts by provider uuid and class name, and the providers of each group."""

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all wishes, in order, and the number of attempts; 0 if an earlier request had granted them."""

    granted: Sequence[Granted]
    tries: int
