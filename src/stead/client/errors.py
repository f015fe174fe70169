"""What can go wrong, as types. All are of the class Error::

Error:
    ├── InvalidRequest           the API cannot say this; nothing was sent (also a ValueError)
    ├── CannotOpen               a database cannot be used by Stead in this process
    ├── SiteClosed               the site was closed; nothing was sent
    ├── LeaseLost                a claim that was held ended, or may have ended
    └── Refused                  the server answered with an error
        ├── Invalid              400, 415: the request is malformed, or names something that does not exist
        ├── NotAllowed           401, 403
        ├── NotFound             404, 405
        ├── Unsupported          404, 406: the server does not have this feature or version
        ├── Conflict             409
        │   ├── NoPlace              no place for a claim
        │   │   ├── NothingFits          there is none
        │   │   └── NothingFound         none was found within the limit of the search
        │   ├── Stale                another client changed it first
        │   ├── InUse                something to be removed has allocations
        │   ├── ProviderDisabled     an operator disabled the provider
        │   └── CapacityBelowUse     a capacity would be less than what is allocated
        ├── StartOver            410: changes since the token are not available any more
        ├── TooLarge             413, 414, 431
        ├── Failed               500: a bug of the server
        └── Unavailable          429, 502, 503, 504, or the server gave no answer in time
            └── Unreachable      no connection, or it broke

``Unavailable`` is raised only after retries until the deadline.
"""

from __future__ import annotations

import re
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.client.candidate import Explanation
    from stead.client.provider import Consumer


class Error(Exception):
    """Base class of all errors of this library.

    Attributes:
        advice: what the caller can do about it.
    """

    advice = ""


class InvalidRequest(Error, ValueError):
    """The API cannot say this. Nothing was sent."""

    advice = "Correct the arguments."


class CannotOpen(Error):
    """A database cannot be used by Stead in this process."""

    advice = "Check the path or URL. Create missing tables with `upgrade=True` or `stead db upgrade`."


class SiteClosed(Error):
    """The site was closed before the call. Nothing was sent."""

    advice = "Close a site after its last use, or open another one."


class LeaseLost(Error):
    """The lease of a claim that was held ended, or may have ended: another client may have its place.

    Attributes:
        consumer: its name or uuid.
        reason: why it was lost.
    """

    advice = "Stop using the place. Hold again, or with a longer lease."

    def __init__(self, consumer: str, reason: str) -> None:
        super().__init__(consumer, reason)
        self.consumer = consumer
        self.reason = reason

    def __str__(self) -> str:
        return f"the lease of {self.consumer} was lost: {self.reason}"


