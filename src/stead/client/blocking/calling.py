# Generated from stead/client/aio/calling.py by `python -m scripts.twins`. Change that file.
"""Calls that are repeated until they succeed, fail for good, or the time is over."""

from __future__ import annotations

from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from stead.client import retrying
from stead.client.blocking.running import sleep
from stead.client.calls import next_page
from stead.client.errors import NotAllowed, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.client.blocking.tokens import Tokens
    from stead.client.blocking.transport import Transport
    from stead.client.calls import Call, Json, Reply


class Calling:
    """Sends calls with a token, again where that is safe.

    Attributes:
        transport: sends each of them once.
        timeout: seconds for a call with all its repetitions, if the call does not say otherwise.
    """

    def __init__(self, transport: Transport, tokens: Tokens, timeout: float, *, retry: bool = True) -> None:
        """Nothing is sent yet. Without *retry*, nothing is sent twice."""
        self.transport = transport
        self.timeout = timeout
        self._retries = retry
        self._tokens = tokens

    def send(self, call: Call, timeout: float | None = None) -> Reply:
        """The response to *call*, which has a status below 300.

        Raises:
            Refused: the last error.
        """
        deadline = monotonic() + (self.timeout if timeout is None else timeout)
        may_renew = self._tokens.is_renewable
        for attempts in count(1):
            retry_after = None
            try:
                # For each attempt, because a token can expire during the pauses.
                headers = {**call.headers, **self._tokens.headers()}
                # A slow renewal can end after the deadline, and a timeout must be positive.
                reply = self.transport.send(call, headers, max(deadline - monotonic(), 0.001))
            except Refused as failure:
                error: Refused | None = failure
            else:
                error = reply.error(call)
                if error is None:
                    return reply
                retry_after = retrying.retry_after(reply.headers)
            assert error is not None
            if may_renew and isinstance(error, NotAllowed) and error.status == 401:
                # Only once: the second rejection is of a fresh token, so another one would not help.
                may_renew = False
                self._tokens.renew()
                continue
            pause = retrying.pause_before(call, error, attempts, deadline - monotonic(), retry_after)
            if pause is None or not self._retries:
                raise error
            sleep(pause)
        raise AssertionError("counting does not end")

    def pages(self, call: Call) -> Iterator[Json]:
        """The body of each page of a list."""
        page: Call | None = call
        while page is not None:
            body = (self.send(page)).json()
            yield body
            page = next_page(page, body)
