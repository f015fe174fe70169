"""Trying again whenever something changed on the server, until a deadline: for a claim that waits for room."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from stead.cli.errors import Negative
from stead.client.calls import OWN
from stead.client.errors import Refused, StartOver

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead import Site

T = TypeVar("T")

_LONGEST_WAIT = 30.0  # seconds of one request
_PAUSE = 0.2  # seconds between two tries at least: on a busy site something changes all the time
_POLL = 1.0  # seconds between two tries, if the server does not support waiting


def until_it_fits(api: Site, attempt: Callable[[], T], seconds: float) -> T:
    """What *attempt* returns, tried at once and after each change of the server, for *seconds*.

    Raises:
        Negative: the last attempt raised it.
    """
    deadline = time.monotonic() + seconds
    token = _token(api)  # before the attempt, so that no change after it is missed
    while True:
        try:
            return attempt()
        except Negative:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise
            token = _next_change(api, token, min(remaining, _LONGEST_WAIT))


def _token(api: Site) -> str | None:
    with suppress(Refused):
        return str(api.request("GET", "/changes", stead=OWN, timeout=0)["token"])
    return None


def _next_change(api: Site, token: str | None, seconds: float) -> str | None:
    """Wait for a change after *token*; returns the token to go on from."""
    try:
        if token is not None:
            # The API takes whole seconds, and with 0 it would not wait.
            told = api.request("GET", "/changes", stead=OWN, since=token, timeout=max(int(seconds), 1))
            time.sleep(_PAUSE)
            return str(told["token"])
    except StartOver:
        return _token(api)
    except Refused:  # it restarts, for example; the token stays valid
        pass
    time.sleep(min(seconds, _POLL))
    return token or _token(api)
