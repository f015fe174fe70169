"""Claims underway: what the claims of this process are about to write, as a hint for concurrent searches.

Without the hint, concurrent claims find the same best place, and all but one of them lose the race under the locks. The
hint affects only performance: the locked rows decide every claim. So the hint may sometimes be wrong, and waiting for
it must never take long.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from stead.candidates.placing import summed
from stead.process import slices
from stead.service.placed_amounts import slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Identities, Snapshot
    from stead.domain.placing import Granted

    Announcements = dict[int, "Announced"]
    """By the identity of the grants: two claims can have equal grants."""

LONGEST_TURN_SECONDS = 0.1
"""Maximum time that a search delays others. Most need a few milliseconds, a large gang may need seconds."""


@dataclass(frozen=True, eq=False, slots=True)
class Announced:
    """What a claim is about to write: ``amounts`` in a snapshot with these ``identities``."""

    granted: Sequence[Granted]
    identities: Identities
    amounts: Amounts

    def amounts_in(self, snapshot: Snapshot) -> Amounts:
        """The amounts by the slots of *snapshot*."""
        # Slots stay the same until a provider is created, renamed or deleted.
        if snapshot.identities is self.identities:
            return self.amounts
        return summed(slots(snapshot, grant.allocations) for grant in self.granted)


class Underway:
    """The claims of one process that have a place but are not written yet."""

    def __init__(self) -> None:
        self._announced: Announcements = {}
        self._views: dict[int, Announcements] = {}
        self._changing = Lock()
        self._turn = Lock()
        self._began = 0.0

    @contextmanager
    def looking(self) -> Iterator[Announcements]:
        """For the block, what all other claims underway announced, including those that are added meanwhile.

        Enter the block before the snapshot is read. Nothing is ever removed from this view. A claim that is written
        meanwhile may be missing from the snapshot; without this rule, it could be missing from both.
        """
        with self._changing:
            view = dict(self._announced)
            self._views[id(view)] = view
        try:
            yield view
        finally:
            with self._changing:
                del self._views[id(view)]

    @contextmanager
    def turn(self) -> Iterator[Callable[[], None]]:
        """Run searches one after another, so that each sees the places of those before it.

        The bound counts from the start of the running search, not from the start of the wait. Otherwise a queue of
        claims behind a large gang would wait once for each of them. After the bound, a search runs beside the other.

        Returns:
            What a long search calls at times, so that short requests run in between.
        """
        remaining = self._began + LONGEST_TURN_SECONDS - time.monotonic()
        is_alone = self._turn.acquire(timeout=max(remaining, 0.0))
        try:
            if is_alone:
                self._began = time.monotonic()
            since = time.monotonic()

            def give_way() -> None:
                # Within the bound, other claims wait for this search, so it must not wait for others.
                if time.monotonic() > since + LONGEST_TURN_SECONDS:
                    slices.give_way()

            yield give_way
        finally:
            if is_alone:
                self._turn.release()

    def add(self, announced: Announced) -> None:
        """Announce what a claim is about to write, before its turn ends, so that the next search sees it."""
        with self._changing:
            for announcements in (self._announced, *self._views.values()):
                announcements[id(announced.granted)] = announced

    def remove(self, granted: Sequence[Granted]) -> None:
        """Remove *granted* after its claim was written, refused, or never added. Present views keep it."""
        with self._changing:
            self._announced.pop(id(granted), None)
