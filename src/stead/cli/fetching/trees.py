"""Provider trees: in pages of whole trees, or one provider after another if the server lacks ``/provider_trees``."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import UUID

from stead.cli.forest import Amount, Provider, plant, walk
from stead.client.calls import TREES
from stead.client.errors import Refused
from stead.domain.provider import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stead import Site

_ROUTE = "/provider_trees"
_ASKERS = 8  # concurrent requests
_MOST_ROOTS = 10_000  # maximum number in one page
_PATTERN = re.compile(r"[*?\[]")
_NO_SUCH_ROUTE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_ACCEPTABLE})


@dataclass(frozen=True, slots=True)
class TreeFilter:
    """A filter of trees: a tree passes if a single provider passes all conditions.

    Attributes:
        provider: a provider of the tree, as :func:`references` returns it.
        name: the name of a provider, or a pattern with ``*``, ``?`` and ``[…]``.
        traits: each is a trait, ``!`` and a trait, or ``in:`` and several.
        aggregates: each is the UUID of an aggregate, or ``in:`` and several.
    """

    provider: str | None = None
    name: str | None = None
    traits: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query parameters. The API's patterns support only ``*``, so they may match more than :meth:`admits`."""
        pairs = []
        if self.provider is not None:
            pairs.append(("in_tree", self.provider))
        if self.name is not None:
            pairs.append(("name", re.sub(r"\?|\[.[^]]*\]", "*", self.name)))
        pairs += [("required", trait) for trait in self.traits]
        pairs += [("member_of", aggregate) for aggregate in self.aggregates]
        return pairs

    @property
    def needs_admission(self) -> bool:
        """Whether the API's pattern matches more than this one."""
        return self.name is not None and ("?" in self.name or "[" in self.name)

    def admits(self, tree: Provider) -> bool:
        """Whether one provider of *tree* passes all conditions."""
        providers = list(walk([tree]))
        if self.provider is not None and not any(is_called(self.provider, each) for each in providers):
            return False
        return any(self._passes(each) for each in providers)

    def _passes(self, provider: Provider) -> bool:
        if self.name is not None and not fnmatchcase(provider.name, self.name):
            return False
        return all(_matches(value, provider.traits) for value in self.traits) and all(
            _matches(value, provider.aggregates) for value in self.aggregates
        )


EVERY_TREE = TreeFilter()


