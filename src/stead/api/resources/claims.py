"""``/claims``: find allocation candidates and claim them, in one request."""

from __future__ import annotations

import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from stead.api.answers import NOTHING_FITS, NOTHING_FOUND, Answer, Rows, answer, answering
from stead.api.bodies import CONSUMER_FIELDS, LEASE_OPTIONS, UUID, Body, build_lease, read_body, strict_object
from stead.api.query.candidates import finder, request_of
from stead.api.request import (
    MalformedBody,
    Refused,
    allowed,
    json_body,
    normalised_uuid,
    require_claims,
    require_groups,
)
from stead.api.resources import allocation_candidates
from stead.api.resources.allocation_candidates import UNKNOWN_CLASSES
from stead.api.resources.allocations import CHANGED, CONSUMER_TYPE, NO_TYPE, shown_end
from stead.api.versions import S, V, Versioned
from stead.domain.claim import ClaimRequest, first_generation
from stead.domain.errors import InvalidQuery, NothingFits, NothingFound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.api.bodies import Schema
    from stead.api.query.candidates import Flavors
    from stead.api.request import Request, Response
    from stead.domain.claim import Granted
    from stead.domain.limits import RequestLimits
    from stead.service.service import Service

CLAIM: dict[str, Schema] = {
    "consumer_uuid": UUID,
    "query": {"type": "string", "minLength": 1},
    **{name: schema for name, (_, schema) in CONSUMER_FIELDS.items()},
    "consumer_type": CONSUMER_TYPE,
}


@dataclass(frozen=True, slots=True)
class ClaimsBody:
    """The body: the request of each consumer, whether they need different roots, and whether to explain a failure."""

    records: Sequence[dict[str, Any]]
    distinct_roots: bool
    explained: bool

    @classmethod
    def build(cls, body: dict[str, Any]) -> ClaimsBody:
        """Build it from the body of a POST.

        Raises:
            MalformedBody: a consumer occurs twice.
        """
        records = [{**record, "consumer_uuid": normalised_uuid(record["consumer_uuid"])} for record in body["claims"]]
        # Compared in the stored form: two spellings of a uuid name one consumer.
        if len({record["consumer_uuid"] for record in records}) < len(records):
            raise MalformedBody("JSON does not validate: two of the claims are of the same consumer")
        return cls(records, body.get("distinct_roots", False), body.get("explain", True))


def _claims(ends: Mapping[str, Schema] | None = None) -> Versioned[Body[ClaimsBody]]:
    return Versioned(
        {
            V.INITIAL: Body(
                strict_object(
                    {"claims": {"type": "array", "minItems": 1, "items": strict_object(CLAIM, ends)}},
                    {"distinct_roots": {"type": "boolean"}, "explain": {"type": "boolean"}},
                ),
                ClaimsBody.build,
            )
        }
    )


CLAIMS, CLAIMS_WITH_ENDS = _claims(), _claims(LEASE_OPTIONS)


def show_why(error: NothingFits | NothingFound) -> dict[str, Any] | None:
    """The explanation, in the form of GET ``/allocation_candidates/explain``; None if there is none."""
    if not isinstance(error.explanation, tuple):
        return None
    return allocation_candidates.shown(*error.explanation)


_MORE: Mapping[str, Callable[[Any], object]] = {"claim": attrgetter("claim"), "explanation": show_why}
NO_PLACE: Rows = {
    NothingFits: Answer(409, NOTHING_FITS, more=_MORE),
    NothingFound: Answer(409, NOTHING_FOUND, more=_MORE),
}


class Claims:
    """`/claims`: candidates, found and claimed in one request, all or none. Requires `stead`."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service, limits: RequestLimits) -> None:
        self._service = service
        self._limits = limits

    @json_body
    @allowed("stead:claims:create")
    @answering({**UNKNOWN_CLASSES, **CHANGED, **NO_PLACE})
    def on_post(self, req: Request, resp: Response) -> None:
        """Claim the best allocation candidate for each consumer."""
        # Before the body is read, so that the limit includes reading it and parsing its queries.
        until = time.monotonic() + self._service.claim_timeout
        has_ends = req.agreed.knows(S.HEADROOM_ORDER)
        body = read_body(req, CLAIMS_WITH_ENDS if has_ends else CLAIMS)
        require_claims(self._limits, body.records, [record["query"] for record in body.records])
        first = str(body.records[0]["query"]) if body.records else ""
        req.note(claims=len(body.records), asked=lambda: first)
        claim_requests, flavors = [], finder(self._service)
        for number, record in enumerate(body.records):
            if time.monotonic() > until:
                raise Refused(413, f"Reading the queries took more than {self._service.claim_timeout:g} s.")
            claim_requests.append(self._wish(req, flavors, number, record))
        try:
            outcome = self._service.claim_by_query(
                claim_requests, distinct_roots=body.distinct_roots, explained=body.explained, until=until
            )
        except NothingFits:
            self._note(claim_requests)  # what does not fit is asked for all the same
            raise
        self._note(claim_requests)
        shown = [
            show_granted(claim_request, granted) | (shown_end(granted.lease) if has_ends else {})
            for claim_request, granted in zip(claim_requests, outcome.granted, strict=True)
        ]
        answer(req, resp, {"claims": shown, "tries": outcome.tries}, modified=None)

    def _note(self, claim_requests: Sequence[ClaimRequest]) -> None:
        for claim_request in claim_requests:
            self._service.note_asked(claim_request.request, claim_request.consumer)

    def _wish(self, req: Request, flavors: Flavors, number: int, record: dict[str, Any]) -> ClaimRequest:
        try:
            request = request_of(record["query"], req.agreed, flavors)
        except InvalidQuery as error:
            raise InvalidQuery(f"claims[{number}]: {error}", error.code) from error
        require_groups(self._limits, request.groups)
        generation = record["consumer_generation"]
        lease = build_lease(record, self._limits.lease, f"claims[{number}]")
        return ClaimRequest(
            record["consumer_uuid"],
            request,
            record["project_id"],
            record["user_id"],
            None if record["consumer_type"] == NO_TYPE else record["consumer_type"],
            None if generation is None else int(generation),
            lease,
            first_generation(lease),
        )


def show_granted(claim_request: ClaimRequest, granted: Granted) -> dict[str, Any]:
    """The new allocations of one consumer."""
    return {
        "consumer_uuid": claim_request.consumer,
        "consumer_generation": granted.generation,
        "allocations": {uuid: {"resources": amounts} for uuid, amounts in granted.allocations.items()},
        "mappings": granted.mappings,
    }
