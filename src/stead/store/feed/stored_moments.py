"""Moments of the clock in a snapshot file: what is stored, and whether changes since then can be known.

Source: "The write and refresh protocol", docs/protocol.md (rules 12 and 20).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from stead.domain.changes import Unfit
from stead.store.protocol.clock import SLOTS, Clock, all_earlier_stamps, moved_slots

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from sqlalchemy.engine import Connection


def written(clock: Clock, identity: Hashable) -> Mapping[str, Any]:
    """A moment of the server with *identity*, as JSON values."""
    return {
        "server": _digest(identity),
        "epoch": clock.epoch,
        "ticks": list(clock.ticks),
        "stamps": list(clock.stamps),
        "floors": list(clock.floors),
    }


def earlier(connection: Connection, stored: Mapping[str, Any], identity: Hashable, now: Clock) -> Clock:
    """The stored clock, if the clock that shows *now* has advanced from it.

    Raises:
        Unfit: it is of another server or epoch, the clock was set back, or change rows of that age were removed.
    """
    if identity is None or stored.get("server") != _digest(identity):
        raise Unfit("the database server is another one, or was restarted")
    try:
        numbers = [tuple(map(int, stored[name])) for name in ("ticks", "stamps", "floors")]
        clock = Clock(str(stored["epoch"]), *numbers)
    except (KeyError, TypeError, ValueError) as error:
        raise Unfit("it has no clock") from error
    if any(len(each) != SLOTS for each in numbers):
        raise Unfit("it has no clock")
    if clock.epoch != now.epoch:
        raise Unfit("the epoch is another one")
    if not now.can_follow(clock):
        raise Unfit("the clock was set back, or the change rows since then were removed")
    before = all_earlier_stamps(connection)
    for slot in moved_slots(clock, now):
        # A running process sees a clock that was set back. During a stop, it may have advanced again.
        stamp = before[slot].get(clock.ticks[slot])
        if clock.ticks[slot] and stamp is not None and stamp != clock.stamps[slot]:
            raise Unfit("the clock was set back, and has advanced since")
    return clock


def _digest(identity: Hashable) -> str:
    return hashlib.sha256(repr(identity).encode()).hexdigest()
