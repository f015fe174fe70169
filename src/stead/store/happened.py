"""What happened since a token: which providers and consumers changed, read from one snapshot of the database.

Providers are found by the change rows, as a refresh finds them; consumers, and providers that are gone, by the change
log, which has their uuids. The log is kept up to a number of writes, and the floors say from which tick on.

Source: "GET /changes", docs/api.md; "The write and refresh protocol" (rules 6, 9 and 17), docs/architecture.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import InvalidQuery, StartOver
from stead.store.clock import EVERYTHING, Clock, Kind, changed_between, read_clock
from stead.store.prepared import Prepared
from stead.store.tables import consumers, resource_providers, stead_change_floor, stead_change_log
from stead.store.tokens import NotAToken, Token
from stead.store.transaction import in_portions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

MOST = 100_000
"""Changes that are listed; after more, a client is better off reading everything."""

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
    now = read_clock(connection)
    there = Token.of(now)
    if since is None:
        return Happened(there.text(), {}, {})
    try:
        then = Token.read(since)
    except NotAToken:
        raise InvalidQuery("Invalid query string parameters: 'since' is no token of this service.") from None
    if then.ticks == now.ticks and then.is_before(there):
        return Happened(there.text(), {}, {})
    if not (then.is_before(there) and _is_kept(connection, then)):
        raise StartOver
    changed = changed_between(connection, Clock(now.epoch, then.ticks, then.stamps, now.floors), now)
    logged = logged_between(connection, then.ticks, now.ticks)
    if EVERYTHING in changed.whole or Kind.EVERYTHING in logged.values() or len(logged) > MOST:
        raise StartOver
    ids = {id_ for id_ in changed.whole | changed.usage if id_ > 0}
    return Happened(
        there.text(),
        _providers(connection, ids, [uuid for uuid, kind in logged.items() if kind is Kind.GONE_PROVIDER]),
        _consumers(connection, [uuid for uuid, kind in logged.items() if kind is Kind.CONSUMER]),
    )


def _is_kept(connection: Connection, then: Token) -> bool:
    floors = dict(_FLOORS.rows(connection))
    return all(floors.get(slot, 0) <= tick for slot, tick in enumerate(then.ticks))


_FLOORS = Prepared(sa.select(stead_change_floor.c.slot, stead_change_floor.c.floor))


def logged_between(connection: Connection, then: Sequence[int], now: Sequence[int]) -> dict[str, Kind]:
    """What the change log has newer than the ticks *then*, by uuid, in the snapshot that showed the ticks *now*."""
    moved = [(slot, tick) for slot, (tick, tick_now) in enumerate(zip(then, now, strict=True)) if tick_now > tick]
    if not moved:
        return {}
    values = {f"slot{place}": slot for place, (slot, _) in enumerate(moved)}
    values |= {f"tick{place}": tick for place, (_, tick) in enumerate(moved)}
    rows = _logged_after(len(moved)).rows(connection, values=values)
    return {uuid: Kind(kind) for uuid, kind in rows}


@cache
def _logged_after(number: int) -> Prepared:
    log = stead_change_log.c
    newer = sa.or_(
        *(
            sa.and_(log.slot == sa.bindparam(f"slot{place}", 0), log.tick > sa.bindparam(f"tick{place}", 0))
            for place in range(number)
        )
    )
    return Prepared(sa.select(log.uuid, log.kind).where(newer).limit(MOST + 1))


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
