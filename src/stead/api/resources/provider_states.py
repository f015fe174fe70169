"""``/provider_trees/{uuid}``: the service state of a provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stead.api.bodies import MOMENT, ONE_LINE, Body, read_body, strict_object
from stead.api.errors import answering, race
from stead.api.gates import allowed, json_body
from stead.api.representations import answer
from stead.api.tree_text import state_object
from stead.api.versions import S, V, Versioned
from stead.domain.moments import from_text
from stead.store.provider_trees import disabling

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service

REASON_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Disable:
    """Why to disable a provider, and until when, in seconds since 1970; None: until a client enables it."""

    reason: str
    until: int | None


def _build(body: dict[str, Any]) -> Disable | None:
    """The requested state; None enables the provider."""
    disabled = body["disabled"]
    if disabled is None:
        return None
    until = disabled.get("until")
    return Disable(disabled["reason"], None if until is None else from_text(until))


DISABLED = {
    **strict_object(
        {
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": REASON_LENGTH,
                "pattern": "^[^\\x00-\\x1f\\x7f]*$",
                "format": ONE_LINE,
            }
        },
        {"until": {"type": ["string", "null"], "format": MOMENT}},
    ),
    "type": ["object", "null"],
}
CHANGE = Versioned({V.INITIAL: Body(strict_object({"disabled": DISABLED}), _build)})


class ProviderStates:
    """`/provider_trees/{uuid}`: the service state of one provider. Requires `stead` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_body
    @allowed("stead:provider_trees:disable")
    @answering(race("Unable to change the state of the provider"))
    def on_patch(self, req: Request, resp: Response, uuid: str) -> None:
        """Disable or enable a resource provider."""
        change = read_body(req, CHANGE)
        if change is None:
            state = self._service.write(disabling.enable, uuid)
        else:
            state = self._service.write(disabling.disable, uuid, change.reason, change.until)
        disabled = None if state.disabled is None else state_object(state.uuid, state.disabled)
        body = {"uuid": state.uuid, "name": state.name, "generation": state.generation, "disabled": disabled}
        answer(req, resp, body, modified=None)
