"""The WSGI application: the routes of the API over a service. The layers around it authenticate the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import falcon

from stead.api import errors
from stead.api.limits import Limits, Sizes
from stead.api.negotiation import Negotiation, asks_for_several, lines_of
from stead.api.openapi import document
from stead.api.request import Request, Response
from stead.api.resources.advice import AdviceForRequest
from stead.api.resources.aggregates import ProviderAggregates
from stead.api.resources.allocation_candidates import AllocationCandidates
from stead.api.resources.allocations import Allocations, AllocationsOfConsumer, AllocationsOfProvider
from stead.api.resources.changes import Changes
from stead.api.resources.claims import Claims
from stead.api.resources.consumers import Consumers
from stead.api.resources.explanations import Explanations
from stead.api.resources.flavors import Flavors, OneFlavor
from stead.api.resources.headroom import HeadroomOfRequest
from stead.api.resources.inventories import Inventories, OneClass
from stead.api.resources.openapi import OpenApi
from stead.api.resources.provider_states import ProviderStates
from stead.api.resources.provider_trees import ProviderTrees
from stead.api.resources.reshaper import Reshaper
from stead.api.resources.resource_classes import OneResourceClass, ResourceClasses
from stead.api.resources.resource_providers import OneProvider, Providers
from stead.api.resources.root import Root
from stead.api.resources.traits import OneTrait, ProviderTraits, Traits
from stead.api.resources.usages import ProviderUsages, Usages
from stead.api.resources.what_if import WhatIfs
from stead.api.routing import Router
from stead.api.shapes import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIEnvironment

    from stead.auth.policy import Policy
    from stead.service.service import Service

NOBODY = "00000000-0000-0000-0000-000000000000"


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
    limits: Limits = Limits(),  # noqa: B008 - it never changes
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
    return routes(cast("Any", None), Owner(NOBODY, NOBODY), Limits())


def routes(service: Service, incomplete: Owner, limits: Limits) -> dict[str, object]:
    """The resource of each path."""
    provider = "/resource_providers/{uuid}"
    handlers: dict[str, object] = {
        "/": Root(),
        "/resource_providers": Providers(service),
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
        "/usages": Usages(service),
        "/reshaper": Reshaper(service, incomplete, limits),
        "/consumers": Consumers(service),
        "/provider_trees": ProviderTrees(service, limits),
        "/provider_trees/{uuid}": ProviderStates(service),
        "/claims": Claims(service, limits),
        "/whatif": WhatIfs(service, limits),
        "/advice": AdviceForRequest(service, limits),
        "/changes": Changes(service),
    }
    handlers["/openapi.json"] = OpenApi(handlers, document)
    return handlers
