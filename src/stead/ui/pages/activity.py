"""``/ui/activity``: what happened and what was refused, as sentences, and how current this worker is."""

from __future__ import annotations

import os
import time
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.api.query.candidates import Pairs
from stead.domain.errors import InvalidQuery, StartOver
from stead.observe.activity import joined
from stead.store import consumer_listing
from stead.store.feed.changes import changes_since
from stead.ui.rendering import describe
from stead.ui.sessions import changed, may

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.observe.activity import Done, Event, Lately, Strip
    from stead.observe.exporter import AllWorkers
    from stead.service.service import Service
    from stead.store.consumer_listing import HeldAllocations
    from stead.store.feed.changes import ChangeSet
    from stead.ui.rendering import Rendering


_SHOWN = 200
"""Limit of the changed providers, and of the changed consumers, in the page."""


_COUNTS = "counts"
"""The part of the page with the counts alone."""

_SHARED = "shared"
"""The page as its script reads it again: up to :data:`SHARED_SECONDS` old, so that many open pages cost as few."""

SHARED_SECONDS = 1.0
"""Less than the script waits after a change."""

KINDS = {"claim": "Claims", "release": "Releases", "refusal": "Refusals", "host": "Hosts"}
"""The kinds of sentences, by their spelling in the query."""

SPANS = {"600": "10 minutes", "3600": "hour", "86400": "day"}
"""The times that the page offers, in seconds."""

_CONSUMERS = 100
"""The consumers that were written last and are in the feed."""

ROWS = 30
"""The hosts that were written last and are in the feed."""

SENTENCES = 60
"""Limit of the sentences in the page."""

LEAST_COLUMNS = 6
"""With fewer, the strip chart is not drawn: a server of a minute has no course yet."""


_TEXTS = 50
"""Number of kept texts, of different filters."""


class Counts(NamedTuple):
    """Where the counts come from: those of this worker, and those of all workers, None without metrics."""

    own: Callable[[], Done]
    of_all: Callable[[], AllWorkers | None]


