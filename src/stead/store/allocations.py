"""Allocations: who holds how much of what. A claim replaces all that its consumers hold, or nothing happens.

Source: "Writing allocations", docs/api.md; the order of locks is rule 3 of "The write and refresh protocol",
docs/protocol.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.claim import Place, Room, require_room
from stead.domain.errors import AllocationRefused, AllocationsNotFound, ProviderNotFound, UnknownProvider
from stead.store import consumers, inventories, providers, resource_classes, usages
from stead.store.consumers import Owners
from stead.store.protocol.clock import EVERYTHING
from stead.store.sql.statements import LISTED, Insert, Query, in_portions
from stead.store.tables import (
    allocations,
    consumer_types,
    projects,
    resource_providers,
    stead_provider_change,
    users,
)
from stead.store.tables import consumers as consumer_table
from stead.store.tables import (
    resource_classes as class_table,
)
from stead.store.timestamps import seconds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Claim
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.transaction import Transaction

_columns = allocations.c


class Held(NamedTuple):
    """One row of the books."""

    id: int
    consumer: str
    provider_id: int
    class_id: int
    used: int


def replace(tx: Transaction, claims: Sequence[Claim], since: Clock | None = None) -> None:
    """Replace all that the consumers of *claims* hold; all of it is written, or an error is raised and nothing is.

    Args:
        since: what is claimed was found in what was known of this moment; of the providers that it is taken from, and
            of their roots, nothing but what is used may have changed after it. None: it may.

    Raises:
        OwnersUnknown
        ProvidersChanged
        ConsumerConflict: a client's knowledge of its consumer is old.
        UnknownProvider, UnknownResourceClass
        AllocationRefused: it does not fit.
    """
    owners = Owners.of(tx.connection, claims)
    present = consumers.lock_claiming(tx, claims)
    consumers.require_expected(claims, present)
    ids = resolve_providers(tx.connection, claims)
    held = held_by(tx.connection, present)
    rows = providers.lock(tx, {*ids.values(), *(row.provider_id for row in held)})
    require_still_there(ids, rows)
    tx.touch_usage(rows)
    if since is not None:
        _require_unchanged(tx.connection, {*ids.values(), *(rows[id_].root for id_ in ids.values())}, since)
    generations = {id_: row.generation for id_, row in rows.items()}
    taken = usages.of_locked(tx.connection, generations, needed=ids.values())
    settle(tx, claims, present, ids, held, taken)
    rises = {id_: generations[id_] for id_ in rising(claims, ids, held)}
    usages.keep(tx, taken, generations | tx.bump_generations(rises, writes_sums=True))
    consumers.write(tx, claims, present, owners)


class ProvidersChanged(Exception):
    """A provider in which a place was found changed meanwhile, not by claims alone; nothing was written."""


def _require_unchanged(connection: Connection, provider_ids: Collection[int], since: Clock) -> None:
    """Refuse a claim if any of some providers, the locked ones at least, changed otherwise than by claims.

    Raises:
        ProvidersChanged
    """
    for slot, tick in _CHANGED.rows(connection, sorted({EVERYTHING, *provider_ids})):
        if tick > since.ticks[slot]:
            raise ProvidersChanged


_CHANGED = Query(
    sa.select(stead_provider_change.c.slot, stead_provider_change.c.tick).where(
        stead_provider_change.c.provider_id.in_([LISTED])
    )
)


def resolve_providers(connection: Connection, claims: Sequence[Claim]) -> dict[str, int]:
    """Ids of the providers that *claims* take from, by uuid; nothing is locked.

    Raises:
        UnknownProvider: naming the first that does not exist.
    """
    wanted = dict.fromkeys(provider for claim in claims for provider in claim.allocations)
    ids = providers.ids_by_uuid(connection, wanted)
    for provider in wanted:
        if provider not in ids:
            raise UnknownProvider(provider)
    return ids


def require_still_there(ids: Mapping[str, int], rows: Mapping[int, providers.Row]) -> None:
    """Refuse a claim on a provider that was deleted between its resolution and its lock.

    Raises:
        UnknownProvider: naming it.
    """
    for uuid, id_ in ids.items():
        if id_ not in rows or rows[id_].uuid != uuid:
            raise UnknownProvider(uuid)


def settle(
    tx: Transaction,
    claims: Sequence[Claim],
    present: Mapping[str, consumers.Row],
    ids: Mapping[str, int],
    held: Sequence[Held],
    taken: usages.Sums,
) -> None:
    """Check that *claims* fit in place of *held*, and exchange the rows. All providers are locked.

    *taken* is what is taken of them (of those named in *claims* in any case), and becomes what is taken afterwards.

    Raises:
        UnknownResourceClass, AllocationRefused
        RaceLost: a consumer that was not *present* has come since, and holds what seems to be in its own way.
    """
    names = dict.fromkeys(name for claim in claims for resources in claim.allocations.values() for name in resources)
    # Not locked: a class of which a locked provider has inventory can not go, and no other ever gets its id.
    stock = {
        place: stored
        for place, stored in inventories.by_class_name(tx.connection, ids.values()).items()
        if place[1] in names
    }
    classes = {name: stored.class_id for (_, name), stored in stock.items()}
    if len(classes) < len(names):
        resource_classes.resolve(tx.connection, names)  # which refuses those that nobody knows
    try:
        require_room(_rooms(ids, stock, held, taken), claims)
    except AllocationRefused:
        consumers.require_still_absent(tx, claims, present)
        raise
    _remove(tx, held, taken)
    rows = [
        {
            "resource_provider_id": ids[provider],
            "consumer_id": claim.consumer,
            "resource_class_id": classes[name],
            "used": amount,
            "created_at": tx.now,
        }
        for claim in claims
        for provider, resources in claim.allocations.items()
        for name, amount in resources.items()
    ]
    _TAKE.run(tx.connection, rows)
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for name, amount in resources.items():
                _count(taken, ids[provider], classes[name], amount)


def _count(taken: usages.Sums, provider_id: int, class_id: int, amount: int) -> None:
    """Add *amount* to what is taken of a provider, if that is known."""
    if provider_id in taken:
        taken[provider_id][class_id] = taken[provider_id].get(class_id, 0) + amount


def _remove(tx: Transaction, held: Sequence[Held], taken: usages.Sums) -> None:
    """Delete rows of the books, and take them off what is *taken*, where that is known."""
    for row in held:
        _count(taken, row.provider_id, row.class_id, -row.used)
    for some in in_portions([row.id for row in held]):
        gone = tx.connection.execute(sa.delete(allocations).where(_columns.id.in_(some)))
        tx.require_count(gone, len(some))


def _rooms(
    ids: Mapping[str, int],
    stock: Mapping[tuple[int, str], inventories.Stored],
    held: Sequence[Held],
    taken: usages.Sums,
) -> dict[Place, Room]:
    """What the books say of each place that the claims could mean, as of after the locks."""
    ours: dict[tuple[int, int], int] = defaultdict(int)
    for row in held:
        ours[row.provider_id, row.class_id] += row.used
    uuids = {id_: uuid for uuid, id_ in ids.items()}
    rooms = {}
    for (provider_id, name), stored in stock.items():
        total = taken[provider_id].get(stored.class_id, 0)
        used = total - ours[provider_id, stored.class_id]
        rooms[Place(uuids[provider_id], name)] = Room(stored.inventory, used, before=total)
    return rooms


def rising(claims: Sequence[Claim], ids: Mapping[str, int], held: Sequence[Held]) -> set[int]:
    """Ids of the providers whose generation rises: those taken from, and those that a claim of nothing lets go of.

    A provider that a consumer merely leaves for another is not among them.
    """
    released = {claim.consumer for claim in claims if not claim.allocations}
    return {*ids.values(), *(row.provider_id for row in held if row.consumer in released)}


def release(tx: Transaction, consumer: str) -> None:
    """Let a consumer hold nothing, whatever generation it is at; its providers' generations stay.

    Raises:
        AllocationsNotFound: it holds nothing.
    """
    present = consumers.lock(tx, [consumer])
    held = held_by(tx.connection, present)
    if not held:
        raise AllocationsNotFound(consumer)
    rows = providers.lock(tx, {row.provider_id for row in held})
    tx.touch_usage(rows)
    generations = {id_: row.generation for id_, row in rows.items()}
    taken = usages.of_locked(tx.connection, generations)
    _remove(tx, held, taken)
    usages.keep(tx, taken, generations)
    consumers.remove(tx, present.values())
    tx.log_consumers([consumer])


def held_by(connection: Connection, consumer_uuids: Collection[str]) -> list[Held]:
    """All that some consumers hold, spelled exactly so.

    They must be locked: what a consumer holds that came after the lock was looked for is not to be touched.
    """
    wanted = set(consumer_uuids)
    return [held for row in _HELD.rows(connection, sorted(wanted)) if (held := Held(*row)).consumer in wanted]


_HELD = Query(
    sa.select(
        _columns.id, _columns.consumer_id, _columns.resource_provider_id, _columns.resource_class_id, _columns.used
    ).where(_columns.consumer_id.in_([LISTED]))
)
_TAKE = Insert(allocations, "resource_provider_id", "consumer_id", "resource_class_id", "used", "created_at")


@dataclass(frozen=True, slots=True)
class HeldAllocations:
    """All that one consumer holds: by provider uuid, the provider's generation and the amounts by class."""

    project: str
    user: str
    consumer_type: str | None
    generation: int
    modified: int
    """When the newest of it was written, in seconds since 1970 (UTC)."""
    providers: dict[str, tuple[int, dict[str, int]]]

    def amounts(self) -> dict[str, dict[str, int]]:
        """The amounts alone, by provider uuid and class name."""
        return {uuid: amounts for uuid, (_, amounts) in self.providers.items()}


