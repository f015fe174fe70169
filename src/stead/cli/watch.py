"""``stead watch``: which providers and consumers change, as they do."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from stead.cli.client import connect
from stead.cli.errors import ApiError, Negative
from stead.cli.options import options
from stead.cli.output import json_text
from stead.domain.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.cli.client import Api

app = typer.Typer(add_completion=False)

_SECONDS = 30


@app.command()
def watch(
    since: Annotated[
        str | None, typer.Option(help="Print changes after this token. Default: from now on.", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option(help="End after the first response; without --since, it is a token.")] = False,
    wait: Annotated[int, typer.Option(min=0, max=60, help="Seconds to wait for each response.")] = _SECONDS,
) -> None:
    """Print changes of providers and consumers until you press Ctrl-C."""
    with connect() as api:
        for told in answers(api, since, wait):
            if options().json:
                print(json_text(told), flush=True)
            else:
                print("\n".join(lines(told)), flush=True)
            if once:
                return


def answers(api: Api, since: str | None, wait: int) -> Iterator[dict[str, Any]]:
    """The token, if it begins now, and whatever changes after it; nothing that is empty, but the first.

    Raises:
        Negative: what changed can not be told any more.
    """
    token = since
    first = True
    while True:
        try:
            asked = {"since": token, "timeout": wait} if token else {"timeout": wait}
            told = api.get_own(f"/changes?{urlencode(asked)}")
        except ApiError as error:
            if error.status == HTTPStatus.GONE:
                raise Negative(f"{error.detail} (without --since it begins now)") from error
            raise
        if first or told["providers"] or told["consumers"]:
            yield told
        token, first = told["token"], False


def lines(told: dict[str, Any]) -> Iterator[str]:
    """What changed, a line for each, and the token to go on from."""
    for kind in ("provider", "consumer"):
        for one in told[f"{kind}s"]:
            state = "is gone" if one["generation"] is None else f"is at generation {one['generation']}"
            yield f"{kind} {printable(one['uuid'])} {state}"
    yield f"token {printable(told['token'])}"