def uuid_of(text: str) -> str | None:
    """*text* as the API spells a UUID; None if it is not a UUID."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def references(called: str) -> list[str]:
    """What *called* may refer to, the first that exists: a UUID, or ``name:`` and a name that may look like one."""
    if called.startswith(BY_NAME):
        return [called]
    uuid = uuid_of(called)
    return [f"{BY_NAME}{called}"] if uuid is None else [uuid, f"{BY_NAME}{called}"]


def is_called(reference: str, provider: Provider) -> bool:
    """Whether *reference*, of :func:`references`, is to *provider*."""
    return reference in (provider.uuid, BY_NAME + provider.name)


def is_pattern(text: str) -> bool:
    """Whether *text* is a pattern for several names."""
    return _PATTERN.search(text) is not None


def fetch_roots(api: Site, chosen: TreeFilter) -> list[Provider] | None:
    """The roots of the matching trees, each with the sums of its tree; None if the server cannot list roots alone.

    Raises:
        Refused: the server refused, for example an unknown trait.
    """
    if chosen.needs_admission:
        return None
    query = [*chosen.query, ("depth", "0"), ("totals", "true"), ("limit", str(_MOST_ROOTS))]
    tops: list[Provider] = []
    try:
        for page in _pages(api, query):
            for record in page["provider_trees"]:
                (top,) = _planted(record)
                top.hidden = record["provider_count"] - 1
                top.sums = _amounts(record["totals"]) if top.hidden else {}
                tops.append(top)
    except Refused as error:
        if error.status in _NO_SUCH_ROUTE:
            return None
        raise
    return tops


def fetch_trees(
    api: Site, chosen: TreeFilter, advance: Callable[[int, int], object] = lambda _done, _all: None
) -> list[Provider]:
    """The matching trees, with all data of their providers.

    Args:
        advance: called with the number of providers read so far, and the number of all.

    Raises:
        Refused: the server refused, for example an unknown trait.
    """
    tops: list[Provider] = []
    done = 0
    try:
        for page in _pages(api, chosen.query):
            for record in page["provider_trees"]:
                tops += _planted(record)
                done += len(record["providers"])
            advance(done, page["provider_count"])
    except Refused as error:
        # After the first page, the route exists, so the error has another reason.
        if error.status not in _NO_SUCH_ROUTE or tops:
            raise
        return _one_by_one(api, chosen, advance)
    return [top for top in tops if chosen.admits(top)] if chosen.needs_admission else tops


def fetch_names(api: Site) -> dict[str, str]:
    """The names of all providers, by UUID."""
    listed = api.request("GET", "/resource_providers")["resource_providers"]
    return {record["uuid"]: record["name"] for record in listed}


def _pages(api: Site, query: list[tuple[str, str]]) -> Iterator[Any]:
    """The pages of the matching trees. A tree that is created meanwhile may be included."""
    marker: list[tuple[str, str]] = []
    while True:
        page = api.request("GET", f"{_ROUTE}?{urlencode([*query, *marker])}", stead=TREES)
        yield page
        if not page["links"] or not page["provider_trees"]:
            return
        marker = [("marker", page["provider_trees"][-1]["root_provider_uuid"])]


def _planted(record: dict[str, Any]) -> list[Provider]:
    (*tops,) = plant(record["providers"])
    providers = {each.uuid: each for each in walk(tops)}
    for row in record["providers"]:
        provider = providers[row["uuid"]]
        provider.generation = row["generation"]
        provider.inventories, provider.usages = row["inventories"], row["usages"]
        provider.traits, provider.aggregates = row["traits"], row["aggregates"]
        provider.disabled = row.get("disabled")
    return tops


def _amounts(totals: dict[str, Any]) -> dict[str, Amount]:
    return {name: Amount(each["capacity"], each["used"], each["reserved"]) for name, each in totals.items()}


def _matches(value: str, names: list[str]) -> bool:
    """Whether *names* match one value of ``required`` or ``member_of``."""
    if value.startswith("in:"):
        return any(name in names for name in value[3:].split(","))
    if value.startswith("!in:"):
        return all(name not in names for name in value[4:].split(","))
    return all((name[1:] not in names) if name.startswith("!") else name in names for name in value.split(","))


# For a server without /provider_trees: four requests for each provider.


def _one_by_one(api: Site, chosen: TreeFilter, advance: Callable[[int, int], object]) -> list[Provider]:
    in_tree = None if chosen.provider is None or chosen.provider.startswith(BY_NAME) else chosen.provider
    tops = plant(api.request("GET", "/resource_providers", in_tree=in_tree)["resource_providers"])
    if chosen.provider is not None:
        is_named = TreeFilter(chosen.provider)
        tops = [top for top in tops if is_named.admits(top)]
    providers = list(walk(tops))
    with ThreadPoolExecutor(_ASKERS) as askers:
        try:
            for done, _ in enumerate(askers.map(lambda provider: _furnish(api, provider), providers), start=1):
                advance(done, len(providers))
        except BaseException:
            # Otherwise the end of the block would wait for the requests of all remaining providers.
            askers.shutdown(wait=False, cancel_futures=True)
            raise
    return [top for top in tops if chosen.admits(top)]


def _furnish(api: Site, provider: Provider) -> None:
    try:
        _ask_for(api, provider)
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        provider.is_gone = True  # another client deleted it after it was listed


def _ask_for(api: Site, provider: Provider) -> None:
    path = f"/resource_providers/{provider.uuid}"
    inventories = api.request("GET", f"{path}/inventories")
    provider.generation = inventories["resource_provider_generation"]
    provider.inventories = inventories["inventories"]
    if provider.inventories:
        provider.usages = api.request("GET", f"{path}/usages")["usages"]
    provider.traits = api.request("GET", f"{path}/traits")["traits"]
    provider.aggregates = api.request("GET", f"{path}/aggregates")["aggregates"]
