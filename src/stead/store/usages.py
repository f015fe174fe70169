"""Usages: sums of allocations, maintained so that requests need not add up the allocations.

The sums of a provider are in ``stead_usage``, and valid for one generation of the provider. Every claim raises the
generation. A service that does not maintain the sums leaves them at the old generation, and so invalid.

Source: "The write and refresh protocol", docs/protocol.md (rule 16).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from stead.domain.changes import UsageByColumn
from stead.store import names
from stead.store.protocol.clock import ProviderUsage
from stead.store.provider_filter import ProviderCondition
from stead.store.sql.statements import LISTED, BulkQuery, Insert, Query, in_portions, seconds
from stead.store.tables import (
    allocations,
    consumer_types,
    consumers,
    resource_classes,
    resource_providers,
    stead_usage,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction
    from stead.store.provider_filter import ProviderFilter

Sums = dict[int, dict[int, int]]
"""Usage by provider id, then by class id."""

UNKNOWN = "unknown"
"""The type that is shown for a consumer without one."""


def current(connection: Connection, *among: ProviderFilter) -> dict[tuple[int, int], int]:
    """The usage of some providers, by (provider id, class id); never 0.

    Valid sums are read; for the other providers the allocations are added up.
    """
    return completed(connection, [row for portion in among for row in portion.rows(connection, _standing(portion.by))])


def completed(connection: Connection, rows: Iterable[tuple[int, int | None, int | None]]) -> dict[tuple[int, int], int]:
    """The usage of some providers, by (provider id, class id); never 0.

    Args:
        rows: provider id, class id and sum, from `with_standing`. For rows without a class, the allocations of the
            provider are added up.
    """
    sums: dict[tuple[int, int], int] = {}
    unkept: list[int] = []
    for provider_id, class_id, used in rows:
        if class_id is None:
            unkept.append(provider_id)
        elif used:
            sums[provider_id, class_id] = used
    return sums | added_up(connection, unkept) if unkept else sums


def with_standing(*columns: sa.ColumnElement[Any]) -> sa.Select[*tuple[Any, ...]]:
    """A query for *columns* of ``resource_providers``, and the class and the sum of each valid sum.

    A provider without a valid sum has one row, without a class.
    """
    sums, provider = stead_usage.c, resource_providers.c
    stands = sa.and_(sums.provider_id == provider.id, sums.generation == provider.generation)
    joined = resource_providers.outerjoin(stead_usage, stands)
    return sa.select(*columns, sums.class_id, sums.used).select_from(joined)


def by_column(connection: Connection, portion: ProviderFilter) -> UsageByColumn:
    """The usage of a range of providers, as in `current`; a sum may be 0."""
    usage = UsageByColumn(*portion.columns(connection, _standing(portion.by)))
    if None not in usage.class_ids:
        return usage
    if usage.class_ids.count(None) == len(usage.class_ids):  # as after an adoption or a restore
        return UsageByColumn(*portion.columns(connection, _added_up(portion.by)))
    sums = completed(connection, zip(*usage, strict=True))
    provider_ids, class_ids = zip(*sums, strict=True) if sums else ((), ())
    return UsageByColumn(provider_ids, class_ids, list(sums.values()))


@cache
def _standing(by: ProviderCondition) -> BulkQuery:
    return BulkQuery(with_standing(resource_providers.c.id).where(by.condition))


def added_up(connection: Connection, provider_ids: Collection[int]) -> dict[tuple[int, int], int]:
    """The usage of some providers, by (provider id, class id), from the allocations themselves."""
    return {
        # Some drivers return a sum as a Decimal.
        (provider_id, class_id): int(used)
        for provider_id, class_id, used in _added_up(ProviderCondition.IDS).rows(connection, sorted(provider_ids))
    }


@cache
def _added_up(by: ProviderCondition) -> BulkQuery:
    provider_id, class_id = allocations.c.resource_provider_id, allocations.c.resource_class_id
    query = sa.select(provider_id, class_id, sa.func.sum(allocations.c.used))
    return BulkQuery(by.narrowed(query, provider_id).group_by(provider_id, class_id))


def of_locked(connection: Connection, generations: Mapping[int, int], needed: Collection[int] = ()) -> Sums:
    """The usage of locked providers with maintained sums, and of the *needed* providers in any case.

    The result has every class with a stored sum, even an invalid one, so that `store_sums` overwrites them all.

    Args:
        generations: provider id → its generation, read under the lock.
        needed: providers whose allocations are added up if no sum is valid.
    """
    sums = [StoredUsage(*row) for row in _KEPT.rows(connection, sorted(generations))]
    return of_rows(connection, sums, generations, needed)


class StoredUsage(NamedTuple):
    """A row of ``stead_usage``."""

    provider_id: int
    class_id: int
    used: int
    generation: int


def of_rows(
    connection: Connection, rows: Iterable[StoredUsage], generations: Mapping[int, int], needed: Collection[int] = ()
) -> Sums:
    """`of_locked` from the rows of ``stead_usage``, read under the locks."""
    usage_left: Sums = defaultdict(dict)
    stale: Sums = defaultdict(dict)
    for provider_id, class_id, used, generation in rows:
        validity = usage_left if generation == generations[provider_id] else stale
        validity[provider_id][class_id] = used
    unkept = set(needed) - usage_left.keys()
    sums = {**usage_left, **{id_: dict.fromkeys(stale[id_], 0) for id_ in unkept}}
    for (provider_id, class_id), used in added_up(connection, unkept).items():
        sums[provider_id][class_id] = used
    return sums


def store_sums(tx: Transaction, sums: Sums, generations: Mapping[int, int]) -> None:
    """Store the sums of locked providers.

    Args:
        sums: all classes of each provider: a missing sum beside a valid one would count as zero.
        generations: provider id → its generation after this transaction.
    """
    rows = [
        {"provider_id": provider_id, "class_id": class_id, "used": used, "generation": generations[provider_id]}
        for provider_id, by_class in sorted(sums.items())
        for class_id, used in sorted(by_class.items())
    ]
    _KEEP.run(tx.connection, rows)
    for provider_id, by_class in sums.items():
        modified = seconds(tx.now) if provider_id in tx.raised else None
        tx.standings[provider_id] = ProviderUsage(generations[provider_id], modified, by_class)


_KEPT = Query(
    sa.select(stead_usage.c.provider_id, stead_usage.c.class_id, stead_usage.c.used, stead_usage.c.generation).where(
        stead_usage.c.provider_id.in_([LISTED])
    )
)
_KEEP = Insert(stead_usage, "provider_id", "class_id", "used", "generation", changing=("used", "generation"))


def forget(tx: Transaction, provider_id: int) -> None:
    """Delete the sums under an id, of a provider that is deleted or of an earlier provider with this id."""
    forget_all(tx, [provider_id])


def forget_all(tx: Transaction, provider_ids: Collection[int]) -> None:
    """`forget` for several providers."""
    for portion in in_portions(sorted(provider_ids)):
        tx.connection.execute(sa.delete(stead_usage).where(stead_usage.c.provider_id.in_(portion)))


@dataclass(slots=True)
class TypeUsage:
    """The usage of all consumers of one type, by class."""

    consumer_count: int = 0
    resources: dict[str, int] = field(default_factory=dict)


def of_project(
    connection: Connection, project: str, user: str | None = None, consumer_type: str | None = None
) -> dict[str, TypeUsage]:
    """The usage of a project's (and user's) consumers, by the name of their type.

    Args:
        consumer_type: count only this type; ``unknown`` counts those without a type. None counts all.
    """
    ids = names.ids_of_owners(connection, project, user, consumer_type if consumer_type != UNKNOWN else None)
    if ids is None:
        return {}
    matching_allocations = (
        sa.select(consumer_types.c.name.label("type"))
        .select_from(consumers)
        .join(allocations, allocations.c.consumer_id == consumers.c.uuid)
        .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(*(consumers.c[column] == id_ for column, id_ in ids.items()))
    )
    if consumer_type == UNKNOWN:
        matching_allocations = matching_allocations.where(consumers.c.consumer_type_id.is_(None))
    usage_of: dict[str, TypeUsage] = {}
    counts = matching_allocations.add_columns(sa.func.count(consumers.c.uuid.distinct())).group_by(
        consumer_types.c.name
    )
    for name, count in connection.execute(counts):
        usage_of[name or UNKNOWN] = TypeUsage(consumer_count=count)
    # A second statement: grouped by class too, a consumer of two classes would count twice.
    amounts = matching_allocations.add_columns(resource_classes.c.name, sa.func.sum(allocations.c.used))
    for name, resource_class, used in connection.execute(
        amounts.group_by(consumer_types.c.name, resource_classes.c.name)
    ):
        usage_of[name or UNKNOWN].resources[resource_class] = int(used)
    return usage_of


def total(usage: dict[str, TypeUsage]) -> TypeUsage:
    """The usage of all types together. Each consumer has only one type, so that none counts twice."""
    whole = TypeUsage()
    for part in usage.values():
        whole.consumer_count += part.consumer_count
        for resource_class, used in part.resources.items():
            whole.resources[resource_class] = whole.resources.get(resource_class, 0) + used
    return whole
