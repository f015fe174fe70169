"""The catalog: the newest snapshot this process has, and how it becomes new enough.

Source: "The write and refresh protocol", docs/protocol.md (rules 10 and 12).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from stead.catalog.comparison import differing
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.errors import Unavailable
from stead.process import turns
from stead.process.memory import collector_paused, keep_for_good, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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

    def __init__(self, source: Source, on_refresh: Callable[[str, float], None] | None = None) -> None:
        """Nothing is loaded yet.

        Args:
            on_refresh: is told what a refresh found (``unchanged``, ``changes``, ``everything``, or that it ``failed``)
                and how many seconds it took.
        """
        self._on_refresh = on_refresh
        self._source = source
        self._refreshing = threading.Lock()
        self._order = itertools.count(1)
        self._began = 0
        self._failure: Unavailable | None = None
        self._looked = self._true_at = time.monotonic()
        self._moment: Moment | None = None
        self._snapshot = Snapshot.empty()

    def fresh(self) -> Snapshot:
        """A snapshot that holds all that was acknowledged before the call.

        One refresh runs at a time. Whoever waits for one that began before it came needs another; whoever waits for one
        that began after it came takes that, or its failure: a source that hangs is waited for twice at most.

        Raises:
            Unavailable: the source does not answer. The next call loads everything anew.
        """
        return self.view()[0]

    def view(self) -> tuple[Snapshot, Moment | None]:
        """`fresh`, and the moment that the snapshot is of.

        Raises:
            Unavailable
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
            return self._snapshot, self._moment

    @property
    def lag(self) -> float:
        """Seconds since what is known was the truth."""
        return time.monotonic() - self._true_at

    @property
    def providers(self) -> int:
        """How many are known."""
        return len(self._snapshot.identities.slot_of_id)

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

    def uuids(self, ids: Iterable[int]) -> dict[int, str]:
        """The uuids of those of these providers that are known, by id."""
        known = self.fresh()
        slots = {id_: slot for id_ in ids if (slot := known.identities.slot_of_id.get(id_)) is not None}
        return {id_: known.uuid(slot) for id_, slot in slots.items()}

    def differing(self, state: Changes) -> Differences:
        """Of what *state* tells all of, that which is known otherwise, even after a refresh.

        Raises:
            Unavailable: the source does not answer.
        """
        self.fresh()
        with self._refreshing:  # for snapshots share what a comparison adds to, as a refresh does
            return differing(self._snapshot, state)

    def _refresh(self) -> None:
        found, began = "failed", time.perf_counter()
        try:
            found = self._load()
        finally:
            if self._on_refresh is not None:
                self._on_refresh(found, time.perf_counter() - began)

    def _load(self) -> str:
        since, self._moment = self._moment, None  # if this fails, the next refresh trusts nothing
        began = time.monotonic()
        with turns.short(), collector_paused():  # until what was read is gone again: it would look at each row
            snapshot, self._moment, found = _followed(self._snapshot, since, self._source.changes(since))
            before, self._snapshot = [self._snapshot], snapshot
            if found == "everything":
                let_go(before)
        self._looked, self._true_at = time.monotonic(), began
        return found


def _followed(
    snapshot: Snapshot, moment: Moment | None, portions: Iterator[Changes]
) -> tuple[Snapshot, Moment | None, str]:
    """The snapshot after *portions*, its moment, and what they were, as `Catalog` tells it."""
    found = "unchanged"
    for changes in portions:
        snapshot, moment, found = refreshed(snapshot, changes), changes.moment, "changes"
        if changes.everything:
            snapshot, found = _loaded(snapshot, portions, changes.providers_in_all), "everything"
    return snapshot, moment, found


def _loaded(snapshot: Snapshot, portions: Iterable[Changes], number: int) -> Snapshot:
    """*snapshot* with all *portions* added, *number* providers together."""
    progress = _Progress(number)
    for changes in portions:
        before = [snapshot]
        snapshot = refreshed(snapshot, changes)
        let_go(before)
        progress.add(len(changes.providers))
    if number >= MANY:
        keep_for_good()
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
