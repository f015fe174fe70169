"""Claims by query: find a place, claim it, and find another one if it was taken meanwhile.

A place is found in the snapshot, and claimed like any claim, with all checks. So the snapshot may be out of date: the
locked rows decide. But "nothing fits" is decided from the snapshot alone, as of one moment. At that moment, the
consumers must be at the generations that the clients state; the change log tells whether they were.

Source: "POST /claims", docs/stead-api.md.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import exp2, inf
from threading import Condition, Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stead.candidates.engine import find
from stead.candidates.explain import explain
from stead.candidates.gangs import place
from stead.candidates.placing import NoPlace, summed, taken_by
from stead.candidates.work import WorkSpent
from stead.domain.claim import Claim, Granted, Outcome, Place, PlaceUsage, is_first_generation, require_room
from stead.domain.errors import (
    AllocationRefused,
    ConcurrentUpdate,
    ConsumerConflict,
    NothingFits,
    NothingFound,
    UnknownProvider,
    UnknownResourceClass,
)
from stead.process import runtime
from stead.store.allocations import ProvidersChanged
from stead.store.consumer_listing import of_consumers
from stead.store.feed.changes import logged_between
from stead.store.feed.refresh_source import Known, clock_of, reconcile, reconcile_names
from stead.store.protocol.clock import LogKind, read_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.engine import Enumeration
    from stead.candidates.kinds import Candidate
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Identities, Snapshot
    from stead.domain.changes import Moment
    from stead.domain.claim import ClaimRequest, HeldLease
    from stead.store.consumer_listing import HeldAllocations
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.store import Store

    Held = Mapping[str, HeldAllocations]
    Announcements = dict[int, "PendingClaim"]
    """By the identity of the grants: two claims can have equal grants."""


class View(Known, Protocol):
    """The catalog of this process."""

    def view(self) -> tuple[Snapshot, Moment | None]:
        """A snapshot with everything acknowledged before the call, and its moment."""
        ...


class Writer(Protocol):
    """Writes claims."""

    def __call__(self, claims: Sequence[Claim], since: Clock | None) -> Mapping[str, HeldLease]:
        """Replace all allocations of the consumers; return their leases.

        Raise if providers changed since *since* other than by claims.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of one search.

    Attributes:
        allocations: the allocations that the requests replace.
        clock: the moment at which ``placed`` was valid; None if that moment has no clock.
        placed: a place for each request.
        granted: the same by uuid and class name; empty without places.
    """

    allocations: Held
    clock: Clock | None
    placed: list[Candidate] | NoPlace
    granted: Sequence[Granted]


class Claiming:
    """Claims by query, on one database."""

    def __init__(self, store: Store, catalog: View, write: Writer, enumeration: Enumeration) -> None:
        """Read nothing yet."""
        self._store = store
        self._catalog = catalog
        self._write = write
        self._enumeration = enumeration
        self._pending = PendingClaims()
        self._drawing = CandidateDraw()

    def claim(
        self,
        claim_requests: Sequence[ClaimRequest],
        *,
        distinct_roots: bool,
        explained: bool,
        until: float | None = None,
    ) -> Outcome:
        """Grant all requests, or none.

        Args:
            explained: if nothing fits, explain it, if time remains.
            until: deadline on the monotonic clock; None: the claim timeout from now.

        Raises:
            UnknownResourceClass, UnknownTraits, NothingFits, NothingFound, ConsumerConflict, Unavailable
            ConcurrentUpdate: the claim lost every race until the deadline.
        """
        if until is None:
            until = time.monotonic() + self._store.claim_timeout
        writes = 0
        among_best = self._drawing.first()
        while True:
            attempt = self._look(claim_requests, distinct_roots, among_best, until)
            try:
                if not isinstance(attempt.placed, NoPlace):
                    writes += 1
                    leases = self._write_all(claim_requests, attempt)
                    generations = [_next_generation(claim_request) for claim_request in claim_requests]
                    return Outcome(_completed(claim_requests, attempt.granted, leases, generations), writes)
                # After a lost race, the search may have ended at the deadline, and then it proves nothing.
                was_searched_whole = writes == 0 or time.monotonic() <= until
                if was_searched_whole and self._is_as_known(claim_requests, attempt.allocations, attempt.clock):
                    raise self._refusal(claim_requests, attempt.placed, until if explained else -inf)
            except (AllocationRefused, UnknownProvider, UnknownResourceClass, ProvidersChanged) as refusal:
                # Another client changed it first; the next snapshot shows the change.
                among_best = self._drawing.after_loss(among_best)
                if not isinstance(refusal, ProvidersChanged):
                    self._reload_what_contradicts(claim_requests, attempt)
            except ConsumerConflict:
                # The client may repeat a claim because it lost the answer. Then the request is already granted.
                before = self._granted_before(claim_requests)
                if before is None:
                    raise
                return Outcome(before, 0)
            finally:
                # Only after the write has ended: until then, no snapshot contains the claim.
                self._pending.remove(attempt.granted)
            if time.monotonic() > until:
                raise ConcurrentUpdate("Claim lost every race; retry.")

    def _look(
        self, claim_requests: Sequence[ClaimRequest], distinct_roots: bool, among_best: int, until: float
    ) -> _Attempt:
        """Find a place for each request, and announce it to the other claims of this process.

        If every place is one that other claims are about to take, wait until those have ended, and look again: most of
        them are granted, so this claim would lose the race.

        Read the list of other pending claims before the snapshot, see :meth:`PendingClaims.looking`. A separate
        transaction reads the allocations that the requests replace. If they change before the snapshot, the search
        releases too much or too little; the consumers' generations reveal that, under the locks or in `_is_as_known`.
        """
        replaced = [claim_request.consumer for claim_request in claim_requests if claim_request.expected is not None]
        # Before the snapshot: allocations that change in between differ in generation, which the write checks.
        allocations_of = self._store.read(of_consumers, replaced) if replaced else {}
        granted: list[Granted] = []
        patient_until = min(until, time.monotonic() + LONGEST_PATIENCE_SECONDS)
        while True:
            with self._pending.looking() as others:
                snapshot, moment = self._catalog.view()
                freed = snapshot.with_taken(_given_back(snapshot, allocations_of))
                with self._pending.turn() as give_way:
                    how = partial(
                        place, distinct_roots=distinct_roots, among_best=among_best, until=until, give_way=give_way
                    )
                    placed, is_contested = self._placed(freed, claim_requests, others, how)
                    if not isinstance(placed, NoPlace) and not (is_contested and time.monotonic() < patient_until):
                        granted = [_granted(snapshot, candidate) for candidate in placed]
                        taken = summed(map(taken_by, placed))
                        # Within the turn, so that the next search sees these places.
                        self._pending.add(PendingClaim(granted, snapshot.identities, taken))
            if granted or isinstance(placed, NoPlace):
                return _Attempt(allocations_of, clock_of(moment), placed, granted)
            # Outside the turn, since other claims search meanwhile.
            self._pending.wait_for(others, patient_until)

    def _write_all(self, claim_requests: Sequence[ClaimRequest], attempt: _Attempt) -> Mapping[str, HeldLease]:
        return self._write(_claims(claim_requests, attempt), attempt.clock)

    def _reload_what_contradicts(self, claim_requests: Sequence[ClaimRequest], attempt: _Attempt) -> None:
        """Reload the providers of a refused attempt if the snapshot still allows it: another service changed them.

        That service writes no change rows. Until its next reconcile pass, this process would find the same place again
        and again.
        """
        snapshot, _ = self._catalog.view()  # has every write of Stead that the refusal can rest on
        claims = _claims(claim_requests, attempt)
        if not _allows(snapshot, claims, attempt.allocations):
            return
        slots = {snapshot.find(uuid) for claim in claims for uuid in claim.allocations}
        reconcile(self._store, self._catalog, [snapshot.identities.ids[slot] for slot in slots if slot is not None])
        reconcile_names(self._store, self._catalog)

    def _placed(
        self,
        snapshot: Snapshot,
        claim_requests: Sequence[ClaimRequest],
        others: Announcements,
        place: Callable[..., list[Candidate] | NoPlace],
    ) -> tuple[list[Candidate] | NoPlace, bool]:
        """Places that none of *others* is about to take, if possible, and False; otherwise any places, and True.

        The second search is necessary, since other claims may be refused, and since their places may be counted twice:
        in the hint and in the snapshot. A refusal must rest on the snapshot alone.
        """
        requests = [claim_request.request for claim_request in claim_requests]
        if others:
            # A copy: other claims add to this view while the sum is computed.
            taken = summed(announced.amounts_in(snapshot) for announced in list(others.values()))
            placed = place(snapshot.with_taken(taken), requests, self._enumeration)
            if not isinstance(placed, NoPlace):
                return placed, False
        return place(snapshot, requests, self._enumeration), bool(others)

    def _is_as_known(self, claim_requests: Sequence[ClaimRequest], allocations_of: Held, clock: Clock | None) -> bool:
        """Whether all consumers were, at the moment of *clock*, at the generations that their clients know.

        Raises:
            ConsumerConflict: a consumer is at another generation now.
        """
        uuids = [claim_request.consumer for claim_request in claim_requests]
        now, changed = self._store.read(_consumers_since, uuids, clock)
        for claim_request in claim_requests:
            generation = now[claim_request.consumer].generation if claim_request.consumer in now else None
            if generation != claim_request.expected:
                raise ConsumerConflict(claim_request.consumer, claim_request.expected, generation)
        return not changed and all(
            now[uuid].amounts() == allocations.amounts() for uuid, allocations in allocations_of.items()
        )

    def _refusal(
        self, claim_requests: Sequence[ClaimRequest], placed: NoPlace, until: float
    ) -> NothingFits | NothingFound:
        """The refusal, with an explanation if time remains before *until*."""
        claim_request = claim_requests[placed.number]
        why = None
        if time.monotonic() < until:
            with suppress(WorkSpent):
                why = explain(
                    placed.remaining,
                    claim_request.request,
                    self._enumeration.work,
                    until=until,
                    give_way=runtime.give_way,
                )
        error = NothingFound if placed.gave_up else NothingFits
        return error(placed.number, claim_request.consumer, why and (placed.remaining, why))

    def _granted_before(self, claim_requests: Sequence[ClaimRequest]) -> list[Granted] | None:
        """The earlier result of the requests, if the same request was carried out before; None if not."""
        allocations_of = self._store.read(of_consumers, [claim_request.consumer for claim_request in claim_requests])
        if not all(
            _is_next(claim_request, allocations_of.get(claim_request.consumer)) for claim_request in claim_requests
        ):
            return None
        snapshot, _ = self._catalog.view()  # after the allocations, so that it has the providers they name
        candidates = [
            self._candidate_of(snapshot, claim_request, allocations_of[claim_request.consumer])
            for claim_request in claim_requests
        ]
        if not all(candidates):
            return None
        leases = {uuid: stored.lease for uuid, stored in allocations_of.items() if stored.lease is not None}
        granted = [_granted(snapshot, candidate) for candidate in candidates if candidate]
        generations = [allocations_of[claim_request.consumer].generation for claim_request in claim_requests]
        return _completed(claim_requests, granted, leases, generations)

    def _candidate_of(
        self, snapshot: Snapshot, claim_request: ClaimRequest, stored: HeldAllocations
    ) -> Candidate | None:
        """A candidate for a request that takes exactly the allocations *stored*; None if there is none. The search is
        limited to the providers of these allocations.
        """
        amounts = slots(snapshot, stored.amounts())
        if _totals(stored.amounts().values()) != _totals(group.resources for group in claim_request.request.groups):
            return None
        roots = np.zeros(snapshot.size, np.bool_)
        for slot in amounts:
            roots[snapshot.sharing.anchors(slot) if snapshot.sharing.mask[slot] else snapshot.forest.root[slot]] = True
        # Without the limit and the order of the request: they could leave out the candidate that was granted.
        request = replace(claim_request.request, limit=None, order=None)
        enumeration = replace(self._enumeration, maximum=None, randomize=False)
        candidates = find(snapshot.with_room_only(amounts), request, enumeration, among=roots)
        return next(candidates, None)


def _consumers_since(connection: Connection, uuids: Sequence[str], clock: Clock | None) -> tuple[Held, bool]:
    """The present allocations of some consumers, and whether one changed after *clock*. Unknown counts as changed."""
    now = read_clock(connection)  # first, so that it dates the allocations read below
    logged = logged_between(connection, clock.ticks, now.ticks) if clock and now.can_follow(clock) else None
    return of_consumers(connection, uuids), logged is None or not logged[LogKind.CONSUMER].isdisjoint(uuids)


def _is_next(claim_request: ClaimRequest, stored: HeldAllocations | None) -> bool:
    """Whether a consumer has the generation and the owner that the request, granted once, would have left."""
    return (
        stored is not None
        and stored.generation is not None
        and (
            is_first_generation(stored.generation, stored.lease)
            if claim_request.expected is None
            else stored.generation == claim_request.expected + 1
        )
        and (stored.project, stored.user) == (claim_request.project, claim_request.user)
        and claim_request.consumer_type in (None, stored.consumer_type)
    )


def _claim(claim_request: ClaimRequest, granted: Granted) -> Claim:
    return Claim(
        claim_request.consumer,
        granted.allocations,
        claim_request.project,
        claim_request.user,
        claim_request.consumer_type,
        claim_request.expected,
        claim_request.lease,
        claim_request.first,
    )


def _next_generation(claim_request: ClaimRequest) -> int:
    """The generation of the consumer after its request was granted."""
    return claim_request.first if claim_request.expected is None else claim_request.expected + 1


def _completed(
    claim_requests: Sequence[ClaimRequest],
    granted: Sequence[Granted],
    leases: Mapping[str, HeldLease],
    generations: Sequence[int | None],
) -> list[Granted]:
    """*granted* with the generations of the consumers, and with their leases, if they have any."""
    return [
        replace(grant, lease=leases.get(claim_request.consumer), generation=generation or 0)
        for claim_request, grant, generation in zip(claim_requests, granted, generations, strict=True)
    ]


def _claims(claim_requests: Sequence[ClaimRequest], attempt: _Attempt) -> list[Claim]:
    return [
        _claim(claim_request, granted) for claim_request, granted in zip(claim_requests, attempt.granted, strict=True)
    ]


def _allows(snapshot: Snapshot, claims: Sequence[Claim], replaced: Held) -> bool:
    """Whether the claims fit in *snapshot*, in place of *replaced*, by the rule that decides about the locked rows."""
    freed = Counter[Place]()
    for held in replaced.values():
        for uuid, amounts in held.amounts().items():
            freed.update({Place(uuid, name): amount for name, amount in amounts.items()})
    rooms = {
        place: PlaceUsage(inventory.inventory, inventory.used - freed[place], inventory.used)
        for uuid in {uuid for claim in claims for uuid in claim.allocations}
        if (slot := snapshot.find(uuid)) is not None
        for name, inventory in snapshot.inventories(slot).items()
        for place in (Place(uuid, name),)
    }
    try:
        require_room(rooms, claims)
    except AllocationRefused:
        return False
    return True


def _granted(snapshot: Snapshot, candidate: Candidate) -> Granted:
    names = snapshot.class_names.by_id
    return Granted(
        {
            snapshot.uuid(slot): {names[class_id].name: amount for class_id, amount in given.items()}
            for slot, given in candidate.allocations.items()
        },
        {suffix: [snapshot.uuid(slot) for slot in slots] for suffix, slots in candidate.mappings.items()},
    )


def _totals(several: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The sums by class name."""
    total = Counter[str]()
    for amounts in several:
        total.update(amounts)
    return total


