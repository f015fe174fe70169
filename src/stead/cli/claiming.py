"""Claims a place for a consumer: in one request if the server supports it, otherwise by a query and a write.

Between the query and the write, other clients may claim the place. Then the server refuses the write and nothing
changes. The query is repeated a limited number of times, after a random, growing pause, so that colliding clients
spread out. The query also counts the consumer's own allocations as used: a consumer that fills a place does not find
it again. POST ``/claims`` has neither limit.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from stead.class_order import in_class_order
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.fetching.candidates import (
    Candidate,
    amount_in,
    amounts_by_group,
    ask,
    names_of,
    query_string,
    rows_of,
    version_for,
)
from stead.cli.fetching.flavors import expanded
from stead.cli.fetching.providers import require_named
from stead.cli.forest import capacity
from stead.cli.server import summary
from stead.client.calls import OWN, hold, random_pause
from stead.client.consumers import DEFAULT_TYPE
from stead.client.errors import Conflict, NotFound, NothingFits, NothingFound, Refused, Unreachable, Unsupported
from stead.domain.names import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stead import Site

Json = dict[str, Any]

TRIES = 10
_FIRST_PAUSE = 0.02  # seconds
_LONGEST_PAUSE = 1.0
_GENERATION = "consumer generation conflict"
_READERS = 4
_SENDINGS = 3


@dataclass(frozen=True, slots=True)
class Owner:
    """The consumer and its owner; *type* None keeps the type of an existing consumer."""

    consumer: str
    project: str
    user: str
    type: str | None

    def fields(self, before: Json) -> Json:
        """The consumer fields of a claim; *before* is the answer of ``GET /allocations``."""
        return {
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type or before.get("consumer_type", DEFAULT_TYPE),
            "consumer_generation": before.get("consumer_generation"),
        }


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claimed candidate, the released earlier allocations, the number of attempts, and names by UUID."""

    candidate: Candidate
    replaced: Json
    tries: int
    names: dict[str, str]


def claim_place(api: Site, query: str, owner: Owner, *, replace: bool = False) -> Claimed:
    """Claim a place for *query*: with POST ``/claims``, or :func:`claim_first` if the server does not support it.

    Args:
        replace: a consumer with allocations gets the place instead of them. Otherwise that is a conflict.

    Raises:
        Negative: nothing fits or was found, or the claim lost every race.
        Refused: for another reason.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    if api.supports(OWN):
        try:
            return claim_by_query(api, query, owner, replace=replace)
        except (NotFound, Unsupported) as error:
            # Servers of several kinds may share one address: this one does not support the path.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
                raise
    return claim_first(api, query, owner, replace=replace)


def claim_by_query(api: Site, query: str, owner: Owner, *, replace: bool = False) -> Claimed:
    """Claim a place in one request: the service finds the place.

    Raises:
        Negative: nothing fits or was found.
        Refused: for another reason, 404 if it does not support the request.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    (claimed,) = claim_gang(api, query, [owner], replace=replace)
    return claimed


def claim_gang(
    api: Site, query: str, owners: list[Owner], *, distinct_roots: bool = False, replace: bool = False
) -> list[Claimed]:
    """Claim a place for each of *owners*, or for none, in one request; with *distinct_roots* each under another root.

    With *replace*, an owner that has a place stays in its tree if all find a place like that. If not, another request
    lets them move.
    If the connection breaks, the request is sent again: the service recognises a claim that it has written.

    Raises:
        As :func:`claim_by_query`.
    """
    asked = query_string(query)
    described = expanded(api, asked)
    before = [_replaced(api, owner, replace=replace) for owner in owners]

    def claim(queries: Sequence[str]) -> Json:
        records = [
            {"consumer_uuid": owner.consumer, "query": each, **owner.fields(had)}
            for owner, had, each in zip(owners, before, queries, strict=True)
        ]
        body = {"claims": records, "explain": False, **({"distinct_roots": True} if distinct_roots else {})}
        send = partial(api.request, "POST", "/claims", body, stead=version_for(asked))
        answer: Json = _writing(owners[0], lambda: _again(send))
        return answer

    staying = [_in_its_tree(api, described, had["allocations"]) or asked for had in before]
    moving = [asked] * len(owners)
    answered: Json | None = None
    try:
        if staying != moving:
            with suppress(NothingFits, NothingFound):
                answered = claim(staying)
        answer = answered or claim(moving)
    except (NothingFits, NothingFound) as error:
        require_named(api, asked)
        raise Negative(_why_not(query, error.detail, len(owners))) from error
    except Conflict as error:
        if _GENERATION in error.detail and not replace:
            _require_none(api, owners)
        raise
    claimed = []
    for granted, had in zip(answer["claims"], before, strict=True):
        request = {"allocations": granted["allocations"], "mappings": granted["mappings"]}
        names, summaries = _look_at(api, request)
        candidate = Candidate(request, tuple(rows_of(request, summaries, amounts_by_group(described))))
        claimed.append(Claimed(candidate, had["allocations"], answer["tries"], names))
    return claimed


def _replaced(api: Site, owner: Owner, *, replace: bool) -> Json:
    """What a claim replaces, as GET ``/allocations`` shows it; nothing unless *replace*."""
    allocations: Json = api.request("GET", f"/allocations/{owner.consumer}") if replace else {"allocations": {}}
    return allocations


