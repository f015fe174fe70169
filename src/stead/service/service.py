"""The service: connects a store with a catalog. Most reads use the catalog, and writes use the store."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar
from weakref import ref

from stead.candidates import engine
from stead.candidates.engine import UNTIMED
from stead.candidates.explain import explain
from stead.candidates.headroom.headroom import headroom
from stead.candidates.losses import MOST_FORMS, Losses
from stead.candidates.mixing import mixed
from stead.candidates.provider_trees import current_trees
from stead.candidates.work import Work
from stead.catalog import catalog
from stead.catalog.catalog import Catalog
from stead.catalog.listing import sums
from stead.domain.errors import ProviderNotFound, Unavailable
from stead.domain.provider_trees import plan_trees
from stead.domain.request import ByHeadroom
from stead.process import runtime
from stead.process.background import Background
from stead.service.claims import Claiming
from stead.service.flavors import STRANDED_SECONDS, FlavorHeadrooms, Stranded, StrandedAmounts
from stead.service.leases import INTERVAL_SECONDS, Expiry
from stead.service.mix import LEARN_SECONDS, Learning, TargetMix
from stead.service.pace import PACE_SECONDS, CourseOfUse
from stead.service.snapshot_keeper import SnapshotKeeper
from stead.service.what_if import Advised, Bounds, Improved, Likeness, WhatIf, advice, improvement, what_if
from stead.store import allocations, names, provider_trees, providers
from stead.store.extensions import service_states
from stead.store.extensions.flavors import heaviest as heaviest_flavors
from stead.store.feed import pruning
from stead.store.feed.changes import Token
from stead.store.feed.pruning import Pruning
from stead.store.feed.refresh_source import ChangeSource, Reconciling, clock_of, digest_of
from stead.store.feed.watching import Watchers
from stead.store.protocol.clock import read_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Answer, Enumeration, Phases
    from stead.candidates.explain import Explanation
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.kinds import Candidate
    from stead.candidates.mixing import Mixed, Part
    from stead.candidates.render import Form
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Moment
    from stead.domain.claim import Claim, ClaimRequest, HeldLease, Outcome
    from stead.domain.provider import Sums
    from stead.domain.provider_trees import TreeDocument, TreePlan
    from stead.domain.request import CandidateRequest, FlavorRoom
    from stead.domain.what_if import Planned
    from stead.service.flavors import Found
    from stead.service.mix import Part as MixPart
    from stead.service.mix import Source
    from stead.store.allocations import NewInventories
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.store import PoolState, Store, Transaction

    Asked = tuple[str, Hashable]
    """The text of a request, and the versions at which it was asked. Both determine the request and its form."""


P = ParamSpec("P")
R = TypeVar("R")

KEPT_CHANGES = 1_000_000
"""Default number of writes in the change log."""


SNAPSHOT_INTERVAL = 600.0
"""Default of the seconds between two writes of the snapshot file."""


LONG_REFRESH_SECONDS = 3.0
"""A refresh that takes longer may have lost its connection, so readiness waits for it."""


class Vitals(NamedTuple):
    """Measurements that change constantly; ``lag`` is the seconds since the catalog was known to be current."""

    providers: int
    lag: float
    pools: Mapping[str, PoolState]
    broken_connections: int
    watchers: int
    overdue_leases: int


class Service:
    """The operations of a Placement service, without HTTP."""

    def __init__(
        self,
        store: Store,
        enumeration: Enumeration,
        on_refresh: Callable[[str, float], None] | None = None,
        *,
        watchers: int = 0,
        watcher_threads: int = 4,
        snapshot_file: Path | None = None,
        snapshot_interval: float = SNAPSHOT_INTERVAL,
        request_of: Callable[[str], CandidateRequest] | None = None,
        query_of: Callable[[CandidateRequest], str | None] | None = None,
        expiry_interval: float = INTERVAL_SECONDS,
        on_lease_end: Callable[[str, int], None] | None = None,
    ) -> None:
        """Connect to nothing yet; see :meth:`start`.

        Args:
            enumeration: in which order candidates are generated, and the maximum number.
            on_refresh: called after every refresh of the catalog, see `Catalog`.
            watchers: how many requests may wait for a change at the same time.
            snapshot_file: where to store the snapshot for the next start; None: nowhere.
            snapshot_interval: seconds between two writes of that file, at least.
            request_of: parses the query of a flavor; without it, there is no mix for the order ``headroom``.
            query_of: the usual spelling of a request; without it, no mix is learned.
            expiry_interval: seconds between two looks for leases that have ended.
            on_lease_end: as of `Expiry`.
        """
        self._expiry = Expiry(store, expiry_interval, on_lease_end)
        self._expiry_interval = expiry_interval
        self.learning = Learning(store, query_of) if query_of else None
        self.mix = (
            TargetMix(partial(self.read, heaviest_flavors, MOST_FORMS), request_of, self._learned)
            if request_of
            else None
        )
        self.losses = Losses(self.mix.forms) if self.mix else None
        self._stranded = StrandedAmounts(self.mix.forms) if self.mix else None
        enumeration = replace(enumeration, losses=self.losses)
        self._use = CourseOfUse()
        self.watchers = Watchers(store, watchers, watcher_threads)
        self._store = store
        self._source = ChangeSource(store)
        self._catalog = Catalog(self._source, on_refresh)
        self.snapshot: Callable[[], Snapshot] = self._catalog.fresh
        """All providers, including every write acknowledged before the call; raises `Unavailable`."""
        self._enumeration = enumeration
        self._answers = Answers()
        self._claiming = Claiming(store, self._catalog, self._replace, enumeration)
        self._flavors = FlavorHeadrooms()
        self._background: list[Background] = []
        self._snapshot_file = (
            SnapshotKeeper(snapshot_file, snapshot_interval, self._catalog, self._source) if snapshot_file else None
        )

    def start(self) -> None:
        """Store the standard names in the database, whose schema is ready, and load the catalog.

        Raises:
            Unavailable: the database does not answer.
        """
        # Before the load, so that the first snapshot already has the standard names.
        self._store.write(names.sync_standard)
        if self._snapshot_file is not None:
            # Before the first refresh, which then reads only what has changed since.
            self._snapshot_file.start()
        self._catalog.fresh()
        if self.learning is not None:
            self.learning.step()
        runtime.return_freed()  # a load needs twice the memory of what it loads

    def keep_up(self, reconcile_interval: float = 0.0, kept_changes: int = KEPT_CHANGES) -> None:
        """From now on poll for changes even without requests, and prune, until the service is closed.

        Args:
            reconcile_interval: seconds between two passes that detect what another service wrote to the same database;
                0: none.
            kept_changes: number of writes in the change log.
        """
        self._in_background(Background("look", self._catalog.look, catalog.IDLE_SECONDS))
        self._in_background(Background("prune", Pruning(self._store, kept_changes).step, pruning.PAUSE_SECONDS))
        self._in_background(Background("enable", Overdue(self._store, self._catalog).step, catalog.IDLE_SECONDS))
        self._in_background(Background("expire", self._expiry.step, self._expiry_interval))
        if self.learning is not None:
            self._in_background(Background("mix", self.learning.step, LEARN_SECONDS))
        if self.mix is not None:
            self._in_background(Background("stranded", self._keep_stranded, STRANDED_SECONDS))
        self._in_background(Background("use", self._keep_use, 0.0))
        if self._snapshot_file is not None:
            self._in_background(Background("snapshot file", self._snapshot_file.step, self._snapshot_file.pause()))
        if reconcile_interval:
            reconciling = Reconciling(self._store, self._catalog, reconcile_interval)
            self._in_background(Background("reconcile", reconciling.step, catalog.IDLE_SECONDS))

    def _in_background(self, work: Background) -> None:
        self._background.append(work)
        work.start()

    def view(self) -> tuple[Snapshot, str]:
        """`snapshot`, and a text that identifies its state: equal in every process exactly if the state is equal.

        Raises:
            Unavailable: the database does not answer.
        """
        snapshot, moment = self._catalog.view()
        return snapshot, digest_of(moment)

    def reach(self) -> None:
        """Find out whether the database answers, and refresh the catalog.

        While another thread refreshes, only query the database: a refresh of many providers can take seconds.

        Raises:
            Unavailable: the database does not answer.
        """
        seconds = self._catalog.refreshing
        if seconds is None or seconds > LONG_REFRESH_SECONDS:
            self._catalog.fresh()
        else:
            self._store.read(read_sums)

    @property
    def lag(self) -> float:
        """Seconds since the catalog was known to be current."""
        return self._catalog.lag

    def vitals(self) -> Vitals:
        """The state of the service, without queries to the database."""
        return Vitals(
            providers=self._catalog.providers,
            lag=self._catalog.lag,
            pools=self._store.pools(),
            broken_connections=self._store.connections.broken,
            watchers=self.watchers.waiting,
            overdue_leases=self._expiry.overdue,
        )

    def candidates(
        self, request: CandidateRequest, form: Form, phases: Phases = UNTIMED, asked: Asked | None = None
    ) -> Answer:
        """The answer to a candidate request; *phases* is called at the end of each phase.

        Args:
            asked: determines *request* and *form*. If the same was asked before and nothing has changed since, the
                answer is not computed again. None: always compute it.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot = self.snapshot()
        phases.mark("refresh")
        request = self._enumeration.ordered(request)
        make = partial(engine.answer, snapshot, request, self._enumeration, form, phases)
        if asked is None or self._enumeration.draws(request):
            return make()
        if self.losses and isinstance(request.order, ByHeadroom):
            # The mix may change without the site. If it does so now, the answer is that of the next mix.
            text, versions = asked
            asked = text, (versions, self.losses.mix_number())
        return self._answers.get(snapshot, asked, make)

    def find(self, request: CandidateRequest) -> tuple[Snapshot, list[Candidate]]:
        """The candidates of *request* as values, and the snapshot that they refer to.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot = self.snapshot()
        return snapshot, list(engine.find(snapshot, self._enumeration.ordered(request), self._enumeration))

    def explain(self, request: CandidateRequest) -> tuple[Snapshot, Explanation]:
        """Why *request* has its result, and the snapshot that the explanation refers to.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot = self.snapshot()
        return snapshot, self.explain_in(snapshot, request)

    def headroom(self, request: CandidateRequest) -> tuple[Snapshot, str | None, Headroom, Explanation | None]:
        """How many times *request* fits: the snapshot, the token of its moment, and an explanation if it fits nowhere.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot, moment = self._catalog.view()
        counted, why = self.headroom_in(snapshot, request)
        return snapshot, _token(moment), counted, why

    def headroom_of_mix(self, parts: Sequence[Part]) -> tuple[Snapshot, str | None, Mixed]:
        """How many mixes of *parts* fit: the snapshot, the token of its moment, and the numbers.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        snapshot, moment = self._catalog.view()
        work = Work(self._enumeration.work, give_way=runtime.give_way)
        return snapshot, _token(moment), mixed(snapshot, parts, self._enumeration, work)

    def headroom_in(self, snapshot: Snapshot, request: CandidateRequest) -> tuple[Headroom, Explanation | None]:
        """How many times *request* fits in *snapshot*, and an explanation if it fits nowhere.

        Raises:
            UnknownResourceClass, UnknownTraits
        """
        counted, why = headroom(snapshot, request, Work(self._enumeration.work, give_way=runtime.give_way)), None
        if not counted.at_most:
            why = self.explain_in(snapshot, request)
        return counted, why

    def explain_in(self, snapshot: Snapshot, request: CandidateRequest) -> Explanation:
        """Why *request* has its result in *snapshot*.

        Raises:
            UnknownResourceClass, UnknownTraits
        """
        return explain(snapshot, request, self._enumeration.work, give_way=runtime.give_way)

    def candidates_in(self, snapshot: Snapshot, request: CandidateRequest, form: Form) -> Answer:
        """The answer to a candidate request in *snapshot*.

        Raises:
            UnknownResourceClass, UnknownTraits
        """
        return engine.answer(snapshot, self._enumeration.ordered(request), self._enumeration, form)

    def what_if(self, changes: Sequence[Planned], bounds: Bounds) -> tuple[WhatIf, str | None]:
        """A snapshot with *changes*, and the token of the moment to which they apply. It writes nothing.

        Raises:
            BadChange, ChangedThingNotFound, Unavailable
            ConcurrentUpdate: the consumers of drained trees changed during every attempt.
        """
        outcome = what_if(self._store, self._catalog, self._enumeration, changes, bounds)
        return outcome, _token(outcome.moment)

    def advice(
        self, request: CandidateRequest, number: int, *, same_traits: bool, same_aggregates: bool, most: int
    ) -> tuple[Advised, str | None]:
        """Which consumers to move so that *request* fits *number* times, and the token of the moment of the answer.

        Args:
            request: its order is that of the new places.
            same_traits, same_aggregates: what new places must be like, see `draining.ConsumerHoldings`.
            most: about this number of consumers are considered.

        Raises:
            UnknownResourceClass, UnknownTraits, Unavailable
        """
        likeness = Likeness(same_traits, same_aggregates, request.order)
        advised = advice(self._store, self._catalog, self._enumeration, request, number, likeness, most)
        return advised, _token(advised.moment)

    def improvement(
        self, number: int, *, same_traits: bool, same_aggregates: bool, most: int
    ) -> tuple[Improved, str | None]:
        """Up to *number* consumers to move so that the most room is left for the mix, and the token of the moment.

        Args:
            same_traits, same_aggregates: what new places must be like, see `draining.ConsumerHoldings`.
            most: about this number of consumers are considered.

        Raises:
            Unavailable
        """
        likeness = Likeness(same_traits, same_aggregates)
        improved = improvement(self._store, self._catalog, self._enumeration, number, likeness, most)
        return improved, _token(improved.moment)

    def note_asked(self, request: CandidateRequest, consumer: str | None = None) -> None:
        """A client asked for candidates of *request*, or for a claim of it for *consumer*: the mix learns it later."""
        if self.learning is not None:
            self.learning.note(request, consumer)

    def parts_of_mix(self) -> tuple[Source, Sequence[MixPart]]:
        """Where the mix is from, and its forms, the heaviest first.

        Raises:
            Unavailable
        """
        return self.mix.parts() if self.mix else ("none", ())

    def forget_learned(self) -> None:
        """Forget how often clients asked for what.

        Raises:
            Unavailable, ConcurrentUpdate
        """
        if self.learning is not None:
            self.learning.forget()
            self.forget_mix()

    def _learned(self) -> Mapping[str, float]:
        return {} if self.learning is None else self.learning.weights

    def forget_mix(self) -> None:
        """Read the mix again before its next use: a flavor changed."""
        if self.mix is not None:
            self.mix.forget()

    def headrooms(self, requests: Mapping[str, CandidateRequest]) -> tuple[str | None, dict[str, Found]]:
        """How many times each of several requests fits: the token of the moment, and the results by name.

        The requests share the work of two. Requests for which none is left are omitted. A text is the reason why a
        request has no result.

        Raises:
            Unavailable
        """
        snapshot, moment = self._catalog.view()
        headroom_of = self._flavors.headrooms(snapshot, digest_of(moment), requests, self._enumeration.work)
        clock = clock_of(moment)
        return None if clock is None else Token.of(clock).text(), headroom_of

    def stranded(self) -> tuple[Snapshot, str | None, Stranded]:
        """What is stranded for the mix: the snapshot, the token of its moment, and the amounts.

        The forms share the work of two requests. It is counted once for each state of the site.

        Raises:
            Unavailable
        """
        snapshot, moment = self._catalog.view()
        if self._stranded is None:
            return snapshot, _token(moment), Stranded({}, {}, 0, 0, is_complete=True)
        return snapshot, _token(moment), self._stranded.now(snapshot, digest_of(moment), self._enumeration.work)

    def _keep_stranded(self) -> float:
        """Count what is stranded, so that its course has no gap; returns the seconds until the next time."""
        self.stranded()
        return STRANDED_SECONDS

    def use(self, present: Sequence[Sums]) -> CourseOfUse:
        """The course of use until now; *present*: the sums over all providers."""
        self._use.note(present)
        return self._use

    def _keep_use(self) -> float:
        snapshot = self.snapshot()
        self._use.note(sums(snapshot, snapshot.live))
        return PACE_SECONDS

    def rooms_of_flavors(
        self, requests: Mapping[str, CandidateRequest], aggregates: Mapping[str, str]
    ) -> Iterator[FlavorRoom]:
        """How many times each of several requests fits, into all trees and into those whose root is in an aggregate.

        Args:
            aggregates: the uuid of each aggregate by its label; one that does not exist has no trees.

        Raises:
            Unavailable: at once, not while iterating.
        """
        snapshot, moment = self._catalog.view()
        roots = {}
        for label, uuid in aggregates.items():
            ids = [snapshot.aggregate_ids[uuid]] if uuid in snapshot.aggregate_ids else []
            roots[label] = snapshot.roots & snapshot.in_aggregates([ids], ())
        return self._flavors.among(snapshot, digest_of(moment), requests, roots, self._enumeration.work)

    def read(self, body: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Read data that is only in the database, in one fresh database snapshot.

        Raises:
            Unavailable: the database does not answer.
        """
        return self._store.read(body, *args, **kwargs)

    def write(self, body: Callable[Concatenate[Transaction, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Change the database in one transaction, which is durable when this returns.

        Raises:
            Unavailable: the database does not answer, or not in time. Nothing was written, unless the error says that
                the outcome is unknown.
            ConcurrentUpdate: the write lost every race until the write timeout.
        """
        return self._store.write(body, *args, **kwargs)

    def claim(self, claims: Sequence[Claim]) -> None:
        """Replace all allocations of some consumers; all of them or none.

        Raises:
            LeaseRefused, ConsumerConflict, UnknownProvider, UnknownResourceClass, AllocationRefused, Unavailable
            ConcurrentUpdate: the claim lost every race until the claim timeout.
        """
        self._replace(claims, None)

    @property
    def is_known_to_write(self) -> bool:
        """Whether the database accepted a write recently, and has refused none since."""
        return self._store.writability.is_known

    def require_writes(self) -> None:
        """Find out whether the database accepts writes, with a test write if there was no write in the last minute.

        Raises:
            Unavailable: it rejects writes.
        """
        self._store.require_writable()

    @property
    def claim_timeout(self) -> float:
        """Maximum duration of one claim in seconds."""
        return self._store.claim_timeout

    def claim_by_query(
        self,
        claim_requests: Sequence[ClaimRequest],
        *,
        distinct_roots: bool,
        explained: bool,
        until: float | None = None,
    ) -> Outcome:
        """Find a place for the request of each consumer, and claim it; for all of them, or for none.

        Args:
            distinct_roots: no two consumers under the same root.
            explained: if nothing fits, explain it, if time remains.
            until: deadline on the monotonic clock; None: the claim timeout from now.

        Raises:
            UnknownResourceClass, UnknownTraits, NothingFits, NothingFound, ConsumerConflict, LeaseRefused, Unavailable
            ConcurrentUpdate: the claim lost every race until the deadline.
        """
        return self._claiming.claim(claim_requests, distinct_roots=distinct_roots, explained=explained, until=until)

    def _replace(self, claims: Sequence[Claim], since: Clock | None) -> dict[str, HeldLease]:
        ids = self._catalog.recent_ids({uuid for claim in claims for uuid in claim.allocations})
        return self._store.write_within_claim_timeout(allocations.replace, claims, since, ids)

    def reshape(self, inventories: Mapping[str, NewInventories], claims: Sequence[Claim]) -> None:
        """Move inventories and allocations between providers; all of them or none.

        Raises:
            UnknownProvider, GenerationConflict, ConsumerConflict, UnknownResourceClass, InventoryInUse,
            AllocationRefused, Unavailable
            ConcurrentUpdate: the write lost every race until the claim timeout.
        """
        self._store.write_within_claim_timeout(allocations.reshape, inventories, claims)

    def replace_aggregates(self, provider: str, uuids: Sequence[str], expected: int | None) -> int:
        """Replace all aggregates of a provider; returns its generation. *expected* None: unchecked.

        Raises:
            ProviderNotFound, GenerationConflict, Unavailable
        """
        # Refused here if possible: new aggregates get their ids in a transaction of their own, which stays committed.
        self._store.read(providers.require, provider, expected)
        ids = names.aggregate_ids(self._store, uuids)
        return self._store.write(providers.replace, provider, list(ids.values()), expected)

    def plan_trees(self, document: TreeDocument) -> TreePlan:
        """What `replace_trees` would do.

        Raises:
            DocumentFault, GenerationConflict, DescribedProviderGone, DuplicateProvider, Unavailable
        """
        return plan_trees(document, current_trees(self.snapshot(), document), runtime.give_way)

    def replace_trees(self, document: TreeDocument) -> TreePlan:
        """Make provider trees match *document*, completely or not at all; returns the plan that was carried out.

        If the snapshot shows that nothing changes, or that the document is refused, nothing is locked.

        Raises:
            DocumentFault, GenerationConflict, DescribedProviderGone, DuplicateProvider, RemovedInUse,
            CapacityBelowUse, Unavailable
            ConcurrentUpdate: the write lost every race until the write timeout.
        """
        plan = self.plan_trees(document)
        plan.require_allowed(document)
        if plan.is_empty:
            return plan
        ids = names.aggregate_ids(self._store, document.aggregates())
        return self._store.write(provider_trees.write, document, ids)

    def store_snapshot(self) -> None:
        """Write the snapshot file, if the service has one, so that the next start has little to load."""
        if self._snapshot_file is not None:
            self._snapshot_file.write_at_end()

    def pass_time(self, seconds: int) -> None:
        """Let leases end as if nothing had been renewed for this time: for tests of programs with leases.

        Returns when those that then have ended are released or marked.
        """
        self._expiry.pass_time(seconds)

    def close(self) -> None:
        """Close all connections, and stop all work."""
        # First all that uses connections, then the connections.
        self.watchers.close()
        while self._background:
            self._background.pop().stop()
        if self.learning is not None:
            with suppress(Unavailable):
                self.learning.finish()
        self.store_snapshot()
        self._source.close()
        self._store.close()


def _token(moment: Moment | None) -> str | None:
    """The token of GET ``/changes`` for a moment; None if it has no clock."""
    clock = clock_of(moment)
    return None if clock is None else Token.of(clock).text()


# Answers to candidate requests that were asked before, in the same snapshot.
#
# Many clients can ask the same between two changes: a scheduler for each of a thousand equal servers, or several
# schedulers. While nothing changes, a request has one answer, so it is computed once.
#
# Source: decision 50.


MOST_BYTES = 16 << 20
"""Limit of the bytes of all answers together: 16 answers with 1,000 candidates, or one with 10,000."""

BESIDE = 1024
"""Bytes that an answer needs beside its text, so that short answers are bounded too."""


class Answers:
    """The answers in the snapshot of the last call, up to a limit of bytes; thread-safe.

    An older snapshot can follow a newer one, if its request waited for its slice. Then both compute their answers.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The cache must not keep the memory of a replaced snapshot.
        self._snapshot: Callable[[], Any] = lambda: None
        self._answer_to: dict[Asked, Answer] = {}  # the oldest first
        self._bytes = 0

    def get(self, snapshot: Snapshot, asked: Asked, make: Callable[[], Answer]) -> Answer:
        """The answer to *asked* in *snapshot*. The caller may change its list of pieces.

        Args:
            make: computes it. Nothing is locked meanwhile, so two threads may compute the same.
        """
        with self._lock:
            if self._snapshot() is not snapshot:
                self._snapshot, self._answer_to, self._bytes = ref(snapshot), {}, 0
            answer = self._answer_to.get(asked)
        if answer is None:
            answer = make()
            self._keep(snapshot, asked, answer)
        return answer._replace(body=answer.body.copy())

    def _keep(self, snapshot: Snapshot, asked: Asked, answer: Answer) -> None:
        size = _bytes(asked, answer)
        with self._lock:
            # Another thread may have asked in a newer snapshot meanwhile, or the same in this one.
            if size > MOST_BYTES or self._snapshot() is not snapshot or asked in self._answer_to:
                return
            self._answer_to[asked] = answer
            self._bytes += size
            while self._bytes > MOST_BYTES:
                oldest = next(iter(self._answer_to))
                self._bytes -= _bytes(oldest, self._answer_to.pop(oldest))


def _bytes(asked: Asked, answer: Answer) -> int:
    return len(asked[0]) + sum(map(len, answer.body)) + BESIDE


# Enables providers whose ``until`` has passed.
#
# Every process does this, and skips what another process has already done. The write is the same as a client's, so
# that snapshots and claims always agree. ``until`` is therefore the earliest time at which a provider is enabled.
#
# Source: "PATCH /provider_trees/{uuid}", docs/stead-api.md.


PAUSE_SECONDS = 1.0
"""Interval between steps. A step reads the catalog, and the database only if an end may have passed."""

SKEW_SECONDS = 60.0
"""Maximum lag of this process's clock behind that of the database, which decides."""


class States(Protocol):
    """The catalog of this process."""

    def ends_of_disabling(self) -> Iterable[int]:
        """The ends of disabled providers, in seconds since 1970."""
        ...


class Overdue:
    """Enables the providers of one database."""

    def __init__(self, store: Store, states: States) -> None:
        """Read nothing yet."""
        self._store = store
        self._states = states

    def step(self) -> float:
        """Enable providers whose end has passed; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer.
        """
        if any(until <= time.time() + SKEW_SECONDS for until in self._states.ends_of_disabling()):
            for provider in self._store.read(service_states.overdue, self._store.dialect):
                with suppress(ProviderNotFound):
                    self._store.write(provider_trees.enable_if_overdue, provider)
        return PAUSE_SECONDS
