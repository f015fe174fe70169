"""A candidate query from the command line, and the service's candidates, split into rows for output.

Rows are built from an answer of ``GET /allocation_candidates`` at microversion 1.39 with Stead's own features.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from stead.class_order import in_class_order
from stead.cli.fetching.flavors import expanded
from stead.client.calls import ORDER, OWN, TREES
from stead.client.errors import Refused
from stead.domain.provider import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stead import Site

UNSUFFIXED = ""

QUERY_HELP = (
    "The query string of GET /allocation_candidates, in quotes: "
    "'resources=VCPU:2,MEMORY_MB:1024&required=HW_CPU_X86_AVX2'."
)

FLAVOR_HELP = "Name of a flavor, whose query is requested. A QUERY beside it can only restrict it."

_ROUTE = "/allocation_candidates"
_UNREAD: Mapping[str, Any] = MappingProxyType({"capacity": None, "used": 0})
_QUERY_CHARACTERS = "%=&+!,:;/?@$'()*[]~"
_TREES_WORTH_ASKING_FOR = 50  # above it, one list of all providers is cheaper for client and server
_ASKERS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """The part of one provider in one request group: *amount* of *resource_class*; empty for a group without resources.

    *used* is the usage before, *claimed* the amount of the whole candidate of this class here, for all its groups. The
    *capacity* is None if it could not be read; *used* is then meaningless.
    """

    provider: str
    root: str
    group: str
    resource_class: str = ""
    amount: int = 0
    capacity: int | None = 0
    used: int = 0
    claimed: int = 0

    @property
    def free_after(self) -> int | None:
        """The free amount after the candidate is claimed."""
        return None if self.capacity is None else self.capacity - self.used - self.claimed


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to satisfy the request; *allocation_request* comes from the service, ready to be claimed."""

    allocation_request: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def roots(self) -> list[str]:
        """The roots of the trees from which the candidate takes resources."""
        return list(dict.fromkeys(row.root for row in self.rows))


def version_for(query: str) -> str:
    """The version of Stead's own features that a *query* needs: a newer one if it names a provider or a flavor."""
    pairs = parse_qsl(query)
    if ("order_by", "headroom") in pairs:
        return ORDER
    named = any(key == "flavor" or value.startswith(BY_NAME) for key, value in pairs)
    return TREES if named else OWN


def query_string(text: str, limit: int | None = None) -> str:
    """*text*, a query string or a URL with one, prepared for a request; *limit* is added unless it has one."""
    query = quote(text.strip().rpartition("?")[2], safe=_QUERY_CHARACTERS)
    if limit is None or any(key == "limit" for key, _ in parse_qsl(query, keep_blank_values=True)):
        return query
    return f"{query}&limit={limit}" if query else f"limit={limit}"


def amounts_by_group(query: str) -> dict[str, dict[str, int]]:
    """The amounts by class of each suffixed group of a *query* that the service has accepted."""
    groups: dict[str, dict[str, int]] = {}
    for key, value in parse_qsl(query):
        suffix = key.removeprefix("resources")
        if suffix and suffix != key:
            amounts = (element.partition(":") for element in value.split(","))
            groups[suffix] = {name: int(amount) for name, _, amount in amounts}
    return groups


def ask(api: Site, query: str, allocations: Mapping[str, Any] = MappingProxyType({})) -> list[Candidate]:
    """The candidates for *query*, in the order of the answer; empty if nothing fits.

    The consumer's *allocations* (those of ``GET /allocations/{consumer}``) count as free in the rows, since a claim
    releases them. The service does not know the consumer, so it counted them as used in its search.
    """
    answer = api.request("GET", f"{_ROUTE}?{query}", stead=version_for(query))
    return candidates_of(answer, expanded(api, query), allocations)


def candidates_of(
    answer: Mapping[str, Any], query: str, allocations: Mapping[str, Any] = MappingProxyType({})
) -> list[Candidate]:
    """The candidates of an *answer* to *query*, in which no flavor stands any more; *allocations* as of :func:`ask`."""
    groups = amounts_by_group(query)
    summaries = answer["provider_summaries"]
    return [
        Candidate(request, tuple(rows_of(request, summaries, groups, allocations)))
        for request in answer["allocation_requests"]
    ]


def rows_of(
    request: Mapping[str, Any],
    summaries: Mapping[str, Any],
    groups: Mapping[str, dict[str, int]],
    allocations: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Row]:
    """The rows of one allocation request, provider by provider; groups are in the order of the mappings.

    An allocation is the sum over groups. A suffixed group takes its amounts from its one provider, and the unsuffixed
    group takes the rest.
    """
    serving: dict[str, list[str]] = {uuid: [] for uuid in request["allocations"]}
    for group, uuids in request["mappings"].items():
        for uuid in uuids:
            serving.setdefault(uuid, []).append(group)
    for uuid, served in serving.items():
        root = summaries[uuid]["root_provider_uuid"]
        rest = dict(request["allocations"].get(uuid, {}).get("resources", {}))
        for group in sorted(served, key=lambda suffix: suffix == UNSUFFIXED):
            taken = rest if group == UNSUFFIXED else groups.get(group, {})
            if not taken:
                yield Row(uuid, root, group)
            for name, amount in in_class_order(taken).items():
                have = summaries[uuid]["resources"].get(name, _UNREAD)
                used = have["used"] - amount_in(allocations, uuid, name)
                yield Row(
                    uuid,
                    root,
                    group,
                    name,
                    amount,
                    have["capacity"],
                    used,
                    amount_in(request["allocations"], uuid, name),
                )
            rest = {name: remaining for name in rest if (remaining := rest[name] - taken.get(name, 0)) > 0}


def amount_in(allocations: Mapping[str, Any], provider: str, resource_class: str) -> int:
    """The amount of one class from one provider in *allocations*, in the API's form; 0 if there is none."""
    amount: int = allocations.get(provider, {}).get("resources", {}).get(resource_class, 0)
    return amount


def names_of(api: Site, candidates: list[Candidate]) -> dict[str, str]:
    """The names of all providers in the trees of *candidates*, by UUID; empty if they cannot be read.

    Names are optional: a written claim is reported even without them.
    """
    roots = sorted({root for candidate in candidates for root in candidate.roots})
    try:
        return {record["uuid"]: record["name"] for record in _providers(api, roots)}
    except Refused:
        return {}


def _providers(api: Site, roots: list[str]) -> list[dict[str, Any]]:
    """All providers in the trees of *roots*, possibly with others: one request for each tree, or one for all."""
    if len(roots) > _TREES_WORTH_ASKING_FOR:
        everything: list[dict[str, Any]] = api.request("GET", "/resource_providers")["resource_providers"]
        return everything
    with ThreadPoolExecutor(_ASKERS) as askers:
        answers = askers.map(lambda root: api.request("GET", "/resource_providers", in_tree=root), roots)
        return [record for answer in answers for record in answer["resource_providers"]]
