"""What this process committed since its last refresh, so that a refresh need not read it from the database.

A refresh reads the clock. If all ticks of a slot since the last refresh are those of commits noted here, then no other
process wrote with that slot, and the notes say everything that the slot's change rows would say. A note also has the
usage of the providers that a claim left behind, as of its commit.

Source: "The write and refresh protocol", docs/protocol.md (rule 11); docs/decisions/0036-own-writes-from-memory.md.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stead.store.protocol.clock import NOTHING, Changed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.store.protocol.clock import Clock, Ticked

MOST = 256
"""Notes per slot. If more writes are committed between two refreshes, the next refresh reads what they changed."""

MOST_TOUCHED = 1000
"""A write that touches more objects is not noted."""


class Standing(NamedTuple):
    """The part of a provider that a claim changes, as a write left it behind.

    ``modified`` is in seconds since 1970 (UTC); None if the write did not change it. ``used`` is by class id, with all
    classes.
    """

    generation: int
    modified: int | None
    used: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Written:
    """One committed write: its tick, what it touched, and the standings of those of ``usage`` that it knows."""

    ticked: Ticked
    whole: frozenset[int]
    usage: frozenset[int]
    standings: Mapping[int, Standing]


@dataclass(frozen=True, slots=True)
class Own:
    """What own commits changed between two moments.

    ``slots`` are the slots in which nothing else was written between the moments. ``changed`` is all that was touched
    with them. ``standings`` has touched providers as the last of these writes left them, if its order is known.
    """

    slots: frozenset[int] = frozenset()
    changed: Changed = NOTHING
    standings: Mapping[int, Standing] = field(default_factory=dict)

    def beside(self, others: Changed, *, is_all: bool) -> tuple[Changed, Mapping[int, Standing]]:
        """All changes, and the standings that hold after them.

        Args:
            others: the change rows of all other slots.
            is_all: no other slot has a newer tick.
        """
        whole = self.changed.whole | others.whole
        usage = (self.changed.usage | others.usage) - whole
        # A provider's change row names its last write. If that is an own one, its standing includes all earlier writes.
        # The exception is a time that it did not change: an earlier write of another process may have changed that.
        standings = {
            id_: standing
            for id_, standing in self.standings.items()
            if id_ in usage and id_ not in others.usage and (is_all or standing.modified is not None)
        }
        return Changed(whole, usage), standings


class OwnWrites:
    """The notes of a store; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: defaultdict[int, deque[Written]] = defaultdict(lambda: deque(maxlen=MOST))
        """By slot."""

    def note(self, writes: Sequence[Written]) -> None:
        """Add writes whose commit was acknowledged, in the order of their ticks."""
        with self._lock:
            for written in writes:
                # A write that is left out leaves a gap in the ticks, so the refresh reads the change rows of the slot.
                if len(written.whole) + len(written.usage) <= MOST_TOUCHED:
                    self._notes[written.ticked.slot].append(written)

    def forget(self) -> None:
        """Drop all notes, since the database may be another one or an earlier one."""
        with self._lock:
            self._notes.clear()

    @property
    def has_any(self) -> bool:
        """Whether there are notes."""
        with self._lock:
            return any(self._notes.values())

    def expected(self, earlier: Clock) -> Clock:
        """The present clock, if every write since *earlier* is noted here."""
        with self._lock:
            return earlier.after([notes[-1].ticked for notes in self._notes.values() if notes])

    def take(self, earlier: Clock, now: Clock) -> Own:
        """The own writes between two moments, of all slots in which nothing else was written; drops older notes."""
        with self._lock:
            taken = {slot: _taken(notes, now.ticks[slot]) for slot, notes in self._notes.items() if notes}
        complete = {slot: notes for slot, notes in taken.items() if is_complete(notes, slot, earlier, now)}
        return _added_up(complete) if complete else Own()


def _taken(notes: deque[Written], until: int) -> list[Written]:
    """Remove and return the notes up to a tick."""
    taken = []
    while notes and notes[0].ticked.tick <= until:
        taken.append(notes.popleft())
    return taken


def is_complete(notes: list[Written], slot: int, earlier: Clock, now: Clock) -> bool:
    """Whether *notes* are all writes of a slot between two moments; leaves out those before."""
    after = earlier.ticks[slot]
    notes[:] = [written for written in notes if written.ticked.tick > after]
    # One note for each tick: a missing one may be another process's write, or a note that its thread has yet to add.
    # The stamp tells apart two ticks with one number, as they occur after a restore.
    ticks = [written.ticked.tick for written in notes]
    return (
        bool(notes)
        and ticks == list(range(after + 1, now.ticks[slot] + 1))
        and notes[-1].ticked.stamp == now.stamps[slot]
    )


def _added_up(notes_of: Mapping[int, Sequence[Written]]) -> Own:
    whole: set[int] = set()
    standings: dict[int, Standing | None] = {}
    for notes in notes_of.values():
        for id_, standing in _left_behind(notes).items():
            # Writes of several slots have no known order, so the last standing of such a provider is unknown.
            standings[id_] = None if id_ in standings else standing
        for written in notes:
            whole |= written.whole
    changed = Changed(frozenset(whole), frozenset(standings.keys() - whole))
    sure = {id_: standing for id_, standing in standings.items() if standing is not None}
    return Own(frozenset(notes_of), changed, sure)


def _left_behind(notes: Sequence[Written]) -> dict[int, Standing | None]:
    """The providers whose usage some writes touched, in this order, as the last one left them; None if unknown."""
    standings: dict[int, Standing | None] = {}
    for written in notes:
        for id_ in written.usage:
            standing = written.standings.get(id_)
            if standing is not None and standing.modified is None and id_ in standings:
                before = standings[id_]
                # A release changes no time, so the time is still that of the write before it.
                standing = None if before is None else standing._replace(modified=before.modified)
            standings[id_] = standing
    return standings
