"""The WSGI application: the routes of the API over a service. The layers around it authenticate the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import falcon

from stead.api import errors
from stead.api.bodies import Owner
from stead.api.errors import Refused
from stead.api.gates import Router
from stead.api.limits import Sizes
from stead.api.openapi import document
from stead.api.request import Request, Response
from stead.api.resources.allocation_candidates import AllocationCandidates, Explanations
from stead.api.resources.allocations import (
    Allocations,
    AllocationsOfConsumer,
    AllocationsOfProvider,
    Consumers,
    Leases,
    Reshaper,
)
from stead.api.resources.changes import Changes
from stead.api.resources.claims import Claims
from stead.api.resources.flavors import Flavors, OneFlavor
from stead.api.resources.headroom import HeadroomOfRequest
from stead.api.resources.inventories import Inventories, OneClass, ProviderUsages, Usages
from stead.api.resources.mix import Mix
from stead.api.resources.openapi import OpenApi
from stead.api.resources.provider_trees import ProviderStates, ProviderTrees
from stead.api.resources.resource_providers import OneProvider, ProviderAggregates, Providers
from stead.api.resources.root import Root
from stead.api.resources.traits import OneResourceClass, OneTrait, ProviderTraits, ResourceClasses, Traits
from stead.api.resources.what_if import AdviceForRequest, WhatIfs
from stead.api.versions import OLDEST, Agreed, Microversion, SteadVersion, Step, V, extent, header_of
from stead.auth.authentication import Credentials
from stead.domain.claim import NOBODY
from stead.domain.limits import RequestLimits
from stead.process.runtime import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIEnvironment

    from stead.auth.policy import Policy
    from stead.service.service import Service


class App(falcon.App[Request, Response]):
    """Sends the version of each service in its own header line, where Falcon would join them into one line."""

    def __call__(self, env: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if not asks_for_several(env):
            return super().__call__(env, start_response)

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Callable[[bytes], object]:
            return start_response(status, [line for header in headers for line in lines_of(*header)], *exc_info)

        return super().__call__(env, start)


def create_app(
    service: Service,
    policy: Policy,
    *,
    incomplete_project: str = NOBODY,
    incomplete_user: str = NOBODY,
    limits: RequestLimits = RequestLimits(),  # noqa: B008 - it never changes
) -> App:
    """The API over *service*, as far as *policy* allows.

    Args:
        incomplete_project: project of allocations from clients that cannot state one (before 1.8); likewise the user.
        limits: the limits of one request.
    """
    app = App(
        request_type=Request,
        router=cast("Any", Router()),  # Falcon calls only its two methods
        # Negotiation first, because the form of all later errors depends on the version.
        middleware=[Negotiation(policy), Sizes(limits)],
    )
    app.resp_options.default_media_type = cast("str", None)  # a response without a body has no content type
    errors.install(app)
    for path, resource in routes(service, Owner(incomplete_project, incomplete_user), limits).items():
        app.add_route(path, resource)
    return app


def documented_routes() -> dict[str, object]:
    """The resource of each path, for documents about them; none can be called."""
    return routes(cast("Any", None), Owner(NOBODY, NOBODY), RequestLimits())


def routes(service: Service, incomplete: Owner, limits: RequestLimits) -> dict[str, object]:
    """The resource of each path."""
    provider = "/resource_providers/{uuid}"
    handlers: dict[str, object] = {
        "/": Root(),
        "/resource_providers": Providers(service, limits),
        provider: OneProvider(service),
        f"{provider}/inventories": Inventories(service),
        f"{provider}/inventories/{{resource_class}}": OneClass(service),
        f"{provider}/usages": ProviderUsages(service),
        f"{provider}/aggregates": ProviderAggregates(service),
        f"{provider}/allocations": AllocationsOfProvider(service),
        f"{provider}/traits": ProviderTraits(service),
        "/resource_classes": ResourceClasses(service),
        "/resource_classes/{name}": OneResourceClass(service),
        "/traits": Traits(service),
        "/traits/{name}": OneTrait(service),
        "/allocations": Allocations(service, incomplete, limits),
        "/allocations/{consumer_uuid}": AllocationsOfConsumer(service, incomplete, limits),
        "/allocation_candidates": AllocationCandidates(service, limits),
        "/allocation_candidates/explain": Explanations(service, limits),
        "/headroom": HeadroomOfRequest(service, limits),
        "/flavors": Flavors(service),
        "/flavors/{name}": OneFlavor(service, limits),
        "/mix": Mix(service),
        "/usages": Usages(service),
        "/reshaper": Reshaper(service, incomplete, limits),
        "/consumers": Consumers(service),
        "/leases": Leases(service, limits),
        "/provider_trees": ProviderTrees(service, limits),
        "/provider_trees/{uuid}": ProviderStates(service),
        "/claims": Claims(service, limits),
        "/whatif": WhatIfs(service, limits),
        "/advice": AdviceForRequest(service, limits),
        "/changes": Changes(service),
    }
    handlers["/openapi.json"] = OpenApi(handlers, document)
    return handlers


# Checks before routing: which versions apply, and whether the body headers are valid.
#
# Source: "Microversion negotiation" and "Request body headers", docs/api.md.


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
    major, _, minor_text = value.partition(".")
    try:
        number, minor = int(major), int(minor_text)
    except ValueError:
        raise Refused(400, f"Invalid microversion: invalid version string: {_named(value, versions)}") from None
    if number != 1 or not min(versions) <= minor <= max(versions):
        told = f"Invalid microversion: Unacceptable version header: {_named(value, versions)}"
        raise Refused(406, told, more=extent(versions))
    return versions(minor)  # type: ignore[call-arg]  # mypy takes the meaning for an argument of look-ups too


def _named(value: str, versions: type[Step]) -> str:
    """*value* as refusals show it. Clients know the form for Placement, which does not name the service."""
    return value if versions is Microversion else f"stead {value}"


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