def _given_back(snapshot: Snapshot, allocations_of: Held) -> Amounts:
    """The change of usage if consumers release their allocations: negative amounts."""
    total = summed(slots(snapshot, allocations.amounts()) for allocations in allocations_of.values())
    return {slot: {class_id: -amount for class_id, amount in amounts.items()} for slot, amounts in total.items()}


# How many of the best candidates a claim by query draws from.
#
# Clients that all prefer the same best place collide. A claim that lost a race therefore draws from more places at
# its next try. Claims that start soon afterwards draw from as many at their first try: where races were lost a moment
# ago, the next ones would be lost as well.


MOST = 128
"""Maximum number of candidates to draw from. A place is then worse than at most 127 others in the requested order."""

HALF_LIFE = 0.25
"""Seconds after a lost race in which the number for new claims halves."""


class CandidateDraw:
    """The number of candidates to draw from, for the claims of one worker.

    Threads share it without a lock: a lost update makes one claim draw from fewer or more candidates than intended,
    and the locked rows decide about every claim.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """No race was lost yet: claims take the best candidate. *now* returns seconds."""
        self._now = now
        self._lost: tuple[int, float] = (1, 0.0)

    def first(self) -> int:
        """The number for the first try of a claim that starts now; 1 takes the best candidate."""
        among_best, lost_at = self._lost
        if among_best == 1:
            return 1
        return max(1, round(among_best * exp2((lost_at - self._now()) / HALF_LIFE)))

    def after_loss(self, among_best: int) -> int:
        """The number for the next try of a claim that drew from *among_best* candidates and lost a race."""
        wider = min(2 * among_best, MOST)
        # Not below the number for new claims: another claim may have lost more races meanwhile.
        self._lost = (max(wider, self.first()), self._now())
        return wider


# Pending claims: what the claims of this process are about to write, as a hint for concurrent searches.
#
# Without the hint, concurrent claims find the same best place, and all but one of them lose the race under the locks.
# The hint affects only performance: the locked rows decide every claim. So the hint may sometimes be wrong, and
# waiting for it must never take long.


LONGEST_TURN_SECONDS = 0.1
"""Maximum time that a search delays others. Most need a few milliseconds, a large gang may need seconds."""

LONGEST_PATIENCE_SECONDS = 0.25
"""Maximum time that a claim waits for others that are about to take the places it could have. Most end within a tenth
of that. After it, the claim enters the race: others may come all the time.
"""


@dataclass(frozen=True, eq=False, slots=True)
class PendingClaim:
    """What a claim is about to write: ``amounts`` in a snapshot with these ``identities``."""

    granted: Sequence[Granted]
    identities: Identities
    amounts: Amounts

    def amounts_in(self, snapshot: Snapshot) -> Amounts:
        """The amounts by the slots of *snapshot*."""
        # Slots stay the same until a provider is created, renamed or deleted.
        if snapshot.identities is self.identities:
            return self.amounts
        return summed(slots(snapshot, grant.allocations) for grant in self.granted)


class PendingClaims:
    """The claims of one process that have a place but are not written yet."""

    def __init__(self) -> None:
        self._announced: Announcements = {}
        self._views: dict[int, Announcements] = {}
        self._changing = Condition(Lock())
        self._turn = Lock()
        self._began = 0.0

    @contextmanager
    def looking(self) -> Iterator[Announcements]:
        """For the block, what all other pending claims announced, including those that are added meanwhile.

        Enter the block before the snapshot is read. Nothing is ever removed from this view. A claim that is written
        meanwhile may be missing from the snapshot; without this rule, it could be missing from both.
        """
        with self._changing:
            view = dict(self._announced)
            self._views[id(view)] = view
        try:
            yield view
        finally:
            with self._changing:
                del self._views[id(view)]

    @contextmanager
    def turn(self) -> Iterator[Callable[[], None]]:
        """Run searches one after another, so that each sees the places of those before it.

        The bound counts from the start of the running search, not from the start of the wait. Otherwise a queue of
        claims behind a large gang would wait once for each of them. After the bound, a search runs beside the other.

        Returns:
            What a long search calls at times, so that short requests run in between.
        """
        remaining = self._began + LONGEST_TURN_SECONDS - time.monotonic()
        is_alone = self._turn.acquire(timeout=max(remaining, 0.0))
        try:
            if is_alone:
                self._began = time.monotonic()
            since = time.monotonic()

            def give_way() -> None:
                # Within the bound, other claims wait for this search, so it must not wait for others.
                if time.monotonic() > since + LONGEST_TURN_SECONDS:
                    runtime.give_way()

            yield give_way
        finally:
            if is_alone:
                self._turn.release()

    def add(self, announced: PendingClaim) -> None:
        """Announce what a claim is about to write, before its turn ends, so that the next search sees it."""
        with self._changing:
            for announcements in (self._announced, *self._views.values()):
                announcements[id(announced.granted)] = announced

    def remove(self, granted: Sequence[Granted]) -> None:
        """Remove *granted* after its claim was written, refused, or never added. Present views keep it."""
        with self._changing:
            if self._announced.pop(id(granted), None):
                self._changing.notify_all()

    def wait_for(self, others: Announcements, until: float) -> None:
        """Wait until all of *others* were written or refused, but not beyond *until* on the monotonic clock."""
        with self._changing:
            self._changing.wait_for(
                lambda: self._announced.keys().isdisjoint(others), max(until - time.monotonic(), 0.0)
            )


# Amounts of allocations by slot and class id, as searches use them.


def are_usage_of(snapshot: Snapshot, root: int, amounts: Amounts) -> bool:
    """Whether *amounts*, as far as they are of the tree of *root*, are all that is in use there."""
    return all(
        stored.used == amounts.get(slot, {}).get(class_id, 0)
        for slot in snapshot.forest.members(root)
        for class_id in snapshot.inventory.at((slot,))
        if (stored := snapshot.inventory[class_id].at(slot)) is not None
    )


def are_whole(snapshot: Snapshot, allocations: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether the snapshot has all providers and classes of some allocations, so that :func:`slots` drops nothing."""
    placed = slots(snapshot, allocations)
    return sum(map(len, allocations.values())) == sum(map(len, placed.values()))


def slots(snapshot: Snapshot, amounts: Mapping[str, Mapping[str, int]]) -> Amounts:
    """The same amounts by slot and class id instead of uuid and name, without unknown ones."""
    classes = snapshot.class_names.by_name
    return {
        slot: {classes[name].id: amount for name, amount in by_name.items() if name in classes}
        for uuid, by_name in amounts.items()
        if (slot := snapshot.find(uuid)) is not None
    }
