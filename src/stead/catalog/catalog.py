"""The catalog: the newest snapshot of this process, and when it is refreshed.

Source: "The write and refresh protocol", docs/protocol.md (rules 10 and 12).
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stead.catalog.loading import Loading
from stead.catalog.refresh import differing, refreshed
from stead.catalog.snapshot import Snapshot
from stead.catalog.stored import totals
from stead.domain.changes import Changes, Portion, SnapshotUnusable
from stead.domain.errors import ConnectionLost, Unavailable
from stead.process import runtime
from stead.process.runtime import collector_paused, keep_for_good, release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from stead.domain.changes import Differences, Moment, Totals


MANY = 10_000
"""From this number of providers on, a load excludes its objects from garbage collection."""

SECONDS_BETWEEN_LINES = 1.0
"""Interval between log lines on the progress of a load."""

IDLE_SECONDS = 1.0
"""Time after the last refresh when an idle process polls the clock."""

SHORTEST_PAUSE_SECONDS = 1.0
"""Time after a load that did not fit into memory before the next one begins. It is at least as long as the load took,
so that a worker whose loads cannot fit spends at most half of its time on them."""

UNCHANGED, CHANGES, EVERYTHING, FAILED = "unchanged", "changes", "everything", "failed"
"""What a refresh loaded."""

_log = logging.getLogger(__name__)


class Catalog:
    """The snapshot that this process caches of all providers; thread-safe."""

    def __init__(self, source: Source, on_refresh: Callable[[str, float], None] | None = None) -> None:
        """Nothing is loaded yet.

        Args:
            on_refresh: receives the result of each refresh (``unchanged``, ``changes``, ``everything`` or ``failed``)
                and its duration in seconds.
        """
        self._on_refresh = on_refresh
        self._source = source
        self._refreshing = threading.Lock()
        self._order = itertools.count(1)
        self._began = 0
        self._failure: Unavailable | None = None
        self._retry_at = 0.0  # after a load that did not fit: until then, callers get its failure
        self._refresh_since: float | None = None  # when the running refresh began
        self._refreshed_at = self._true_at = time.monotonic()
        self._moment: Moment | None = None
        self._snapshot = Snapshot.empty()

    def fresh(self) -> Snapshot:
        """A snapshot with all writes that were acknowledged before the call.

        One refresh runs at a time. A caller that waits for a refresh from before its arrival needs another one. A
        caller that waits for a refresh that began after its arrival uses that result, or its failure. So a caller
        waits for a source that hangs at most twice.

        Raises:
            Unavailable: the source does not answer, or a load does not fit into memory. The next call loads everything
                again, after a load that does not fit only when a pause is over.
        """
        return self.view()[0]

    def view(self) -> tuple[Snapshot, Moment | None]:
        """`fresh`, and the moment of the snapshot.

        Raises:
            Unavailable
        """
        # One counter numbers arrivals and refreshes. It needs no lock, since the lock below orders the refreshes. An
        # arrival that gets its number too early only causes a refresh that was not needed.
        arrived = next(self._order)
        with self._refreshing:
            # The last refresh may have asked the source before this request arrived.
            if self._began < arrived and time.monotonic() >= self._retry_at:
                began = next(self._order)
                self._refresh_since = time.monotonic()
                try:
                    self._refresh()
                except Unavailable as failure:
                    self._began, self._failure = began, replace(failure)
                    raise
                finally:
                    self._refresh_since = None
                self._began, self._failure = began, None
            if self._failure is not None:
                raise replace(self._failure)
            return self._snapshot, self._moment

    def present(self) -> tuple[Snapshot, Moment | None]:
        """The snapshot of the last refresh and its moment, without a refresh; None if the refresh failed."""
        with self._refreshing:
            return self._snapshot, self._moment

    def resume(self, snapshot: Snapshot, source: Resumable, stored: Mapping[str, Any]) -> int:
        """Begin with a stored snapshot, and load what changed since; returns the number of changed providers.

        Args:
            source: the source of this catalog.
            stored: the moment of *snapshot*, from `Resumable.stored`.

        Raises:
            Unfit: *snapshot* cannot be the state of the database at that moment. The catalog is as before.
            Unavailable: the database does not answer.
        """
        with self._refreshing, runtime.short(), collector_paused():
            asked_at = time.monotonic()
            changes, expected = source.resumed(stored)
            after = refreshed(snapshot, changes)
            if totals(after) != expected:
                raise SnapshotUnusable(f"the database has {expected}, the file {totals(after)}")
            self._snapshot, self._moment = after, changes.moment
            self._refreshed_at, self._true_at = time.monotonic(), asked_at
            if expected.providers >= MANY:
                keep_for_good()
        return len(changes.provider_ids) + len(changes.claimed)

    def recent_ids(self, uuids: Iterable[str]) -> dict[str, int]:
        """The ids of those of *uuids* that are in the last snapshot, which may be out of date: a hint."""
        identities = self._snapshot.identities
        slots = {uuid: slot for uuid in uuids if (slot := identities.slot_of_uuid.get(uuid)) is not None}
        return {uuid: identities.ids[slot] for uuid, slot in slots.items()}

    @property
    def lag(self) -> float:
        """Age of the snapshot in seconds: the time since it was known to equal the database."""
        return time.monotonic() - self._true_at

    @property
    def refreshing(self) -> float | None:
        """Seconds for which a refresh has run; None if none runs."""
        since = self._refresh_since
        return None if since is None else time.monotonic() - since

    @property
    def providers(self) -> int:
        """Number of providers in the snapshot."""
        return len(self._snapshot.identities.slot_of_id)

    def ends_of_disabling(self) -> list[int]:
        """The times at which disabled providers become enabled, in seconds since 1970, in the last snapshot."""
        states = self._snapshot.service_states.disabled.values()
        return [state.until for state in states if state.until is not None]

    def look(self) -> float:
        """Refresh, if the last refresh is a second old.

        Returns:
            The seconds after which to call again.


        Raises:
            Unavailable: the source does not answer.
        """
        idle = time.monotonic() - self._refreshed_at
        if idle < IDLE_SECONDS:
            return IDLE_SECONDS - idle
        self.fresh()
        return IDLE_SECONDS

    def ids_between(self, after: int, last: int) -> list[int]:
        """Ids of all providers greater than *after*, up to and including *last*."""
        ids = self.fresh().identities.ids.whole
        between: list[int] = ids[(ids > after) & (ids <= last)].tolist()
        return between

    def uuids(self, ids: Iterable[int]) -> dict[int, str]:
        """The uuids of those of these providers that exist, by id."""
        snapshot = self.fresh()
        slots = {id_: slot for id_ in ids if (slot := snapshot.identities.slot_of_id.get(id_)) is not None}
        return {id_: snapshot.uuid(slot) for id_, slot in slots.items()}

    def differing(self, state: Changes) -> Differences:
        """Where the snapshot differs from *state*, which has everything, even after a refresh.

        Raises:
            Unavailable: the source does not answer.
        """
        self.fresh()
        with self._refreshing:  # a comparison adds values to what all snapshots share, like a refresh
            return differing(self._snapshot, state)

    def _refresh(self) -> None:
        kind, began = FAILED, time.perf_counter()
        try:
            kind = self._load()
        finally:
            if self._on_refresh is not None:
                self._on_refresh(kind, time.perf_counter() - began)

    def _load(self) -> str:
        # Cleared before the query: if the refresh fails, the state is uncertain, and the next one loads everything.
        since, self._moment = self._moment, None
        # The age of the snapshot counts from before the query, since the result may be as old as that.
        asked_at = time.monotonic()
        # The garbage collector would visit every row that is read. It runs again when the rows are freed.
        with runtime.short(), collector_paused():
            try:
                refresh = self._followed(since)
            except MemoryError as error:
                # The process stays: it answers what needs no fresh snapshot, and its next load may fit.
                now = time.monotonic()
                self._retry_at = now + max(SHORTEST_PAUSE_SECONDS, now - asked_at)
                text = "What has changed does not fit into the memory of a worker."
                if isinstance(error, _TooLarge):
                    text = str(error)
                _log.error("%s", text)
                raise Unavailable(text) from error
            replaced, self._snapshot, self._moment = [self._snapshot], refresh.snapshot, refresh.moment
            if refresh.kind == EVERYTHING:  # after smaller refreshes, the snapshots share nearly all data
                release(replaced)
        self._refreshed_at, self._true_at = time.monotonic(), asked_at
        return refresh.kind

    def _followed(self, since: Moment | None) -> _Refresh:
        while True:
            with suppress(ConnectionLost):  # the source bounds how often
                return _followed(self._snapshot, since, self._source.changes(since))


class _Refresh(NamedTuple):
    """The snapshot after a refresh, its moment, and what the refresh loaded."""

    snapshot: Snapshot
    moment: Moment | None
    kind: str


def _followed(snapshot: Snapshot, moment: Moment | None, parts: Iterable[Changes | Portion]) -> _Refresh:
    """The snapshot after all *parts* of what changed since *moment*."""
    refresh = _Refresh(snapshot, moment, UNCHANGED)
    remaining = iter(parts)
    for changes in remaining:
        assert isinstance(changes, Changes)  # the portions of a load follow its names
        refresh = _Refresh(refreshed(refresh.snapshot, changes), changes.moment, CHANGES)
        if changes.everything:
            # What follows belongs to the same load: the loop here ends with it.
            whole = _loaded(refresh.snapshot, remaining, changes.providers_in_all)
            refresh = _Refresh(whole, changes.moment, EVERYTHING)
    return refresh


def _loaded(names: Snapshot, portions: Iterable[Changes | Portion], number: int) -> Snapshot:
    """The snapshot with *names* and with all *portions*, which have *number* providers in total."""
    progress, loading = _Progress(number), Loading(names)
    try:
        for portion in portions:
            assert isinstance(portion, Portion)
            loading.add(portion)
            progress.add(len(portion.providers.ids))
        snapshot = loading.snapshot()
    except MemoryError as error:
        size = loading.size()
        del loading
        raise _TooLarge(f"The providers do not fit into the memory of a worker: {size}.") from error
    if number >= MANY:
        keep_for_good()
    return snapshot


class _TooLarge(MemoryError):
    """A complete load does not fit into memory. The message counts what arrived."""


class _Progress:
    """Logs the progress of a long load."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._loaded = 0
        self._logged_at = time.monotonic()

    def add(self, loaded: int) -> None:
        self._loaded += loaded
        now = time.monotonic()
        if now - self._logged_at > SECONDS_BETWEEN_LINES:
            self._logged_at = now
            share = self._loaded / max(self._number, 1)
            _log.info("loading providers: %3.0f %% (%s of %s)", share * 100, f"{self._loaded:,}", f"{self._number:,}")


# What the catalog needs from the store. `service.service` connects the two.


class Source(Protocol):
    """The database, as the catalog reads it."""

    def changes(self, since: Moment | None) -> Iterator[Changes | Portion]:
        """The changes after *since*: none, one difference, or everything if *since* is None or too old.

        Everything arrives as `Changes` with all names, then in portions of providers. Ticks and rows are from one
        snapshot of the database, over all portions. So no change is missing, and none is partial.

        Raises:
            ConnectionLost: the connection broke. What has arrived is void; the same *since* is tried again at once.
            Unavailable: the database does not answer. The same *since* can be tried again.

        Source: "The write and refresh protocol", docs/protocol.md.
        """
        ...


class Resumable(Protocol):
    """The database, as a catalog reads it that begins with a stored snapshot."""

    def stored(self, moment: Moment | None) -> Mapping[str, Any] | None:
        """*moment* of the last refresh, and the server, as JSON values; None if it cannot be recognized later."""
        ...

    def resumed(self, stored: Mapping[str, Any]) -> tuple[Changes, Totals]:
        """The changes since a stored moment, with its new moment, and sums over the providers after them.

        Raises:
            Unfit: the changes since then are not known, or it is a moment of another database.
            Unavailable: the database does not answer.
        """
        ...
