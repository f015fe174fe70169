"""``/ui/``: the sums of the site, its flavors, and its trees of providers in a table."""

from __future__ import annotations

import hashlib
from functools import partial
from heapq import nlargest, nsmallest
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.api.query.candidates import Pairs, stored_request
from stead.api.query.providers import parse_tree_query
from stead.candidates.provider_trees import matching_trees, tree_totals
from stead.catalog.listing import sums
from stead.domain.errors import BadRequest, InvalidQuery
from stead.printing import class_order
from stead.process import runtime
from stead.store.extensions import flavors
from stead.ui.pages.ask import limit_words
from stead.ui.sessions import changed, may

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.api.request import Request, Response
    from stead.catalog.columns import InventoryColumns
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Sums
    from stead.domain.request import CandidateRequest, Flavor
    from stead.service.flavors import Found, Stranded
    from stead.service.service import Service
    from stead.ui.rendering import Rendering


FILTERS = ("name", "resources", "required", "member_of")
_FLAVORS = "flavors"
"""The part of the page that its script reads again."""

_OWN = ("sort", "page", "classes", "state")


class Site:
    """The page. Its filters are those of GET ``/provider_trees``."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering
        self._flavors = FlavorRooms(service)

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page; with ``part``, the flavors alone.

        Raises:
            Unavailable
        """
        if req.get_param("part") == _FLAVORS:
            self._show_flavors(req, resp)
            return
        req.require("stead:provider_trees:list", None)
        given = [(key, value.strip()) for key, value in Pairs.of(req) if value.strip()]
        own = {key: value for key, value in given if key in _OWN}
        snapshot = self._service.snapshot()
        problem = ""
        try:
            filters = Pairs([_spelled(key, value) for key, value in given if key not in _OWN])
            roots = matching_trees(snapshot, parse_tree_query(filters).query)
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
        values = {key: " ".join(value for name, value in given if name == key) for key in FILTERS}
        is_filtered = any(key not in ("sort", "page", "classes") for key, _ in given)
        has_flavors = not is_filtered and may(req, "stead:flavors:list")
        self._rendering.show(
            req,
            resp,
            "site",
            site=shown,
            filters=values,
            state=own.get("state", ""),
            sort=own.get("sort", "name"),
            is_filtered=is_filtered,
            flavors=self._flavors.now() if has_flavors else None,
            at_once=AT_ONCE,
            # It shows names of flavors, so a policy that hides them hides it, too.
            mix=_mix(self._service) if has_flavors and may(req, "stead:mix:show") else None,
            chosen=choice_of_classes(shown.sums, shown.classes),
            changed=partial(changed, given),
            problem=problem,
            may_ask=may(req, "placement:allocation_candidates:list"),
        )

    def _show_flavors(self, req: Request, resp: Response) -> None:
        """Show the flavors, unless the page of the reader has the same: then 304."""
        req.require("stead:flavors:list", None)
        may_ask = may(req, "placement:allocation_candidates:list")
        self._rendering.show(req, resp, "flavors", flavors=self._flavors.lately(), at_once=AT_ONCE, may_ask=may_ask)
        tag = f'"{hashlib.sha256((resp.text or "").encode()).hexdigest()[:24]}"'
        resp.set_header("etag", f"W/{tag}")  # weak: a proxy may compress the text
        if tag in req.get_header("if-none-match", default=""):
            resp.status, resp.text = "304 Not Modified", None


def _spelled(key: str, value: str) -> tuple[str, str]:
    """A name without ``*`` matches any part of a name, as in other fields for searching."""
    return (key, f"*{value}*") if key == "name" and "*" not in value else (key, value)


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
