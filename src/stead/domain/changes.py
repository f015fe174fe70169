"""What the store passes to the catalog: changes since a moment, or a complete state in portions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stead.domain.provider import Disabled


Moment = object
"""A moment of the source's clock; opaque to all other code."""


class ProviderRow(NamedTuple):
    """A provider; ``modified`` in seconds since 1970 (UTC)."""

    id: int
    uuid: str
    name: str
    generation: int
    parent_id: int | None
    root_id: int
    modified: int


class StandingRow(NamedTuple):
    """The part of a provider that a claim changes; ``modified`` in seconds since 1970 (UTC), None: as before."""

    id: int
    generation: int
    modified: int | None


class InventoryRow(NamedTuple):
    """The inventory of one class of one provider; ``modified`` in seconds since 1970 (UTC)."""

    provider_id: int
    class_id: int
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float
    modified: int


class NameRow(NamedTuple):
    """A trait or a resource class; ``modified`` in seconds since 1970 (UTC)."""

    id: int
    name: str
    modified: int


@dataclass(frozen=True, slots=True)
class Changes:
    """The objects that changed after some moment, each with its complete present state, all as of ``moment``.

    ``provider_ids`` lists the providers that changed in any way; one without a row in ``providers`` was deleted.
    ``claimed`` holds the providers in which only claims changed something; they are not in ``provider_ids``.
    ``used`` has the sum of all allocations of every class of all of them, by (provider id, class id); a missing one is
    zero. ``disabled`` has those of ``provider_ids`` that are disabled themselves. ``traits_of`` and ``aggregates_of``
    are by provider id, ascending; a provider that has none may be missing.
    ``everything`` says that this is not a difference but the complete state, with ``providers_in_all`` providers.
    ``traits`` and ``resource_classes`` are the whole tables when any name changed, else None. ``aggregate_uuids`` names
    at least every aggregate of ``aggregates_of``.
    """

    moment: Moment
    everything: bool = False
    providers_in_all: int = 0
    provider_ids: Collection[int] = ()
    providers: Sequence[ProviderRow] = ()
    claimed: Sequence[StandingRow] = ()
    inventories: Sequence[InventoryRow] = ()
    used: Mapping[tuple[int, int], int] = field(default_factory=dict)
    disabled: Mapping[int, Disabled] = field(default_factory=dict)
    traits_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    aggregates_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    aggregate_uuids: Mapping[int, str] = field(default_factory=dict)
    traits: Sequence[NameRow] | None = None
    resource_classes: Sequence[NameRow] | None = None


class Totals(NamedTuple):
    """Sums over all providers: their number, their generations, and the times of their last changes in seconds."""

    providers: int
    generations: int
    modified: int


class SnapshotUnusable(Exception):
    """A stored snapshot cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Ids of the objects whose cached state differs from the database."""

    providers: frozenset[int] = frozenset()
    traits: frozenset[int] = frozenset()
    resource_classes: frozenset[int] = frozenset()


# A portion of a complete state: some providers and everything about them, by columns.
#
# A complete state has millions of values. As columns, they are neither rows nor objects on their way from the
# database to the arrays of a snapshot.


class ProvidersByColumn(NamedTuple):
    """The columns of `ProviderRow`: each has a value for each provider, in the same order."""

    ids: Sequence[int]
    uuids: Sequence[str]
    names: Sequence[str]
    generations: Sequence[int]
    parent_ids: Sequence[int | None]
    root_ids: Sequence[int]
    modified: Sequence[int]


class InventoriesByColumn(NamedTuple):
    """The columns of `InventoryRow`."""

    provider_ids: Sequence[int]
    class_ids: Sequence[int]
    total: Sequence[int]
    reserved: Sequence[int]
    min_unit: Sequence[int]
    max_unit: Sequence[int]
    step_size: Sequence[int]
    allocation_ratio: Sequence[float]
    modified: Sequence[int]


class UsageByColumn(NamedTuple):
    """Sums of allocations by provider and class. A missing one is zero."""

    provider_ids: Sequence[int]
    class_ids: Sequence[int]
    used: Sequence[int]


class MembersByColumn(NamedTuple):
    """The traits or the aggregates of providers, ascending. A provider that has none may be missing."""

    provider_ids: Sequence[int]
    members: Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Portion:
    """Some providers of a complete state as of ``moment``, in any order.

    The columns may have rows of providers that do not exist. A provider, its parent and its root may be in different
    portions. ``disabled`` has the providers that are disabled themselves, by id.
    """

    moment: Moment
    providers: ProvidersByColumn
    inventories: InventoriesByColumn
    used: UsageByColumn
    traits_of: MembersByColumn
    aggregates_of: MembersByColumn
    disabled: Mapping[int, Disabled]
