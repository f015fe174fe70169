"""Claiming by query: find a place, claim it, look for another if it was taken meanwhile.

A place is found in memory, and claimed as any claim is, with all its checks. So memory may be old by then; what it was
right about is decided under the locks. That nothing fits is decided by memory alone, as of one moment: the consumers
must be as the clients think they are at that very moment, and the change log tells whether they were.

Source: "POST /claims", docs/api.md.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

import numpy as np

from stead.candidates.engine import find
from stead.candidates.explain.explain import explain
from stead.candidates.placing import NoPlace, place, summed
from stead.candidates.work import WorkSpent
from stead.domain.claim import Claim
from stead.domain.errors import (
    AllocationRefused,
    ConcurrentUpdate,
    ConsumerConflict,
    NothingFits,
    UnknownProvider,
)
from stead.domain.placing import Granted, Outcome
from stead.service.underway import Underway
from stead.store import consumer_listing
from stead.store.allocations import ProvidersChanged
from stead.store.feed.changes import logged_between
from stead.store.feed.refresh_source import clock_of
from stead.store.protocol.clock import LogKind, read_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.candidates.candidate import Candidate
    from stead.candidates.engine import Enumeration
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.changes import Moment
    from stead.domain.placing import Wish
    from stead.service.underway import Grants
    from stead.store.allocations import HeldAllocations
    from stead.store.protocol.clock import Clock
    from stead.store.protocol.transaction import Store

    Held = Mapping[str, HeldAllocations]


MOST_DRAWN = 64
"""Who was refused a place draws from twice as many of the best as before, so that clients who all want the best do not
meet again and again; from so many at most."""


class View(Protocol):
    """What this process knows."""

    def view(self) -> tuple[Snapshot, Moment | None]:
        """All that was acknowledged before the call, and the moment it is of."""
        ...


class Writer(Protocol):
    """Who writes claims."""

    def __call__(self, claims: Sequence[Claim], since: Clock | None) -> None:
        """Replace all that consumers hold, unless providers changed since in other ways than by claims."""
        ...


@dataclass(frozen=True, slots=True)
class _Attempt:
    """What one search found.

    Attributes:
        held: what the consumers of the wishes held before it.
        clock: of the moment at which ``placed`` was true; None if that has none.
        placed: a place for each wish.
        granted: the same by uuid and class name; empty without places.
    """

    held: Held
    clock: Clock | None
    placed: list[Candidate] | NoPlace
    granted: Sequence[Granted]


class Claiming:
    """Claims by query, on one database."""

    def __init__(self, store: Store, catalog: View, write: Writer, enumeration: Enumeration) -> None:
        """Nothing is read yet."""
        self._store = store
        self._catalog = catalog
        self._write = write
        self._enumeration = enumeration
        self._underway = Underway()

    def claim(
        self, wishes: Sequence[Wish], *, distinct_roots: bool, explained: bool, until: float | None = None
    ) -> Outcome:
        """Grant all wishes, or none.

        Args:
            explained: if nothing fits, why, as far as there is time for it.
            until: when it gives up, by the monotonic clock; None: after the time for claims, from now.

        Raises:
            UnknownResourceClass, UnknownTraits, NothingFits, ConsumerConflict, Unavailable
            ConcurrentUpdate: other clients were faster every time.
        """
        if until is None:
            until = time.monotonic() + self._store.claim_timeout
        writes = 0
        while True:
            # After each lost race the claim draws from twice as many places, so that those who all want the best part.
            attempt = self._look(wishes, distinct_roots, min(2**writes, MOST_DRAWN), until)
            try:
                if not isinstance(attempt.placed, NoPlace):
                    writes += 1
                    self._write_all(wishes, attempt)
                    return Outcome(attempt.granted, writes)
                # A search that began after a lost race may have ended with the time, and then proves nothing.
                was_searched_whole = writes == 0 or time.monotonic() <= until
                if was_searched_whole and self._is_as_known(wishes, attempt.held, attempt.clock):
                    raise self._refusal(wishes, attempt.placed, until if explained else -inf)
            except (AllocationRefused, UnknownProvider, ProvidersChanged):
                pass  # another client changed it first, and the next snapshot shows what
            except ConsumerConflict:
                # The client may repeat a claim whose answer it lost. Then its wish is fulfilled already.
                before = self._granted_before(wishes)
                if before is None:
                    raise
                return Outcome(before, 0)
            finally:
                # Not before the write has ended: until then, no snapshot shows what it takes.
                self._underway.remove(attempt.granted)
            if time.monotonic() > until:
                raise ConcurrentUpdate("Claim lost every race; retry.")

    def _look(self, wishes: Sequence[Wish], distinct_roots: bool, among_best: int, until: float) -> _Attempt:
        """Find a place for each wish, and announce it to the other claims of this process.

        The other claims underway are listed before the snapshot is read, see :meth:`Underway.looking`. The allocations
        that the wishes replace are read in a transaction of their own. If they change before the snapshot, too much or
        too little is given back; the generations of the consumers tell that, under the locks or in `_is_as_known`.
        """
        replaced = [wish.consumer for wish in wishes if wish.expected is not None]
        held = self._store.read(consumer_listing.named, replaced) if replaced else {}
        granted: list[Granted] = []
        with self._underway.looking() as others:
            snapshot, moment = self._catalog.view()
            freed = snapshot.with_taken(_given_back(snapshot, held))
            with self._underway.turn():
                how = partial(place, distinct_roots=distinct_roots, among_best=among_best, until=until)
                placed = self._placed(freed, wishes, others, how)
                if not isinstance(placed, NoPlace):
                    granted = [_granted(snapshot, candidate) for candidate in placed]
                    self._underway.add(granted)
        return _Attempt(held, clock_of(moment), placed, granted)

    def _write_all(self, wishes: Sequence[Wish], attempt: _Attempt) -> None:
        claims = [_claim(wish, granted) for wish, granted in zip(wishes, attempt.granted, strict=True)]
        self._write(claims, attempt.clock)

    def _placed(
        self,
        snapshot: Snapshot,
        wishes: Sequence[Wish],
        others: Grants,
        place: Callable[..., list[Candidate] | NoPlace],
    ) -> list[Candidate] | NoPlace:
        """Places that none of *others* is about to take, if there are such; else any.

        The second search is needed, since the others may be refused and since their places may be taken twice: once in
        the hint and once in the snapshot. A refusal must rest on the snapshot alone.
        """
        requests = [wish.request for wish in wishes]
        if others:
            taken = summed(_slots(snapshot, one.allocations) for granted in list(others.values()) for one in granted)
            placed = place(snapshot.with_taken(taken), requests, self._enumeration)
            if not isinstance(placed, NoPlace):
                return placed
        return place(snapshot, requests, self._enumeration)

    def _is_as_known(self, wishes: Sequence[Wish], held: Held, clock: Clock | None) -> bool:
        """Whether all consumers were, at the moment of *clock*, at the generations that their clients know.

        Raises:
            ConsumerConflict: one is not now.
        """
        uuids = [wish.consumer for wish in wishes]
        now, changed = self._store.read(_consumers_since, uuids, clock)
        for wish in wishes:
            found = now[wish.consumer].generation if wish.consumer in now else None
            if found != wish.expected:
                raise ConsumerConflict(wish.consumer, wish.expected, found)
        return not changed and all(now[uuid].amounts() == of.amounts() for uuid, of in held.items())

    def _refusal(self, wishes: Sequence[Wish], placed: NoPlace, until: float) -> NothingFits:
        """The refusal, explained if there is time for it *until* then."""
        wish = wishes[placed.number]
        why = None
        if time.monotonic() < until:
            with suppress(WorkSpent):
                why = explain(placed.left, wish.request, self._enumeration.work, until=until)
        return NothingFits(placed.number, wish.consumer, placed.gave_up, why and (placed.left, why))

    def _granted_before(self, wishes: Sequence[Wish]) -> list[Granted] | None:
        """What the wishes were granted, if the same request was carried out before; None if it was not."""
        held = self._store.read(consumer_listing.named, [wish.consumer for wish in wishes])
        if not all(_is_next(wish, held.get(wish.consumer)) for wish in wishes):
            return None
        snapshot, _ = self._catalog.view()
        candidates = [self._candidate_of(snapshot, wish, held[wish.consumer]) for wish in wishes]
        return [_granted(snapshot, one) for one in candidates if one] if all(candidates) else None

    def _candidate_of(self, snapshot: Snapshot, wish: Wish, held: HeldAllocations) -> Candidate | None:
        """A candidate for a wish that takes just what is held, which is looked for where nothing else is; None if there
        is none.
        """
        wanted = _slots(snapshot, held.amounts())
        if _totals(held.amounts().values()) != _totals(group.resources for group in wish.request.groups):
            return None
        roots = np.zeros(snapshot.size, np.bool_)
        for slot in wanted:
            roots[snapshot.sharing.anchors(slot) if snapshot.sharing.mask[slot] else snapshot.forest.root[slot]] = True
        request = replace(wish.request, limit=None, order=None)
        enumeration = replace(self._enumeration, maximum=None, randomize=False)
        found = find(snapshot.with_room_only(wanted), request, enumeration, among=roots)
        return next(found, None)


def _consumers_since(connection: Connection, uuids: Sequence[str], clock: Clock | None) -> tuple[Held, bool]:
    """What some consumers hold now, and whether any of them changed after a moment; None: whether is not known."""
    now = read_clock(connection)
    logged = logged_between(connection, clock.ticks, now.ticks) if clock and now.can_follow(clock) else None
    return consumer_listing.named(connection, uuids), logged is None or not logged[LogKind.CONSUMER].isdisjoint(uuids)


def _is_next(wish: Wish, held: HeldAllocations | None) -> bool:
    """Whether a consumer is as the wish, granted once, would have left it, but for what it holds."""
    return (
        held is not None
        and held.generation == (wish.expected or 0) + 1
        and (held.project, held.user, held.consumer_type) == (wish.project, wish.user, wish.consumer_type)
    )


def _claim(wish: Wish, granted: Granted) -> Claim:
    return Claim(wish.consumer, granted.allocations, wish.project, wish.user, wish.consumer_type, wish.expected)


def _granted(snapshot: Snapshot, candidate: Candidate) -> Granted:
    names = snapshot.class_names.by_id
    return Granted(
        {
            snapshot.uuid(slot): {names[class_id].name: amount for class_id, amount in given.items()}
            for slot, given in candidate.allocations.items()
        },
        {suffix: [snapshot.uuid(slot) for slot in slots] for suffix, slots in candidate.mappings.items()},
    )


def _slots(snapshot: Snapshot, amounts: Mapping[str, Mapping[str, int]]) -> Amounts:
    """The same by slot and class id instead of uuid and name; what is not known is left out."""
    known = snapshot.class_names.by_name
    return {
        slot: {known[name].id: amount for name, amount in of.items() if name in known}
        for uuid, of in amounts.items()
        if (slot := snapshot.find(uuid)) is not None
    }


def _totals(several: Iterable[Mapping[str, int]]) -> Counter[str]:
    """By class name."""
    total = Counter[str]()
    for amounts in several:
        total.update(amounts)
    return total


def _given_back(snapshot: Snapshot, held: Held) -> Amounts:
    """What is taken less if consumers give up what they hold."""
    total = summed(_slots(snapshot, one.amounts()) for one in held.values())
    return {slot: {class_id: -amount for class_id, amount in some.items()} for slot, some in total.items()}
