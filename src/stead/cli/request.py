"""A request as it is typed, and the candidates that the service has for it, taken apart for showing.

Rows are made from an answer of ``GET /allocation_candidates`` at microversion 1.39, with what Stead has beyond it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from stead.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stead.cli.client import Api

UNSUFFIXED = ""

QUERY_HELP = (
    "The query string of GET /allocation_candidates, in quotes: "
    "'resources=VCPU:2,MEMORY_MB:1024&required=HW_CPU_X86_AVX2'."
)

_ROUTE = "/allocation_candidates"
_UNREAD: Mapping[str, Any] = MappingProxyType({"capacity": None, "used": 0})
_QUERY_CHARACTERS = "%=&+!,:;/?@$'()*[]~"
_TREES_WORTH_ASKING_FOR = 50  # beyond, one list of all providers is less work for both sides
_ASKERS = 4


@dataclass(frozen=True, slots=True)
class Row:
    """What one provider gives to one request group: *amount* of *resource_class*; nothing if only the group is there.

    *used* is what was claimed before, *claimed* what the whole candidate takes of this class here, for all its groups.
    The *capacity* is None where it could not be read; *used* then means nothing.
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
        """What stays free if the candidate is claimed."""
        return None if self.capacity is None else self.capacity - self.used - self.claimed


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to serve the request; *allocation_request* is what the service sent, ready to be claimed."""

    allocation_request: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def roots(self) -> list[str]:
        """The roots of the trees that the candidate takes from."""
        return list(dict.fromkeys(row.root for row in self.rows))


def query_string(text: str, limit: int | None = None) -> str:
    """*text*, a query string or a URL that has one, fit for a request; *limit* is added if it names none."""
    query = quote(text.strip().rpartition("?")[2], safe=_QUERY_CHARACTERS)
    if limit is None or any(key == "limit" for key, _ in parse_qsl(query, keep_blank_values=True)):
        return query
    return f"{query}&limit={limit}" if query else f"limit={limit}"


def amounts_by_group(query: str) -> dict[str, dict[str, int]]:
    """What each suffixed group of a *query* that the service has accepted wants of each class."""
    groups: dict[str, dict[str, int]] = {}
    for key, value in parse_qsl(query):
        suffix = key.removeprefix("resources")
        if suffix and suffix != key:
            wanted = (element.partition(":") for element in value.split(","))
            groups[suffix] = {name: int(amount) for name, _, amount in wanted}
    return groups


def ask(api: Api, query: str, held: Mapping[str, Any] = MappingProxyType({})) -> list[Candidate]:
    """The candidates for *query*, in the order of the answer; none if nothing fits.

    What the consumer has *held* so far (``allocations`` of ``GET /allocations/{consumer}``) counts as free in the rows:
    a claim gives it back. The service does not know who asks, so it counted it as used when it looked for candidates.
    """
    answer = api.get_own(f"{_ROUTE}?{query}")
    groups = amounts_by_group(query)
    summaries = answer["provider_summaries"]
    return [
        Candidate(request, tuple(rows_of(request, summaries, groups, held)))
        for request in answer["allocation_requests"]
    ]


def rows_of(
    request: Mapping[str, Any],
    summaries: Mapping[str, Any],
    groups: Mapping[str, dict[str, int]],
    held: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Row]:
    """The rows of one allocation request, provider by provider, a provider's groups in the order of the mappings.

    An allocation is the sum over groups; a suffixed group takes from its one provider what it asked for, and the
    unsuffixed group has taken the rest.
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
            for name, amount in sorted(taken.items()):
                have = summaries[uuid]["resources"].get(name, _UNREAD)
                used = have["used"] - amount_in(held, uuid, name)
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
            rest = {name: left for name in rest if (left := rest[name] - taken.get(name, 0)) > 0}


def amount_in(allocations: Mapping[str, Any], provider: str, resource_class: str) -> int:
    """What *allocations*, as the API writes them, take of one class from one provider; 0 if nothing."""
    amount: int = allocations.get(provider, {}).get("resources", {}).get(resource_class, 0)
    return amount


def names_of(api: Api, candidates: list[Candidate]) -> dict[str, str]:
    """The names of all providers in the trees of *candidates*, by UUID; none if they may not be asked for.

    A name is a kindness: a claim that was written is reported, whether or not its providers' names can be had.
    """
    roots = sorted({root for candidate in candidates for root in candidate.roots})
    try:
        return {record["uuid"]: record["name"] for record in _providers(api, roots)}
    except CommandError:
        return {}


def _providers(api: Api, roots: list[str]) -> list[dict[str, Any]]:
    """All providers in the trees of *roots*, and possibly others: a request for each tree, or one for all."""
    if len(roots) > _TREES_WORTH_ASKING_FOR:
        everything: list[dict[str, Any]] = api.get("/resource_providers")["resource_providers"]
        return everything
    with ThreadPoolExecutor(_ASKERS) as askers:
        answers = askers.map(lambda root: api.get("/resource_providers", in_tree=root), roots)
        return [record for answer in answers for record in answer["resource_providers"]]
