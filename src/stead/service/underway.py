"""Claims underway: what the claims of this process are about to write, as a hint for those that look for a place.

Without it, claims that run at the same time find the same best place, and all but one of them lose the race under the
locks. Nothing rests on the hint: whatever it says, a claim is decided on the locked rows. So it needs to be right only
most of the time, and no wait for it may be long.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.domain.placing import Granted

    Grants = dict[int, Sequence[Granted]]
    """What each claim was granted, by the identity of that object: two claims can be granted the same."""

LONGEST_TURN_SECONDS = 0.1
"""How long a search keeps others waiting: most need a few milliseconds, a large gang may need seconds."""


class Underway:
    """The claims of one process that have a place and are not written yet."""

    def __init__(self) -> None:
        self._granted: Grants = {}
        self._views: dict[int, Grants] = {}
        self._changing = Lock()
        self._turn = Lock()
        self._began = 0.0

    @contextmanager
    def looking(self) -> Iterator[Grants]:
        """Until this ends, all that other claims are about to take, and what they took since it began.

        It begins before the snapshot is read, and nothing leaves it. A claim that is written in between is in the
        snapshot or not, so without the second half it could be in neither.
        """
        with self._changing:
            view = dict(self._granted)
            self._views[id(view)] = view
        try:
            yield view
        finally:
            with self._changing:
                del self._views[id(view)]

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Searches run one after another, so that each sees the places of those before it.

        The bound counts from the beginning of the search that runs, not from the beginning of the wait. Else a queue of
        claims behind a large gang would wait once for each of them. After the bound, a search runs beside the other.
        """
        remaining = self._began + LONGEST_TURN_SECONDS - time.monotonic()
        is_alone = self._turn.acquire(timeout=max(remaining, 0.0))
        try:
            if is_alone:
                self._began = time.monotonic()
            yield
        finally:
            if is_alone:
                self._turn.release()

    def add(self, granted: Sequence[Granted]) -> None:
        """A claim is about to write *granted*. It adds this before its turn ends, so that the next search sees it."""
        with self._changing:
            for grants in (self._granted, *self._views.values()):
                grants[id(granted)] = granted

    def remove(self, granted: Sequence[Granted]) -> None:
        """A claim has written *granted*, or was refused, or never added it. Those who look already go on seeing it."""
        with self._changing:
            self._granted.pop(id(granted), None)
