"""The providers and consumers that changed since a token, read from one snapshot of the database.

Changed providers are found by the change rows, as a refresh finds them. Changed consumers and deleted providers are
found by the change log, which has their uuids. The log has a limited number of writes; the floors store its start.

Source: "GET /changes", docs/stead-api.md; "The write and refresh protocol" (rules 6, 9 and 17), docs/protocol.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.errors import InvalidQuery, StartOver
from stead.store.extensions import leases
from stead.store.protocol.clock import EVERYTHING, SLOTS, Clock, LogKind, Part, changed_between, read_clock
from stead.store.sql.statements import BulkQuery, in_portions, value
from stead.store.tables import (
    consumers,
    resource_providers,
    stead_change_floor,
    stead_change_log,
    stead_lease,
    stead_part_change,
    stead_usage_change,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection


MOST = 100_000
"""Maximum number of rows to read from the change log; with more, a client should reload everything."""

Generations = dict[str, int | None]
"""Generations by uuid, ascending; None for what does not exist."""


class Detail(NamedTuple):
    """The name of a provider at the later moment, None if it no longer exists; and which parts of it may have changed.

    ``parts`` are names of :data:`PARTS`, in their order. It is empty if the change rows do not tell: the provider was
    only read under a lock, or a release or service wrote it that notes no parts.
    """

    name: str | None
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The changes between two moments, and the token of the later one."""

    token: str
    providers: Generations
    consumers: Generations
    details: Mapping[str, Detail] = field(default_factory=dict)
    """By uuid of each of ``providers``."""
    ends: Mapping[str, int] = field(default_factory=dict)
    """By uuid of each of ``consumers`` that has a lease, its end in seconds since 1970 (UTC)."""
    ended: Collection[str] = ()
    """Those of ``consumers`` whose leases ended."""

    def __bool__(self) -> bool:
        return bool(self.providers or self.consumers)


def changes_since(connection: Connection, since: str | None) -> ChangeSet:
    """The changes after the moment of the token *since*; none if it is None.

    Raises:
        InvalidQuery: it is not a token.
        StartOver: the change log no longer covers its moment.
    """
    return _happened(connection, since, read_clock(connection))


def changes_since_each(connection: Connection, tokens: Iterable[str]) -> dict[str, ChangeSet | StartOver]:
    """By token, the changes after its moment, or that the log no longer covers it; all up to the same moment.

    Raises:
        InvalidQuery: one of them is not a token.
    """
    now = read_clock(connection)
    happened: dict[str, ChangeSet | StartOver] = {}
    for token in tokens:
        try:
            happened[token] = _happened(connection, token, now)
        except StartOver as error:
            happened[token] = error
    return happened


def _happened(connection: Connection, since: str | None, now: Clock) -> ChangeSet:
    there = Token.of(now)
    if since is None:
        return ChangeSet(there.text(), {}, {})
    try:
        then = Token.read(since)
    except NotAToken:
        raise InvalidQuery("Invalid query string parameters: 'since' is no token of this service.") from None
    # A poll without changes, the usual one, ends here: it has read the clock only.
    if then.ticks == now.ticks and then.is_before(there):
        return ChangeSet(there.text(), {}, {})
    if not then.is_before(there):
        raise StartOver
    changed = changed_between(connection, Clock(now.epoch, then.ticks, then.stamps, now.floors), now)
    logged = logged_between(connection, then.ticks, now.ticks)
    if EVERYTHING in changed.whole or logged is None:
        raise StartOver
    ids = {id_ for id_ in changed.whole | changed.usage if id_ > 0}
    parts = _parts_between(connection, then.ticks, now.ticks)
    generations, details = _providers(connection, ids, logged[LogKind.GONE_PROVIDER], parts)
    changed_consumers, ends = _consumers(connection, list(logged[LogKind.CONSUMER]))
    return ChangeSet(
        there.text(), generations, changed_consumers, details, ends, frozenset(logged[LogKind.ENDED_CONSUMER])
    )


Logged = dict[LogKind, set[str]]
"""The uuids of changed objects, by kind of change."""


