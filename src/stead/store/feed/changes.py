"""What happened since a token: which providers and consumers changed, read from one snapshot of the database.

Providers are found by the change rows, as a refresh finds them; consumers, and providers that are gone, by the change
log, which has their uuids. The log is kept up to a number of writes, and the floors say from which tick on.

Source: "GET /changes", docs/api.md; "The write and refresh protocol" (rules 6, 9 and 17), docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import InvalidQuery, StartOver
from stead.store.feed.tokens import NotAToken, Token
from stead.store.protocol.clock import EVERYTHING, Clock, LogKind, changed_between, read_clock
from stead.store.sql.statements import BulkQuery, in_portions, value
from stead.store.tables import consumers, resource_providers, stead_change_floor, stead_change_log

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

MOST = 100_000
"""Rows of the change log that are read; after more, a client is better off reading everything."""

Generations = dict[str, int | None]
"""By uuid, ascending; None for what does not exist."""


@dataclass(frozen=True, slots=True)
class Happened:
    """What changed between two moments, and the token of the later one."""

    token: str
    providers: Generations
    consumers: Generations

    def __bool__(self) -> bool:
        return bool(self.providers or self.consumers)


def happened_since(connection: Connection, since: str | None) -> Happened:
    """What changed after the moment of the token *since*; nothing, if it is None.

    Raises:
        InvalidQuery: it is no token.
        StartOver: it can not be told.
    """
    return _happened(connection, since, read_clock(connection))


def happened_since_each(connection: Connection, tokens: Iterable[str]) -> dict[str, Happened | StartOver]:
    """By token, what changed after its moment, or that it cannot be told; all until the same moment.

    Raises:
        InvalidQuery: one is no token.
    """
    now = read_clock(connection)
    happened: dict[str, Happened | StartOver] = {}
    for token in tokens:
        try:
            happened[token] = _happened(connection, token, now)
        except StartOver as error:
            happened[token] = error
    return happened


def _happened(connection: Connection, since: str | None, now: Clock) -> Happened:
    there = Token.of(now)
    if since is None:
        return Happened(there.text(), {}, {})
    try:
        then = Token.read(since)
    except NotAToken:
        raise InvalidQuery("Invalid query string parameters: 'since' is no token of this service.") from None
    if then.ticks == now.ticks and then.is_before(there):
        return Happened(there.text(), {}, {})
    if not then.is_before(there):
        raise StartOver
    changed = changed_between(connection, Clock(now.epoch, then.ticks, then.stamps, now.floors), now)
    logged = logged_between(connection, then.ticks, now.ticks)
    if EVERYTHING in changed.whole or logged is None:
        raise StartOver
    ids = {id_ for id_ in changed.whole | changed.usage if id_ > 0}
    return Happened(
        there.text(),
        _providers(connection, ids, logged[LogKind.GONE_PROVIDER]),
        _consumers(connection, list(logged[LogKind.CONSUMER])),
    )


Logged = dict[LogKind, set[str]]
"""By kind of change, the uuids of what changed so."""


def logged_between(connection: Connection, then: Sequence[int], now: Sequence[int]) -> Logged | None:
    """What the change log has newer than the ticks *then*, in the snapshot that showed the ticks *now*.

    Returns:
        All of it. None if the log cannot tell all of it: a part was pruned, a write was too large to be listed, or
        there are more than :data:`MOST` rows.
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
    if len(rows) > MOST:  # the limit of the query: there may be more, whatever uuids these rows name
        return None
    for uuid, kind in rows:
        logged[LogKind(kind)].add(uuid)
    return None if logged[LogKind.EVERYTHING] else logged


_FLOORS = BulkQuery(sa.select(stead_change_floor.c.slot, stead_change_floor.c.floor))


@cache
def _logged_after(number: int, limit: int) -> BulkQuery:
    """At most *limit* rows of the change log newer than the ticks of so many slots."""
    log = stead_change_log.c
    newer = sa.or_(
        *(sa.and_(log.slot == value(f"slot{place}"), log.tick > value(f"tick{place}")) for place in range(number))
    )
    return BulkQuery(sa.select(log.uuid, log.kind).where(newer).limit(limit))


def _providers(connection: Connection, ids: Collection[int], gone: Iterable[str]) -> Generations:
    found: Generations = dict.fromkeys(gone)
    column = resource_providers.c
    for some in in_portions(sorted(ids)):
        rows = connection.execute(sa.select(column.uuid, column.generation).where(column.id.in_(some)))
        found.update((uuid, generation) for uuid, generation in rows)
    for uuids in in_portions([uuid for uuid, generation in found.items() if generation is None]):
        again = connection.execute(sa.select(column.uuid, column.generation).where(column.uuid.in_(uuids)))
        found.update((uuid, generation) for uuid, generation in again if uuid in found)
    return dict(sorted(found.items()))


def _consumers(connection: Connection, uuids: Sequence[str]) -> Generations:
    found: Generations = dict.fromkeys(uuids)
    column = consumers.c
    for some in in_portions(uuids):
        rows = connection.execute(sa.select(column.uuid, column.generation).where(column.uuid.in_(some)))
        found.update((uuid, generation) for uuid, generation in rows if uuid in found)
    return dict(sorted(found.items()))
