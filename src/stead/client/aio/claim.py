"""A claim: what one consumer has, and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.consumers import type_of
from stead.client.errors import Stale
from stead.client.holding import Holding

if TYPE_CHECKING:
    from stead.client.aio.calling import Calling
    from stead.client.calls import Json
    from stead.client.request import Request


class Claim(Holding):
    """What one consumer has on a site. :meth:`move` and :meth:`release` change it there and here."""

    __slots__ = ("_calling",)

    def __init__(self, calling: Calling, record: Json, name: str | None = None) -> None:
        """That of a *record* with the fields of GET ``/allocations`` and ``consumer_uuid``."""
        super().__init__(
            consumer=record["consumer_uuid"],
            project=record["project_id"],
            user=record["user_id"],
            type=type_of(record),
            generation=record["consumer_generation"],
            allocations=_amounts(record),
            mappings=record.get("mappings", {}),
            name=name,
        )
        self._calling = calling

    async def move(self, request: Request, *, timeout: float | None = None) -> None:
        """Claim the best candidate of *request* instead of what the consumer has, in one step.

        Its present allocations count as free. If nothing fits, it keeps them.

        Raises:
            NothingFits: there is no place.
            NothingFound: the search for one reached its limit.
            Stale: another client changed the consumer; read it again with :meth:`Site.find`.
        """
        call = calls.claim([self._record(request)], [request], distinct_roots=False, explain=True)
        (granted,) = (await self._calling.send(call, timeout)).json()["claims"]
        self.generation = granted["consumer_generation"]
        self.allocations = _amounts(granted)
        self.mappings = granted["mappings"]

    async def release(self, *, timeout: float | None = None) -> None:
        """Give everything back. Does nothing if that was done before.

        Raises:
            Stale: another client changed the consumer; read it again with :meth:`Site.find`.
        """
        if self.generation is None:
            return
        call = calls.release(self.consumer, self.project, self.user, self.type, self.generation)
        try:
            await self._calling.send(call, timeout)
        except Stale:
            # An earlier attempt may have been done although its response was lost.
            if (await self._calling.send(calls.allocations(self.consumer), timeout)).json()["allocations"]:
                raise
        self.generation, self.allocations, self.mappings = None, {}, {}

    def _record(self, request: Request) -> Json:
        return {
            "consumer_uuid": self.consumer,
            "query": str(request),
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type,
            "consumer_generation": self.generation,
        }


def _amounts(record: Json) -> dict[str, dict[str, int]]:
    return {uuid: allocation["resources"] for uuid, allocation in record["allocations"].items()}
