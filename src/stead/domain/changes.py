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


class InventoryRow(NamedTuple):
    """One class of one provider, with the sum of all allocations of it."""

    provider_id: int
    class_id: int
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: float
    used: int
    modified: int


class NameRow(NamedTuple):
    """A trait or a resource class; ``modified`` in seconds since 1970 (UTC)."""

    id: int
    name: str
    modified: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed after some moment, each thing with its whole present state, all as of ``moment``.

    ``provider_ids`` lists the providers that changed; one without a row in ``providers`` is gone. ``everything`` says
    that this is not a difference but all there is. ``traits`` and ``resource_classes`` are the whole tables when any
    name changed, else None. Pairs are (provider id, trait id) and (provider id, aggregate id); ``aggregate_uuids``
    names at least every aggregate in the pairs.
    """

    moment: Moment
    everything: bool = False
    provider_ids: Collection[int] = ()
    providers: Sequence[ProviderRow] = ()
    inventories: Sequence[InventoryRow] = ()
    provider_traits: Sequence[tuple[int, int]] = ()
    provider_aggregates: Sequence[tuple[int, int]] = ()
    aggregate_uuids: Mapping[int, str] = field(default_factory=dict)
    traits: Sequence[NameRow] | None = None
    resource_classes: Sequence[NameRow] | None = None
