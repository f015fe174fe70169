"""The service: a store and a catalog, introduced to each other. Reads take the left stairs, writes the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from stead.background import Background
from stead.candidates import engine
from stead.catalog import catalog
from stead.catalog.catalog import Catalog
from stead.store import aggregates, allocations, names, reshape
from stead.store.changes import ChangeSource
from stead.store.consumers import OwnersUnknown, make_owners
from stead.store.reconcile import Reconciling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Answer, Enumeration
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.claim import Claim
    from stead.domain.request import CandidateRequest
    from stead.store.reshape import NewInventories
    from stead.store.transaction import Store, Transaction

P = ParamSpec("P")
R = TypeVar("R")


class Service:
    """What a Placement service can do, without HTTP."""

    def __init__(self, store: Store, enumeration: Enumeration) -> None:
        """Nothing is connected yet; see :meth:`start`.

        Args:
            enumeration: in which order candidates are found, and how many at most.
        """
        self._store = store
        self._source = ChangeSource(store)
        self._catalog = Catalog(self._source)
        self._enumeration = enumeration
        self._background: list[Background] = []

    def start(self) -> None:
        """Make the standard names known to the database, whose schema is ready, and load it.

        Raises:
            Unavailable: the database does not answer.
        """
        self._store.write(names.sync_standard)
        self._catalog.fresh()

    def keep_up(self, reconcile_interval: float = 0.0) -> None:
        """From now on look for changes also while nobody asks, until the service is closed.

        Args:
            reconcile_interval: seconds between two passes that find what another service wrote to the same database;
                0: there is none.
        """
        self._in_background(Background("look", self._catalog.look, catalog.IDLE_SECONDS))
        if reconcile_interval:
            reconciling = Reconciling(self._store, self._catalog, reconcile_interval)
            self._in_background(Background("reconcile", reconciling.step, 0.0))

    def _in_background(self, work: Background) -> None:
        self._background.append(work)
        work.start()

    def snapshot(self) -> Snapshot:
        """All providers, with everything in it that was acknowledged before the call.

        Raises:
            Unavailable: the database does not answer.
        """
        return self._catalog.fresh()

    def candidates(self, request: CandidateRequest, form: Form) -> Answer:
        """The answer to a candidate request.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        return engine.answer(self.snapshot(), request, self._enumeration, form)

    def read(self, body: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Read what only SQL knows, from one fresh snapshot of the database.

        Raises:
            Unavailable: the database does not answer.
        """
        return self._store.read(body, *args, **kwargs)

    def write(self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Change the truth in one transaction; it is durable when this returns.

        Raises:
            Unavailable: the database does not answer, or not in time. Nothing was written, unless the error says that
                this is not known.
            ConcurrentUpdate: other writers were faster until the time was over.
        """
        return self._store.write(body, *args, **kwargs)

    def claim(self, claims: Sequence[Claim]) -> None:
        """Replace all that some consumers hold; all of it or nothing.

        Raises:
            ConsumerConflict, UnknownProvider, UnknownResourceClass, AllocationRefused, Unavailable
            ConcurrentUpdate: other writers were faster until the time for claims was over.
        """
        self._write_claims(claims, allocations.replace, claims)

    def reshape(self, inventories: Mapping[str, NewInventories], claims: Sequence[Claim]) -> None:
        """Move inventories and allocations between providers; all of it or nothing.

        Raises:
            UnknownProvider, GenerationConflict, ConsumerConflict, UnknownResourceClass, InventoryInUse,
            AllocationRefused, Unavailable
            ConcurrentUpdate: other writers were faster until the time for claims was over.
        """
        self._write_claims(claims, reshape.reshape, inventories, claims)

    def _write_claims(
        self, claims: Sequence[Claim], body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """A write that names projects, users and types; those nobody named before are made first."""
        try:
            return self._store.claim(body, *args, **kwargs)
        except OwnersUnknown:
            make_owners(self._store, claims)
            return self._store.claim(body, *args, **kwargs)

    def replace_aggregates(self, provider: str, uuids: Sequence[str], expected: int | None) -> int:
        """Make *uuids* all aggregates of a provider; returns its generation. None: unchecked.

        Raises:
            ProviderNotFound, GenerationConflict, Unavailable
        """
        ids = names.aggregate_ids(self._store, uuids)
        return self._store.write(aggregates.replace, provider, list(ids.values()), expected)

    def close(self) -> None:
        """Close all connections, and do nothing any more."""
        while self._background:
            self._background.pop().stop()
        self._source.close()
        self._store.close()
