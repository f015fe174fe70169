"""``/ui/``: the sums of the site, its flavors, and its trees of providers in a table."""

from __future__ import annotations

import hashlib
import re
from functools import partial
from heapq import nlargest, nsmallest
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stead.api.query.candidates import Pairs, stored_request
from stead.api.query.providers import parse_tree_query
from stead.candidates.provider_trees import matching_trees, tree_totals
from stead.catalog.listing import sums
from stead.domain.errors import BadRequest, InvalidQuery, ProviderNotFound
from stead.printing import class_order
from stead.process import runtime
from stead.store.extensions import flavors
from stead.ui.pages.ask import limit_words
from stead.ui.pages.provider import values_of
from stead.ui.sessions import changed, may, query_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.api.request import Request, Response
    from stead.catalog.columns import InventoryColumns
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Sums
    from stead.domain.request import CandidateRequest, Flavor
    from stead.service.flavors import Found, Stranded
    from stead.service.pace import RunsOut
    from stead.service.service import Service
    from stead.ui.rendering import Rendering


_READ_AGAIN = ("flavors", "answer")
"""The parts of the page that its scripts read again."""

_OWN = ("sort", "page", "classes", "state", "search", "host", "part")
"""Parameters of the page itself. All others are filters of GET ``/provider_trees``."""

_FILTER_WORDS = {"name": "name", "resources": "free", "required": "trait", "member_of": "aggregate"}


class Site:
    """The page. Its filters are those of GET ``/provider_trees``, and words of a search."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering
        self._flavors = FlavorRooms(service)
        self._latest: tuple[float, Snapshot, Sites] | None = None

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``part``, the flavors, one host, or the times of the last writes alone.

        Raises:
            ProviderNotFound
            Unavailable
        """
        part = req.get_param("part")
        if part in _READ_AGAIN:
            if part == "flavors":
                self._show_flavors(req, resp)
            else:
                self._show_answer(req, resp)
            _unless_same(req, resp)
            return
        req.require("stead:provider_trees:list", None)
        snapshot = self._service.snapshot()
        if part == "written":
            resp.media = {"modified": last_writes(snapshot)}
            resp.cache_control = ["no-store"]
            return
        given = [(key, value.strip()) for key, value in Pairs.of(req) if value.strip()]
        own = {key: value for key, value in given if key in _OWN}
        if part == "host":
            self._rendering.show(req, resp, "host", changed=partial(changed, given), **self._host(req, snapshot, own))
            return
        words = [word for key, value in given if key == "search" for word in value.split()][:MOST_WORDS]
        problem = ""
        try:
            filters = Pairs([_spelled(key, value) for key, value in given if key not in _OWN])
            roots = found(snapshot, matching_trees(snapshot, parse_tree_query(filters).query), words)
        except BadRequest as error:
            resp.status, problem = "400 Bad Request", str(error)
            roots = matching_trees(snapshot, parse_tree_query(Pairs([])).query)[:0]
        chosen = [value for key, value in given if key == "classes"]
        page = own.get("page", "1")
        shown = site(
            snapshot,
            roots,
            own.get("sort", "name"),
            int(page) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
            chosen,
            disabled=own.get("state") == "disabled",
        )
        chips = list(chips_of(given))
        has_flavors = not chips and may(req, "stead:flavors:list")
        # It shows names of flavors, so a policy that hides them hides it, too.
        mix = _mix(self._service) if has_flavors and may(req, "stead:mix:show") else None
        rooms = self._flavors.now() if has_flavors else None
        has_host = "host" in own and snapshot.find_named(own["host"]) is not None
        self._rendering.show(
            req,
            resp,
            "site",
            site=shown,
            whole=int(snapshot.roots.sum()),
            answer=None if chips or not shown.trees else self._answer(snapshot, shown, rooms, mix),
            chips=chips,
            hidden=[pair for pair in split(given) if pair[0] not in ("page", "host", "part")],
            asked=asked(given),
            sort=own.get("sort", "name"),
            flavors=rooms,
            at_once=AT_ONCE,
            mix=mix,
            chosen=choice_of_classes(shown.sums, shown.classes),
            changed=partial(changed, given),
            problem=problem,
            may_ask=may(req, "placement:allocation_candidates:list"),
            host=self._host(req, snapshot, own) if has_host else None,
        )

    def _host(self, req: Request, snapshot: Snapshot, own: Mapping[str, str]) -> dict[str, Any]:
        slot = snapshot.find_named(own.get("host", ""))
        if slot is None:
            raise ProviderNotFound(own.get("host", ""))
        return values_of(req, self._service, snapshot, slot)

    def _answer(self, snapshot: Snapshot, shown: Sites, rooms: Rows | None, mix: MixRows | None) -> Answer:
        use = self._service.use(shown.sums)
        common = [each for each in shown.sums if 2 * trees_with(snapshot, each.resource_class) >= shown.trees]
        fullest = max(
            (each for each in common or shown.sums if each.capacity > 0),
            key=lambda each: each.used / each.capacity,
            default=None,
        )
        heaviest = [name for name, _ in mix.rows] if mix and mix.source != "flavors" else []
        counted = [row for row in rooms.rows if not row.problem] if rooms else []
        counted.sort(key=lambda row: heaviest.index(row.name) if row.name in heaviest else len(heaviest))
        stranded = max(
            (each for each in (rooms.stranded if rooms else ()) if each.free and each.stranded),
            key=lambda each: each.stranded / each.free,
            default=None,
        )
        return Answer(
            fullest,
            use.first_to_run_out(shown.sums),
            use.covers(),
            counted[:MOST_IN_ANSWER],
            self._service.vitals().overdue_leases,
            stranded,
        )

    def _show_flavors(self, req: Request, resp: Response) -> None:
        """Show the flavors."""
        req.require("stead:flavors:list", None)
        may_ask = may(req, "placement:allocation_candidates:list")
        self._rendering.show(req, resp, "flavors", flavors=self._flavors.lately(), at_once=AT_ONCE, may_ask=may_ask)

    def _show_answer(self, req: Request, resp: Response) -> None:
        """Show what the page says first, from the sums of up to :data:`OLDEST` seconds ago."""
        req.require("stead:provider_trees:list", None)
        latest = self._latest
        if latest is None or monotonic() - latest[0] >= OLDEST:
            snapshot = self._service.snapshot()
            roots = np.flatnonzero(snapshot.roots)
            of_class = list(sums(snapshot, snapshot.live))
            disabled = int(_out_of_service(snapshot, roots).sum())
            latest = self._latest = monotonic(), snapshot, Sites(len(roots), disabled, of_class, [], [], 1, 1)
        _, snapshot, shown = latest
        rooms = self._flavors.lately() if may(req, "stead:flavors:list") else None
        mix = _mix(self._service) if rooms and may(req, "stead:mix:show") else None
        self._rendering.show(
            req,
            resp,
            "answer",
            site=shown,
            answer=self._answer(snapshot, shown, rooms, mix) if shown.trees else None,
            flavors=rooms,
            chips=[],
            may_ask=may(req, "placement:allocation_candidates:list"),
        )


