"""The catalog: the newest snapshot this process has, and how it becomes new enough.

Source: "The write and refresh protocol", docs/architecture.md (rules 10 and 12).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from stead.catalog.comparison import differing
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.errors import Unavailable
from stead.memory import much_to_stay

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.catalog.source import Source
    from stead.domain.changes import Changes, Differences, Moment

MANY = 10_000
"""From so many providers on, what a load makes is worth keeping out of the collector's sight."""

SECONDS_BETWEEN_LINES = 1.0
"""How often the log hears of a load that is on its way."""

IDLE_SECONDS = 1.0
"""So long after the last refresh a process looks by itself."""

_log = logging.getLogger(__name__)


class Catalog:
    """What this process knows of all providers; safe under threads."""

    def __init__(self, source: Source) -> None:
        """Nothing is loaded yet."""
        self._source = source
        self._refreshing = threading.Lock()
        self._order = itertools.count(1)
        self._began = 0
        self._failure: Unavailable | None = None
        self._looked = time.monotonic()
        self._moment: Moment | None = None
        self._snapshot = Snapshot.empty()

    def fresh(self) -> Snapshot:
        """A snapshot that holds all that was acknowledged before the call.

        One refresh runs at a time. Whoever waits for one that began before it came needs another; whoever waits for one
        that began after it came takes that, or its failure: a source that hangs is waited for twice at most.

        Raises:
            Unavailable: the source does not answer. The next call loads everything anew.
        """
        arrived = next(self._order)
        with self._refreshing:
            if self._began < arrived:
                began = next(self._order)
                try:
                    self._refresh()
                except Unavailable as failure:
                    self._began, self._failure = began, replace(failure)
                    raise
                self._began, self._failure = began, None
            if self._failure is not None:
                raise replace(self._failure)
            return self._snapshot

    def look(self) -> float:
        """Refresh, if nobody did for a second; returns for how many seconds nobody needs to look again.

        Raises:
            Unavailable: the source does not answer.
        """
        idle = time.monotonic() - self._looked
        if idle < IDLE_SECONDS:
            return IDLE_SECONDS - idle
        self.fresh()
        return IDLE_SECONDS

    def ids_between(self, after: int, last: int) -> list[int]:
        """Ids of the known providers, from the one next to *after* to *last*."""
        ids = self.fresh().identities.ids.whole
        found: list[int] = ids[(ids > after) & (ids <= last)].tolist()
        return found

    def differing(self, state: Changes) -> Differences:
        """Of what *state* tells all of, that which is known otherwise, even after a refresh.

        Raises:
            Unavailable: the source does not answer.
        """
        self.fresh()
        with self._refreshing:  # for snapshots share what a comparison adds to, as a refresh does
            return differing(self._snapshot, state)

    def _refresh(self) -> None:
        since, self._moment = self._moment, None  # if this fails, the next refresh trusts nothing
        portions = self._source.changes(since)
        snapshot, moment = self._snapshot, since
        for changes in portions:
            snapshot, moment = refreshed(snapshot, changes), changes.moment
            if changes.everything:
                snapshot = _loaded(snapshot, portions, changes.providers_in_all)
        self._snapshot, self._moment = snapshot, moment
        self._looked = time.monotonic()


def _loaded(snapshot: Snapshot, portions: Iterable[Changes], number: int) -> Snapshot:
    """*snapshot* with all *portions* added, *number* providers together."""
    progress = _Progress(number)
    with much_to_stay() if number >= MANY else nullcontext():
        for changes in portions:
            snapshot = refreshed(snapshot, changes)
            progress.add(len(changes.providers))
    return snapshot


class _Progress:
    """Tells the log about a load that takes long."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._loaded = 0
        self._told = time.monotonic()

    def add(self, loaded: int) -> None:
        self._loaded += loaded
        now = time.monotonic()
        if now - self._told > SECONDS_BETWEEN_LINES:
            self._told = now
            share = self._loaded / max(self._number, 1)
            _log.info("loading providers: %3.0f %% (%s of %s)", share * 100, f"{self._loaded:,}", f"{self._number:,}")
