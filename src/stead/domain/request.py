"""The question "where does this fit?": a candidate request, made of request groups.

Source: the semantics of allocation candidates, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNSUFFIXED = ""
"""The suffix of the group whose resources may be spread over one tree."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a set of names (traits, aggregate uuids) must meet: each clause in one name at least, none forbidden."""

    clauses: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.clauses or self.forbidden)


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """What one provider (a suffixed group) or one tree (the unsuffixed group) must give.

    ``resources`` maps class names to amounts in units of the class, each at least 1; it may be empty for a suffixed
    group. ``in_tree`` is the uuid of any provider of the only tree that may serve the group.
    """

    suffix: str
    resources: Mapping[str, int]
    traits: Terms = Terms()
    aggregates: Terms = Terms()
    in_tree: str | None = None


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """A whole request for allocation candidates.

    ``groups`` stand in the order in which the client named them, which decides whose fault is reported first.
    ``isolate``: the suffixed groups are served by different providers. Each set of ``same_subtree`` holds suffixes.
    ``limit``: candidates wanted at most, None for all. ``one_provider_per_tree`` drops candidates in which two
    providers of one tree give resources, if any provider at all has a parent (the meaning before microversion 1.29).
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    same_subtree: tuple[frozenset[str], ...] = ()
    root_traits: Terms = Terms()
    limit: int | None = None
    one_provider_per_tree: bool = False


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Filters of the provider list; a provider must pass all of them by itself. None or empty filters nothing."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    traits: Terms = Terms()
    aggregates: Terms = Terms()
    resources: Mapping[str, int] | None = None
