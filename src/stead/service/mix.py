"""The mix: the requests that the site is to serve, from the weights of flavors, or learned from what clients ask for.

A request is noted in memory, which takes a microsecond. Twice a minute, a thread adds what was noted to the counts of
all workers, which are in the database. So neither a claim nor a query waits for it.

Counts are bounded in number by *space-saving*: if all places are taken, a new form takes that of the form with the
least count, and begins with its count. So a form that is asked for more often than one in ``MOST_FORMS`` times is
never lost, whatever else clients ask for. What a form inherited is no part of its weight.

Source: "The mix", docs/stead-api.md; decision 72.
"""

from __future__ import annotations

import heapq
import random
import time
from collections import Counter
from contextlib import contextmanager, suppress
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Literal, NamedTuple

from stead.domain.errors import ConcurrentUpdate, InvalidQuery, Unavailable
from stead.domain.request import AskedForm, Wanted
from stead.store.extensions import asked_forms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.domain.request import CandidateRequest, Flavor
    from stead.store.protocol.store import Store

MOST_FORMS = 256
"""Maximum number of forms that are counted."""

LONGEST_FORM = 2_000
"""Maximum length of the query of a form that is counted, in characters."""

HALF_LIFE_SECONDS = 3 * 86_400
"""Time after which a request counts half."""

LEAST_TIMES = 20.0
"""The mix is learned as soon as this number of requests is counted."""

LEARN_SECONDS = 30.0
"""Interval between two writes of what was noted."""

TOLERANCE = 0.05
"""Part of all weights that may differ from those in use. Losses are computed again for another mix."""

_MOST_NOTED = 500
"""Requests of one interval that are counted; of more, this number is drawn."""

_MOST_CONSUMERS = 4_096
"""Consumers whose repeated claims count once."""

_FORGOTTEN = 0.01
"""A form with fewer times is removed."""

MIX_SECONDS = 5.0
"""Seconds after which the flavors are read again. Other workers store weights, too."""


class NotedRequests:
    """A fair sample of the requests of one interval; safe for several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.number = 0
        """Of requests since the last call of `take`."""
        self._sample: list[CandidateRequest] = []
        self._consumers: dict[str, None] = {}  # the oldest first

    def note(self, request: CandidateRequest, consumer: str | None = None) -> None:
        """A client asked for *request*. A claim that is tried again for the same *consumer* counts once."""
        with self._lock:
            if consumer is not None:
                if consumer in self._consumers:
                    return
                self._consumers[consumer] = None
                if len(self._consumers) > _MOST_CONSUMERS:
                    del self._consumers[next(iter(self._consumers))]
            self.number += 1
            if len(self._sample) < _MOST_NOTED:
                self._sample.append(request)
            elif (place := random.randrange(self.number)) < _MOST_NOTED:
                self._sample[place] = request

    def take(self) -> tuple[list[CandidateRequest], float]:
        """The requests noted since the last call, and how many each of them stands for."""
        with self._lock:
            sample, number = self._sample, self.number
            self._sample, self.number = [], 0
        return sample, number / len(sample) if sample else 1.0


def times_at(form: AskedForm, now: int) -> AskedForm:
    """*form* as of *now*, decayed. Clocks of other hosts may be ahead."""
    factor = 0.5 ** (max(now - form.counted_at, 0) / HALF_LIFE_SECONDS)
    return AskedForm(form.query, form.times * factor, form.surplus * factor, max(now, form.counted_at))


def counted(
    stored: Sequence[AskedForm], asked: Mapping[str, float], now: int, most: int = MOST_FORMS
) -> list[AskedForm]:
    """The counts *stored* with what was *asked* since, of at most *most* forms."""
    present = {form.query: form for form in (times_at(form, now) for form in stored) if form.times >= _FORGOTTEN}
    new = []
    for query, times in asked.items():
        if query in present:
            present[query] = present[query]._replace(times=present[query].times + times)
        else:
            new.append((times, query))
    by_times = [(form.times, query) for query, form in present.items()]
    heapq.heapify(by_times)
    for times, query in sorted(new, reverse=True):
        if len(by_times) < most:
            heapq.heappush(by_times, (times, query))
            present[query] = AskedForm(query, times, 0.0, now)
        else:
            least, replaced = by_times[0]
            heapq.heapreplace(by_times, (least + times, query))
            del present[replaced]
            present[query] = AskedForm(query, least + times, least, now)
    unchanged = {form.query: form for form in stored if form.query not in asked}
    # Forms that no client asked for decay without being written.
    return [unchanged.get(query, form) for query, form in present.items()]


def weights_of(forms: Sequence[AskedForm], now: int) -> dict[str, float]:
    """The times for which each form was surely asked, by query; empty if too few requests were counted."""
    alive = [times_at(form, now) for form in forms]
    if sum(form.times for form in alive) < LEAST_TIMES:
        return {}
    return {form.query: weight for form in alive if (weight := form.times - form.surplus) >= _FORGOTTEN}


def distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The part of all weights in which two mixes differ, from 0 to 1."""
    totals = sum(one.values()), sum(other.values())
    if not all(totals):
        return 0.0 if one.keys() == other.keys() else 1.0
    return sum(abs(one.get(q, 0) / totals[0] - other.get(q, 0) / totals[1]) for q in one.keys() | other.keys()) / 2


