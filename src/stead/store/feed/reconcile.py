"""Reconciling: detects what another service writes to the same database, by comparison, and notes it as a change.

The other service does not tick the clock, and raises no generation when it releases allocations. So this process reads
all providers in portions, adds up their allocations, and compares them with its catalog. Differences are compared
again, since they may result from a concurrent write of Stead. What still differs is touched under its lock, and its
maintained sums are deleted, so that every process reloads it.

Source: "The write and refresh protocol", docs/protocol.md (rules 15 and 16).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from stead.domain.inventory import MAX_INT
from stead.store import providers
from stead.store.feed.refresh_source import names_of, state_of
from stead.store.protocol.clock import class_change, trait_change
from stead.store.tables import resource_providers, stead_usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.changes import Changes, Differences
    from stead.store.protocol.store import Store
    from stead.store.protocol.transaction import Transaction

PORTION = 1000
"""Providers that are compared together. Requests that wait for a refresh may have to wait for one comparison."""

BREATH_SECONDS = 0.01
"""Pause between two portions, so that requests can run."""

_log = logging.getLogger(__name__)


class Known(Protocol):
    """The catalog of this process, at the moment of the call or later."""

    def ids_between(self, after: int, last: int) -> Collection[int]:
        """Ids of the known providers greater than *after*, up to and including *last*."""
        ...

    def uuids(self, ids: Iterable[int]) -> Mapping[int, str]:
        """The uuids of the known ones of these providers, by id."""
        ...

    def differing(self, state: Changes) -> Differences:
        """The objects in *state* that differ from the catalog. *state* is complete for the objects that it has."""
        ...


class Reconciling:
    """Repeated passes over all providers, portion by portion."""

    def __init__(self, store: Store, catalog: Known, interval: float) -> None:
        """Read nothing yet.

        Args:
            interval: seconds between two passes.
        """
        self._store = store
        self._catalog = catalog
        self._interval = interval
        self._last = 0

    def step(self) -> float:
        """Compare the next portion; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer. The next step retries the same portion.
        """
        if self._last == 0:
            self._reconcile_names()
        ids = self._store.read(_next_ids, self._last)
        # To the greatest id: the catalog may have deleted providers above the last one of the database.
        last = ids[-1] if len(ids) == PORTION else MAX_INT
        # Also those of the catalog, since the other service may have deleted them.
        self._reconcile({*ids, *self._catalog.ids_between(self._last, last)})
        self._last = last if last < MAX_INT else 0
        return BREATH_SECONDS if self._last else self._interval

    def _reconcile_names(self) -> None:
        for _ in range(2):
            changed_names = self._catalog.differing(self._store.read(names_of, self._store.dialect))
            if not changed_names.traits and not changed_names.resource_classes:
                return
        self._store.write(_touch_names, changed_names)
        _log.info("another service changed %d names", len(changed_names.traits) + len(changed_names.resource_classes))

    def _reconcile(self, ids: Collection[int]) -> None:
        for _ in range(2):
            if not ids:
                return
            ids = self._catalog.differing(self._store.read(state_of, self._store.dialect, ids)).providers
        if ids:
            self._store.write(_touch, ids, self._catalog.uuids(ids))
            _log.info("another service changed %d providers", len(ids))


def _next_ids(connection: Connection, after: int) -> Sequence[int]:
    id_ = resource_providers.c.id
    return connection.scalars(sa.select(id_).where(id_ > after).order_by(id_).limit(PORTION)).all()


def _touch(tx: Transaction, provider_ids: Collection[int], uuids: Mapping[int, str]) -> None:
    """Note that these providers changed; *uuids* has those that may have been deleted."""
    tx.lock(resource_providers, provider_ids)
    there = providers.rows_by_id(tx.connection, provider_ids)
    for id_ in uuids.keys() - there.keys():
        tx.log_gone_provider(uuids[id_])
    tx.connection.execute(sa.delete(stead_usage).where(stead_usage.c.provider_id.in_(provider_ids)))
    tx.touch(provider_ids)


def _touch_names(tx: Transaction, changed_names: Differences) -> None:
    tx.touch(map(trait_change, changed_names.traits))
    tx.touch(map(class_change, changed_names.resource_classes))
