"""``/ui/consumers``: consumers by project, user, type and provider, what they hold, and their release."""

from __future__ import annotations

from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

import numpy as np

from stead.api.query.candidates import Pairs
from stead.api.request import Refused, normalised_uuid
from stead.domain.errors import AllocationsNotFound
from stead.domain.request import Page
from stead.store import allocations, consumer_listing
from stead.store.consumer_listing import ConsumerFilter, ConsumerPage, Owners
from stead.ui.sessions import changed, may, read_own_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response
    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service
    from stead.store.consumer_listing import HeldAllocations
    from stead.ui.rendering import Rendering

_ROWS = 50

_MATCHES = 8
"""Results of a search, of each kind."""

_PROJECTS = 4
"""Projects whose sums the page shows at once. It folds the others."""

FILTERS = ("project_id", "user_id", "consumer_type", "provider", "in_tree", "consumer")

LABELS = {
    "project_id": "Project",
    "user_id": "User",
    "consumer_type": "Type",
    "provider": "Provider",
    "in_tree": "Host",
    "consumer": "Consumer",
}
"""Words for the filters."""


class Consumers:
    """The page. Its filters are those of GET ``/consumers``, and the uuid of one consumer."""

    def __init__(self, service: Service, rendering: Rendering) -> None:
        self._service = service
        self._rendering = rendering

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the page. A search with one result leads to it."""
        given = {key: value.strip() for key, value in Pairs.of(req) if value.strip()}
        req.require("stead:consumers:list", {"project_id": given.get("project_id")})
        text = given.pop("q", "")
        matches = self._search(text, given.get("project_id")) if text else []
        if len(matches) == 1:
            resp.status = "303 See Other"
            query = changed(given.items(), **{matches[0].key: matches[0].value, "marker": ""})
            resp.set_header("location", f"{req.root_path}/ui/consumers{query}")
            return
        listing = ConsumerPage({}, {}, goes_on=False) if text else self._found(given)
        snapshot = self._service.snapshot()
        last = list(listing.allocations)[-1] if listing.goes_on else ""
        totals = sorted((listing.totals or {}).items(), key=lambda item: -item[1].consumer_count)
        self._rendering.show(
            req,
            resp,
            "consumers",
            found=listing,
            totals=totals,
            at_once=_PROJECTS,
            names=_names(snapshot, listing),
            hosts={uuid: hosts_of(snapshot, held) for uuid, held in listing.allocations.items()},
            filters={key: given.get(key, "") for key in FILTERS},
            labels=LABELS,
            text=text,
            matches=matches,
            last=last,
            marker=given.get("marker", ""),
            released=given.get("released", ""),
            may_release=self._rendering.writes and may(req, "placement:allocations:delete"),
            changed=partial(changed, [(key, value) for key, value in given.items() if key != "released"]),
            command=command(given),
        )

    def _search(self, text: str, project: str | None) -> list[Match]:
        """What a text stands for: consumers, projects, users and hosts. With *project*, consumers of it only."""
        snapshot = self._service.snapshot()
        compact = normalised_uuid(text) or text
        owners = self._service.read(consumer_listing.search, compact.lower(), _MATCHES)
        if compact.lower() != text:
            exact = self._service.read(consumer_listing.search, text, _MATCHES)
            owners = Owners(exact.projects, exact.users, owners.consumers)
        aliases = self._rendering.named_like(text)
        uuids = dict.fromkeys([*owners.consumers, *aliases])
        held = self._service.read(consumer_listing.of_consumers, list(uuids)[:_MATCHES])
        found = [
            Match("consumer", uuid, aliases.get(uuid, uuid))
            for uuid, one in held.items()
            if one.providers and project in (None, one.project)
        ]
        found += [
            Match("in_tree" if is_root else "provider", uuid, name)
            for uuid, name, is_root in providers_like(snapshot, compact)
        ]
        if project is None:
            found += [Match("project_id", name, name) for name in owners.projects]
            found += [Match("user_id", name, name) for name in owners.users]
        exact_ones = [match for match in found if text in (match.value, match.label)]
        return exact_ones if len(exact_ones) == 1 else found

    def _found(self, given: Mapping[str, str]) -> ConsumerPage:
        consumer = given.get("consumer")
        if consumer is None:
            project, user, consumer_type, provider, in_tree = map(given.get, FILTERS[:5])
            whose = ConsumerFilter(project, user, consumer_type, provider, in_tree)
            marker = given.get("marker")
            return self._service.read(consumer_listing.page_of, whose, Page(_ROWS, marker), _ROWS, with_totals=True)
        consumed = self._service.read(consumer_listing.of_consumer, normalised_uuid(consumer) or consumer)
        # The policy decided about the project in the query, so a consumer of another project stays hidden.
        if consumed is None or not consumed.providers or consumed.project != given.get("project_id", consumed.project):
            return ConsumerPage({}, {}, goes_on=False)
        return ConsumerPage({consumer: consumed}, {}, goes_on=False)

    def on_post(self, req: Request, resp: Response) -> None:
        """Release all allocations of the consumers that the form selects.

        Raises:
            Refused: 403 if the web interface only reads, or the form is not from this session.
            Forbidden, AllocationsNotFound, Unavailable
        """
        if not self._rendering.writes:
            raise Refused(403, "The web interface only reads ([stead] ui_writes).")
        fields = read_own_fields(req)
        req.require("placement:allocations:delete", None)
        given = [value for key, value in fields if key == "consumer"]
        chosen = [uuid for value in given if (uuid := normalised_uuid(value)) is not None]
        if not chosen:
            raise AllocationsNotFound(given[0] if given else "that is selected")
        released = []
        req.note(releases=len({*chosen}))  # also if none is released
        for consumer in dict.fromkeys(chosen):
            try:
                self._service.write(allocations.release, consumer)
            except AllocationsNotFound:
                if len(chosen) == 1:
                    raise
                continue  # another client released it first
            released.append(consumer)
        req.note(releases=len(released))
        back = [(key, value) for key, value in parse_qsl(dict(fields).get("back", "")) if key in FILTERS[:5]]
        resp.status = "303 See Other"
        said = released[0] if len(released) == 1 else str(len(released))
        resp.set_header("location", f"{req.root_path}/ui/consumers{changed(back, released=said)}")


# What the page shows beside the list: what a search found, hosts that a consumer is on, and the same list elsewhere.


class Match(NamedTuple):
    """What a search found: the filter that lists it, the value of this filter, and a name for people."""

    key: str
    value: str
    label: str


def providers_like(snapshot: Snapshot, text: str) -> list[tuple[str, str, bool]]:
    """The provider with this uuid or name, or else the first roots whose name has the text.

    Of each the uuid, the name, and whether it is a root.
    """
    slot = snapshot.find(text)
    if slot is None:
        slot = snapshot.find_named(text)
    if slot is not None:
        return [(snapshot.uuid(slot), snapshot.identities.names[slot], snapshot.forest.root[slot] == slot)]
    part, found = text.casefold(), list[tuple[str, str, bool]]()
    for place in np.flatnonzero(snapshot.live).tolist():
        if snapshot.forest.root[place] == place and part in snapshot.identities.names[place].casefold():
            found.append((snapshot.uuid(place), snapshot.identities.names[place], True))
            if len(found) == _MATCHES:
                break
    return found


def hosts_of(snapshot: Snapshot, held: HeldAllocations) -> int:
    """The number of hosts of which a consumer holds something: trees, without those that others share."""
    roots = set()
    for uuid in held.providers:
        slot = snapshot.find(uuid)
        if slot is not None and not snapshot.sharing.mask[slot]:
            roots.add(snapshot.forest.root[slot])
    return len(roots)


def _names(snapshot: Snapshot, listing: ConsumerPage) -> dict[str, str]:
    return {
        uuid: "" if (slot := snapshot.find(uuid)) is None else snapshot.identities.names[slot]
        for held in listing.allocations.values()
        for uuid in held.providers
    }


def command(given: Mapping[str, str]) -> str:
    """The command that lists the same consumers, all of them, as CSV; empty if it has no option for a filter."""
    if given.keys() & {"provider", "in_tree", "consumer"}:
        return ""
    options = {"project_id": "--project", "user_id": "--user", "consumer_type": "--type"}
    words = [f"{option} {quote(given[key])}" for key, option in options.items() if key in given]
    return " ".join(["stead consumer list", *words, "-o csv"])