def _unless_same(req: Request, resp: Response) -> None:
    """Answer 304 if the page of the reader has the same text."""
    tag = f'"{hashlib.sha256((resp.text or "").encode()).hexdigest()[:24]}"'
    resp.set_header("etag", f"W/{tag}")  # weak: a proxy may compress the text
    if tag in req.get_header("if-none-match", default=""):
        resp.status, resp.text = "304 Not Modified", None


def _spelled(key: str, value: str) -> tuple[str, str]:
    """A name without ``*`` matches any part of a name, as in other fields for searching."""
    return (key, f"*{value}*") if key == "name" and "*" not in value else (key, value)


# The search: words, all of which a host must meet. The script of the page has the same, for the search as it is typed.


MOST_WORDS = 50

_FREE = re.compile(r"([A-Z][A-Z0-9_]*)>=(\d{1,18})")


def found(snapshot: Snapshot, roots: NDArray[np.int64], words: Sequence[str]) -> NDArray[np.int64]:
    """Those of *roots* that meet all *words*: part of a name, ``trait:``, ``aggregate:``, ``disabled``, ``VCPU>=4``."""
    parts = []
    for word in words:
        runtime.give_way()
        what, colon, rest = word.partition(":")
        if match := _FREE.fullmatch(word):
            roots = roots[_has_free(snapshot, roots, match[1], int(match[2]))]
        elif word == "disabled":
            roots = roots[_out_of_service(snapshot, roots)]
        elif colon and what == "trait":
            ids = [row.id for name, row in snapshot.trait_names.by_name.items() if rest.lower() in name.lower()]
            roots = roots[snapshot.with_traits([ids], ())[roots]] if ids else roots[:0]
        elif colon and what == "aggregate":
            ids = [number for number, uuid in snapshot.aggregate_uuids.items() if rest.lower() in uuid]
            roots = roots[snapshot.in_aggregates([ids], ())[roots]] if ids else roots[:0]
        else:
            parts.append(word.lower())
    if not parts:
        return roots
    names: list[str] = snapshot.identities.names.at(roots).tolist()
    return roots[np.array([all(part in name.lower() for part in parts) for name in names], np.bool_)]