def _require_none(api: Site, owners: list[Owner]) -> None:
    """Check that no consumer has allocations, which a claim would replace.

    Raises:
        CommandError: the first of *owners* that has some. It is not Negative, since waiting for room is no use.
    """
    for owner in owners:
        if allocations := api.request("GET", f"/allocations/{owner.consumer}")["allocations"]:
            refusal = CommandError(
                f"consumer {owner.consumer} has {describe(allocations)} already; --replace claims instead of that"
            )
            refusal.exit_code = NO
            raise refusal


def describe(allocations: Json) -> str:
    """The amounts of all providers together, ``4 VCPU, 8,192 MEMORY_MB``."""
    amounts: dict[str, int] = {}
    for allocation in allocations.values():
        for name, amount in allocation["resources"].items():
            amounts[name] = amounts.get(name, 0) + amount
    return ", ".join(f"{amount:,} {printable(name)}" for name, amount in in_class_order(amounts).items())


def _in_its_tree(api: Site, query: str, allocations: Json) -> str | None:
    """*query*, only in the tree that has all *allocations*; None without such a tree, or if it says where."""
    keys = {key for key, _ in parse_qsl(query)}
    if not allocations or any(key == "order_by" or key.startswith(("in_tree", "in_subtree")) for key in keys):
        return None
    try:
        roots = {api.request("GET", f"/resource_providers/{uuid}")["root_provider_uuid"] for uuid in allocations}
    except Refused:  # a provider was deleted meanwhile, or this user may claim but not read: a place anywhere will do
        return None
    if len(roots) > 1:
        return None
    suffixes = sorted(key.removeprefix("resources") for key in keys if key.startswith("resources"))
    return query + "".join(f"&in_tree{suffix}={root}" for root in roots for suffix in suffixes)


def _again(write: Callable[[], Any]) -> Any:
    """Call *write*, and again if the connection breaks, a bounded number of times."""
    for tried in range(1, _SENDINGS):
        try:
            return write()
        except Unreachable:
            time.sleep(random_pause(tried, _FIRST_PAUSE, _LONGEST_PAUSE))
    return write()


def _why_not(query: str, detail: str, count: int = 1) -> str:
    """The message that nothing fits; it repeats the service's reason if that says more."""
    times = f"{count} times " if count > 1 else ""
    return f"nothing fits {times}{one_line(query)}" if detail.startswith("Nothing fits") else detail


def _look_at(api: Site, request: Json) -> tuple[dict[str, str], Json]:
    """The names in the trees of a written claim, and a summary of each provider's state before it.

    Data that cannot be read, or was deleted meanwhile, is left out: the claim is reported anyway.
    """
    providers = list(dict.fromkeys([*request["allocations"], *(u for us in request["mappings"].values() for u in us)]))
    roots: dict[str, str] = {}
    names: dict[str, str] = {}
    for provider in providers:
        if provider not in roots:
            try:
                listed = api.request("GET", "/resource_providers", in_tree=provider)["resource_providers"]
            except Refused:
                listed = []
            roots |= {record["uuid"]: record["root_provider_uuid"] for record in listed}
            names |= {record["uuid"]: record["name"] for record in listed}
    with ThreadPoolExecutor(_READERS) as readers:
        amounts = list(readers.map(lambda provider: _before(api, provider, request["allocations"]), providers))
    return names, {
        provider: {"root_provider_uuid": roots.get(provider, provider), "resources": resources}
        for provider, resources in zip(providers, amounts, strict=True)
    }


def _before(api: Site, provider: str, allocations: Json) -> Json:
    """Capacity and usage of a provider's classes without *allocations*, in the form of provider summaries."""
    if provider not in allocations:
        return {}
    path = f"/resource_providers/{provider}"
    try:
        inventories = api.request("GET", f"{path}/inventories")["inventories"]
        usages = api.request("GET", f"{path}/usages")["usages"]
    except Refused:
        return {}
    return {
        name: {"capacity": capacity(record), "used": usages.get(name, 0) - amount_in(allocations, provider, name)}
        for name, record in inventories.items()
    }


def claim_first(api: Site, query: str, owner: Owner, tries: int = TRIES, *, replace: bool = False) -> Claimed:
    """Query, and claim the first candidate; repeat up to *tries* times if another client has claimed it meanwhile.

    Raises:
        Negative: nothing fits, or the claim lost every race.
        Refused: another refusal, such as a consumer that another client changes at the same time:
            a retry would overwrite that client's change.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    question = query_string(query, limit=1)
    for tried in range(1, tries + 1):
        before = _replaced(api, owner, replace=replace)
        if not replace:
            _require_none(api, [owner])
        candidates = ask(api, question, before["allocations"])
        if not candidates:
            raise Negative(f"nothing fits {one_line(query)}")
        try:
            put(api, owner, before, candidates[0])
        except Conflict as error:
            if _GENERATION in error.detail:
                raise
            refusal = error
            time.sleep(random_pause(tried, _FIRST_PAUSE, _LONGEST_PAUSE))
        else:
            return Claimed(candidates[0], before["allocations"], tried, names_of(api, candidates[:1]))
    raise Negative(f"other clients claimed the place first, {tries} times; the last refusal: {summary(refusal)}")


def put(api: Site, owner: Owner, before: dict[str, Any], candidate: Candidate) -> None:
    """Write *candidate* in place of *before*: the allocations of *owner*, as ``GET /allocations`` shows them."""
    call = hold(owner.consumer, {**candidate.allocation_request, **owner.fields(before)})
    _writing(owner, lambda: api.request(call.method, call.target, call.body, placement=call.placement))


def _writing(owner: Owner, write: Callable[[], Any]) -> Any:
    try:
        return write()
    except Unreachable as error:
        raise error.worded(f"{error.detail}; whether consumer {owner.consumer} holds its claim is unknown") from error
