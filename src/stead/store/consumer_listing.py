"""Holders: the consumers that hold something, with all of it, page by page.

Source: "GET /consumers", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.store import names
from stead.store.allocations import HeldAllocations
from stead.store.sql.statements import in_portions
from stead.store.tables import (
    allocations,
    consumer_types,
    consumers,
    projects,
    resource_classes,
    resource_providers,
    users,
)
from stead.store.timestamps import seconds
from stead.store.usages import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.pages import Page

_columns = consumers.c


@dataclass(frozen=True, slots=True)
class Whose:
    """Which consumers are meant: those of a project, of a user, of a type (``unknown``: of none). None: of any."""

    project: str | None = None
    user: str | None = None
    consumer_type: str | None = None


@dataclass(frozen=True, slots=True)
class Holders:
    """One page: what consumers hold, by their uuids and in their order; ``goes_on`` if others follow."""

    held: dict[str, HeldAllocations]
    goes_on: bool


def page_of(connection: Connection, whose: Whose, page: Page, most: int) -> Holders:
    """One page of the consumers that hold something, in the database's own order of their uuids.

    Args:
        most: so many at most, whatever the page says.
    """
    limit = min(page.limit or most, most)
    of_type = whose.consumer_type if whose.consumer_type != UNKNOWN else None
    ids = names.ids_of_owners(connection, whose.project, whose.user, of_type)
    if ids is None:
        return Holders({}, goes_on=False)
    owners = {**ids, "consumer_type_id": None} if whose.consumer_type == UNKNOWN else ids
    rows = connection.execute(_listed(owners, page.marker).limit(limit + 1)).all()
    shown = rows[:limit]
    amounts = _amounts(connection, [row.uuid for row in shown])
    held = {}
    for row in shown:
        modified, providers = amounts[row.uuid]
        held[row.uuid] = HeldAllocations(row.project, row.user, row.type, row.generation, modified, providers)
    return Holders(held, len(rows) > limit)


def named(connection: Connection, uuids: Sequence[str]) -> dict[str, HeldAllocations]:
    """What some consumers hold, by uuid, spelled exactly so; those that do not exist are missing."""
    rows = [
        row for some in in_portions(uuids) for row in connection.execute(_consumers().where(_columns.uuid.in_(some)))
    ]
    there = {row.uuid: row for row in rows if row.uuid in set(uuids)}
    return {
        uuid: HeldAllocations(there[uuid].project, there[uuid].user, there[uuid].type, there[uuid].generation, *amounts)
        for uuid, amounts in _amounts(connection, list(there)).items()
    }


def _consumers() -> sa.Select[tuple[str, int, str, str, str]]:
    return (
        sa.select(
            _columns.uuid,
            _columns.generation,
            projects.c.external_id.label("project"),
            users.c.external_id.label("user"),
            consumer_types.c.name.label("type"),
        )
        .select_from(consumers)
        .join(projects, projects.c.id == _columns.project_id)
        .join(users, users.c.id == _columns.user_id)
        .outerjoin(consumer_types, consumer_types.c.id == _columns.consumer_type_id)
    )


def _listed(owners: Mapping[str, int | None], marker: str | None) -> sa.Select[tuple[str, int, str, str, str]]:
    """Consumers that hold something, by the ids of their owners; None: those that have no such owner."""
    held = sa.select(allocations.c.id).where(allocations.c.consumer_id == _columns.uuid).exists()
    # By their own columns, whose indexes have the uuids in their order: a page need not sort all that are meant.
    query = _consumers().where(held, *(_columns[name] == id_ for name, id_ in owners.items())).order_by(_columns.uuid)
    return query if marker is None else query.where(_columns.uuid > marker)


_Amounts = tuple[int, dict[str, tuple[int, dict[str, int]]]]
"""When the newest of it was written, and what is held of each provider, as `HeldAllocations` has it."""


def _amounts(connection: Connection, uuids: Sequence[str]) -> dict[str, _Amounts]:
    """What each of some consumers holds."""
    found: dict[str, _Amounts] = {uuid: (0, {}) for uuid in uuids}
    for some in in_portions(uuids):
        for row in connection.execute(_held_by(some)):
            if row.consumer_id in found:  # where the database ignores case, it may find another spelling
                modified, providers = found[row.consumer_id]
                providers.setdefault(row.uuid, (row.generation, {}))[1][row.name] = row.used
                found[row.consumer_id] = max(modified, seconds(row.created_at)), providers
    return found


def _held_by(uuids: Collection[str]) -> sa.Select[tuple[str, int, object, str, int, str]]:
    rows = allocations.c
    return (
        sa.select(
            rows.consumer_id,
            rows.used,
            rows.created_at,
            resource_providers.c.uuid,
            resource_providers.c.generation,
            resource_classes.c.name,
        )
        .select_from(allocations)
        .join(resource_providers, resource_providers.c.id == rows.resource_provider_id)
        .join(resource_classes, resource_classes.c.id == rows.resource_class_id)
        .where(rows.consumer_id.in_(uuids))
        .order_by(rows.id)
    )