def _has_free(snapshot: Snapshot, roots: NDArray[np.int64], resource_class: str, amount: int) -> NDArray[np.bool_]:
    """Which trees have *amount* of a class free, over all their providers."""
    mask = np.zeros(len(roots), np.bool_)
    for each in tree_totals(snapshot, roots):
        if each.name == resource_class:
            for tree, place in enumerate(each.places(range(len(roots)))):
                mask[tree] = place >= 0 and each.capacity[place] - each.used[place] >= amount
    return mask


def split(given: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters of a request, with one ``search`` for each of its words."""
    return [(key, part) for key, value in given for part in (value.split() if key == "search" else [value])]


def chips_of(given: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each condition of the page in words, and the query string without it."""
    pairs = [pair for pair in split(given) if pair[0] not in ("page", "host", "part")]
    for place, (key, value) in enumerate(pairs):
        if key not in _OWN or key in ("search", "state"):
            words = value if key in ("search", "state") else f"{_FILTER_WORDS.get(key, key)}: {value}"
            yield words, query_of(pairs[:place] + pairs[place + 1 :])


def asked(given: Iterable[tuple[str, str]]) -> str:
    """The amounts of the conditions, as ``resources`` of a request for candidates."""
    free = [match for key, word in split(given) if key == "search" and (match := _FREE.fullmatch(word))]
    amounts = [f"{match[1]}:{match[2]}" for match in free]
    return ",".join([*(value for key, value in given if key == "resources"), *amounts])


def last_writes(snapshot: Snapshot) -> list[int]:
    """When each tree was written last, in seconds since 1970, in the order of GET ``/provider_trees``."""
    slots = np.flatnonzero(snapshot.live)
    moments = np.zeros(snapshot.size, np.int64)
    np.maximum.at(moments, snapshot.forest.root.at(slots), snapshot.modified.at(slots))
    written: list[int] = moments[np.flatnonzero(snapshot.roots)].tolist()
    return written


# What the page says first.


MOST_IN_ANSWER = 3
"""Flavors beside the sentence."""


class Answer(NamedTuple):
    """How full the site is, what runs out first, what still fits, and what needs attention.

    ``fullest``: of the classes that half of the trees have, the one with the largest used share; ``covers``: seconds
    for which the pace is known; ``fits``: the flavors of the greatest weight in the mix, or the scarcest;
    ``overdue``: number of consumers; ``stranded``: the class with the largest stranded share of what is free.
    """

    fullest: Sums | None
    runs_out: RunsOut | None
    covers: int
    fits: Sequence[FlavorRow]
    overdue: int
    stranded: StrandedRow | None


# The Site page: sums per class, and one page of the trees that match, with their amounts.


ROWS = 50
"""Trees in one page of the table."""

CLASSES = 6
"""Resource classes in the table, unless the reader chooses others."""


class Amounts(NamedTuple):
    """Capacity and usage of one class in one tree."""

    capacity: int
    used: int


class TreeRow(NamedTuple):
    """One tree. ``amounts`` has one entry for each class of the table; None: no inventory."""

    uuid: str
    name: str
    providers: int
    disabled: str | None
    amounts: Sequence[Amounts | None]


class Sites(NamedTuple):
    """The page: ``sums`` over the trees that match, ``classes`` and ``rows`` of the table, ``page`` of ``pages``."""

    trees: int
    disabled: int
    sums: Sequence[Sums]
    classes: Sequence[str]
    rows: Sequence[TreeRow]
    page: int
    pages: int


def site(
    snapshot: Snapshot, roots: NDArray[np.int64], sort: str, page: int, chosen: Sequence[str], *, disabled: bool
) -> Sites:
    """What the page shows.

    Args:
        roots: slots of the roots of all trees that match.
        sort: ``name``, or a class: the fullest tree first; with ``-`` before it, the reverse.
        page: number of the page from 1; one that does not exist is the nearest.
        chosen: the classes of the table; those that most providers have, if empty.
        disabled: only trees whose root is disabled.
    """
    out = _out_of_service(snapshot, roots)
    if disabled:
        roots, out = roots[out], out[out]
    of_class = list(sums(snapshot, _members(snapshot, roots)))
    widespread = nlargest(CLASSES, of_class, key=lambda each: each.providers)
    classes = sorted(chosen or (each.resource_class for each in widespread), key=class_order)
    pages = max(1, -(-len(roots) // ROWS))
    page = min(max(1, page), pages)
    runtime.give_way()
    shown = _sorted(snapshot, roots, sort, page * ROWS)[(page - 1) * ROWS :]
    return Sites(len(roots), int(out.sum()), of_class, classes, _rows(snapshot, shown, classes), page, pages)


def _members(snapshot: Snapshot, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of all providers of the trees of *roots*."""
    matching = np.zeros(snapshot.size, np.bool_)
    matching[roots] = True
    members: NDArray[np.bool_] = matching[snapshot.forest.root.whole] & snapshot.live
    return members


def _out_of_service(snapshot: Snapshot, roots: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = snapshot.service_states.out_of_service
    return np.zeros(len(roots), np.bool_) if mask is None else mask[roots]


def _sorted(snapshot: Snapshot, roots: NDArray[np.int64], sort: str, number: int) -> NDArray[np.int64]:
    """The first *number* of *roots*."""
    name = sort.removeprefix("-")
    row = snapshot.class_names.by_name.get(name)
    columns = None if row is None else snapshot.inventory.get(row.id)
    if columns is not None:
        return roots[_by_fill(snapshot, columns, roots, reverse=sort.startswith("-"))][:number]
    names: list[str] = snapshot.identities.names.at(roots).tolist()
    pairs = zip(names, roots.tolist(), strict=True)
    ordered = nlargest(number, pairs) if sort == "-name" else nsmallest(number, pairs)
    return np.array([root for _, root in ordered], np.int64)


def _by_fill(
    snapshot: Snapshot, columns: InventoryColumns, roots: NDArray[np.int64], *, reverse: bool
) -> NDArray[np.int64]:
    """Places of *roots* by the used part of a class; trees without inventory are last in both directions."""
    tree = np.full(snapshot.size, -1, np.int64)
    tree[roots] = np.arange(len(roots))
    slots = columns.slots
    of_slot = tree[snapshot.forest.root.at(slots)]
    slots, of_slot = slots[of_slot >= 0], of_slot[of_slot >= 0]
    capacities = columns.kinds.capacities()[columns.kind.at(slots)].astype(np.float64)
    capacity = np.bincount(of_slot, capacities, len(roots))
    used = np.bincount(of_slot, columns.used(slots).astype(np.float64), len(roots))
    fill = used / np.maximum(capacity, 1)
    # Stable, so that trees of equal use keep their places from page to page.
    return np.argsort(np.where(capacity > 0, fill if reverse else -fill, np.inf), kind="stable")


def _rows(snapshot: Snapshot, roots: NDArray[np.int64], classes: Sequence[str]) -> list[TreeRow]:
    totals = {each.name: each for each in tree_totals(snapshot, roots) if each.name in classes}
    places = {name: each.places(range(len(roots))) for name, each in totals.items()}
    rows = []
    for place, root in enumerate(roots.tolist()):
        amounts = []
        for name in classes:
            of_class = totals.get(name)
            at = -1 if of_class is None else places[name][place]
            amounts.append(Amounts(of_class.capacity[at], of_class.used[at]) if of_class and at >= 0 else None)
        cause = snapshot.service_states.cause(root)
        size = snapshot.forest.shape_of(root).size
        reason = None if cause is None else cause[1].reason
        rows.append(TreeRow(snapshot.uuid(root), snapshot.identities.names[root], size, reason, amounts))
    return rows


def choice_of_classes(of_class: Sequence[Sums], chosen: Sequence[str]) -> Mapping[str, bool]:
    """Each class of the site, by name, and whether the table shows it."""
    return {name: name in chosen for name in [each.resource_class for each in of_class]}


def trees_with(snapshot: Snapshot, resource_class: str) -> int:
    """Number of trees with an inventory of a class."""
    columns = snapshot.inventory[snapshot.class_names.by_name[resource_class].id]
    return int(np.unique(snapshot.forest.root.at(columns.slots)).size)


# The flavors of the Site page, read for one request, or for the requests of some seconds.


MOST = 200
"""Maximum number of flavors in the page."""

OLDEST = 5.0
"""Seconds for which open pages get the same rows."""


class FlavorRooms:
    """How many times each flavor fits."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._latest: tuple[float, Rows] | None = None
        self._reading = Lock()

    def now(self) -> Rows:
        """The rows, which see all acknowledged writes.

        Raises:
            Unavailable
        """
        page = self._service.read(flavors.page_of, None, MOST + 1)
        problems: dict[str, Found] = {}
        requests: dict[str, CandidateRequest] = {}
        for flavor in page[:MOST]:
            try:
                requests[flavor.name] = stored_request(flavor.query)
            except InvalidQuery as error:
                problems[flavor.name] = str(error)
        headrooms = self._service.headrooms(requests)[1] if requests else {}
        stranded = _stranded(*self._service.stranded()[::2])
        shown = rows(page[:MOST], {**headrooms, **problems}, goes_on=len(page) > MOST, stranded=stranded)
        # One tuple, so that no thread combines the time of one reading with the rows of another.
        self._latest = monotonic(), shown
        return shown

    def lately(self) -> Rows:
        """The rows of up to :data:`OLDEST` seconds ago, so that the number of open pages does not add up.

        While one request reads them, others get the previous ones: they must not wait with a thread each.

        Raises:
            Unavailable
        """
        latest = self._latest
        if latest is not None and monotonic() - latest[0] < OLDEST:
            return latest[1]
        is_first = self._reading.acquire(blocking=False)
        try:
            return self.now() if is_first or latest is None else latest[1]
        finally:
            if is_first:
                self._reading.release()


# The mix of the Site page.


MOST_OF_MIX = 10
"""Forms that the page shows."""


class MixRows(NamedTuple):
    """The heaviest forms of the mix: name or query, and share. ``number`` is that of all forms."""

    source: str
    rows: Sequence[tuple[str, float]]
    number: int


def _mix(service: Service) -> MixRows:
    source, parts = service.parts_of_mix()
    return MixRows(source, [(part.flavor or part.query, part.share) for part in parts[:MOST_OF_MIX]], len(parts))


# The flavors of the Site page: how many times each still fits, and what runs out first.


AT_ONCE = 20
"""Flavors that the page shows at once. It folds the others."""

NOT_COUNTED = "not counted yet: the work for one request was used up"


class FlavorRow(NamedTuple):
    """One flavor. ``problem``, if it is not empty, says why the numbers are unknown; ``limits`` are in words.

    ``is_complete``: the work for one request sufficed, so ``at_most`` is near.
    """

    name: str
    description: str
    at_least: int = 0
    at_most: int = 0
    limits: Sequence[str] = ()
    is_complete: bool = True
    problem: str = ""


class StrandedRow(NamedTuple):
    """What is free of one class, and how much of it the mix cannot use.

    ``course``: what was stranded before, with the times in seconds since 1970.
    """

    resource_class: str
    free: int
    stranded: int
    course: Sequence[tuple[int, int]] = ()


class Rows(NamedTuple):
    """The scarcest flavor first, then those with a problem. ``goes_on``: other flavors exist."""

    rows: Sequence[FlavorRow]
    goes_on: bool
    stranded: Sequence[StrandedRow] = ()


def _stranded(snapshot: Snapshot, stranded: Stranded) -> Sequence[StrandedRow]:
    names = snapshot.class_names.by_id
    return [
        StrandedRow(
            names[class_id].name,
            stranded.free[class_id],
            amount,
            [
                (each.time, each.stranded[names[class_id].name])
                for each in stranded.course
                if names[class_id].name in each.stranded
            ],
        )
        for class_id, amount in stranded.stranded.items()
    ]


def rows(
    flavors: Iterable[Flavor],
    headrooms: Mapping[str, Found],
    *,
    goes_on: bool,
    stranded: Sequence[StrandedRow] = (),
) -> Rows:
    """The rows of *flavors*. *headrooms* has the headrooms, or the reasons why there are none, by name."""
    made = [_row(flavor, headrooms.get(flavor.name, NOT_COUNTED)) for flavor in flavors]
    ordered = sorted(made, key=lambda row: (row.problem != "", row.at_least, row.at_most, row.name))
    return Rows(ordered, goes_on, stranded)


def _row(flavor: Flavor, headroom: Found) -> FlavorRow:
    if isinstance(headroom, str):
        return FlavorRow(flavor.name, flavor.description, problem=headroom)
    limits = [limit_words(limit.by) for limit in headroom.limited_by]
    return FlavorRow(flavor.name, flavor.description, headroom.at_least, headroom.at_most, limits, headroom.is_complete)


# ``/`` for browsers: a page that leads to the web interface.


class Front:
    """The first page of the service. It needs no session."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page."""
        self._rendering.show(req, resp, "front")
        resp.append_header("vary", "accept")