class Activity:
    """The page."""

    def __init__(self, service: Service, rendering: Rendering, counts: Counts | None) -> None:
        self._service = service
        self._rendering = rendering
        self._sources = counts
        self._lock = Lock()
        self._read = -SHARED_SECONDS
        self._claims: Sequence[Sentence] = ()
        self._hosts: Sequence[Sentence] = ()
        self._texts: dict[tuple[object, ...], tuple[float, str]] = {}

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``since``, also all changes after that moment; with ``part``, the counts alone."""
        req.require("stead:changes:list", None)
        given = dict(Pairs.of(req))
        own = self._sources.own() if self._sources else None
        of_all = self._sources.of_all() if self._sources else None
        counts = {"own": own, "process": str(os.getpid()), "of_all": of_all, "vitals": self._service.vitals()}
        if given.get("part") == _COUNTS:
            self._rendering.show(req, resp, "counts", **counts)
            return
        rights = (
            may(req, "stead:consumers:list", {"project_id": None}),
            may(req, "placement:allocation_candidates:list"),
        )
        key = (req.root_path, rights, *sorted(given.items()))
        is_shared = given.get("part") == _SHARED
        if is_shared and (text := self._text(key)) is not None:
            resp.text = text
            describe(resp)
            return
        since = given.get("since") or None
        problem = ""
        try:
            happened = self._happened(since)
        except (InvalidQuery, StartOver) as error:
            happened, since, problem = self._happened(None), None, str(error)
        lately = list(of_all.lately) if of_all and of_all.lately else [own.lately] if own else []
        kind = given.get("kind", "") if given.get("kind") in KINDS else ""
        span = given.get("within", "") if given.get("within") in SPANS else ""
        about = given.get("about", "").strip()
        claims, hosts = self._written(is_shared=is_shared)
        every = sentences([*(claims if rights[0] else ()), *hosts], lately)
        passing = [one for one in every if passes(one, span, about)]
        shown = [one for one in passing if kind in ("", one.kind)]
        self._rendering.show(
            req,
            resp,
            "happened" if is_shared else "activity",
            happened=happened,
            since=since,
            shown=_SHOWN,
            problem=problem,
            sentences=shown[:SENTENCES],
            more=len(shown) - SENTENCES,
            found={each: sum(one.kind == each for one in passing) for each in KINDS},
            kinds=KINDS,
            kind=kind,
            spans=SPANS,
            span=span,
            about=about,
            strip=drawn(lately),
            least=LEAST_COLUMNS,
            refusals=by_reason(event for each in lately for event in each.events),
            changed=partial(changed, [(key, value) for key, value in given.items() if key != "part"]),
            may_ask=rights[1],
            **counts,
        )
        if is_shared:
            self._keep(key, str(resp.text))

    def _text(self, key: tuple[object, ...]) -> str | None:
        """The part that another page with the same rights and filters read just before."""
        moment, text = self._texts.get(key, (-SHARED_SECONDS, ""))
        return text if time.monotonic() - moment < SHARED_SECONDS else None

    def _keep(self, key: tuple[object, ...], text: str) -> None:
        if len(self._texts) >= _TEXTS:
            self._texts.clear()
        self._texts[key] = (time.monotonic(), text)

    def _written(self, *, is_shared: bool) -> tuple[Sequence[Sentence], Sequence[Sentence]]:
        """What was written last, of consumers and of hosts; *is_shared*: other pages may have read it just before."""
        with self._lock:
            if not is_shared or time.monotonic() - self._read >= SHARED_SECONDS:
                self._read = time.monotonic()
                snapshot = self._service.snapshot()
                consumers = self._service.read(consumer_listing.written_last, _CONSUMERS)
                self._claims = list(_claims(snapshot, consumers))
                self._hosts = list(_hosts(snapshot, {one.moment for one in self._claims}))
            return self._claims, self._hosts

    def _happened(self, since: str | None) -> ChangeSet:
        return self._service.read(partial(changes_since, since=since))


# The feed: claims from the database, hosts from the snapshot, refusals and releases from the memory of the workers.


class Sentence(NamedTuple):
    """What happened, for one line of the feed. Fields that do not apply are empty.

    ``providers`` has the uuid, the name and the amounts of each. ``words`` is a reason, or what was written.
    """

    kind: str
    moment: float
    project: str = ""
    consumer: str = ""
    consumer_type: str = ""
    consumers: int = 0
    providers: Sequence[tuple[str, str, Mapping[str, int]]] = ()
    words: str = ""
    query: str = ""
    times: int = 1

    @property
    def key(self) -> str:
        """The same for the same sentence in a later answer."""
        return f"{self.kind} {self.moment:.3f} {self.consumer or self.words} {[each[0] for each in self.providers]}"


def sentences(written: Iterable[Sentence], lately: Iterable[Lately]) -> list[Sentence]:
    """The feed, the newest first: what was *written*, and what the workers remember."""
    happened = [*written, *(_remembered(event) for each in lately for event in each.events)]
    happened.sort(key=lambda one: -one.moment)
    return list(_counted(happened))


def _counted(happened: Iterable[Sentence]) -> Iterator[Sentence]:
    """Refusals of the same that follow each other, as one with their number: clients retry."""
    last: Sentence | None = None
    for one in happened:
        if last is not None and one.kind == "refusal" and _same(one) == _same(last):
            last = last._replace(times=last.times + 1)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _same(one: Sentence) -> tuple[str, str, str, str]:
    return one.kind, one.project, one.words, one.query


def _claims(snapshot: Snapshot, consumers: Mapping[str, HeldAllocations]) -> Iterator[Sentence]:
    for uuid, held in consumers.items():
        providers = []
        for provider, amounts in held.amounts().items():
            slot = snapshot.find(provider)
            providers.append((provider, "" if slot is None else snapshot.identities.names[slot], amounts))
        yield Sentence("claim", held.modified, held.project, uuid, held.consumer_type or "", providers=providers)


def _hosts(snapshot: Snapshot, claimed: Collection[float]) -> Iterator[Sentence]:
    """What was written of providers last, and which ones were disabled. *claimed* has the moments of claims.

    A claim may write its providers, too. The line of the claim says so.
    """
    for slot, state in snapshot.service_states.disabled.items():
        named: tuple[str, str, Mapping[str, int]] = (snapshot.uuid(slot), snapshot.identities.names[slot], {})
        yield Sentence("host", state.since, providers=[named], words=f"disabled: {state.reason}")
    slots = np.flatnonzero(snapshot.live)
    moments = snapshot.modified.at(slots)
    for slot in slots[np.argsort(-moments, kind="stable")[:ROWS]].tolist():
        provider = snapshot.provider(slot)
        inventories = snapshot.inventories(slot)
        written = [name for name, held in inventories.items() if held.inventory and held.modified == provider.modified]
        if not written and provider.modified in claimed:
            continue
        if provider.generation == 0:
            words = "created"
        else:
            words = f"written: {', '.join(f'inventory of {name}' for name in written)}" if written else "written"
        yield Sentence("host", provider.modified, providers=[(provider.uuid, provider.name, {})], words=words)


def _remembered(event: Event) -> Sentence:
    kind = "refusal" if event.reason else "release"
    return Sentence(kind, event.moment, event.project, consumers=event.consumers, words=event.reason, query=event.query)


def passes(one: Sentence, span: str, about: str) -> bool:
    """Whether a sentence happened within *span* seconds, and has the text *about*."""
    if span and one.moment < time.time() - int(span):
        return False
    texts = [one.project, one.consumer, one.words, one.query, *(name for _, name, _ in one.providers)]
    return not about or any(about.casefold() in text.casefold() for text in texts)


class Refusals(NamedTuple):
    """Refusals of one reason: the number of those remembered, and what was asked, the newest first, without doubles."""

    reason: str
    number: int
    last: float
    queries: Sequence[str]


_QUERIES = 3
"""Questions that the page links for each reason."""


def by_reason(events: Iterable[Event]) -> list[Refusals]:
    """The remembered refusals by reason, the latest reason first."""
    grouped: dict[str, list[Event]] = {}
    for event in sorted(events, key=lambda one: -one.moment):
        if event.reason:
            grouped.setdefault(event.reason, []).append(event)
    return [
        Refusals(
            reason,
            len(group),
            group[0].moment,
            list(dict.fromkeys(event.query for event in group if event.query))[:_QUERIES],
        )
        for reason, group in grouped.items()
    ]


class Column(NamedTuple):
    """One bin of the strip chart: its begin in seconds since 1970, what was done and what was refused."""

    moment: int
    done: int
    refused: int


class Drawn(NamedTuple):
    """The strip chart since ``began``. ``most`` is the highest column; ``width`` is that of one in seconds."""

    began: float
    width: int
    most: int
    columns: Sequence[Column]
    done: int
    refused: int


def drawn(lately: Sequence[Lately]) -> Drawn | None:
    """The strip of all workers from the start until now; None if there is nothing to draw."""
    if not any(each.strip.bins for each in lately):
        return None
    began, now = min(each.began for each in lately), time.time()
    strip: Strip = joined((each.strip for each in lately), began, now)
    numbers = range(int(began) // strip.width, int(now) // strip.width + 1)
    columns = [Column(number * strip.width, *strip.bins.get(number, (0, 0))) for number in numbers]
    most = max(column.done + column.refused for column in columns)
    sums = (sum(column.done for column in columns), sum(column.refused for column in columns))
    return Drawn(began, strip.width, most, columns, *sums)
