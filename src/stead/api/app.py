"""The WSGI application: the routes of the API over a service. The layers around it authenticate the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from stead.api import answers
from stead.api.bodies import Owner
from stead.api.request import App, Negotiation, Request, Router, Sizes
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
from stead.api.resources.flavors import Flavors, Mix, OneFlavor
from stead.api.resources.headroom import HeadroomOfRequest
from stead.api.resources.inventories import Inventories, OneClass, ProviderUsages, Usages
from stead.api.resources.provider_trees import ProviderStates, ProviderTrees
from stead.api.resources.resource_providers import OneProvider, ProviderAggregates, Providers
from stead.api.resources.root import OpenApi, Root
from stead.api.resources.traits import OneResourceClass, OneTrait, ProviderTraits, ResourceClasses, Traits
from stead.api.resources.what_if import AdviceForRequest, WhatIfs
from stead.domain.claim import NOBODY
from stead.domain.limits import RequestLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.auth.policy import Policy
    from stead.service.service import Service


def _document(routes: Mapping[str, object]) -> dict[str, Any]:
    """The OpenAPI document. Its module has all texts of the API, and most processes show none."""
    from stead.api.openapi import document

    return document(routes)


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
    answers.install(app)
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
    handlers["/openapi.json"] = OpenApi(handlers, _document)
    return handlers
