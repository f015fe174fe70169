"""A connection to the API: its life, and any call of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.client import calls
from stead.client.calls import Call
from stead.client.errors import Refused, Unavailable

if TYPE_CHECKING:
    from typing import Self

    from stead.client.aio.calling import Calling
    from stead.client.calls import Reply


class Connection:
    """What a site is apart from what it knows of providers and claims."""

    def __init__(self, calling: Calling) -> None:
        """Nothing is sent yet."""
        self._calling = calling

    def __repr__(self) -> str:
        return f"<Site {self._calling.transport.shown}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections, or Stead in this process. Claims remain."""
        await self._calling.transport.close()

    @property
    def url(self) -> str:
        """The URL without user and password; in this process, the directory or URL of the database."""
        return self._calling.transport.shown

    async def request(self, method: str, path: str, body: Any = None, *, stead: str | None = None, **query: Any) -> Any:
        """The decoded response of any call of the API, at the newest microversion that this library knows.

        A GET is repeated if its response is lost; other methods are not. None if the response has no body.

        Args:
            path: with or without a query string.
            stead: the version of Stead's own features to enable.
            query: parameters; None leaves one out, a list repeats one.
        """
        return (await self.response(method, path, body, stead=stead, **query)).json()

    async def response(
        self, method: str, path: str, body: Any = None, *, stead: str | None = None, **query: Any
    ) -> Reply:
        """As :meth:`request`, with the status and the header fields of the response."""
        call = Call(method, calls.with_query(path, query), body, stead, is_repeatable=method == "GET")
        return await self._calling.send(call)

    async def supports(self, version: str) -> bool:
        """Whether the server has Stead's own features of *version*, for example ``1.1``. OpenStack Placement has none.

        Raises:
            Unavailable: there was no answer.
        """
        try:
            return calls.announces((await self._calling.send(calls.versions())).json(), version)
        except Unavailable:
            raise
        except Refused:
            return False