def logged_between(connection: Connection, then: Sequence[int], now: Sequence[int]) -> Logged | None:
    """The entries of the change log newer than the ticks *then*, in the snapshot that showed the ticks *now*.

    Returns:
        All of them, or None if the log is incomplete: a part was pruned, a write was too large to be listed, or there
        are more than :data:`MOST` rows.
    """
    floors = dict(_FLOORS.rows(connection))
    if not all(slot in floors and floors[slot] <= tick for slot, tick in enumerate(then)):
        return None
    logged: Logged = {kind: set() for kind in LogKind}
    moved = [(slot, tick) for slot, (tick, tick_now) in enumerate(zip(then, now, strict=True)) if tick_now > tick]
    if not moved:
        return logged
    values = {f"slot{place}": slot for place, (slot, _) in enumerate(moved)}
    values |= {f"tick{place}": tick for place, (_, tick) in enumerate(moved)}
    rows = _logged_after(len(moved), MOST + 1).rows(connection, **values)
    if len(rows) > MOST:  # the query's limit was reached, so rows may be missing
        return None
    for uuid, kind, ended in rows:
        logged[LogKind(kind)].add(uuid)
        if ended:
            logged[LogKind.ENDED_CONSUMER].add(uuid)
    return None if logged[LogKind.EVERYTHING] else logged


_FLOORS = BulkQuery(sa.select(stead_change_floor.c.slot, stead_change_floor.c.floor))


@cache
def _logged_after(number: int, limit: int) -> BulkQuery:
    """Up to *limit* rows of the change log newer than the ticks of *number* slots."""
    log = stead_change_log.c
    newer = sa.or_(
        *(sa.and_(log.slot == value(f"slot{place}"), log.tick > value(f"tick{place}")) for place in range(number))
    )
    return BulkQuery(sa.select(log.uuid, log.kind, log.ended).where(newer).limit(limit))


USAGES, DELETED = "usages", "deleted"

PARTS = {
    Part.CREATED: "created",
    Part.NAME: "name",
    Part.TREE: "tree",
    Part.INVENTORIES: "inventories",
    Part.TRAITS: "traits",
    Part.AGGREGATES: "aggregates",
    Part.DISABLED: "disabled",
}
"""The names of the parts of a provider for clients, beside :data:`USAGES` and :data:`DELETED`."""

_USAGES = max(Part) + 1


def _parts_between(connection: Connection, then: Sequence[int], now: Sequence[int]) -> dict[int, set[int]]:
    """By provider id, the parts that changed after the ticks *then*, in the snapshot that showed the ticks *now*."""
    moved = [(slot, tick) for slot, (tick, tick_now) in enumerate(zip(then, now, strict=True)) if tick_now > tick]
    values = {f"slot{place}": slot for place, (slot, _) in enumerate(moved)}
    values |= {f"tick{place}": tick for place, (_, tick) in enumerate(moved)}
    parts: dict[int, set[int]] = {}
    for id_, part in _noted_after(len(moved)).rows(connection, **values) if moved else ():
        parts.setdefault(id_, set()).add(part)
    return parts


@cache
def _noted_after(number: int) -> BulkQuery:
    """Provider ids and parts whose change rows are newer than the ticks of *number* slots."""
    part, usage = stead_part_change.c, stead_usage_change.c

    def newer(slot: sa.Column[int], tick: sa.Column[int]) -> sa.ColumnElement[bool]:
        pairs = ((value(f"slot{place}"), value(f"tick{place}")) for place in range(number))
        return sa.or_(*(sa.and_(slot == its_slot, tick > its_tick) for its_slot, its_tick in pairs))

    usages = sa.literal_column(str(_USAGES), sa.Integer).label("part")
    return BulkQuery(
        sa.union_all(
            sa.select(part.provider_id, part.part).where(newer(part.slot, part.tick)),
            sa.select(usage.provider_id, usages).where(newer(usage.slot, usage.tick)),
        )
    )


def _providers(
    connection: Connection, ids: Collection[int], gone: Iterable[str], parts: Mapping[int, Collection[int]]
) -> tuple[Generations, dict[str, Detail]]:
    """The providers with these *ids*, and those *gone*, which may exist again under other ids."""
    generations: Generations = dict.fromkeys(gone)
    details = dict.fromkeys(generations, Detail(None, (DELETED,)))
    column = resource_providers.c
    query = sa.select(column.uuid, column.generation, column.name, column.id)
    for portion in in_portions(sorted(ids)):
        for uuid, generation, name, id_ in connection.execute(query.where(column.id.in_(portion))):
            generations[uuid], details[uuid] = generation, Detail(name, _named(parts.get(id_, ())))
    for uuids in in_portions([uuid for uuid, generation in generations.items() if generation is None]):
        for uuid, generation, name, id_ in connection.execute(query.where(column.uuid.in_(uuids))):
            # A case-insensitive database may return another spelling.
            if uuid in generations:
                generations[uuid], details[uuid] = generation, Detail(name, _named(parts.get(id_, ())))
    return dict(sorted(generations.items())), details