class Learning:
    """Learns the weights of forms from what clients of all workers ask for; safe for several threads."""

    def __init__(
        self,
        store: Store,
        query_of: Callable[[CandidateRequest], str | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """Read nothing yet. *query_of* returns the usual spelling of a request; None if it cannot be a form."""
        self._store = store
        self._query_of = query_of
        self._now = now
        self._noted = NotedRequests()
        self.note = self._noted.note
        self._stepping = Lock()
        self._unwritten: Counter[str] = Counter()
        self._number: int | None = None
        self._weights: Mapping[str, float] = {}

    @property
    def weights(self) -> Mapping[str, float]:
        """The weight of each form by its query: the same object as long as they are about the same."""
        return self._weights

    def step(self) -> float:
        """Write what was noted, and read what the other workers wrote; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer. What was noted is written by a later step.
        """
        with self._stepping:
            self._count_noted()
            if self._unwritten:
                now = int(self._now())
                asked = dict(self._unwritten)
                with suppress(ConcurrentUpdate):  # the next step writes it
                    forms = self._store.write(asked_forms.change, lambda stored: counted(stored, asked, now))
                    self._unwritten.clear()
                    self._use(*forms)
            elif self._store.read(asked_forms.number) != self._number:
                self._use(*self._store.read(asked_forms.read))
        return LEARN_SECONDS

    def finish(self) -> None:
        """Write what was noted, if anything was, so that the next start continues with it.

        Raises:
            Unavailable: the database does not answer.
        """
        if self._noted.number or self._unwritten:
            self.step()

    def forget(self) -> None:
        """Remove all counts, also what was noted and is not written yet by this worker.

        Raises:
            Unavailable, ConcurrentUpdate
        """
        with self._stepping:
            self._noted.take()
            self._unwritten.clear()
            self._use(*self._store.write(asked_forms.change, lambda _: []))

    def _count_noted(self) -> None:
        requests, each = self._noted.take()
        query_of: dict[int, str | None] = {}
        for request in requests:
            if id(request) not in query_of:  # equal queries share their parsed request, and the list holds them all
                query_of[id(request)] = self._query_of(request)
            query = query_of[id(request)]
            if query is not None and len(query) <= LONGEST_FORM:
                self._unwritten[query] += each  # type: ignore[assignment]  # what a request stands for is no whole number
        if len(self._unwritten) > _MOST_NOTED:  # the database did not answer for some time
            self._unwritten = Counter(dict(self._unwritten.most_common(_MOST_NOTED)))

    def _use(self, number: int, forms: Sequence[AskedForm]) -> None:
        self._number = number
        weights = weights_of(forms, int(self._now()))
        if distance(weights, self._weights) > TOLERANCE:
            self._weights = weights


Source = Literal["weights", "learned", "flavors", "none"]
"""Where a mix is from: the weights of flavors; what clients ask for; all flavors, the same each; nowhere."""


class Part(NamedTuple):
    """A form of the mix: its query, the name of the flavor if it is one, and its share of all weights."""

    query: str
    flavor: str | None
    share: float


Weighted = tuple[str, str | None, float]
"""A query, the name of its flavor if it is one, and its weight."""


class _Mix(NamedTuple):
    """The mix in use, and what it was made of."""

    source: Source = "none"
    weights: Sequence[Weighted] = ()
    parts: Sequence[Part] = ()
    forms: Sequence[Wanted] = ()


class TargetMix:
    """The requests that the site is to serve, from the flavors or learned; safe for several threads."""

    def __init__(
        self,
        read: Callable[[], Sequence[Flavor]],
        request_of: Callable[[str], CandidateRequest],
        learned: Callable[[], Mapping[str, float]] = dict,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            read: returns the heaviest flavors.
            request_of: parses a query.
            learned: returns the weights of forms by their queries, the same object as long as they are the same.
        """
        self._read = read
        self._request_of = request_of
        self._learned = learned
        self._now = now
        self._reading = Lock()
        self._flavors: Sequence[Flavor] | None = None
        self._mix = _Mix()
        self._until = -inf

    def forms(self) -> Sequence[Wanted]:
        """The mix: the same object as long as it is the same mix."""
        return self._current().forms

    def parts(self) -> tuple[Source, Sequence[Part]]:
        """Where the mix is from, and its forms, the heaviest first."""
        mix = self._current()
        return mix.source, mix.parts

    def forget(self) -> None:
        """Read the flavors at the next use, since one changed."""
        self._until = -inf

    def _current(self) -> _Mix:
        if self._now() >= self._until:
            # Only one thread reads; the others use what it read before, if it did.
            with self._reading if self._flavors is None else _attempt(self._reading) as is_ours:
                if is_ours and self._now() >= self._until:
                    self._update()
        return self._mix

    def _update(self) -> None:
        until = self._now() + MIX_SECONDS
        try:
            self._flavors = self._read()
        except Unavailable:
            if self._flavors is None:
                raise
        source, weights = _chosen(self._flavors, self._learned())
        if (source, weights) != self._mix[:2]:
            self._mix = self._made(source, weights)
        self._until = until

    def _made(self, source: Source, weights: Sequence[Weighted]) -> _Mix:
        heaviest = sorted(weights, key=lambda each: (-each[2], each[0]))
        valid = []
        for query, flavor, weight in heaviest:
            with suppress(InvalidQuery):  # perhaps stored by another release
                valid.append((Wanted(self._request_of(query), weight), query, flavor))
        total = sum(wanted.weight for wanted, _, _ in valid)
        parts = [Part(query, flavor, wanted.weight / total) for wanted, query, flavor in valid]
        return _Mix(source, weights, parts, tuple(wanted for wanted, _, _ in valid))


def _chosen(flavors: Sequence[Flavor], learned: Mapping[str, float]) -> tuple[Source, list[Weighted]]:
    if any(flavor.weight for flavor in flavors):
        return "weights", [(flavor.query, flavor.name, flavor.weight) for flavor in flavors if flavor.weight]
    if learned:
        return "learned", [(query, None, weight) for query, weight in learned.items()]
    alike: list[Weighted] = [(flavor.query, flavor.name, 1.0) for flavor in flavors if flavor.weight is None]
    return ("flavors" if alike else "none"), alike


@contextmanager
def _attempt(lock: Lock) -> Iterator[bool]:
    """Hold *lock* for the block if it is free; returns whether it was."""
    is_ours = lock.acquire(blocking=False)
    try:
        yield is_ours
    finally:
        if is_ours:
            lock.release()
