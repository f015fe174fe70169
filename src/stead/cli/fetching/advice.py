"""Which consumers to move so that a request fits, as GET ``/advice`` tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.cli.errors import CommandError
from stead.cli.fetching.candidates import query_string
from stead.client.calls import TREES
from stead.client.errors import Unsupported
from stead.client.what_if import Advice

if TYPE_CHECKING:
    from stead import Site


def ask_advice(api: Site, query: str, times: int, *, same_traits: bool, same_aggregates: bool) -> Advice:
    """The advice for a request that must fit this number of *times*.

    Raises:
        CommandError: the server does not support the request.
    """
    try:
        reply = api.response(
            "GET",
            f"/advice?{query_string(query)}",
            stead=TREES,
            make_room_for=times,
            same_traits="true" if same_traits else None,
            same_aggregates="true" if same_aggregates else None,
        )
    except Unsupported as error:
        raise CommandError("the server has no GET /advice; this command requires Stead with `stead 1.1`") from error
    return Advice(reply.json()["advice"], is_complete="stead-incomplete" not in reply.headers)
