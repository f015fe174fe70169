"""The token of each call: fixed, or from Keystone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stead.client.aio.running import called
from stead.client.errors import InvalidRequest

TokenSource = str | Callable[[], str | Awaitable[str | None] | None] | Any
"""A token, a function that returns one, or a session of keystoneauth1."""


class Tokens:
    """Returns the token for each call."""

    def __init__(self, source: TokenSource | None) -> None:
        """Nothing is requested yet."""
        self._source = source

    @property
    def is_renewable(self) -> bool:
        """Whether a rejected token may be replaced by another one."""
        return self._source is not None and not isinstance(self._source, str)

    async def headers(self) -> dict[str, str]:
        """The header fields that identify the client.

        Raises:
            InvalidRequest: the token has characters that no header can carry.
        """
        token = self._source
        if token is not None and not isinstance(token, str):
            token = await called(getattr(token, "get_token", token))
        if token is None:
            return {}
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("the token contains characters that cannot be sent in a header")
        return {"x-auth-token": token}

    async def renew(self) -> None:
        """Discard a token that was rejected. A function is expected to return a valid one by itself."""
        invalidate = getattr(self._source, "invalidate", None)
        if invalidate is not None:
            await called(invalidate)
