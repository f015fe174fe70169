"""What changed in the truth since some moment: how the store tells the catalog, which do not know each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Moment = object
"""A moment of the source's clock; only the source looks inside."""


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
    """What a claim changes of a provider itself; ``modified`` in seconds since 1970 (UTC)."""

    id: int
    generation: int
    modified: int


class InventoryRow(NamedTuple):
    """One class of one provider; ``modified`` in seconds since 1970 (UTC)."""

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
    """What changed after some moment, each thing with its whole present state, all as of ``moment``.

    ``provider_ids`` lists the providers that changed in any way; one without a row in ``providers`` is gone.
    ``claimed`` holds the providers of which nothing changed but what a claim changes; they are not in ``provider_ids``.
    ``used`` has the sum of all allocations of every class of all of them, by (provider id, class id); a missing one is
    zero. ``traits_of`` and ``aggregates_of`` are by provider id, ascending; a provider that has none may be missing.
    ``everything`` says that this is not a difference but the beginning of all there is, ``providers_in_all`` of them.
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
    traits_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    aggregates_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    aggregate_uuids: Mapping[int, str] = field(default_factory=dict)
    traits: Sequence[NameRow] | None = None
    resource_classes: Sequence[NameRow] | None = None


@dataclass(frozen=True, slots=True)
class Differences:
    """Ids of what is known otherwise than it is."""

    providers: frozenset[int] = frozenset()
    traits: frozenset[int] = frozenset()
    resource_classes: frozenset[int] = frozenset()
