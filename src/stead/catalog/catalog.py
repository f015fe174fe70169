"""The catalog: the newest snapshot this process has, and how it becomes new enough.

Source: "The write and refresh protocol", docs/protocol.md (rules 10 and 12).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

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

UNCHANGED, CHANGES, EVERYTHING, FAILED = "unchanged", "changes", "everything", "failed"
"""What a refresh loaded."""

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
        # One counter numbers arrivals and refreshes. It needs no lock: the lock below orders the refreshes, and an
        # arrival that gets its number too early only causes a refresh that was not needed.
        arrived = next(self._order)
        with self._refreshing:
            if self._began < arrived:  # the last refresh may have asked the source before this request arrived
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
        between: list[int] = ids[(ids > after) & (ids <= last)].tolist()
        return between

    def uuids(self, ids: Iterable[int]) -> dict[int, str]:
        """The uuids of those of these providers that are known, by id."""
        snapshot = self.fresh()
        slots = {id_: slot for id_ in ids if (slot := snapshot.identities.slot_of_id.get(id_)) is not None}
        return {id_: snapshot.uuid(slot) for id_, slot in slots.items()}

    def differing(self, state: Changes) -> Differences:
        """Of what *state* tells all of, that which is known otherwise, even after a refresh.

        Raises:
            Unavailable: the source does not answer.
        """
        self.fresh()
        with self._refreshing:  # for snapshots share what a comparison adds to, as a refresh does
            return differing(self._snapshot, state)

    def _refresh(self) -> None:
        kind, began = FAILED, time.perf_counter()
        try:
            kind = self._load()
        finally:
            if self._on_refresh is not None:
                self._on_refresh(kind, time.perf_counter() - began)

    def _load(self) -> str:
        # Taken away before the source is asked: if the refresh fails, the next one trusts nothing and loads everything.
        since, self._moment = self._moment, None
        # The age of what is known counts from before the question, since the answer may be as old as that.
        asked_at = time.monotonic()
        # The collector would look at every row that is read, and it runs again only when the rows are freed.
        with turns.short(), collector_paused():
            refresh = _followed(self._snapshot, since, self._source.changes(since))
            replaced, self._snapshot, self._moment = [self._snapshot], refresh.snapshot, refresh.moment
            if refresh.kind == EVERYTHING:  # after smaller refreshes, the snapshots share nearly all they hold
                let_go(replaced)
        self._looked, self._true_at = time.monotonic(), asked_at
        return refresh.kind


class _Refresh(NamedTuple):
    """The snapshot after a refresh, its moment, and how much the refresh loaded."""

    snapshot: Snapshot
    moment: Moment | None
    kind: str


def _followed(snapshot: Snapshot, moment: Moment | None, portions: Iterator[Changes]) -> _Refresh:
    """*snapshot*, which is of *moment*, after *portions*."""
    refresh = _Refresh(snapshot, moment, UNCHANGED)
    for changes in portions:
        refresh = _Refresh(refreshed(refresh.snapshot, changes), changes.moment, CHANGES)
        if changes.everything:
            # The portions that follow belong to the same load: the loop here ends with them.
            whole = _loaded(refresh.snapshot, portions, changes.providers_in_all)
            refresh = _Refresh(whole, changes.moment, EVERYTHING)
    return refresh


def _loaded(snapshot: Snapshot, portions: Iterable[Changes], number: int) -> Snapshot:
    """*snapshot* with all *portions* added, *number* providers together."""
    progress = _Progress(number)
    for changes in portions:
        replaced = [snapshot]
        snapshot = refreshed(snapshot, changes)
        let_go(replaced)  # portion by portion: freeing a large site at once keeps all other threads waiting
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
