"""Allocations: amounts that consumers have of providers. A claim replaces all allocations of its consumers, or none.

Source: "Writing allocations", docs/api.md; the order of locks is rule 3 of "The write and refresh protocol",
docs/protocol.md.
"""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.claim import Place, Room, require_enabled, require_room
from stead.domain.errors import AllocationRefused, AllocationsNotFound, UnknownProvider
from stead.store import consumers, inventories, providers, resource_classes, usages
from stead.store.consumers import Owners
from stead.store.extensions import service_states
from stead.store.protocol.clock import EVERYTHING
from stead.store.sql.statements import LISTED, Insert, Query, in_portions
from stead.store.tables import (
    allocations,
    resource_providers,
    stead_disabled_provider,
    stead_provider_change,
    stead_usage,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Claim
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.transaction import Transaction

_columns = allocations.c


class Held(NamedTuple):
    """One row of the allocations table."""

    id: int
    consumer: str
    provider_id: int
    class_id: int
    used: int


def replace(
    tx: Transaction, claims: Sequence[Claim], since: Clock | None = None, ids: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Replace all allocations of the consumers of *claims*. On an error nothing is written.

    Args:
        since: the moment of the snapshot in which the places were found. If the claimed providers or their roots
            changed after it, other than by claims, the claim is refused. None: no check.
        ids: ids of providers by uuid that the caller remembers; verified under the locks.

    Raises:
        OwnersUnknown
        IdsOutdated: one of *ids* is the id of another provider, or of none.
        ProvidersChanged
        ConsumerConflict: the client's generation of its consumer is out of date.
        UnknownProvider, UnknownResourceClass
        AllocationRefused: the allocations do not fit.
    """
    owners = Owners.of(tx.connection, claims)
    # Consumers before providers: the order of locks that every write keeps, so that two writes cannot deadlock.
    present = consumers.lock_claiming(tx, claims, owners)
    consumers.require_expected(claims, present)
    remembered = ids
    ids = resolve_providers(tx.connection, claims, remembered)
    allocated = held_by(tx.connection, present)
    # Also the providers that the consumers leave: their usage falls, and their sums are written below.
    touched = {*ids.values(), *(row.provider_id for row in allocated)}
    tx.lock(resource_providers, touched)
    # Only the usage, so that a refresh after a claim reads sums and no whole providers.
    tx.touch_usage(touched)
    # Read only now: a concurrent claim may have committed while this one waited for the locks.
    state = _State.of(tx.connection, touched)
    require_still_there(ids, state.rows, remembered)
    if since is not None:
        state.require_unchanged(ids.values(), since)
    generations = {id_: row.generation for id_, row in state.rows.items()}
    taken = usages.of_rows(tx.connection, state.sums, generations, needed=ids.values())
    settle(tx, claims, present, ids, state.rows, allocated, taken, is_any_disabled=state.is_any_disabled)
    rises = {id_: generations[id_] for id_ in rising(claims, ids, allocated)}
    usages.keep(tx, taken, generations | tx.bump_generations(rises, writes_sums=True))
    consumers.write(tx, claims, present, owners)


class IdsOutdated(Exception):
    """The ids that the caller of `replace` remembers are out of date; nothing was written."""


class _State(NamedTuple):
    """What a claim reads of the providers that it has locked and touched.

    ``changes`` are by provider id: the slot and the tick of the last change, other than by claims, of the provider, of
    its root, and of everything.
    """

    rows: dict[int, providers.Row]
    sums: list[usages.Kept]
    is_any_disabled: bool
    changes: dict[int, list[tuple[int, int]]]

    @classmethod
    def of(cls, connection: Connection, provider_ids: Collection[int]) -> _State:
        """The state of these providers, with their kept sums, and whether any provider at all is disabled."""
        read = _STATE.rows(connection, sorted(provider_ids))
        return cls(
            {row[0]: providers.Row(*row[:6]) for row in read},
            [usages.Kept(row[0], *row[6:9]) for row in read if row[6] is not None],
            any(row[9] is not None for row in read),
            {
                row[0]: [(slot, row[place + 1]) for place in (10, 12, 14) if (slot := row[place]) is not None]
                for row in read
            },
        )

    def require_unchanged(self, provider_ids: Iterable[int], since: Clock) -> None:
        """Refuse a claim if any of some providers, or its root, changed other than by claims.

        Raises:
            ProvidersChanged
        """
        if any(tick > since.ticks[slot] for id_ in provider_ids for slot, tick in self.changes[id_]):
            raise ProvidersChanged


_own_change, _root_change, _change_of_all = (
    stead_provider_change.alias(name).c for name in ("own_change", "root_change", "change_of_all")
)

_STATE = Query(
    sa.select(
        *providers.COLUMNS,
        stead_usage.c.class_id,
        stead_usage.c.used,
        stead_usage.c.generation,
        sa.select(sa.func.min(stead_disabled_provider.c.provider_id)).scalar_subquery(),
        _own_change.slot,
        _own_change.tick,
        _root_change.slot,
        _root_change.tick,
        # A write that touches too many objects has no other row.
        _change_of_all.slot,
        _change_of_all.tick,
    )
    .select_from(resource_providers)
    .outerjoin(stead_usage, stead_usage.c.provider_id == resource_providers.c.id)
    .outerjoin(_own_change.slot.table, _own_change.provider_id == resource_providers.c.id)
    .outerjoin(_root_change.slot.table, _root_change.provider_id == resource_providers.c.root_provider_id)
    .outerjoin(_change_of_all.slot.table, _change_of_all.provider_id == sa.literal_column(str(EVERYTHING)))
    .where(resource_providers.c.id.in_([LISTED]))
)


class ProvidersChanged(Exception):
    """A provider in which a place was found changed meanwhile, other than by claims; nothing was written."""


def resolve_providers(
    connection: Connection, claims: Sequence[Claim], remembered: Mapping[str, int] = MappingProxyType({})
) -> dict[str, int]:
    """Ids of the providers that *claims* name, by uuid; locks nothing. Those *remembered* are not searched.

    Raises:
        UnknownProvider: names the first that does not exist.
    """
    uuids = dict.fromkeys(provider for claim in claims for provider in claim.allocations)
    remembered_ids = {uuid: remembered[uuid] for uuid in uuids if uuid in remembered}
    ids = remembered_ids | providers.ids_by_uuid(connection, uuids.keys() - remembered_ids.keys())
    for provider in uuids:
        if provider not in ids:
            raise UnknownProvider(provider)
    return ids


def require_still_there(
    ids: Mapping[str, int], rows: Mapping[int, providers.Row], remembered: Collection[str] = ()
) -> None:
    """Refuse a claim on a provider that was deleted between the lookup of its id and its lock.

    Raises:
        UnknownProvider: names it.
        IdsOutdated: the id of a *remembered* provider was not looked up.
    """
    for uuid, id_ in ids.items():
        if id_ not in rows or rows[id_].uuid != uuid:
            raise IdsOutdated if uuid in remembered else UnknownProvider(uuid)


def settle(
    tx: Transaction,
    claims: Sequence[Claim],
    present: Mapping[str, consumers.Row],
    ids: Mapping[str, int],
    rows: Mapping[int, providers.Row],
    allocated: Sequence[Held],
    taken: usages.Sums,
    *,
    may_shift: bool = False,
    is_any_disabled: bool = True,
) -> None:
    """Check that *claims* fit in place of *allocated*, and replace the rows. All providers are locked and touched.

    Args:
        taken: the usage of the providers, at least of those named in *claims*; updated to the usage afterwards.
        may_shift: allocations may move between the providers of a disabled subtree.
        is_any_disabled: whether any provider is disabled.

    Raises:
        UnknownResourceClass, AllocationRefused
        RaceLost: a consumer that was not *present* was created meanwhile; its allocations may have caused a refusal.
    """
    names = dict.fromkeys(name for claim in claims for resources in claim.allocations.values() for name in resources)
    # Classes need no lock: a class with inventory of a locked provider cannot be deleted, and ids are never reused.
    stock = {
        place: stored
        for place, stored in inventories.by_class_name(tx.connection, ids.values()).items()
        if place[1] in names
    }
    classes = {name: stored.class_id for (_, name), stored in stock.items()}
    if len(classes) < len(names):
        resource_classes.resolve(tx.connection, names)  # raises an error for unknown classes
    try:
        require_room(_rooms(ids, stock, allocated, taken), claims)
        if is_any_disabled:
            _require_enabled(tx.connection, claims, ids, rows, allocated, classes, may_shift=may_shift)
    except AllocationRefused:
        consumers.require_still_absent(tx, claims, present)
        raise
    _remove(tx, allocated, taken)
    new = [
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
    _TAKE.run(tx.connection, new)
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for name, amount in resources.items():
                _count(taken, ids[provider], classes[name], amount)


def _require_enabled(
    connection: Connection,
    claims: Sequence[Claim],
    ids: Mapping[str, int],
    rows: Mapping[int, providers.Row],
    allocated: Sequence[Held],
    classes: Mapping[str, int],
    *,
    may_shift: bool,
) -> None:
    """Refuse claims that raise the allocations from a disabled provider.

    Raises:
        ProviderDisabled
    """
    if not ids:
        return
    barriers = service_states.barriers(connection, {id_: row.root for id_, row in rows.items()})
    if not barriers:
        return
    names = {class_id: name for name, class_id in classes.items()}
    before: dict[Place, int] = defaultdict(int)
    for row in allocated:
        if row.class_id in names:
            before[Place(rows[row.provider_id].uuid, names[row.class_id])] += row.used
    by_uuid = {rows[id_].uuid: barrier for id_, barrier in barriers.items()}
    require_enabled(by_uuid, claims, before, may_shift=may_shift)


def _count(taken: usages.Sums, provider_id: int, class_id: int, amount: int) -> None:
    """Add *amount* to the usage of a provider, if *taken* has it."""
    if provider_id in taken:
        taken[provider_id][class_id] = taken[provider_id].get(class_id, 0) + amount


def _remove(tx: Transaction, allocated: Sequence[Held], taken: usages.Sums) -> None:
    """Delete allocations, and subtract them from *taken*, as far as it has their providers."""
    for row in allocated:
        _count(taken, row.provider_id, row.class_id, -row.used)
    for portion in in_portions([row.id for row in allocated]):
        gone = tx.connection.execute(sa.delete(allocations).where(_columns.id.in_(portion)))
        tx.require_count(gone, len(portion))


def _rooms(
    ids: Mapping[str, int],
    stock: Mapping[tuple[int, str], inventories.Stored],
    allocated: Sequence[Held],
    taken: usages.Sums,
) -> dict[Place, Room]:
    """The usage of each place that the claims could name, as of after the locks."""
    ours: dict[tuple[int, int], int] = defaultdict(int)
    for row in allocated:
        ours[row.provider_id, row.class_id] += row.used
    uuids = {id_: uuid for uuid, id_ in ids.items()}
    rooms = {}
    for (provider_id, name), stored in stock.items():
        total = taken[provider_id].get(stored.class_id, 0)
        used = total - ours[provider_id, stored.class_id]
        rooms[Place(uuids[provider_id], name)] = Room(stored.inventory, used, before=total)
    return rooms


def rising(claims: Sequence[Claim], ids: Mapping[str, int], allocated: Sequence[Held]) -> set[int]:
    """Ids of the providers whose generation rises: those that claims name, and those that an empty claim releases.

    The generation of a provider does not rise if a consumer moves to another provider.
    """
    released = {claim.consumer for claim in claims if not claim.allocations}
    return {*ids.values(), *(row.provider_id for row in allocated if row.consumer in released)}


def release(tx: Transaction, consumer: str) -> None:
    """Release all allocations of a consumer, at any generation. The generations of its providers do not rise.

    Raises:
        AllocationsNotFound: it has none.
    """
    present = consumers.lock(tx, [consumer])
    allocated = held_by(tx.connection, present)
    if not allocated:
        raise AllocationsNotFound(consumer)
    rows = providers.lock(tx, {row.provider_id for row in allocated})
    tx.touch_usage(rows)
    generations = {id_: row.generation for id_, row in rows.items()}
    taken = usages.of_locked(tx.connection, generations)
    _remove(tx, allocated, taken)
    usages.keep(tx, taken, generations)
    consumers.remove(tx, present.values())
    tx.log_consumers([consumer])


def held_by(connection: Connection, consumer_uuids: Collection[str]) -> list[Held]:
    """All allocations of some consumers, with exactly these spellings of the uuids.

    The caller must have locked the consumers. A consumer that was created after the lookup is not locked, and its
    allocations must not be changed.
    """
    exact_uuids = set(consumer_uuids)
    return [
        allocation
        for row in _HELD.rows(connection, sorted(exact_uuids))
        if (allocation := Held(*row)).consumer in exact_uuids
    ]


_HELD = Query(
    sa.select(
        _columns.id, _columns.consumer_id, _columns.resource_provider_id, _columns.resource_class_id, _columns.used
    ).where(_columns.consumer_id.in_([LISTED]))
)
_TAKE = Insert(allocations, "resource_provider_id", "consumer_id", "resource_class_id", "used", "created_at")
