"""Claims by query: what each consumer wants, wherever there is a place for it.

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
    """What one consumer shall hold instead of what it holds; ``expected`` is its generation, None if it is new."""

    consumer: str
    request: CandidateRequest
    project: str
    user: str
    consumer_type: str
    expected: int | None


@dataclass(frozen=True, slots=True)
class Granted:
    """What one consumer was given: amounts by provider uuid and class name, and who serves each group."""

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all wishes were granted, in their order, and after how many tries; 0 if they held it already."""

    granted: Sequence[Granted]
    tries: int
