"""``/mix``: the requests that the site is to serve, which the order ``headroom`` leaves room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from stead.api.answers import answer, answer_nothing
from stead.api.bodies import strict_object
from stead.api.query.candidates import Pairs
from stead.api.request import allowed, json_answer
from stead.api.validation import Schema, Validator
from stead.api.versions import S
from stead.service.mix import Source

if TYPE_CHECKING:
    from stead.api.request import Request, Response
    from stead.service.service import Service

_FORM = strict_object(
    {"query": {"type": "string"}, "flavor": {"type": ["string", "null"]}, "share": {"type": "number"}}
)
MIX: Schema = strict_object(
    {
        "source": {"type": "string", "enum": list(get_args(Source))},
        "forms": {"type": "array", "items": _FORM},
    }
)

NO_KEYS = Validator({"type": "object", "additionalProperties": False, "properties": {}})
"""Validates that a query has no keys."""


class Mix:
    """`/mix`: the present mix, and the counts that it is learned from. Requires `stead` 1.2."""

    stead_since = S.HEADROOM_ORDER

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:mix:show")
    def on_get(self, req: Request, resp: Response) -> None:
        """Show the mix that the order headroom leaves room for."""
        Pairs.of(req).require(NO_KEYS)
        source, parts = self._service.parts_of_mix()
        answer(req, resp, {"mix": {"source": source, "forms": [part._asdict() for part in parts]}})

    @allowed("stead:mix:delete")
    def on_delete(self, _req: Request, resp: Response) -> None:
        """Delete the counts that the mix is learned from."""
        self._service.forget_learned()
        answer_nothing(resp)
