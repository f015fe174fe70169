"""Flavors: the stored candidate queries of a server, and a query with the one that it names in its place."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from stead.cli.errors import CommandError
from stead.client.calls import TREES
from stead.client.errors import NotFound, Refused, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead import Site

Json = dict[str, Any]

_ROUTE = "/flavors"


def fetch_flavors(
    api: Site, *, headroom: bool = False, advance: Callable[[int, int | None], object] = lambda _done, _all: None
) -> list[Json]:
    """All flavors in the order of their names, as GET ``/flavors`` returns them.

    Args:
        headroom: also how many times each fits.
        advance: called with the number of flavors read so far, and None, after each page but the first.
    """
    query = {"headroom": "true"} if headroom else {}
    flavors: list[Json] = []
    marker = None
    while True:
        with _requiring_flavors():
            page = api.request("GET", _ROUTE, stead=TREES, **query, marker=marker)
        if flavors:
            advance(len(flavors), None)
        flavors += page["flavors"]
        if not page["links"]:
            return flavors
        marker = page["flavors"][-1]["name"]


def fetch_flavor(api: Site, name: str) -> Json:
    """One flavor.

    Raises:
        NotFound
    """
    with _requiring_flavors():
        flavor: Json = api.request("GET", _path(name), stead=TREES)
    return flavor


def find_flavor(api: Site, name: str) -> Json | None:
    """Like :func:`fetch_flavor`; None if it does not exist."""
    try:
        return fetch_flavor(api, name)
    except NotFound:
        return None


def put_flavor(api: Site, name: str, query: str, description: str) -> Json:
    """Create or replace a flavor, and return it."""
    with _requiring_flavors():
        flavor: Json = api.request("PUT", _path(name), {"query": query, "description": description}, stead=TREES)
    return flavor


def delete_flavor(api: Site, name: str) -> None:
    """Delete a flavor.

    Raises:
        NotFound
    """
    with _requiring_flavors():
        api.request("DELETE", _path(name), stead=TREES)


def with_flavor(query: str | None, flavor: str | None) -> str:
    """The query of a command that takes a query, the name of a flavor, or both.

    Raises:
        CommandError: it has neither.
    """
    if flavor is None:
        if query is None:
            raise CommandError("give a QUERY, --flavor, or both")
        return query
    named = urlencode({"flavor": flavor})
    return f"{named}&{query}" if query else named


def expanded(api: Site, query: str) -> str:
    """*query* with that of the flavor in its place, to interpret the answer. Unchanged if the flavor cannot be read."""
    name = next((value for key, value in parse_qsl(query) if key == "flavor"), None)
    if name is None:
        return query
    try:
        stored = api.request("GET", _path(name), stead=TREES)["query"]
    except Refused:
        return query
    others = [pair for pair in parse_qsl(query) if pair[0] != "flavor"]
    return f"{stored}&{urlencode(others)}" if others else str(stored)


def _path(name: str) -> str:
    return f"{_ROUTE}/{quote(name, safe='')}"


@contextmanager
def _requiring_flavors() -> Iterator[None]:
    """Explain the error of a server that has no flavors: another Placement service, or an older Stead."""
    try:
        yield
    except Unsupported as error:
        raise CommandError("the server has no flavors; this command requires Stead with `stead 1.1`") from error