def of_consumer(connection: Connection, consumer: str) -> HeldAllocations | None:
    """What a consumer holds; None if nothing."""
    query = (
        sa.select(
            resource_providers.c.uuid,
            resource_providers.c.generation,
            class_table.c.name,
            _columns.used,
            _columns.created_at,
            consumer_table.c.generation.label("consumer_generation"),
            projects.c.external_id.label("project"),
            users.c.external_id.label("user"),
            consumer_types.c.name.label("type"),
            consumer_table.c.uuid.label("consumer"),
        )
        .select_from(allocations)
        .join(resource_providers, resource_providers.c.id == _columns.resource_provider_id)
        .join(class_table, class_table.c.id == _columns.resource_class_id)
        .join(consumer_table, consumer_table.c.uuid == _columns.consumer_id)
        .join(projects, projects.c.id == consumer_table.c.project_id)
        .join(users, users.c.id == consumer_table.c.user_id)
        .outerjoin(consumer_types, consumer_types.c.id == consumer_table.c.consumer_type_id)
        .where(_columns.consumer_id == consumer)
        .order_by(_columns.id)
    )
    rows = [row for row in connection.execute(query) if row.consumer == consumer]
    if not rows:
        return None
    held: dict[str, tuple[int, dict[str, int]]] = {}
    for row in rows:
        held.setdefault(row.uuid, (row.generation, {}))[1][row.name] = row.used
    first = rows[0]
    modified = max(seconds(row.created_at) for row in rows)
    return HeldAllocations(first.project, first.user, first.type, first.consumer_generation, modified, held)


