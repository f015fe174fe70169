"""A portion of a complete state: some providers and everything about them, by columns.

A complete state has millions of values. As columns, they are neither rows nor objects on their way from the database to
the arrays of a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.changes import Moment
    from stead.domain.provider import Disabled


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
