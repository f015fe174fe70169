# Generated from stead/client/aio/watching.py by `python -m scripts.twins`. Change that file.
"""Changes as they happen, without gaps."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.blocking.running import sleep
from stead.client.change import CONSUMER, Change, changes_of
from stead.client.errors import NotAllowed, StartOver, Unavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.client.blocking.calling import Calling

LEAST_SECONDS = 0.05
"""Between two requests: a server that has no room for another waiting request answers at once, as does a closed port.
"""

POLL_SECONDS = 0.5
"""Between two attempts of a client that may not see changes."""


def watch(calling: Calling, since: str | None, heartbeat: float, outage: float | None = None) -> Iterator[Change]:
    """All changes after *since*, or after the first call.

    Args:
        heartbeat: seconds without a change after which a heartbeat is returned.
        outage: seconds for which the server may be away; None: any time.

    Raises:
        Unavailable: it was away for longer.
    """
    token = since or current_token(calling)
    quiet_since = answered = monotonic()
    while True:
        wait = max(0, min(calling.transport.longest_wait, int(quiet_since + heartbeat - monotonic())))
        asked = monotonic()
        try:
            # The server may use the whole wait, and needs the usual time besides.
            body = (calling.send(calls.changes(token, wait), wait + calling.timeout)).json()
        except StartOver:
            # The token before the notice: what the caller then reads includes all changes up to it.
            token = current_token(calling)
            yield Change("start over", token)
            continue
        except Unavailable:
            if outage is not None and monotonic() > answered + outage:
                raise
            sleep(LEAST_SECONDS)  # a site without retries has not paused yet
            continue
        answered = monotonic()
        is_quiet = True
        for change in changes_of(body, token):
            is_quiet = False
            yield change
        token = body["token"]
        if not is_quiet or monotonic() >= quiet_since + heartbeat:
            quiet_since = monotonic()
        if is_quiet and quiet_since >= answered:
            yield Change("heartbeat", token)
        elif is_quiet and answered - asked < LEAST_SECONDS:
            sleep(LEAST_SECONDS if wait else min(LEAST_SECONDS * 4, heartbeat))


def current_token(calling: Calling) -> str:
    """The token of this moment."""
    return str((calling.send(calls.changes(None, 0))).json()["token"])


def wait_for_change(calling: Calling, since: str | None, seconds: float) -> str | None:
    """Return when something changed after *since*, or after *seconds*; the token of then.

    Without a token, or if changes are not available, returns after a short pause: the caller looks then, and waits with
    the token of before.
    """
    started = monotonic()
    try:
        if since is None:
            return current_token(calling)
        wait = min(calling.transport.longest_wait, int(seconds))
        body = (calling.send(calls.changes(since, wait), wait + min(seconds, calling.timeout))).json()
        token: str | None = body["token"]
    except (StartOver, Unavailable):
        token = None
    except (NotAllowed, Unsupported):
        sleep(min(POLL_SECONDS, seconds))
        return None
    if monotonic() - started < LEAST_SECONDS:
        sleep(min(LEAST_SECONDS, seconds))
    return token


def of_project(changes: Iterator[Change], calling: Calling, project: str) -> Iterator[Change]:
    """The changes of consumers of *project*, and heartbeats.

    A consumer that does not exist any more is of the project if it was before, or if that is not known.
    """
    foreign: set[str] = set()
    for change in changes:
        if change.kind == CONSUMER and not change.is_deletion:
            record = (calling.send(calls.allocations(change.uuid))).json()
            if record.get("project_id", project) == project:
                foreign.discard(change.uuid)
                yield change
            else:
                foreign.add(change.uuid)
        elif change.kind == CONSUMER:
            if change.uuid not in foreign:
                yield change
            foreign.discard(change.uuid)
        elif not change.uuid:
            yield change
