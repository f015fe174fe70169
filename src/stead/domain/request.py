"""Requests about providers: candidate requests with their groups and order, flavors, and filters of lists and trees.

Source: the semantics of allocation candidates, GET /resource_providers and GET /provider_trees, docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.domain.names import NamePattern


UNSUFFIXED = ""
"""The suffix of the group whose resources several providers of one tree may provide."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions on a set of names (traits, aggregate uuids): one name of each clause, and no forbidden name."""

    clauses: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.clauses or self.forbidden)


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """The requirements on one provider (a suffixed group) or one tree (the unsuffixed group).

    ``resources`` maps class names to amounts in units of the class, each at least 1; it may be empty for a suffixed
    group. ``in_tree`` is the uuid of any provider of the only tree that may serve the group, ``in_subtree`` that of the
    top of the only subtree. ``can_split`` are classes of the unsuffixed group whose amounts several providers of the
    tree may share. ``like_any_other`` affects suffixed groups without resources. If it is set, any provider that meets
    the terms serves the group. If not, the group needs a positive term, and ``in_tree`` has no effect.
    """

    suffix: str
    resources: Mapping[str, int]
    traits: Terms = Terms()
    aggregates: Terms = Terms()
    in_tree: str | None = None
    in_subtree: str | None = None
    can_split: frozenset[str] = frozenset()
    like_any_other: bool = False


@dataclass(frozen=True, slots=True)
class Apart:
    """Groups that must be together in a subtree, which none of ``others`` may join.

    One of the ``together`` groups' providers is an ancestor of all of them (or is itself one). For each group of
    ``others``: no provider of these groups and of that one is an ancestor of all of theirs.
    """

    together: frozenset[str]
    others: frozenset[str]


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """A whole request for allocation candidates.

    ``groups`` is in the client's order, which decides whose fault is reported first. ``isolate``: different providers
    serve the suffixed groups. ``isolated`` are suffixes of groups whose providers serve no other suffixed group. Each
    set of ``same_subtree`` holds suffixes. ``root_traits`` and ``root_aggregates`` apply to the anchor. ``order``:
    which candidates come first, None for any. ``limit``: the maximum number of candidates, None for all.
    ``one_provider_per_tree`` drops candidates in which two providers of one tree give resources, if any provider at all
    has a parent (the meaning before microversion 1.29).
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    isolated: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    apart: tuple[Apart, ...] = ()
    root_traits: Terms = Terms()
    root_aggregates: Terms = Terms()
    order: Order | None = None
    limit: int | None = None
    one_provider_per_tree: bool = False


@dataclass(frozen=True, slots=True)
class ProviderQuery:
    """Filters of the provider list; a single provider must pass all of them. None or empty filters nothing."""

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    in_subtree: str | None = None
    traits: Terms = Terms()
    aggregates: Terms = Terms()
    resources: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """Filters of provider trees.

    A tree matches if one of its providers alone passes ``name``, ``traits``, ``aggregates`` and ``resources``, and its
    root passes ``root_traits`` and ``root_aggregates``. ``in_tree`` refers to any provider of the only matching tree.
    """

    in_tree: str | None = None
    name: NamePattern | None = None
    traits: Terms = Terms()
    aggregates: Terms = Terms()
    resources: Mapping[str, int] = field(default_factory=dict)
    root_traits: Terms = Terms()
    root_aggregates: Terms = Terms()

    @property
    def filters_providers(self) -> bool:
        """Whether the query restricts the providers of a tree."""
        return bool(self.name or self.traits or self.aggregates or self.resources)


# Orders: which candidates a request prefers.
#
# Source: "Order", docs/stead-api.md.


@dataclass(frozen=True, slots=True)
class Drawn:
    """No preference: candidates are drawn at random."""


@dataclass(frozen=True, slots=True)
class ByShare:
    """The best candidate has the greatest weighted sum of free shares.

    ``weights`` are by class name, or one for every class that the request takes.
    """

    weights: Mapping[str, float] | float


@dataclass(frozen=True, slots=True)
class ByAmount:
    """The best candidate has the least (-1) or the most (1) free of the first class; ties compare the next class."""

    directions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ByHeadroom:
    """The best candidate lowers the value of its tree for the site's mix of flavors least."""


Order = Drawn | ByShare | ByAmount | ByHeadroom

PACK, SPREAD = ByShare(-1.0), ByShare(1.0)


class Wanted(NamedTuple):
    """A form of the mix: a request that the site is to serve, and how often in proportion to the others."""

    request: CandidateRequest
    weight: float


class AskedForm(NamedTuple):
    """How often clients asked for a form, which is a query in its usual spelling.

    Attributes:
        times: as of ``counted_at``; it decays from then on.
        surplus: this part of it may be of forms that are no longer counted.
        counted_at: in seconds since 1970.
    """

    query: str
    times: float
    surplus: float
    counted_at: int


# Flavors: candidate queries that are stored by name.


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
        weight: how often it is asked for, in proportion to the others; None if that is not known.
    """

    name: str
    query: str
    description: str
    weight: float | None = None


class FlavorRoom(NamedTuple):
    """How many times a flavor fits, as two bounds: into all trees, or into those of an aggregate, which has a label."""

    flavor: str
    aggregate: str
    at_least: int
    at_most: int


# Pages: a part of a long list, in the order of uuids.


@dataclass(frozen=True, slots=True)
class Page:
    """At most ``limit`` items whose uuids come after ``marker``, which need not exist; None: no bound."""

    limit: int | None = None
    marker: str | None = None

    def __bool__(self) -> bool:
        return self.limit is not None or self.marker is not None
