"""Usages: sums over allocations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store.tables import allocations, consumer_types, consumers, projects, resource_classes, users
from stead.store.transaction import in_portions

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

UNKNOWN = "unknown"
"""How the type of a consumer that has none is shown."""


def sums(connection: Connection, provider_ids: Collection[int] | None) -> dict[tuple[int, int], int]:
    """What is taken of some providers, or of all if None, by (provider id, class id)."""
    provider, class_id = allocations.c.resource_provider_id, allocations.c.resource_class_id
    query = sa.select(provider, class_id, sa.func.sum(allocations.c.used)).group_by(provider, class_id)
    if provider_ids is None:
        return {(provider_id, id_): int(used) for provider_id, id_, used in connection.execute(query)}
    return {
        (provider_id, id_): int(used)
        for some in in_portions(sorted(provider_ids))
        for provider_id, id_, used in connection.execute(query.where(provider.in_(some)))
    }


@dataclass(slots=True)
class TypeUsage:
    """What the consumers of one type hold together, by class."""

    consumer_count: int = 0
    resources: dict[str, int] = field(default_factory=dict)


def of_project(
    connection: Connection, project: str, user: str | None = None, consumer_type: str | None = None
) -> dict[str, TypeUsage]:
    """What the consumers of a project (and user) hold, by the name of their type.

    Args:
        consumer_type: count only this type; ``unknown`` means those without one. None counts all.
    """
    held = (
        sa.select(consumer_types.c.name.label("type"))
        .select_from(consumers)
        .join(allocations, allocations.c.consumer_id == consumers.c.uuid)
        .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .join(projects, projects.c.id == consumers.c.project_id)
        .join(users, users.c.id == consumers.c.user_id)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(projects.c.external_id == project)
    )
    if user is not None:
        held = held.where(users.c.external_id == user)
    if consumer_type is not None:
        wanted = None if consumer_type == UNKNOWN else consumer_type
        held = held.where(consumer_types.c.name == wanted if wanted else consumer_types.c.name.is_(None))
    found: dict[str, TypeUsage] = {}
    counts = held.add_columns(sa.func.count(consumers.c.uuid.distinct())).group_by(consumer_types.c.name)
    for name, count in connection.execute(counts):
        found[name or UNKNOWN] = TypeUsage(consumer_count=count)
    amounts = held.add_columns(resource_classes.c.name, sa.func.sum(allocations.c.used))
    for name, resource_class, used in connection.execute(
        amounts.group_by(consumer_types.c.name, resource_classes.c.name)
    ):
        found[name or UNKNOWN].resources[resource_class] = int(used)
    return found


def total(usage: dict[str, TypeUsage]) -> TypeUsage:
    """The usage of all types together; no consumer has two types."""
    whole = TypeUsage()
    for part in usage.values():
        whole.consumer_count += part.consumer_count
        for resource_class, used in part.resources.items():
            whole.resources[resource_class] = whole.resources.get(resource_class, 0) + used
    return whole
