"""Before a route is looked for: which microversion is in force, and are the body's headers in order?

Source: "Microversion negotiation" and "Request body headers", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.errors import Refused
from stead.api.versions import NEWEST, OLDEST, Microversion
from stead.auth.credentials import Credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.api.request import Request, Response
    from stead.auth.policy import Policy

HEADER = "openstack-api-version"

_MORE = {"max_version": str(NEWEST), "min_version": str(OLDEST)}


class Negotiation:
    """Falcon middleware: settles microversion and caller before routing, and names the microversion in every answer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def process_request(self, req: Request, _resp: Response) -> None:
        """Settle the microversion and who asks; refuse body headers that no route could accept."""
        req.version = microversion(req.env.get("HTTP_OPENSTACK_API_VERSION"))
        req.negotiated = True
        credentials = Credentials.of(req.env)

        def require(rule: str, target: Mapping[str, Any] | None) -> None:
            self._policy.require(rule, credentials, target)

        req.require = require
        _require_body_headers(req)

    def process_response(self, req: Request, resp: Response, _resource: object, _succeeded: bool) -> None:
        """Name the microversion that was used."""
        if req.negotiated:
            resp.set_header(HEADER, f"placement {req.version}")
            resp.append_header("vary", HEADER)


def microversion(header: str | None) -> Microversion:
    """The microversion that the header asks for; the oldest if it asks for none.

    Raises:
        Refused: 400 if the version is no version, 406 if it is one this service does not have.
    """
    asked = _asked_for(header or "")
    if "stead" in asked:
        _refuse_stead(asked["stead"])
    value = asked.get("placement")
    if value is None:
        return OLDEST
    if value == "latest":
        return NEWEST
    major, minor = _numbers(value)
    if major != 1 or not OLDEST <= minor <= NEWEST:
        raise Refused(406, f"Unacceptable version header: {value}", more=_MORE)
    return Microversion(minor)  # type: ignore[call-arg]  # mypy takes the meaning for an argument of look-ups too


def _asked_for(header: str) -> dict[str, str]:
    """Version by service type; the last entry of a service counts, an entry without a version does not."""
    entries = (entry.split(None, 1) for entry in header.split(","))
    return {entry[0].lower(): entry[1].strip() for entry in entries if len(entry) == 2}


def _numbers(value: str) -> tuple[int, int]:
    major, _, minor = value.partition(".")
    try:
        return int(major), int(minor)
    except ValueError:
        raise Refused(400, f"invalid version string: {value}") from None


def _refuse_stead(value: str) -> None:
    """Stead has no features of its own yet, so there is no version of them that could be asked for."""
    if value != "latest":
        _numbers(value)
    raise Refused(406, f"Unacceptable version header: stead {value}")


def _require_body_headers(req: Request) -> None:
    length = req.env.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.strip().isdigit()):
        raise Refused(400, "content-length header must be an integer")
    if int(length) > 0 and not req.env.get("CONTENT_TYPE"):
        raise Refused(400, "content-type header required")
