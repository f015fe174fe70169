"""``/usages`` and ``/resource_providers/{uuid}/usages``: allocated amounts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE, Validator
from stead.api.gates import allowed, json_answer, since
from stead.api.lookup import find_provider
from stead.api.query.pairs import Pairs
from stead.api.representations import answer
from stead.api.shapes import EXTERNAL_ID
from stead.api.versions import V
from stead.domain.errors import InvalidQuery
from stead.domain.names import NAME_LENGTH
from stead.store import usages

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.api.versions import Microversion
    from stead.service.service import Service
    from stead.store.usages import TypeUsage

ALL = "all"
"""The keyword that requests the sum over all types."""

KEYS: dict[str, tuple[Microversion, dict[str, Any]]] = {
    "project_id": (V.USAGES, EXTERNAL_ID),
    "user_id": (V.USAGES, EXTERNAL_ID),
    "consumer_type": (
        V.CONSUMER_TYPES,
        {
            "type": "string",
            "pattern": "^[A-Z0-9_]+$|^all|^unknown$",
            "minLength": 1,
            "maxLength": NAME_LENGTH,
            "format": ONE_LINE,
        },
    ),
}


@cache
def validator(version: Microversion) -> Validator:
    """Validates the keys of *version*, and refuses others."""
    properties = {key: schema for key, (since, schema) in KEYS.items() if since <= version}
    return Validator(
        {"type": "object", "required": ["project_id"], "additionalProperties": False, "properties": properties}
    )


def project_of(pairs: Pairs) -> str | None:
    """The project that a query names. The policy check and the query both use it, so that they cannot differ."""
    return pairs.last("project_id")


def asked_project(req: Request) -> dict[str, str | None]:
    """The target of the policy: the project that the query names, even if other parts of the query are invalid."""
    try:
        return {"project_id": project_of(Pairs.of(req))}
    except InvalidQuery:
        return {"project_id": None}


def show_type(usage: TypeUsage) -> dict[str, int]:
    """The usage of the consumers of one type, and their number."""
    return {"consumer_count": usage.consumer_count, **usage.resources}


class ProviderUsages:
    """`/resource_providers/{uuid}/usages`: the used amount of each inventory."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("placement:resource_providers:usages")
    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """List the usages of a resource provider."""
        snapshot = self._service.snapshot()
        slot = find_provider(snapshot, uuid)
        used = {name: stored.used for name, stored in snapshot.inventories(slot).items()}
        generation = snapshot.provider(slot).generation
        answer(req, resp, {"resource_provider_generation": generation, "usages": used})


class Usages:
    """`/usages`: the usages of a project, from 1.38 by consumer type."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @since(V.USAGES)
    @json_answer
    @allowed("placement:usages", target=asked_project)
    def on_get(self, req: Request, resp: Response) -> None:
        """List the usages of a project."""
        pairs = Pairs.of(req)
        pairs.require(validator(req.version))
        consumer_type = pairs.last("consumer_type")
        by_type = self._service.read(
            usages.of_project,
            project_of(pairs) or "",
            pairs.last("user_id"),
            None if consumer_type == ALL else consumer_type,
        )
        shown: dict[str, Any]
        if req.version < V.CONSUMER_TYPES:
            shown = usages.total(by_type).resources
        elif consumer_type == ALL and by_type:
            shown = {ALL: show_type(usages.total(by_type))}
        else:
            shown = {name: show_type(usage) for name, usage in by_type.items()}
        answer(req, resp, {"usages": shown})
