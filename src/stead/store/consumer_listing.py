"""Lists consumers with their allocations: those of given uuids, all in pages, or those of one provider.

Source: "GET /consumers", docs/stead-api.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from stead.domain.claim import NOBODY
from stead.domain.errors import ProviderNotFound
from stead.store import names, providers
from stead.store.extensions import leases
from stead.store.sql.statements import in_portions, seconds
from stead.store.tables import (
    allocations,
    consumer_types,
    consumers,
    projects,
    provider_generation,
    resource_classes,
    resource_providers,
    stead_lease,
    users,
)
from stead.store.usages import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import HeldLease
    from stead.domain.request import Page

_columns = consumers.c

Generation = TypeVar("Generation", int, int | None)

FEW_ALLOCATIONS = 20_000
"""Up to this number of allocations are read and sorted for each page. The consumers of more are found by going through
all consumers: among half a million, a page of 1,000 then needs at most 25,000 of them."""


@dataclass(frozen=True, slots=True)
class ConsumerFilter:
    """A filter of consumers by project, user and type (``unknown``: without a type), by their allocations: from
    this provider, from any provider of this provider's tree, and by the end of their lease. None: any. A provider is a
    uuid, or ``name:`` and a name.
    """

    project: str | None = None
    user: str | None = None
    consumer_type: str | None = None
    provider: str | None = None
    in_tree: str | None = None
    expires_before: int | None = None
    """In seconds since 1970 (UTC)."""


@dataclass(slots=True)
class HeldAllocations:
    """All allocations of one consumer: by provider uuid, the provider's generation and the amounts by class."""

    project: str
    user: str
    consumer_type: str | None
    generation: int | None
    """None: the consumer has no row, so that its project and user are unknown."""
    modified: int
    """When the newest allocation was written, in seconds since 1970 (UTC)."""
    lease: HeldLease | None
    providers: dict[str, tuple[int, dict[str, int]]]

    def amounts(self) -> dict[str, dict[str, int]]:
        """The amounts only, by provider uuid and class name."""
        return {uuid: amounts for uuid, (_, amounts) in self.providers.items()}


