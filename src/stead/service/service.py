"""The service: a store and a catalog, introduced to each other. Reads take the left stairs, writes the right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

from stead.candidates import engine
from stead.candidates.explain.explain import explain
from stead.candidates.phases import UNTIMED
from stead.catalog import catalog
from stead.catalog.catalog import Catalog
from stead.process import slices
from stead.process.background import Background
from stead.service.claims import Claiming
from stead.store import aggregates, allocations, names, reshape
from stead.store.consumers import OwnersUnknown, make_owners
from stead.store.feed import pruning
from stead.store.feed.pruning import Pruning
from stead.store.feed.reconcile import Reconciling
from stead.store.feed.refresh_source import ChangeSource, digest_of
from stead.store.feed.watching import Watchers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Answer, Enumeration
    from stead.candidates.explain.explain import Explanation
    from stead.candidates.phases import Phases
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.claim import Claim
    from stead.domain.placing import Outcome, Wish
    from stead.domain.request import CandidateRequest
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.connections import PoolState
    from stead.store.protocol.transaction import Store, Transaction
    from stead.store.reshape import NewInventories

P = ParamSpec("P")
R = TypeVar("R")

KEPT_CHANGES = 1_000_000
"""Writes of which the change log is kept, if nobody says otherwise."""


class Vitals(NamedTuple):
    """Numbers that change all the time; ``lag`` is the seconds since the memory was known to be the truth."""

    providers: int
    lag: float
    pools: Mapping[str, PoolState]
    broken_connections: int
    watchers: int


class Service:
    """What a Placement service can do, without HTTP."""

    def __init__(
        self,
        store: Store,
        enumeration: Enumeration,
        on_refresh: Callable[[str, float], None] | None = None,
        *,
        watchers: int = 0,
        watcher_threads: int = 4,
    ) -> None:
        """Nothing is connected yet; see :meth:`start`.

        Args:
            enumeration: in which order candidates are found, and how many at most.
            on_refresh: is told of every refresh of the memory, see `Catalog`.
            watchers: how many requests at a time may wait for something to happen.
        """
        self.watchers = Watchers(store, watchers, watcher_threads)
        self._store = store
        self._source = ChangeSource(store)
        self._catalog = Catalog(self._source, on_refresh)
        self._enumeration = enumeration
        self._claiming = Claiming(store, self._catalog, self._claim_found, enumeration)
        self._background: list[Background] = []

    def start(self) -> None:
        """Make the standard names known to the database, whose schema is ready, and load it.

        Raises:
            Unavailable: the database does not answer.
        """
        self._store.write(names.sync_standard)
        self._catalog.fresh()

    def keep_up(self, reconcile_interval: float = 0.0, kept_changes: int = KEPT_CHANGES) -> None:
        """From now on look for changes also while nobody asks, and prune, until the service is closed.

        Args:
            reconcile_interval: seconds between two passes that find what another service wrote to the same database;
                0: there is none.
            kept_changes: writes of which it can be told later what they changed.
        """
        self._in_background(Background("look", self._catalog.look, catalog.IDLE_SECONDS))
        self._in_background(Background("prune", Pruning(self._store, kept_changes).step, pruning.PAUSE_SECONDS))
        if reconcile_interval:
            reconciling = Reconciling(self._store, self._catalog, reconcile_interval)
            self._in_background(Background("reconcile", reconciling.step, catalog.IDLE_SECONDS))

    def _in_background(self, work: Background) -> None:
        self._background.append(work)
        work.start()

    def snapshot(self) -> Snapshot:
        """All providers, with everything in it that was acknowledged before the call.

        Raises:
            Unavailable: the database does not answer.
        """
        return self._catalog.fresh()

    def view(self) -> tuple[Snapshot, str]:
        """`snapshot`, and a text that is the same in every process for the same state, and for no other.

        Raises:
            Unavailable: the database does not answer.
        """
        snapshot, moment = self._catalog.view()
        return snapshot, digest_of(moment)

    @property
    def lag(self) -> float:
        """Seconds since the memory was known to be the truth."""
        return self._catalog.lag

    def vitals(self) -> Vitals:
        """How the service is, without asking anybody."""
        return Vitals(
            providers=self._catalog.providers,
            lag=self._catalog.lag,
            pools=self._store.pools(),
            broken_connections=self._store.connections.broken,
            watchers=self.watchers.waiting,
        )

    def candidates(self, request: CandidateRequest, form: Form, phases: Phases = UNTIMED) -> Answer:
        """The answer to a candidate request; *phases* is told when a phase ends.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot = self.snapshot()
        phases.mark("refresh")
        return engine.answer(snapshot, request, self._enumeration, form, phases)

    def explain(self, request: CandidateRequest) -> tuple[Snapshot, Explanation]:
        """Why *request* finds what it finds, and the snapshot in which that is so.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot = self.snapshot()
        return snapshot, explain(snapshot, request, self._enumeration.work, give_way=slices.give_way)

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

    @property
    def is_known_to_write(self) -> bool:
        """Whether the database took a write lately, and has refused none since."""
        return self._store.writability.is_known

    def require_writes(self) -> None:
        """Find out whether the database takes writes; by a write, if no write of the last minute tells.

        Raises:
            Unavailable: it takes none.
        """
        self._store.require_writable()

    @property
    def claim_timeout(self) -> float:
        """Seconds for which one claim may take."""
        return self._store.claim_timeout

    def claim_by_query(
        self, wishes: Sequence[Wish], *, distinct_roots: bool, explained: bool, until: float | None = None
    ) -> Outcome:
        """Find a place for what consumers want, and claim it; for all of them, or for none.

        Args:
            distinct_roots: no two of them under the same root.
            explained: if nothing fits, why, as far as there is time for it.
            until: when it gives up, by the monotonic clock; None: after the time for claims, from now.

        Raises:
            UnknownResourceClass, UnknownTraits, NothingFits, ConsumerConflict, Unavailable
            ConcurrentUpdate: other clients were faster until the time for claims was over.
        """
        return self._claiming.claim(wishes, distinct_roots=distinct_roots, explained=explained, until=until)

    def _claim_found(self, claims: Sequence[Claim], since: Clock | None) -> None:
        self._write_claims(claims, allocations.replace, claims, since)

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
            return self._store.write_within_claim_timeout(body, *args, **kwargs)
        except OwnersUnknown:
            make_owners(self._store, claims)
            return self._store.write_within_claim_timeout(body, *args, **kwargs)

    def replace_aggregates(self, provider: str, uuids: Sequence[str], expected: int | None) -> int:
        """Make *uuids* all aggregates of a provider; returns its generation. None: unchecked.

        Raises:
            ProviderNotFound, GenerationConflict, Unavailable
        """
        self._store.read(aggregates.require, provider, expected)
        ids = names.aggregate_ids(self._store, uuids)
        return self._store.write(aggregates.replace, provider, list(ids.values()), expected)

    def close(self) -> None:
        """Close all connections, and do nothing any more."""
        self.watchers.close()
        while self._background:
            self._background.pop().stop()
        self._source.close()
        self._store.close()