@dataclass(frozen=True, slots=True)
class ProviderAllocations:
    """All that is held of one provider: by consumer uuid, the consumer's generation and the amounts by class."""

    generation: int
    modified: int | None
    """When the newest of it was written, in seconds since 1970 (UTC); None if nothing is held."""
    consumers: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)


def of_provider(connection: Connection, provider: str) -> ProviderAllocations:
    """Who holds what of a provider.

    Raises:
        ProviderNotFound
    """
    id_ = providers.ids_by_uuid(connection, [provider]).get(provider)
    if id_ is None:
        raise ProviderNotFound(provider)
    query = (
        sa.select(
            _columns.consumer_id,
            consumer_table.c.generation,
            class_table.c.name,
            _columns.used,
            _columns.created_at,
        )
        .select_from(allocations)
        .join(class_table, class_table.c.id == _columns.resource_class_id)
        .join(consumer_table, consumer_table.c.uuid == _columns.consumer_id)
        .where(_columns.resource_provider_id == id_)
        .order_by(_columns.id)
    )
    rows = connection.execute(query).all()
    held: dict[str, tuple[int, dict[str, int]]] = {}
    for row in rows:
        held.setdefault(row.consumer_id, (row.generation, {}))[1][row.name] = row.used
    generation = providers.rows_by_id(connection, [id_])[id_].generation
    return ProviderAllocations(generation, max((seconds(row.created_at) for row in rows), default=None), held)
