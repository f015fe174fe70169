# Generated from stead/client/aio/capacity.py by `python -m scripts.twins`. Change that file.
"""What fits on a site: headroom, flavors, and what planned changes would lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.advice import Advice
from stead.client.blocking.claim import Claim
from stead.client.blocking.connection import Connection
from stead.client.errors import Stale
from stead.client.flavor import Flavor
from stead.client.headroom import Headroom, MixHeadroom
from stead.client.what_if import WhatIf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stead.client.request import Request
    from stead.client.what_if import Move, PlannedChange


class Capacity(Connection):
    """The part of a site that counts, and plans."""

    def headroom(self, request: Request) -> Headroom:
        """How many times *request* can be claimed until nothing fits, where, and what runs out first."""
        reply = self._calling.send(calls.headroom(request))
        return Headroom(reply.json()["headroom"], is_complete="stead-incomplete" not in reply.headers)

    def headroom_of_mix(self, mix: Mapping[str, int]) -> MixHeadroom:
        """How many times several flavors fit together.

        Args:
            mix: by name of the flavor, how many times one mix contains it.
        """
        reply = self._calling.send(calls.headroom_of_mix(mix))
        return MixHeadroom(reply.json()["headroom"], is_complete="stead-incomplete" not in reply.headers)

    def flavors(self, *, headroom: bool = False) -> Iterator[Flavor]:
        """All flavors, ordered by the bytes of their names, read in pages.

        Args:
            headroom: also count how many times each fits.
        """
        for body in self._calling.pages(calls.flavors(headroom=headroom)):
            for record in body["flavors"]:
                yield Flavor.of(record)

    def flavor(self, name: str) -> Flavor:
        """One flavor, without its headroom.

        Raises:
            NotFound: it does not exist.
        """
        return Flavor.of((self._calling.send(calls.flavor(name))).json())

    def put_flavor(self, name: str, request: Request, description: str = "") -> Flavor:
        """Store *request* under a name, or replace what is stored under it. ``Request(flavor=name)`` requests it.

        Args:
            name: letters, digits and ``_ . : + -``; it begins with a letter or a digit.
            request: without a limit.
            description: one line for people.
        """
        call = calls.put_flavor(name, str(request), description)
        return Flavor.of((self._calling.send(call)).json())

    def delete_flavor(self, name: str) -> None:
        """Delete a flavor. Claims that were made with it stay.

        Raises:
            NotFound: it does not exist.
        """
        self._calling.send(calls.delete_flavor(name))

    def what_if(
        self,
        *changes: PlannedChange,
        candidates: Request | None = None,
        explain: Request | None = None,
        headroom: Request | None = None,
        totals: bool = False,
    ) -> WhatIf:
        """What *changes* would lead to, and the answers to questions after them. Nothing is written.

        Args:
            changes: :class:`Drain`, :class:`Disable`, :class:`Copy`, :class:`SetInventory`, :class:`RemoveInventory`,
                :class:`AddTrait`, :class:`RemoveTrait`, :class:`DeleteAggregate`. They apply in their order.
            candidates, explain, headroom: requests. The answer has what the methods of these names return.
            totals: sum the inventories of all providers by class.

        Raises:
            NotFound: a provider or an aggregate does not exist.
            Invalid: a change is impossible, or contradicts another one.
        """
        questions = {"candidates": candidates, "explain": explain, "headroom": headroom}
        ask = {name: str(request) for name, request in questions.items() if request is not None}
        call = calls.what_if([change.record() for change in changes], {**ask, **({"totals": True} if totals else {})})
        reply = self._calling.send(call)
        return WhatIf(reply.json(), is_complete="stead-incomplete" not in reply.headers)

    def advice(
        self, request: Request, make_room_for: int = 1, *, same_traits: bool = False, same_aggregates: bool = False
    ) -> Advice:
        """The fewest consumers to move, and their new places, so that *request* fits. Nothing is written.

        Args:
            make_room_for: how many times it must fit.
            same_traits: a new provider has all traits of the one that it replaces.
            same_aggregates: the new root shares an aggregate with the old one.
        """
        call = calls.advice(request, make_room_for, same_traits=same_traits, same_aggregates=same_aggregates)
        reply = self._calling.send(call)
        return Advice(reply.json()["advice"], is_complete="stead-incomplete" not in reply.headers)

    def move(self, move: Move) -> Claim:
        """Make a move of :meth:`what_if` or :meth:`advice`: the consumer has its old place or the new one.

        Raises:
            Stale: the consumer was changed meanwhile.
            Conflict: the new place has no room any more, or is disabled.
        """
        try:
            self._calling.send(calls.hold(move.consumer, move.record()))
        except Stale:
            # An earlier attempt may have been done although its response was lost.
            claim = self._claim_of(move)
            # This move alone raises the generation by one. With another number, another client wrote, too.
            if claim.allocations == move.allocations and claim.generation == move.generation + 1:
                return claim
            raise
        return self._claim_of(move)

    def _claim_of(self, move: Move) -> Claim:
        record = (self._calling.send(calls.allocations(move.consumer))).json()
        owner = {"project_id": move.project, "user_id": move.user, "consumer_type": move.type}
        return Claim(self._calling, {**owner, "consumer_generation": None, **record, "consumer_uuid": move.consumer})