def _named(parts: Collection[int]) -> tuple[str, ...]:
    names = [name for part, name in PARTS.items() if part in parts]
    return (*names, USAGES) if _USAGES in parts else tuple(names)


def _consumers(connection: Connection, uuids: Sequence[str]) -> tuple[Generations, dict[str, int]]:
    """The consumers with these *uuids*, and the ends of those that have leases."""
    generations: Generations = dict.fromkeys(uuids)
    ends: dict[str, int] = {}
    query = sa.select(consumers.c.uuid, consumers.c.generation, *leases.HELD).select_from(
        consumers.outerjoin(stead_lease, leases.OF_CONSUMER)
    )
    for portion in in_portions(uuids):
        for uuid, generation, *held in connection.execute(query.where(consumers.c.uuid.in_(portion))):
            # A case-insensitive database may return another spelling.
            if uuid in generations:
                generations[uuid] = generation
                if (lease := leases.held(uuid, *held)) is not None:
                    ends[uuid] = lease.expires_at
    return dict(sorted(generations.items())), ends


# Tokens: a moment of the commit clock as text, for clients that request changes since that moment.
#
# A token has the tick and a part of the stamp of every slot, so that it detects a clock that was set back. It is
# valid in every process, and survives restarts.
#
# Source: "GET /changes", docs/stead-api.md.


_FORM = b"\x01"
_EPOCH_BYTES, _STAMP_BYTES = 8, 2
_LONGEST = 2048
_MOST_BYTES = 10  # of a tick: 64 bits, 7 per byte


class NotAToken(ValueError):
    """The text is not a token of this service."""


@dataclass(frozen=True, slots=True)
class Token:
    """The stored part of a clock: a digest of the epoch, and for each slot the tick and a part of the stamp."""

    epoch: bytes
    ticks: tuple[int, ...]
    stamps: tuple[int, ...]

    @classmethod
    def of(cls, clock: Clock) -> Token:
        """The token of a moment."""
        epoch = hashlib.sha256(clock.epoch.encode()).digest()[:_EPOCH_BYTES]
        return cls(epoch, clock.ticks, tuple([stamp & 0xFFFF for stamp in clock.stamps]))

    def is_before(self, now: Token) -> bool:
        """Whether the clock of *now* can have advanced from this token: it was not set back."""
        return self.epoch == now.epoch and all(
            tick < tick_now or (tick == tick_now and stamp == stamp_now)
            for tick, tick_now, stamp, stamp_now in zip(self.ticks, now.ticks, self.stamps, now.stamps, strict=True)
        )

    def text(self) -> str:
        """The text for clients: letters, digits, hyphens and underscores."""
        parts = [_FORM, self.epoch]
        for tick, stamp in zip(self.ticks, self.stamps, strict=True):
            # The stamp of a slot that never ticked is 0 in every database, so the token omits it.
            parts += [_number(tick), stamp.to_bytes(_STAMP_BYTES) if tick else b""]
        return base64.urlsafe_b64encode(b"".join(parts)).rstrip(b"=").decode()

    @classmethod
    def read(cls, text: str) -> Token:
        """Parse a token.

        Raises:
            NotAToken
        """
        try:
            decoded = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise NotAToken(text) from error
        if len(text) > _LONGEST or not decoded.startswith(_FORM):
            raise NotAToken(text)
        epoch, rest = decoded[1 : 1 + _EPOCH_BYTES], iter(decoded[1 + _EPOCH_BYTES :])
        ticks, stamps = [], []
        try:
            for _ in range(SLOTS):
                ticks.append(_read_number(rest))
                # A list: from a generator, the StopIteration of a short token would be a RuntimeError.
                stamps.append(int.from_bytes([next(rest) for _ in range(_STAMP_BYTES)]) if ticks[-1] else 0)
        except (StopIteration, OverflowError) as error:
            raise NotAToken(text) from error
        if next(rest, None) is not None:
            raise NotAToken(text)
        return cls(epoch, tuple(ticks), tuple(stamps))


def _number(value: int) -> bytes:
    """7 bits per byte, the low ones first; all bytes but the last have the high bit set."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_number(stream: Iterator[int]) -> int:
    value = 0
    for place in range(_MOST_BYTES):
        byte = next(stream)
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            # The column is a signed 64-bit integer, so the database would refuse a greater tick.
            if value >= 2**63:
                break
            return value
    raise OverflowError
