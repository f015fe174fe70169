"""Checks before routing: which versions apply, and whether the body headers are valid.

Source: "Microversion negotiation" and "Request body headers", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from stead.api.errors import Refused
from stead.api.versions import OLDEST, Agreed, Microversion, SteadVersion, Step, V, extent, header_of
from stead.auth.credentials import Credentials
from stead.process.short_keys import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIEnvironment

    from stead.api.request import Request, Response
    from stead.auth.policy import Policy

N = TypeVar("N", bound=Step)

HEADER = "openstack-api-version"

NEEDED_BY_STEAD = V.ANY_TRAITS
"""The first microversion with which Stead's own versions may be combined."""


_MOST_DIGITS = 100
"""Digits of a length. Python cannot parse numbers of several thousand digits, and no real body has such a length."""


class Negotiation:
    """Falcon middleware: determines microversion and caller before routing, and names the versions in every answer."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def process_request(self, req: Request, _resp: Response) -> None:
        """Determine the microversion and the caller; refuse body headers that no route could accept."""
        req.agreed = agree(req.env.get("HTTP_OPENSTACK_API_VERSION"))
        req.negotiated = True
        credentials = Credentials.of(req.env)

        def require(rule: str, target: Mapping[str, Any] | None) -> None:
            self._policy.require(rule, credentials, target)

        req.require = require
        _require_body_headers(req)

    def process_response(self, req: Request, resp: Response, _resource: object, _succeeded: bool) -> None:
        """Add the headers with the versions in use."""
        req.note(route=req.uri_template)
        if req.negotiated:
            resp.set_header(HEADER, header_of(req.agreed))
            resp.append_header("vary", HEADER)


def asks_for_several(environ: WSGIEnvironment) -> bool:
    """Whether the header may name more than one service."""
    return "," in environ.get("HTTP_OPENSTACK_API_VERSION", "")


def lines_of(name: str, value: str) -> list[tuple[str, str]]:
    """The lines in which a response header is sent: one for each version, one for any other header."""
    return [(name, version) for version in value.split(", ")] if name == HEADER else [(name, value)]


@cached_if_short(256)  # all clients together send a handful of different headers
def agree(header: str | None) -> Agreed:
    """The versions that the header requests. The defaults are the oldest of Placement and none of Stead.

    Raises:
        Refused: 400 if a version is malformed, or Stead's is requested with a Placement version that is too old; 406 if
            this service does not have a version.
    """
    asked = _asked_for(header or "")
    placement = _version(asked["placement"], Microversion) if "placement" in asked else OLDEST
    stead = _version(asked["stead"], SteadVersion) if "stead" in asked else None
    if stead is not None and placement < NEEDED_BY_STEAD:
        raise Refused(400, f"stead {stead} needs placement {NEEDED_BY_STEAD} or newer, not {placement}")
    return Agreed(placement, stead)


def _asked_for(header: str) -> dict[str, str]:
    """Version by service type. The last entry of a service applies; entries without a version are ignored."""
    entries = (entry.split(None, 1) for entry in header.split(","))
    return {entry[0].lower(): entry[1].strip() for entry in entries if len(entry) == 2}


def _version(value: str, versions: type[N]) -> N:
    if value == "latest":
        return max(versions)
    major, minor = _numbers(value)
    if major != 1 or not min(versions) <= minor <= max(versions):
        raise Refused(406, f"Invalid microversion: Unacceptable version header: {value}", more=extent(versions))
    return versions(minor)  # type: ignore[call-arg]  # mypy takes the meaning for an argument of look-ups too


def _numbers(value: str) -> tuple[int, int]:
    major, _, minor = value.partition(".")
    try:
        return int(major), int(minor)
    except ValueError:
        raise Refused(400, f"Invalid microversion: invalid version string: {value}") from None


def _require_body_headers(req: Request) -> None:
    length = req.env.get("CONTENT_LENGTH")
    if not length:
        return
    if not (length.isascii() and length.strip().isdigit()):
        raise Refused(400, "content-length header must be an integer")
    if len(length) > _MOST_DIGITS:
        raise Refused(413, "No body may be as long as the content-length header says.")
    if int(length) > 0 and not req.env.get("CONTENT_TYPE"):
        raise Refused(400, "content-type header required when content-length > 0")