@dataclass(slots=True)
class ProjectTotals:
    """The number of consumers of a project that match, and the sums of their allocations that match, by class."""

    consumer_count: int = 0
    usages: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConsumerPage:
    """One page: allocations by consumer uuid, in order; ``goes_on`` if another page follows.

    ``created`` has the creation times, in seconds since 1970 (UTC); 0 if an old row has none.
    """

    allocations: dict[str, HeldAllocations]
    created: dict[str, int]
    goes_on: bool
    totals: dict[str, ProjectTotals] | None = None
    """By project, ascending, over all pages; None if the caller did not request them."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """`ConsumerFilter` in ids: columns of ``consumers``, the provider, and the root of the tree."""

    owners: Mapping[str, int | None]
    provider: int | None
    root: int | None
    expires_before: int | None

    @property
    def admits_orphans(self) -> bool:
        """Whether consumers without a row match. They have no type, and their project and user are unknown."""
        return self.expires_before is None and all(
            name == "consumer_type_id" and id_ is None for name, id_ in self.owners.items()
        )

    @property
    def of_owners(self) -> list[sa.ColumnElement[bool]]:
        """The conditions on columns of ``consumers``."""
        conditions = [_columns[name] == id_ for name, id_ in self.owners.items()]
        return conditions if self.expires_before is None else [*conditions, leases.end_before(self.expires_before)]

    def of_providers(
        self, id_: sa.ColumnElement[int] = allocations.c.resource_provider_id
    ) -> list[sa.ColumnElement[bool]]:
        """The conditions on *id_*, the provider of an allocation; none if any matches."""
        members = sa.select(resource_providers.c.id).where(resource_providers.c.root_provider_id == self.root)
        conditions = ((self.provider, id_ == self.provider), (self.root, id_.in_(members)))
        return [condition for value, condition in conditions if value is not None]

    def has_few(self, connection: Connection) -> bool:
        """Whether at most `FEW_ALLOCATIONS` are from the providers; False if any provider matches."""
        if not self.of_providers():
            return False
        counted = sa.select(allocations.c.id).where(*self.of_providers()).limit(FEW_ALLOCATIONS + 1).subquery()
        return connection.execute(sa.select(sa.func.count()).select_from(counted)).scalar_one() <= FEW_ALLOCATIONS


def _resolved(connection: Connection, whose: ConsumerFilter) -> _Filter | None:
    """*whose* in ids; None if it names something that does not exist, so that no consumer matches."""
    of_type = whose.consumer_type if whose.consumer_type != UNKNOWN else None
    ids = names.ids_of_owners(connection, whose.project, whose.user, of_type)
    if ids is None:
        return None
    rows = []
    for reference in (whose.provider, whose.in_tree):
        row = providers.find_referenced(connection, reference) if reference is not None else None
        if reference is not None and row is None:
            return None
        rows.append(row)
    owners = {**ids, "consumer_type_id": None} if whose.consumer_type == UNKNOWN else ids
    provider, in_tree = rows
    return _Filter(owners, provider.id if provider else None, in_tree.root if in_tree else None, whose.expires_before)


def page_of(
    connection: Connection, whose: ConsumerFilter, page: Page, most: int, *, with_totals: bool = False
) -> ConsumerPage:
    """One page of consumers with allocations, in the database's own order of their uuids.

    Args:
        most: maximum number of consumers, even if the page asks for more.
    """
    limit = min(page.limit or most, most)
    matching = _resolved(connection, whose)
    if matching is None:
        return ConsumerPage({}, {}, goes_on=False, totals={} if with_totals else None)
    # One row more than the page shows whether another page follows.
    has_few = matching.has_few(connection)
    rows = _rows(connection, matching, page.marker, limit + 1, from_allocations=has_few)
    shown = rows[:limit]
    by_uuid = of_consumers(connection, [row.uuid for row in shown])
    allocations_of = {row.uuid: by_uuid[row.uuid] for row in shown}  # in the order of the page
    created = {row.uuid: seconds(row.created_at) for row in shown}
    totals = _totals(connection, matching) if with_totals else None
    return ConsumerPage(allocations_of, created, len(rows) > limit, totals)


def _totals(connection: Connection, matching: _Filter) -> dict[str, ProjectTotals]:
    """The sums by project, ascending; only of allocations that match, and of the consumers that `page_of` lists."""
    project = sa.func.coalesce(projects.c.external_id, sa.literal_column(f"'{NOBODY}'"))
    matching_allocations = (
        sa.select(project)
        .select_from(allocations)
        .join(consumers, _columns.uuid == allocations.c.consumer_id, isouter=matching.admits_orphans)
        .outerjoin(projects, projects.c.id == _columns.project_id)
        .where(*matching.of_owners, *matching.of_providers())
    )
    counted = matching_allocations.add_columns(sa.func.count(allocations.c.consumer_id.distinct())).group_by(project)
    totals = {project: ProjectTotals(count) for project, count in connection.execute(counted)}
    added_up = (
        matching_allocations.join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .add_columns(resource_classes.c.name, sa.func.sum(allocations.c.used))
        .group_by(project, resource_classes.c.name)
    )
    for project, resource_class, used in connection.execute(added_up):
        totals[project].usages[resource_class] = int(used)
    return dict(sorted(totals.items()))


def _rows(
    connection: Connection, matching: _Filter, marker: str | None, count: int, *, from_allocations: bool
) -> Sequence[sa.Row[Any]]:
    """The uuids and creation times of the first *count* consumers that match.

    Args:
        from_allocations: find the allocations first, then their consumers. Else the consumers are read in the order of
            an index on their uuid, so that a page needs no sort, and each is asked for an allocation.
    """
    if from_allocations:
        return connection.execute(_holders(matching, marker).limit(count)).all()
    listed = _listed(matching, marker)
    rows = connection.execute(listed.limit(count)).all()
    if not matching.admits_orphans:
        return rows
    # Only between the consumers of this page: that reads as many allocations as they have.
    orphans = _orphans(matching, marker, rows[-1].uuid if len(rows) == count else None)
    if connection.execute(orphans.limit(1)).first() is None:
        return rows
    # Rare, and only the database knows its order of uuids.
    parts = (sa.select(part.limit(count).subquery()) for part in (listed, orphans))
    both = sa.union_all(*parts).subquery()
    return connection.execute(sa.select(both).order_by(both.c.uuid).limit(count)).all()


def _holders(matching: _Filter, marker: str | None) -> sa.Select[tuple[str, object]]:
    # A derived table, not IN: MariaDB may answer a semi-join in sorted order with a consumer for each allocation.
    holders = sa.select(allocations.c.consumer_id).where(*matching.of_providers()).distinct().subquery()
    uuid = sa.func.coalesce(_columns.uuid, holders.c.consumer_id).label("uuid")
    query = (
        sa.select(uuid, _columns.created_at)
        .select_from(holders)
        .join(consumers, _columns.uuid == holders.c.consumer_id, isouter=matching.admits_orphans)
        .where(*matching.of_owners)
        .order_by(uuid)
    )
    return query if marker is None else query.where(uuid.element > marker)


def _listed(matching: _Filter, marker: str | None) -> sa.Select[tuple[str, object]]:
    # The sum keeps SQLite from an index on the provider, by which it would read all its allocations per consumer.
    of_providers = matching.of_providers(allocations.c.resource_provider_id + 0)
    of_consumer = sa.select(allocations.c.id).where(allocations.c.consumer_id == _columns.uuid, *of_providers)
    query = sa.select(_columns.uuid, _columns.created_at).where(*matching.of_owners).order_by(_columns.uuid)
    query = query.where(of_consumer.exists())
    return query if marker is None else query.where(_columns.uuid > marker)


def _orphans(matching: _Filter, after: str | None, last: str | None) -> sa.Select[tuple[str, object]]:
    """Consumers with allocations that match, and without a row: those after *after*, up to *last*."""
    uuid = allocations.c.consumer_id
    query = (
        sa.select(uuid.label("uuid"), sa.func.min(_columns.created_at).label("created_at"))
        .select_from(allocations)
        .outerjoin(consumers, _columns.uuid == uuid)
        .where(_columns.id.is_(None), *matching.of_providers(allocations.c.resource_provider_id + 0))
        .group_by(uuid)
        .order_by(uuid)
    )
    bounds = (uuid > after if after is not None else None, uuid <= last if last is not None else None)
    return query.where(*(bound for bound in bounds if bound is not None))


def of_consumer(connection: Connection, consumer: str) -> HeldAllocations | None:
    """The allocations of a consumer; None if it has none."""
    consumer_allocations = of_consumers(connection, [consumer]).get(consumer)
    return consumer_allocations if consumer_allocations is not None and consumer_allocations.providers else None


def written_last(connection: Connection, most: int) -> dict[str, HeldAllocations]:
    """The consumers of the last *most* allocations, by uuid, the newest first."""
    rows = connection.execute(sa.select(allocations.c.consumer_id).order_by(allocations.c.id.desc()).limit(most))
    newest = dict.fromkeys(rows.scalars())
    by_uuid = of_consumers(connection, newest)
    return {uuid: by_uuid[uuid] for uuid in newest if uuid in by_uuid}


@dataclass(frozen=True, slots=True)
class Owners:
    """What has a text in its name: projects and users whose name begins with it, consumers whose UUID does."""

    projects: Sequence[str] = ()
    users: Sequence[str] = ()
    consumers: Sequence[str] = ()


_PREFIX = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")
"""The beginning of a UUID. With less of it, too many consumers begin so."""


def search(connection: Connection, text: str, most: int) -> Owners:
    """Owners and consumers by the beginning of their names, at most *most* of each. All have indexes for that."""

    def named(column: sa.Column[str]) -> list[str]:
        query = sa.select(column).where(column.startswith(text, autoescape=True)).order_by(column).limit(most)
        return list(connection.execute(query).scalars())

    by_uuid: Sequence[str] = ()
    if _PREFIX.fullmatch(text):
        # Letters after `f` are in no UUID, so that this is a range of the index in every collation.
        query = sa.select(_columns.uuid).where(_columns.uuid >= text, _columns.uuid < f"{text}g")
        by_uuid = connection.execute(query.order_by(_columns.uuid).limit(most)).scalars().all()
    return Owners(named(projects.c.external_id), named(users.c.external_id), by_uuid)


def of_consumers(connection: Connection, uuids: Collection[str]) -> dict[str, HeldAllocations]:
    """The allocations of consumers, by uuid, with exactly these spellings; missing consumers are left out.

    A consumer that an interrupted writer left without allocations has no providers, and 0 as ``modified``. One that has
    allocations and no row is not missing.
    """
    by_uuid = _read(connection, _OF_CONSUMERS, _columns.uuid, set(uuids))
    return by_uuid | _read(connection, _OF_ORPHANS, allocations.c.consumer_id, set(uuids) - by_uuid.keys())


def _read(
    connection: Connection, query: sa.Select[*tuple[Any, ...]], uuid: sa.Column[str], requested: Collection[str]
) -> dict[str, HeldAllocations]:
    by_uuid: dict[str, HeldAllocations] = {}
    for portion in in_portions(sorted(requested)):
        for row in connection.execute(query.where(uuid.in_(portion))):
            if row.consumer not in requested:  # a case-insensitive database may return another spelling
                continue
            consumer_allocations = by_uuid.get(row.consumer)
            if consumer_allocations is None:
                owner = row.project or NOBODY, row.user or NOBODY
                consumer_allocations = HeldAllocations(
                    *owner, row.type, row.consumer_generation, 0, leases.held(row.consumer, *row[-3:]), {}
                )
                by_uuid[row.consumer] = consumer_allocations
            # An allocation may be of a provider or a class that does not exist.
            if row.uuid is not None and row.name is not None:
                _add(consumer_allocations.providers, row.uuid, row)
                consumer_allocations.modified = max(consumer_allocations.modified, seconds(row.created_at))
    return by_uuid


def _add(by_key: dict[str, tuple[Generation, dict[str, int]]], key: str, row: Any) -> None:
    """Add the allocation of *row*: a database may have several of one consumer, provider and class."""
    amounts = by_key.setdefault(key, (row.generation, {}))[1]
    amounts[row.name] = amounts.get(row.name, 0) + row.used


def of_trees(connection: Connection, roots: Collection[int], most: int) -> dict[str, HeldAllocations]:
    """The allocations of the consumers of some trees, by uuid; of *most* of them, if there are more.

    Args:
        roots: ids of the roots.
    """
    members = resource_providers.c.root_provider_id
    consumers_of = (
        sa.select(allocations.c.consumer_id)
        .join(resource_providers, resource_providers.c.id == allocations.c.resource_provider_id)
        .distinct()
    )
    consumer_uuids: set[str] = set()
    for portion in in_portions(roots):
        consumer_uuids.update(connection.execute(consumers_of.where(members.in_(portion)).limit(most + 1)).scalars())
    return of_consumers(connection, sorted(consumer_uuids)[:most])


def _of(consumer: sa.Column[str], joined: sa.Join) -> sa.Select[*tuple[Any, ...]]:
    """A row for each allocation of the consumers that a condition selects, in the order in which they were written."""
    return (
        sa.select(
            resource_providers.c.uuid,
            provider_generation,
            resource_classes.c.name,
            allocations.c.used,
            allocations.c.created_at,
            _columns.generation.label("consumer_generation"),
            projects.c.external_id.label("project"),
            users.c.external_id.label("user"),
            consumer_types.c.name.label("type"),
            consumer.label("consumer"),
            *(column.label(f"lease_{column.name}") for column in leases.HELD),
        )
        .select_from(joined)
        .outerjoin(stead_lease, leases.OF_CONSUMER)
        .outerjoin(projects, projects.c.id == _columns.project_id)
        .outerjoin(users, users.c.id == _columns.user_id)
        .outerjoin(consumer_types, consumer_types.c.id == _columns.consumer_type_id)
        .outerjoin(resource_providers, resource_providers.c.id == allocations.c.resource_provider_id)
        .outerjoin(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .order_by(allocations.c.id)
    )


_held = allocations.c.consumer_id == _columns.uuid
_OF_CONSUMERS = _of(_columns.uuid, consumers.outerjoin(allocations, _held))
_OF_ORPHANS = _of(allocations.c.consumer_id, allocations.outerjoin(consumers, _held)).where(_columns.id.is_(None))


@dataclass(frozen=True, slots=True)
class ProviderAllocations:
    """All allocations from one provider: by consumer uuid, the consumer's generation and the amounts by class.

    The generation is None if the consumer has no row.
    """

    generation: int
    modified: int | None
    """When the newest allocation was written, in seconds since 1970 (UTC); None without allocations."""
    consumers: dict[str, tuple[int | None, dict[str, int]]] = field(default_factory=dict)


def of_provider(connection: Connection, provider: str) -> ProviderAllocations:
    """The allocations from a provider.

    Raises:
        ProviderNotFound
    """
    id_ = providers.ids_by_uuid(connection, [provider]).get(provider)
    if id_ is None:
        raise ProviderNotFound(provider)
    query = (
        sa.select(
            allocations.c.consumer_id,
            consumers.c.generation,
            resource_classes.c.name,
            allocations.c.used,
            allocations.c.created_at,
        )
        .select_from(allocations)
        .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .outerjoin(consumers, consumers.c.uuid == allocations.c.consumer_id)
        .where(allocations.c.resource_provider_id == id_)
        .order_by(allocations.c.id)
    )
    rows = connection.execute(query).all()
    by_consumer: dict[str, tuple[int | None, dict[str, int]]] = {}
    for row in rows:
        _add(by_consumer, row.consumer_id, row)
    generation = providers.rows_by_id(connection, [id_])[id_].generation
    return ProviderAllocations(generation, max((seconds(row.created_at) for row in rows), default=None), by_consumer)
