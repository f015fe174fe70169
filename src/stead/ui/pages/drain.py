"""``/ui/providers/{uuid}/drain``: where the consumers of a host would move if it were drained. It changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api import uuids
from stead.api.query.pairs import Pairs
from stead.domain.errors import ProviderNotFound
from stead.domain.what_if import BadChange, Drain
from stead.service.what_if import Bounds, TooManyConsumers
from stead.ui.pages.access import may
from stead.ui.views import drain as view

if TYPE_CHECKING:
    from typing import Any

    from stead.api.limits import Limits
    from stead.api.request import Request, Response
    from stead.service.service import Service
    from stead.ui.rendering import Rendering

LIKENESS = ("same_traits", "same_aggregates")


class Drained:
    """The page. Its query has the conditions of a drain of POST ``/whatif``, whose policy rule it needs."""

    def __init__(self, service: Service, rendering: Rendering, limits: Limits) -> None:
        self._service = service
        self._rendering = rendering
        self._limits = limits

    def on_get(self, req: Request, resp: Response, uuid: str) -> None:
        """Show the page of a root; a provider below a root leads to the page of its root.

        Raises:
            ProviderNotFound, ChangedThingNotFound, ConcurrentUpdate, Unavailable
        """
        req.require("stead:whatif:show", None)
        snapshot = self._service.snapshot()
        slot = snapshot.find(uuids.normalised(uuid) or uuid)
        if slot is None:
            raise ProviderNotFound(uuid)
        root = snapshot.provider(snapshot.forest.root[slot])
        if snapshot.forest.root[slot] != slot:
            resp.status = "303 See Other"
            resp.set_header("location", f"{req.root_path}/ui/providers/{root.uuid}/drain")
            return
        given = {key for key, value in Pairs.of(req) if key in LIKENESS and value.strip()}
        drain = Drain(root.uuid, "same_traits" in given, "same_aggregates" in given)
        values: dict[str, Any] = {"plan": None, "problem": ""}
        try:
            outcome, _ = self._service.what_if([drain], Bounds(self._limits.tree_providers, self._limits.claims))
            values["plan"] = view.plan(outcome, root.uuid)
        except TooManyConsumers:
            resp.status = "413 Content Too Large"
            values["problem"] = (
                f"The host has more than {self._limits.claims:,} consumers. A plan can have this number."
            )
        except BadChange as error:
            resp.status = "400 Bad Request"
            values["problem"] = f"The host cannot be drained: {error.reason}."
        self._rendering.show(
            req,
            resp,
            "drain",
            host=root,
            given=given,
            at_once=view.AT_ONCE,
            command=view.command(root, drain),
            may_list_consumers=may(req, "stead:consumers:list", {"project_id": None}),
            **values,
        )
