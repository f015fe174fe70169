"""``/changes``: what changed since a moment, as soon as anything does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from stead.api.accept import quality
from stead.api.bodies import ONE_LINE, Validator
from stead.api.gates import EVENTS, JSON, allowed, json_or_events
from stead.api.query.pairs import Pairs
from stead.api.representations import NOW, answer, mark_modified
from stead.api.versions import S
from stead.domain.errors import StartOver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.api.request import Request, Response
    from stead.api.versions import Step
    from stead.service import Service
    from stead.store.happened import Generations, Happened
    from stead.store.watching import Stream

SECONDS = 30
"""How long a change is waited for, if the client does not say."""

KEYS: dict[str, tuple[Step, dict[str, Any]]] = {
    "since": (S.OWN_FEATURES, {"type": "string", "minLength": 1}),
    "timeout": (S.OWN_FEATURES, {"type": "string", "pattern": "^([0-9]|[1-5][0-9]|60)$", "format": ONE_LINE}),
}
QUERY = Validator(
    {"type": "object", "additionalProperties": False, "properties": {key: schema for key, (_, schema) in KEYS.items()}}
)

RETRY_MILLISECONDS = 1000


class Changes:
    """``/changes``. Only for requests that ask for ``stead``."""

    stead_since = S.OWN_FEATURES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_or_events
    @allowed("stead:changes:list")
    def on_get(self, req: Request, resp: Response) -> None:
        """Tell which providers and consumers changed since a token, waiting until some do; or stream what changes."""
        pairs = Pairs.of(req)
        pairs.require(QUERY)
        since = pairs.last("since")
        if _wants_events(req):
            last = req.env.get("HTTP_LAST_EVENT_ID") or since
            resp.stream = events(self._service.watchers.follow(last), begins=last is None)
            resp.content_type = EVENTS
            resp.set_header("x-accel-buffering", "no")  # nginx would wait for more
            mark_modified(req, resp, NOW)
        else:
            happened = self._service.watchers.wait(since, int(pairs.last("timeout") or SECONDS))
            answer(req, resp, show_happened(happened))


def _wants_events(req: Request) -> bool:
    if req.accepted is None:
        return False
    wanted = quality(EVENTS, req.accepted)
    return wanted > 0 and wanted >= quality(JSON, req.accepted)


def show_happened(happened: Happened) -> dict[str, Any]:
    """What changed, and the token of the moment until which it is told."""
    return {
        "token": happened.token,
        "providers": _shown(happened.providers),
        "consumers": _shown(happened.consumers),
    }


def _shown(changed: Generations) -> list[dict[str, Any]]:
    return [{"uuid": uuid, "generation": generation} for uuid, generation in changed.items()]


def events(stream: Stream, *, begins: bool) -> Iterator[bytes]:
    """The text of a stream of events: what begins is told its token first."""
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
        for happened in stream:
            if happened:
                yield _event("changes", happened.token, show_happened(happened))
            elif begins:
                yield _event("token", happened.token, {"token": happened.token})
            else:
                yield b": nothing changed\n\n"
            begins = False
    except StartOver:
        yield _event("start-over", None, {})
    finally:
        stream.close()


def _event(name: str, id_: str | None, data: dict[str, Any]) -> bytes:
    head = f"event: {name}\n" + (f"id: {id_}\n" if id_ else "")
    return head.encode() + b"data: " + orjson.dumps(data) + b"\n\n"