class Refused(Error):
    """The server answered with an error, or not at all.

    Attributes:
        status: the HTTP status; 0 if there was no answer.
        code: the error code, as ``placement.concurrent_update``; empty if the server sent none.
        detail: the server's words; of a fault in a body or a query, its place and what must be there.
        request_id: names the request in the server's log; empty if the server sent none.
        facts: the error object of the response with all its fields, also those that this library does not know. Its
            ``detail`` is what the server sent.
        advice: what the caller can do about it.
    """

    advice = "Read the detail."

    def __init__(self, status: int, detail: str, *, code: str = "", request_id: str = "") -> None:
        super().__init__(status, detail, code, request_id)
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.facts: Mapping[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle passes `args` by position, but two parameters accept keywords only.
        return _restored, (type(self), self.status, self.detail, self.code, self.request_id, vars(self))

    def __str__(self) -> str:
        status = f" ({self.status})" if self.status else ""
        request = f" [{self.request_id}]" if self.request_id else ""
        return f"{self.detail}{status}{request}"

    def worded(self, detail: str) -> Self:
        """The same error with another detail."""
        error = type(self)(self.status, detail, code=self.code, request_id=self.request_id)
        vars(error).update({**vars(self), "detail": detail})
        return error


class Invalid(Refused):
    """The request is malformed, or names a class, trait or provider that does not exist."""

    advice = "Correct the request. It fails again if it is repeated."


class NotAllowed(Refused):
    """The token is missing, invalid, or lacks a role that the policy requires."""

    advice = "Check the token and its roles. The detail names the policy rule."


class NotFound(Refused):
    """The object in the path does not exist."""

    advice = "Check the uuid or name."


class Unsupported(Refused):
    """The server does not have this feature, or not this version of the API.

    Attributes:
        missing: the method and path of the API that the server does not have; empty if it has another version of it.
        version: the version of Stead's own features that has it.
    """

    advice = "Upgrade the server, or use another feature. OpenStack Placement has none of Stead's own features."
    missing = ""
    version = ""


class Conflict(Refused):
    """The request contradicts what is stored."""

    advice = "Read the object again and decide."


class NoPlace(Conflict):
    """A claim has no place. Its text is the reason: the summary of the explanation.

    Attributes:
        claim: index of the claim without a place.
        consumer: its consumer, by the name that the caller gave it, or by its uuid; empty if that is not known.
        explanation: what each constraint removed. If the request did without, it has the words of the server only.
    """

    advice = "Read the explanation."
    claim: int = 0
    consumer: str = ""

    @cached_property
    def explanation(self) -> Explanation:
        """What each constraint removed."""
        from stead.client.candidate import Explanation

        return Explanation.of(self.facts.get("explanation"), otherwise=self.detail)

    def __str__(self) -> str:
        if not self.consumer:
            return super().__str__()
        return f"no place for {self.consumer}: {self.explanation.summary}"


class NothingFits(NoPlace):
    """There is no place for a claim."""

    advice = "Read the explanation, wait for room (`wait=`), or request less."


class NothingFound(NoPlace):
    """The search for the places of claims reached its limit, so there may be some."""

    advice = "Repeat the request, claim fewer at a time, or raise `[stead] max_candidate_work`."


class Stale(Conflict):
    """Another client changed the object after it was read. Nothing was written.

    Attributes:
        consumer: its name or uuid, if the object is a consumer; otherwise empty.
        was_read: whether the consumer's claim was read before. Otherwise it was taken to have none.
        holding: what the consumer has now; None if that is nothing, or not known.
    """

    advice = "Read the object again and repeat."
    consumer: str = ""
    was_read: bool = True
    holding: Consumer | None = None

    def __str__(self) -> str:
        if not self.consumer:
            return super().__str__()
        what = "nothing" if self.holding is None else self.holding.shown
        if self.was_read:
            return f"{self.consumer} was changed by another client, and has {what} now; {self._find} reads it again"
        return (
            f"{self.consumer} has another claim: {what}. Repeat the request of that claim, move it with "
            f"{self._find}.move(request), or release it with site.release({self.consumer!r})"
        )

    @property
    def _find(self) -> str:
        return f"site.find({self.consumer!r})"


class InUse(Conflict):
    """Something to be removed has allocations. Nothing was written."""

    advice = "Release or move the claims first. `Site.apply(…, keep_used=True)` leaves what is in use."


class ProviderDisabled(Conflict):
    """Allocations would take more from a provider that is disabled, or is below a disabled one."""

    advice = "Choose another provider: claims and candidates avoid disabled ones. `Site.enable` enables it."


class CapacityBelowUse(Conflict):
    """A document of trees would make capacities less than what is allocated from them. Nothing was written.

    Attributes:
        overcommitted: one record per inventory, with ``name``, ``resource_class``, ``used``, ``capacity_before`` and
            ``capacity_after``.
    """

    advice = "Release claims first, or pass `allow_overcommit=True`."

    @property
    def overcommitted(self) -> list[dict[str, Any]]:
        """The inventories that would be too small."""
        return list(self.facts.get("overcommitted", ()))


class StartOver(Refused):
    """The changes since the token are not available any more."""

    advice = "Request a new token and read everything again."


class TooLarge(Refused):
    """The request exceeds a limit of the server."""

    advice = "Split the request, or raise the option that the detail names."


class Failed(Refused):
    """The server failed. This is a bug of the server."""

    advice = "Report it with the request id."


class Unavailable(Refused):
    """The server is overloaded or starting, or gave no answer until the deadline."""

    advice = "Try later, or allow more time (`timeout=`)."


class Unreachable(Unavailable):
    """There was no connection, or it broke."""

    advice = "Check the URL and the server. Whether the last request was done is unknown; claims may be repeated."


_BY_STATUS: dict[int, type[Refused]] = {
    400: Invalid,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    405: NotFound,
    406: Unsupported,
    409: Conflict,
    410: StartOver,
    413: TooLarge,
    414: TooLarge,
    415: Invalid,
    417: Invalid,
    429: Unavailable,  # of a proxy that limits rates
    431: TooLarge,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


_BY_CODE: dict[str, type[Refused]] = {
    "placement.concurrent_update": Stale,
    "placement.inventory.inuse": InUse,
    "placement.resource_provider.inuse": InUse,
    "stead.capacity_below_use": CapacityBelowUse,
    "stead.in_use": InUse,
    "stead.nothing_fits": NothingFits,
    "stead.nothing_found": NothingFound,
    "stead.provider_disabled": ProviderDisabled,
    "stead.start_over": StartOver,
}
"""Codes with a type of their own. Every other code has the type of its status."""


def refusal(status: int, body: object, headers: dict[str, str]) -> Refused:
    """The error for an answer of 400 or more.

    Args:
        body: the decoded JSON; anything else if it was none.
        headers: with names in lower case.
    """
    problem = _first_problem(body)
    code = str(problem.get("code", ""))
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, Failed if status >= 500 else Refused)
    lines = str(problem.get("detail") or problem.get("title") or "").strip().splitlines()
    # Placement begins with a general sentence for the status; the last line is the message.
    detail = plain(lines[-1].strip()) if lines else _phrase(status)
    request_id = str(problem.get("request_id") or headers.get("x-openstack-request-id", ""))
    error = kind(status, detail, code=code, request_id=request_id)
    error.facts = problem
    if isinstance(error, NoPlace):
        error.claim = int(problem.get("claim") or 0)
    return error


# What servers say of bodies and queries that a schema rejects is written for authors of schemas.

_FAULT = re.compile(
    r"(?P<start>.*?)(?P<what>\S.*?) Failed validating '\w+' in schema.*? On instance(?P<place>(?:\[[^\]]*\])*): .*"
)
_STARTS = {"JSON does not validate: ": "", "Invalid query string parameters: ": "the query: "}
_PHRASES = (
    (r"Additional properties are not allowed \((.+) w(?:as|ere) unexpected\)", r"unknown: \1"),
    (r"(.+) is a required property", r"\1 is missing"),
    (r"(.+) is not of type (.+)", r"expected \2, not \1"),
    (r"(.+) is not a 'date-time'", r"\1 is not a time with a zone such as 2031-01-01T00:00:00Z"),
    (r"(.+) is not a 'uuid'", r"\1 is not a uuid"),
    (r"(.+) does not match '\^CUSTOM_\[A-Z0-9_\]\+\$'", r"\1 must begin with CUSTOM_, and have A-Z, 0-9 and _ only"),
    (r"(.+) does not match '(.+)'", r"\1 does not have the form \2"),
    (r"(.+) is not a '(.+)'", r"\1 is not \2"),
    (r"(.+) should be non-empty", "it is empty"),
    (r"(.+) does not have enough properties", "it is empty"),
    (r"(.+) has non-unique elements", r"\1 has an element twice"),
    (r"(.+) is not valid under any of the given schemas", r"\1 has none of the possible forms"),
)
_UNKNOWN = re.compile(r"(?:[Nn]o such|unknown) (?:resource class|trait(?:\(s\):)?) (?!CUSTOM_)([A-Z0-9_]+)\b")


def plain(detail: str) -> str:
    """*detail* without the words of a validator of schemas, and with a hint at names that may be made."""
    start = next((each for each in _STARTS if detail.startswith(each)), None)
    fault = _FAULT.fullmatch(detail.removeprefix(start or ""))
    if fault is not None:
        place = re.sub(r"\['?([^\]']*)'?\]", _step, fault["place"]).removeprefix(".")
        detail = f"{_STARTS.get(start or '', '')}{place and place + ': '}{_rephrased(fault['start'] + fault['what'])}"
    elif start is not None:
        place, colon, what = detail.removeprefix(start).rpartition(": ")
        detail = f"{_STARTS[start]}{place}{colon}{_rephrased(what)}"
    if (unknown := _UNKNOWN.search(detail)) and "Did you mean" not in detail:
        detail = f"{detail.removesuffix('.')}. Names of your own begin with CUSTOM_, as CUSTOM_{unknown[1]}"
    return detail


def _step(part: re.Match[str]) -> str:
    return f"[{part[1]}]" if part[1].isdecimal() else f".{part[1]}"


def _rephrased(text: str) -> str:
    for pattern, replacement in _PHRASES:
        if re.fullmatch(pattern, text):
            return re.sub(pattern, replacement, text)
    return text


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "the server refused without a reason"


def _first_problem(body: object) -> dict[str, Any]:
    """The first error object; what a proxy or the authentication answers has another form."""
    if not isinstance(body, dict):
        return {}
    errors = body.get("errors")
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return errors[0]
    return {"detail": body.get("message") or ""}


def _restored(
    kind: type[Refused], status: int, detail: str, code: str, request_id: str, facts: dict[str, Any]
) -> Refused:
    error = kind(status, detail, code=code, request_id=request_id)
    vars(error).update(facts)
    return error
