"""Claiming a place for a consumer: in one request where the server has that, else by asking and writing.

Asking and writing are two requests; other clients claim between them. If the place is taken meanwhile, the write is
refused and changes nothing. Then the service is asked again, a bounded number of times, after a random, growing pause,
so that clients that collided do not collide again. The service also counts as used what the consumer holds: a consumer
that fills a place does not find it again. POST ``/claims`` has neither limit.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from stead.cli.errors import ApiError, CommandError, Negative, Unreachable
from stead.cli.forest import capacity
from stead.cli.request import Candidate, amount_in, amounts_by_group, ask, names_of, query_string, rows_of
from stead.domain.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.cli.client import Api

Json = dict[str, Any]

DEFAULT_TYPE = "INSTANCE"

TRIES = 10
_FIRST_PAUSE = 0.02  # seconds
_LONGEST_PAUSE = 1.0
_NO_TYPE = "unknown"  # how the API shows a consumer that was made before consumers had types
_NOTHING_FITS = "stead.nothing_fits"
_READERS = 4


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims; *type* None keeps the type of a consumer that exists."""

    consumer: str
    project: str
    user: str
    type: str | None

    def fields(self, held: Json) -> Json:
        """What a claim says of its consumer, which has *held* what ``GET /allocations`` showed."""
        known_type = held.get("consumer_type", _NO_TYPE)
        return {
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type or (DEFAULT_TYPE if known_type == _NO_TYPE else known_type),
            "consumer_generation": held.get("consumer_generation"),
        }


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, what the consumer held before (now given back), how often it was tried, and names by UUID."""

    candidate: Candidate
    replaced: Json
    tries: int
    names: dict[str, str]


def claim_place(api: Api, query: str, owner: Owner) -> Claimed:
    """Claim a place where *query* fits, as the server has it: POST ``/claims``, or :func:`claim_first`.

    Raises:
        Negative: nothing fits, or other clients were faster every time.
        ApiError: the service refused for another reason.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    if api.has_own():
        try:
            return claim_by_query(api, query, owner)
        except ApiError as error:
            # Behind one address, servers of several kinds may answer in turn: this one has no such path.
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
                raise
    return claim_first(api, query, owner)


def claim_by_query(api: Api, query: str, owner: Owner) -> Claimed:
    """Let the service find a place and claim it, in one request.

    Raises:
        Negative: nothing fits.
        ApiError: the service refused for another reason, 404 if it has no such request.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    asked = query_string(query)
    held = api.get(f"/allocations/{owner.consumer}")
    record = {"consumer_uuid": owner.consumer, "query": asked, **owner.fields(held)}
    try:
        answer = _writing(owner, lambda: api.post_own("/claims", {"claims": [record], "explain": False}))
    except ApiError as error:
        if error.code == _NOTHING_FITS:
            raise Negative(_why_not(query, error.detail)) from error
        raise
    (granted,) = answer["claims"]
    request = {"allocations": granted["allocations"], "mappings": granted["mappings"]}
    names, summaries = _look_at(api, request)
    candidate = Candidate(request, tuple(rows_of(request, summaries, amounts_by_group(asked))))
    return Claimed(candidate, held["allocations"], answer["tries"], names)


def _why_not(query: str, detail: str) -> str:
    """That nothing fits; in the words of the service, if it only says that it found nothing."""
    return f"nothing fits {one_line(query)}" if detail.startswith("Nothing fits") else detail


def _look_at(api: Api, request: Json) -> tuple[dict[str, str], Json]:
    """The names in the trees of a claim that was written, and a summary of each provider as it was before.

    Whatever may not be read, or is gone by now, is left out: the claim is reported with or without it.
    """
    providers = list(dict.fromkeys([*request["allocations"], *(u for us in request["mappings"].values() for u in us)]))
    roots: dict[str, str] = {}
    names: dict[str, str] = {}
    for provider in providers:
        if provider not in roots:
            try:
                listed = api.get("/resource_providers", in_tree=provider)["resource_providers"]
            except CommandError:
                listed = []
            roots |= {record["uuid"]: record["root_provider_uuid"] for record in listed}
            names |= {record["uuid"]: record["name"] for record in listed}
    with ThreadPoolExecutor(_READERS) as readers:
        amounts = list(readers.map(lambda provider: _before(api, provider, request["allocations"]), providers))
    return names, {
        provider: {"root_provider_uuid": roots.get(provider, provider), "resources": resources}
        for provider, resources in zip(providers, amounts, strict=True)
    }


def _before(api: Api, provider: str, allocations: Json) -> Json:
    """Capacity and use of a provider's classes without *allocations*, in the form of provider summaries."""
    if provider not in allocations:
        return {}
    path = f"/resource_providers/{provider}"
    try:
        inventories, usages = api.get(f"{path}/inventories")["inventories"], api.get(f"{path}/usages")["usages"]
    except CommandError:
        return {}
    return {
        name: {"capacity": capacity(record), "used": usages.get(name, 0) - amount_in(allocations, provider, name)}
        for name, record in inventories.items()
    }


def claim_first(api: Api, query: str, owner: Owner, tries: int = TRIES) -> Claimed:
    """Ask, take the first candidate, claim it; again, up to *tries* times in all, if it was gone meanwhile.

    Raises:
        Negative: nothing fits, or other clients were faster every time.
        ApiError: another refusal. A consumer that another client changes at the same time is one:
            to try again would undo what they were told is theirs.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    question = query_string(query, limit=1)
    for tried in range(1, tries + 1):
        held = api.get(f"/allocations/{owner.consumer}")
        found = ask(api, question, held["allocations"])
        if not found:
            raise Negative(f"nothing fits {one_line(query)}")
        try:
            put(api, owner, held, found[0])
        except ApiError as error:
            if not error.is_conflict or "consumer generation conflict" in error.detail:
                raise
            refusal = error
            time.sleep(pause(tried))
        else:
            return Claimed(found[0], held["allocations"], tried, names_of(api, found[:1]))
    raise Negative(f"other clients were faster {tries} times; the last refusal: {refusal}")


def put(api: Api, owner: Owner, held: dict[str, Any], candidate: Candidate) -> None:
    """Write *candidate* in place of what *owner* has *held*, as ``GET /allocations`` showed it."""
    body = {**candidate.allocation_request, **owner.fields(held)}
    _writing(owner, lambda: api.put(f"/allocations/{owner.consumer}", body))


def _writing(owner: Owner, write: Callable[[], Any]) -> Any:
    try:
        return write()
    except Unreachable as error:
        raise Unreachable(f"{error}; whether consumer {owner.consumer} holds its claim is unknown") from error


def pause(tried: int) -> float:
    """Seconds to wait after the try with this number: random, up to a bound that doubles."""
    return random.uniform(0, min(_FIRST_PAUSE * 2**tried, _LONGEST_PAUSE))
