"""The catalog: the newest snapshot this process has, and how it becomes new enough.

Source: "The write and refresh protocol", docs/architecture.md (rules 10 and 12).
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot

if TYPE_CHECKING:
    from stead.catalog.source import Source
    from stead.domain.changes import Moment


class Catalog:
    """What this process knows of all providers; safe under threads."""

    def __init__(self, source: Source) -> None:
        """Nothing is loaded yet."""
        self._source = source
        self._refreshing = threading.Lock()
        self._order = itertools.count(1)
        self._began = 0
        self._moment: Moment | None = None
        self._snapshot = Snapshot.empty()

    def fresh(self) -> Snapshot:
        """A snapshot that holds all that was acknowledged before the call.

        One refresh runs at a time. Whoever waits for one that began before it came needs another; whoever waits for one
        that began after it came takes that.

        Raises:
            Unavailable: the source does not answer. The next call loads everything anew.
        """
        arrived = next(self._order)
        with self._refreshing:
            if self._began < arrived:
                began = next(self._order)
                self._refresh()
                self._began = began
            return self._snapshot

    def _refresh(self) -> None:
        since, self._moment = self._moment, None  # if this fails, the next refresh trusts nothing
        changes = self._source.changes(since)
        if changes is not None:
            self._snapshot = refreshed(self._snapshot, changes)
        self._moment = changes.moment if changes is not None else since
