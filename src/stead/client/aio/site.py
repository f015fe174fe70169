"""A site: the providers of a deployment, and what schedulers do with them."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from os import getpid
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from stead.client import BY_NAME, calls
from stead.client.aio.renewing import MOST, Keeper, Renewal, lose
from stead.client.aio.running import in_parallel, sleep
from stead.client.aio.transport import MOST_NAMES, Calling, Connection, Tokens
from stead.client.consumers import DEFAULT_TYPE, UNKNOWN_TYPE, names_of_gang, uuid_of
from stead.client.errors import (
    InUse,
    Invalid,
    InvalidRequest,
    LeaseLost,
    NoPlace,
    NotAllowed,
    NotFound,
    NothingFits,
    NothingFound,
    Refused,
    Stale,
    StartOver,
    Unavailable,
    Unsupported,
)
from stead.client.provider import (
    CONSUMER,
    Change,
    Changes,
    Consumer,
    Inventory,
    Place,
    Provider,
    Tree,
    Usage,
    changes_of,
    disabled_of,
    parents_first,
    shown_amounts,
)
from stead.client.request import provider as reference_to
from stead.client.times import elapsed, moment, seconds_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from typing import Self

    from stead.client.aio.running import Event
    from stead.client.aio.transport import TokenSource, Transport
    from stead.client.calls import Json
    from stead.client.candidate import Candidate, Candidates, Explanation
    from stead.client.description import Applied, Node
    from stead.client.headroom import Flavor, Headroom, Mix, MixHeadroom, Stranded
    from stead.client.provider import Disabled
    from stead.client.request import RequestLike
    from stead.client.what_if import Advice, Improvement, Move, PlannedChange, WhatIf


OnExpiry = Literal["release", "mark"]

_log = logging.getLogger(__name__)


# What fits on a site: headroom, flavors, and what planned changes would lead to.


class Capacity(Connection):
    """The part of a site that counts, and plans."""

    async def headroom(self, request: RequestLike) -> Headroom:
        """How many times *request* can be claimed until nothing fits, where, and what runs out first."""
        from stead.client.headroom import Headroom

        reply = await self._calling.send(calls.headroom(request))
        return Headroom(reply.json()["headroom"], is_complete="stead-incomplete" not in reply.headers)

    async def headroom_of_mix(self, mix: Mapping[str, int] | str, request: RequestLike | None = None) -> MixHeadroom:
        """How many times several flavors fit together.

        Args:
            mix: by name of the flavor, how many times one mix contains it; or the same as ``m1.small:3,m1.large:1``.
            request: further constraints for all of them.
        """
        from stead.client.headroom import MixHeadroom

        reply = await self._calling.send(calls.headroom_of_mix(mix, request))
        return MixHeadroom(reply.json()["headroom"], is_complete="stead-incomplete" not in reply.headers)

    async def stranded(self) -> Stranded:
        """What is free of each class that the site's mix of flavors takes, and how much of it the mix cannot use."""
        from stead.client.headroom import Stranded

        reply = await self._calling.send(calls.stranded())
        return Stranded(reply.json()["headroom"], is_complete="stead-incomplete" not in reply.headers)

    async def flavors(self, *, headroom: bool = False, weights: bool = False) -> AsyncIterator[Flavor]:
        """All flavors, ordered by the bytes of their names, read in pages.

        Args:
            headroom: also count how many times each fits.
            weights: with their weights, which a server before Stead 1.2 does not have.
        """
        from stead.client.headroom import Flavor

        async for body in self._calling.pages(calls.flavors(headroom=headroom, weights=weights)):
            for record in body["flavors"]:
                yield Flavor.of(record)

    async def flavor(self, name: str, *, weight: bool = False) -> Flavor:
        """One flavor, without its headroom.

        Args:
            name: of the flavor.
            weight: with its weight, which a server before Stead 1.2 does not have.

        Raises:
            NotFound: it does not exist.
        """
        from stead.client.headroom import Flavor

        return Flavor.of((await self._calling.send(calls.flavor(name, weight=weight))).json())

    async def put_flavor(
        self, name: str, request: RequestLike, description: str = "", *, weight: float | None = None
    ) -> Flavor:
        """Store *request* under a name, or replace what is stored under it. ``Request(flavor=name)`` requests it.

        Args:
            name: letters, digits and ``_ . : + -``; it begins with a letter or a digit.
            request: without a limit.
            description: one line for people.
            weight: how often it is asked for, in proportion to the others, for the order ``headroom``. Without one, a
                flavor keeps what it has.
        """
        from stead.client.headroom import Flavor

        call = calls.put_flavor(name, calls.query_of(request), description, weight)
        return Flavor.of((await self._calling.send(call)).json())

    async def delete_flavor(self, name: str) -> None:
        """Delete a flavor. Claims that were made with it stay.

        Raises:
            NotFound: it does not exist.
        """
        await self._calling.send(calls.delete_flavor(name))

    async def mix(self) -> Mix:
        """The requests that the site is to serve, from the weights of flavors or learned."""
        from stead.client.headroom import Mix

        return Mix.of((await self._calling.send(calls.mix())).json()["mix"])

    async def forget_mix(self) -> None:
        """Forget what was learned of the mix. Flavors and their weights stay."""
        await self._calling.send(calls.forget_mix())

    async def what_if(
        self,
        *changes: PlannedChange,
        candidates: RequestLike | None = None,
        explain: RequestLike | None = None,
        headroom: RequestLike | None = None,
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
        from stead.client.what_if import WhatIf

        questions = {"candidates": candidates, "explain": explain, "headroom": headroom}
        ask = {name: calls.query_of(request) for name, request in questions.items() if request is not None}
        call = calls.what_if([change.record() for change in changes], {**ask, **({"totals": True} if totals else {})})
        reply = await self._calling.send(call)
        return WhatIf(reply.json(), is_complete="stead-incomplete" not in reply.headers)

    async def advice(
        self,
        request: RequestLike,
        make_room_for: int = 1,
        *,
        same_traits: bool = False,
        same_aggregates: bool = False,
    ) -> Advice:
        """The fewest consumers to move, and their new places, so that *request* fits. Nothing is written.

        Args:
            make_room_for: how many times it must fit.
            same_traits: a new provider has all traits of the one that it replaces.
            same_aggregates: the new root shares an aggregate with the old one.
        """
        from stead.client.what_if import Advice

        call = calls.advice(request, make_room_for, same_traits=same_traits, same_aggregates=same_aggregates)
        reply = await self._calling.send(call)
        return Advice(reply.json()["advice"], is_complete="stead-incomplete" not in reply.headers)

    async def improvement(
        self, moves: int = 10, *, same_traits: bool = False, same_aggregates: bool = False
    ) -> Improvement:
        """The consumers to move, and their new places, so that the site has the most room for its mix of flavors.

        Nothing is written. Each move is the best one after those before it.

        Args:
            moves: at most this number; fewer if no other raises the value of the site.
            same_traits: a new provider has all traits of the one that it replaces.
            same_aggregates: the new root shares an aggregate with the old one.
        """
        from stead.client.what_if import Improvement

        call = calls.improvement(moves, same_traits=same_traits, same_aggregates=same_aggregates)
        reply = await self._calling.send(call)
        return Improvement(reply.json()["advice"], is_complete="stead-incomplete" not in reply.headers)

    async def move(self, move: Move) -> Claim:
        """Make a move of :meth:`what_if` or :meth:`advice`: the consumer has its old place or the new one.

        Raises:
            Stale: the consumer was changed meanwhile.
            Conflict: the new place has no room any more, or is disabled.
        """
        return await self._hold(move.consumer, move.record())

    async def _hold(self, consumer: str, record: Json) -> Claim:
        """Give *consumer* exactly the allocations of *record*, the body of PUT ``/allocations/{consumer}``."""
        try:
            await self._calling.send(calls.hold(consumer, record))
        except Stale:
            # An earlier attempt may have been done although its response was lost.
            claim = await self._claim_of(consumer, record)
            # This write alone raises the generation by one. With another number, another client wrote, too.
            if claim.allocations == _amounts(record) and calls.is_next(record["consumer_generation"], claim.generation):
                return claim
            raise
        return await self._claim_of(consumer, record)

    async def _claim_of(self, consumer: str, owner: Json) -> Claim:
        record = await self._calling.allocations_of(consumer)
        return Claim(self._calling, {**owner, "consumer_generation": None, **record, "consumer_uuid": consumer})


_UNKNOWN_CUSTOM = re.compile(r"unknown (?:resource class|trait) CUSTOM_")
_GENERATION = "consumer generation conflict"
"""In the detail of a refusal that is not a lost race, so that repeating it is no use."""


class Site(Capacity):
    """A Stead server or, in this process, Stead itself. Make one with ``connect`` or ``open``.

    Close it, or use it as a context manager. Any number of tasks or threads may use it at the same time. Every method
    that sends something raises :class:`~stead.client.errors.Refused` if the server refuses it.

    Every method that takes a request also accepts a :class:`Group`, amounts by resource class (``{"VCPU": 2}``), or a
    text: a query of GET ``/allocation_candidates``, or a URL with one.
    """

    def __init__(
        self,
        transport: Transport,
        token: TokenSource | None,
        *,
        project: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        retry: bool = True,
    ) -> None:
        """Over *transport*. For the other arguments see ``stead.connect``."""
        super().__init__(Calling(transport, Tokens(token), timeout, retry=retry))
        self._names = Names(self._calling)
        self._keeper = Keeper(self._calling)
        self._project = project
        self._user = user

    async def close(self) -> None:
        """End the connections, or Stead in this process. Claims remain. Later calls raise :class:`SiteClosed`."""
        await self._keeper.stop()
        await super().close()

    # Places

    async def candidates(self, request: RequestLike, *, limit: int | None = None) -> Candidates:
        """The ways to serve *request*, best first if it has an order; up to *limit*."""
        from stead.client.candidate import Candidates

        reply = await self._calling.send(calls.candidates(request, limit))
        is_complete = "stead-incomplete" not in reply.headers
        return Candidates.of(reply.json(), is_complete=is_complete, names=self._calling.names)

    async def wait_for_room(self, request: RequestLike, *, timeout: float | None = None) -> Candidates:
        """Wait until *request* has a candidate, and return it. Another client may claim it first.

        ``claim(…, wait=)`` waits and claims. This is for programs that do something else with the room.

        Args:
            timeout: seconds; None waits as long as it takes.

        Raises:
            NothingFits: there was no place until then.
            NothingFound: the search for one reached its limit.
        """
        until = inf if timeout is None else monotonic() + timeout
        token: str | None = None
        while True:
            is_last = monotonic() >= until
            candidates = await self.candidates(request, limit=1)
            if candidates:
                return candidates
            if is_last:
                raise await self._no_place(request, is_complete=candidates.is_complete)
            token = await wait_for_change(self._calling, token, min(max(until - monotonic(), 0.0), LONGEST_SECONDS))

    async def _no_place(self, request: RequestLike, *, is_complete: bool) -> NoPlace:
        kind = NothingFits if is_complete else NothingFound
        try:
            explanation = await self.explain(request)
        except (NotAllowed, Unsupported):
            return kind(0, "the request has no candidates")
        error = kind(0, explanation.summary)
        error.facts = {"explanation": explanation.document}
        return error

    async def explain(self, request: RequestLike) -> Explanation:
        """What each constraint of *request* removes, and which single change would help."""
        from stead.client.candidate import Explanation

        return Explanation((await self._calling.send(calls.explain(request))).json())

    # Claims

    async def claim(
        self,
        request: RequestLike,
        consumer: str | UUID | Claim | None = None,
        *,
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
        wait: float = 0.0,
        explain: bool = True,
        lease: float | timedelta | datetime | None = None,
        on_expiry: OnExpiry = "release",
    ) -> Claim:
        """Find the best place for *request* and claim it, in one step.

        May be repeated after a crash: the same consumer with the same request gets the claim that it has.

        Args:
            consumer: a name, from which a uuid is made, or a uuid; a random uuid if it is missing. With a claim, its
                consumer gets the place instead of what it has, which counts as free.
            project, user: the owner; those of the site if missing. The user is the project if there is none.
            type: ``INSTANCE`` if missing; with a claim, that of its consumer.
            wait: seconds to wait for room if nothing fits.
            explain: whether the error has an explanation, which costs the server more than the search.
            lease: when the claim ends by itself: seconds or a span from now, or a time with a zone. None: never, or
                when the claim that is replaced ends. :meth:`hold` renews it, and so does :meth:`renew`.
            on_expiry: what happens then: ``release``, or ``mark``: the consumer keeps all, and is listed as overdue.

        Raises:
            NothingFits: there is no place.
            NothingFound: the search for one reached its limit.
            Stale: the consumer has another claim already. The error says which, and has it as ``holding``.
        """
        (claim,) = await self.claim_all(
            [request],
            consumer,
            project=project,
            user=user,
            type=type,
            wait=wait,
            explain=explain,
            lease=lease,
            on_expiry=on_expiry,
        )
        return claim

    def hold(
        self,
        request: RequestLike,
        consumer: str | UUID | Claim | None = None,
        *,
        lease: float | timedelta = 30,
        on_expiry: OnExpiry = "release",
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
        wait: float = 0.0,
        explain: bool = True,
    ) -> Hold:
        """Claim a place as :meth:`claim` does, renew its lease while the block runs, and release it at the end.

        If this process dies or loses the server, the claim ends when its lease does. One thread, or task, renews all
        holds of a site together, each after a third of its time, and repeats that until the lease ends.

        If the lease ends, or if another client releases the claim, the event ``claim.lost`` is set. Then
        ``claim.check()`` raises :class:`~stead.client.errors.LeaseLost`, and so does the end of the block. It is set at
        the latest when the time of the last renewal is over, by the clock of this process, so another client has the
        place only after that. Nothing interrupts the block: check, or wait for the event elsewhere.

        The same consumer with the same request gets the claim that it has, also one that another process holds. So use
        a name for one process at a time.

        Args:
            request, consumer, project, user, type, wait, explain: as of :meth:`claim`.
            lease: seconds, or a span: for how long the claim outlives this process. 1 s or more.
            on_expiry: as of :meth:`claim`.

        Raises:
            NothingFits: there is no place.
            NothingFound: the search for one reached its limit.
            Stale: the consumer has another claim already.
            LeaseLost: at the end of the block.
            Unsupported: the server has no leases.
        """
        seconds = seconds_of(lease)
        claiming = partial(
            self.claim,
            request,
            consumer,
            project=project,
            user=user,
            type=type,
            wait=wait,
            explain=explain,
            lease=seconds,
            on_expiry=on_expiry,
        )
        return Hold(self._keeper, self._calling, claiming, seconds, may_end=on_expiry == "release")

    async def renew(
        self, consumers: Iterable[str | UUID | Claim], lease: float | timedelta
    ) -> tuple[list[str], list[str]]:
        """Let the leases of some consumers end after this time from now, in one transaction for each 10,000.

        A lease that has ended is renewed if its claim still exists. :meth:`hold` does this by itself. For a
        :class:`Claim`, a later claim of the same consumer is not renewed: the one that is given is gone.

        Returns: the uuids of the consumers that do not exist any more, and those of the consumers without an end.
        """
        seconds, gone, without_lease = seconds_of(lease), [], []
        known: dict[str, int | None] = {}
        for each in consumers:
            known.update({each.consumer: each.generation} if isinstance(each, Claim) else {uuid_of(each): None})
        uuids = list(known)
        for start in range(0, len(uuids), MOST):
            portion = dict.fromkeys(uuids[start : start + MOST], seconds)
            body = (await self._calling.send(calls.renew(portion, known))).json()
            gone += body["gone"]
            without_lease += body["without_lease"]
        return gone, without_lease

    async def claim_all(
        self,
        requests: Sequence[RequestLike],
        consumers: str | UUID | Claim | Sequence[str | UUID | Claim] | None = None,
        *,
        distinct_hosts: bool = False,
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
        wait: float = 0.0,
        explain: bool = True,
        lease: float | timedelta | datetime | None = None,
        on_expiry: OnExpiry = "release",
    ) -> list[Claim]:
        """Claim a place for each of *requests*, or for none.

        Args:
            consumers: one name or uuid for each, or one name to which ``-0``, ``-1``, … are appended. The consumer of a
                claim gets the place instead of what it has.
            distinct_hosts: no two claims are served under the same root.
            project, user, type, wait, explain: as of :meth:`claim`.
            lease, on_expiry: as of :meth:`claim`, for each consumer; each is renewed and ends on its own.

        Raises:
            NothingFits: there is no place for one of them; ``claim`` of the error is its index.
            NothingFound: the search for places reached its limit.
            Stale: a consumer has another claim already.
        """
        gang = _gang(consumers, len(requests))
        end = {} if lease is None else calls.lease_of(lease, on_expiry)
        records = [
            {
                "consumer_uuid": uuid_of(name),
                "query": calls.query_of(request),
                **self._owner(before, project, user, type),
                **end,
            }
            for (name, before), request in zip(gang, requests, strict=True)
        ]
        try:
            answer = await self._claimed(records, requests, distinct_hosts=distinct_hosts, wait=wait, explain=explain)
        except NoPlace as error:
            error.consumer = str(gang[error.claim][0])
            raise
        except Stale as error:
            if _GENERATION in error.detail:
                await self._say_which(error, gang)
            raise
        return [
            Claim(
                self._calling,
                {**record, **place},
                None if name == record["consumer_uuid"] else name,
                tries=answer.get("tries", 1),
            )
            for (name, _), record, place in zip(gang, records, answer["claims"], strict=True)
        ]

    async def _say_which(self, error: Stale, gang: list[tuple[str, Claim | None]]) -> None:
        """Let *error* name the first consumer of *gang* that has not what the claim expected."""
        with suppress(Refused):
            for name, before in gang:
                current = await self.find(name)
                generation = None if current is None else current.generation
                if generation != (None if before is None else before.generation):
                    await tell_stale(error, self._calling, name, current, was_read=before is not None)
                    return

    async def _claimed(
        self,
        records: list[Json],
        requests: Sequence[RequestLike],
        *,
        distinct_hosts: bool,
        wait: float,
        explain: bool,
    ) -> Json:
        until = monotonic() + wait
        token: str | None = None
        while True:
            is_last = monotonic() >= until
            # Only the last attempt asks for an explanation, because that costs the server more than the search.
            call = calls.claim(records, requests, distinct_roots=distinct_hosts, explain=explain and is_last)
            try:
                answer: Json = (await self._calling.send(call)).json()
            except (NoPlace, Stale) as error:
                if is_last or (isinstance(error, Stale) and _GENERATION in error.detail):
                    raise
                token = await wait_for_change(self._calling, token, max(until - monotonic(), 0.0))
            else:
                return answer

    async def allocate(
        self,
        candidate: Candidate,
        consumer: str | UUID | Claim | None = None,
        *,
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
        lease: float | timedelta | datetime | None = None,
        on_expiry: OnExpiry = "release",
    ) -> Claim:
        """Claim exactly *candidate*, for programs that choose by themselves. OpenStack Placement has this, too.

        Args:
            consumer, project, user, type, lease, on_expiry: as of :meth:`claim`; OpenStack Placement has no leases.

        Raises:
            Conflict: another client claimed the place first.
            Stale: the consumer has another claim already, or was changed.
        """
        ((name, before),) = _gang(consumer, 1)
        end = {} if lease is None else calls.lease_of(lease, on_expiry)
        record = {**candidate.record(), **self._owner(before, project, user, type), **end}
        try:
            claim = await self._hold(uuid_of(name), record)
        except Invalid as error:
            # OpenStack Placement reads no version of Stead, so it sees fields that it does not know.
            if lease is not None and "'on_expiry'" in error.detail:
                raise Unsupported(error.status, f"a lease requires Stead {calls.LEASES}: {error.detail}") from None
            raise
        except Stale as error:
            if _GENERATION in error.detail:
                await self._say_which(error, [(name, before)])
            raise
        claim.name = None if name == claim.consumer else name
        return claim

    def _owner(self, before: Claim | None, project: str | None, user: str | None, kind: str | None) -> Json:
        """The fields of a claim about its consumer, which has *before*."""
        project = project or self._project
        if project is None:
            raise InvalidRequest("a claim needs a project: claim(…, project=) or connect(…, project=)")
        return {
            "project_id": project,
            "user_id": user or self._user or project,
            "consumer_type": kind or (DEFAULT_TYPE if before is None else before.type),
            "consumer_generation": None if before is None else before.generation,
        }

    async def find(self, consumer: str | UUID | Claim) -> Claim | None:
        """The claim of a consumer, by name or uuid; None if it has none.

        A claim stands for its consumer, so this reads it again, or connects one that was unpickled.
        """
        if isinstance(consumer, Claim):
            consumer = consumer.name or consumer.consumer
        uuid = uuid_of(consumer)
        record = await self._calling.allocations_of(uuid)
        if not record["allocations"]:
            return None
        name = str(consumer)
        return Claim(self._calling, {**record, "consumer_uuid": uuid}, None if name.lower() == uuid else name)

    async def claims(
        self,
        *,
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
        provider: str | UUID | None = None,
        in_tree: str | UUID | None = None,
        expires_before: datetime | timedelta | str | None = None,
    ) -> AsyncIterator[Claim]:
        """The claims of all consumers that pass the filters, ordered by uuid. Mappings are not known.

        OpenStack Placement lists only the consumers of a provider or a tree, for which it needs many calls.

        Args:
            project, user, type: of the consumer.
            provider: the name or uuid of a provider from which it has allocations.
            in_tree: the same for any provider of this provider's tree: who is on a host.
            expires_before: whose lease ends, or ended, before this time: as ``until`` of :meth:`disable`.
        """
        before = None if expires_before is None else moment(expires_before)
        filtered = calls.consumers(project, user, type, reference_to(provider), reference_to(in_tree), before)
        is_begun = False
        try:
            async for body in self._calling.pages(*filtered):
                is_begun = True
                for record in body["consumers"]:
                    yield Claim(self._calling, {**record, "consumer_uuid": record["uuid"]})
        except Unsupported:
            if is_begun or before is not None or provider is in_tree is None:
                raise
            async for claim in self._claims_by_provider(provider, in_tree):
                if (project or claim.project, user or claim.user, type or claim.type) == (
                    claim.project,
                    claim.user,
                    claim.type,
                ):
                    yield claim

    async def _claims_by_provider(
        self, provider: str | UUID | None, in_tree: str | UUID | None
    ) -> AsyncIterator[Claim]:
        """The claims of the consumers of one provider or of a tree, from a server that cannot list consumers."""
        providers = [await self.provider(provider)] if provider is not None else await self.tree(str(in_tree))
        used = [each.uuid for each in providers if any((each.usages or {}).values())]
        consumers: set[str] = set()
        async for allocations in in_parallel(self.allocations, used):
            consumers.update(allocations)
        async for claim in in_parallel(self.find, sorted(consumers)):
            if claim is not None:
                yield claim

    async def release(self, consumer: str | UUID | Claim) -> None:
        """Release everything of a consumer, by name or uuid, whatever it has. :meth:`Claim.release` checks that first.

        Raises:
            NotFound: it has no allocations.
        """
        uuid = consumer.consumer if isinstance(consumer, Claim) else uuid_of(consumer)
        await self._calling.send(calls.release_whatever(uuid))

    async def release_all(
        self,
        *,
        project: str | None = None,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
    ) -> int:
        """Release the claims of all consumers with this project, user and type; the number of consumers.

        Raises:
            InvalidRequest: neither a project nor a user is given.
        """
        if project is None and user is None:
            raise InvalidRequest("release_all needs a project or a user")
        released = 0
        async for claim in self.claims(project=project, user=user, type=type):
            current: Claim | None = claim
            while current is not None and current.allocations:
                try:
                    await current.release()
                    released += 1
                except Stale:
                    current = await self.find(claim.consumer)
                    # Another client may have given the consumer to an owner that was not asked for.
                    if current is not None and (
                        project not in (None, current.project)
                        or user not in (None, current.user)
                        or (type is not None and current.type != claim.type)
                    ):
                        break
        return released

    # Providers

    async def provider(self, provider: str | UUID) -> Provider:
        """A provider with everything that is stored about it, by name or uuid.

        Raises:
            NotFound: it does not exist.
        """
        return _named_in(await self.tree(provider), provider)

    async def providers(self, **filters: Any) -> AsyncIterator[Provider]:
        """The providers that pass *filters*, ordered by uuid, read in pages. Inventories are not read.

        Args:
            filters: parameters of GET ``/resource_providers``: ``name``, ``required``, ``member_of``, ``resources``,
                ``in_tree``, ``in_subtree``.
        """
        async for body in self._calling.pages(calls.providers(filters), calls.all_providers(filters)):
            self._calling.note_names((record["uuid"], record["name"]) for record in body["resource_providers"])
            for record in body["resource_providers"]:
                yield Provider.listed(record)

    async def tree(self, provider: str | UUID) -> Tree:
        """The whole tree of a provider, by name or uuid.

        Raises:
            NotFound: the provider does not exist.
        """
        async for tree in self.trees(in_tree=reference_to(provider)):
            return tree
        raise NotFound(404, f"no resource provider {provider}")

    async def trees(self, **filters: Any) -> AsyncIterator[Tree]:
        """The trees that pass *filters*, ordered by the uuid of their root, read in pages.

        From OpenStack Placement, they are read provider by provider, with no filter but ``in_tree``. A provider that is
        deleted meanwhile has no inventories then.

        Args:
            filters: parameters of GET ``/provider_trees``: ``name``, ``required``, ``member_of``, ``resources``,
                ``root_required``, ``root_member_of``, ``in_tree``; ``limit`` for the trees in one page; and ``depth``,
                ``totals`` and ``fields``, with which the trees have less or more.
        """
        is_begun = False
        try:
            async for body in self._calling.pages(calls.trees(filters)):
                is_begun = True
                for record in body["provider_trees"]:
                    tree = Tree.of(record)
                    self._calling.note_names((provider.uuid, provider.name) for provider in tree)
                    yield tree
        except Unsupported:
            if is_begun or not filters.keys() <= {"in_tree"}:
                raise
            async for tree in self._trees_by_provider(filters.get("in_tree")):
                yield tree

    async def _trees_by_provider(self, in_tree: str | None) -> AsyncIterator[Tree]:
        if in_tree is not None and in_tree.startswith(BY_NAME):
            named = calls.all_providers({"name": in_tree.removeprefix(BY_NAME)})
            listed = (await self._calling.send(named)).json()["resource_providers"]
            if not listed:
                return
            in_tree = listed[0]["uuid"]
        body = (await self._calling.send(calls.all_providers({"in_tree": in_tree}))).json()
        providers: list[Provider] = []
        async for provider in in_parallel(self._read, parents_first(body["resource_providers"])):
            if providers and provider.root != providers[0].root:
                yield Tree(tuple(providers), len(providers))
                providers = []
            providers.append(provider)
        if providers:
            yield Tree(tuple(providers), len(providers))

    async def _read(self, record: Json) -> Provider:
        """The provider of an entry of GET ``/resource_providers``, with all its parts."""
        parts: Json = {}
        for part in ("inventories", "usages", "traits", "aggregates"):
            if part == "usages" and not parts["inventories"]["inventories"]:
                parts[part] = {**parts["inventories"], "usages": {}}
                continue
            try:
                parts[part] = (await self._calling.send(calls.part_of_provider(record["uuid"], part))).json()
            except NotFound:  # another client deleted it after it was listed
                return Provider.listed(record)
        return Provider(
            record["uuid"],
            record["name"],
            # The oldest one: if the provider changed between two reads, the server refuses a write with it.
            min(record["generation"], *(part["resource_provider_generation"] for part in parts.values())),
            record["parent_provider_uuid"],
            record["root_provider_uuid"],
            {name: Inventory.of(each) for name, each in parts["inventories"]["inventories"].items()},
            parts["usages"]["usages"],
            frozenset(parts["traits"]["traits"]),
            frozenset(parts["aggregates"]["aggregates"]),
        )

    async def apply(
        self,
        described: Node | Tree | Json | Iterable[Node | Tree | Json],
        *,
        exact: bool = False,
        prune: bool = False,
        keep_used: bool = False,
        allow_overcommit: bool = False,
        create_names: bool = False,
        dry_run: bool = False,
    ) -> Applied:
        """Create and change providers as *described*, in one transaction: all of it, or nothing.

        Parts that *described* lacks stay, as with ``stead topology apply``; *exact* and *prune* remove them.

        Args:
            described: nodes, trees that were read before, or the body of PUT ``/provider_trees``.
            exact: remove inventories, traits and aggregates that a described provider lacks, of each kind that it
                describes.
            prune: as *exact*, and delete providers that are not described, in each tree whose root is.
            keep_used: leave what has allocations instead of failing.
            allow_overcommit: accept capacities below what is allocated.
            create_names: create unknown resource classes and traits that begin with ``CUSTOM_``.
            dry_run: change nothing, and return what would change.

        Raises:
            Stale: a tree that was read changed meanwhile.
            Conflict: something to be removed has allocations, or a name is taken.
        """
        from stead.client.description import Applied, document

        options = {
            "exact": exact,
            "prune": prune,
            "keep_used": keep_used,
            "allow_overcommit": allow_overcommit,
            "create_names": create_names,
            "dry_run": dry_run,
        }
        try:
            reply = await self._calling.send(calls.apply(document(described), options))
        except Invalid as error:
            if _UNKNOWN_CUSTOM.search(error.detail) and not create_names:
                raise error.worded(f"{error.detail}; apply(…, create_names=True) creates it") from None
            raise
        applied = Applied(reply.json())
        self._calling.note_names((uuid, name) for name, uuid in applied.uuids.items())
        return applied

    async def disable(
        self, provider: str | UUID, reason: str, *, until: datetime | timedelta | str | None = None
    ) -> Disabled:
        """Disable a provider and all below it: they accept no new allocations. Existing ones stay.

        Args:
            provider: its name or uuid.
            reason: one line that users and operators see.
            until: when it is enabled again: a time with a zone, or a span from now; or a text of either:
                ``2031-01-01T00:00:00Z``, ``30m``, ``12h``, ``7d``.

        Raises:
            InvalidRequest: *until* is none of these.
        """
        time = None if until is None else moment(until)
        state = await self._set_disabled(provider, {"reason": reason, "until": time})
        assert state is not None
        return state

    async def enable(self, provider: str | UUID) -> None:
        """End what :meth:`disable` began."""
        await self._set_disabled(provider, None)

    async def _set_disabled(self, provider: str | UUID, state: Json | None) -> Disabled | None:
        return disabled_of((await self._calling.send(calls.disable(await self._uuid_of(provider), state))).json())

    async def _uuid_of(self, provider: str | UUID) -> str:
        reference = str(reference_to(provider))
        # A path cannot have a name that contains a slash, so the uuid is read first.
        return (await self.provider(provider)).uuid if reference.startswith(BY_NAME) else reference

    async def delete(self, provider: str | UUID) -> None:
        """Delete a provider, by name or uuid, and all below it, such as a host with its devices.

        Disable it first if other clients claim: one that claims meanwhile stops this half way.

        Raises:
            NotFound: it does not exist.
            InUse: it has allocations, or one below it has some. None was deleted.
        """
        tree = await self.tree(provider)
        doomed = tree.below(_named_in(tree, provider))
        for each in doomed:
            if any((each.usages or {}).values()):
                raise InUse(0, f"{each.name} has allocations: {shown_amounts(each.usages or {})}")
        for each in reversed(doomed):
            await self._calling.send(calls.delete_provider(each.uuid))

    async def delete_provider(self, provider: str | UUID) -> None:
        """Delete a provider, by name or uuid, that has no providers below it and no allocations.

        Raises:
            NotFound: it does not exist.
            Conflict: it has providers below it, or allocations.
        """
        await self._calling.send(calls.delete_provider(await self._uuid_of(provider)))

    async def allocations(self, provider: str | UUID) -> dict[str, dict[str, int]]:
        """What each consumer has of a provider, by name or uuid: amounts by class, by the consumer's uuid."""
        call = calls.part_of_provider(await self._uuid_of(provider), "allocations")
        return _amounts((await self._calling.send(call)).json())

    async def traits(self, prefix: str = "") -> list[str]:
        """The names of all traits that begin with *prefix*."""
        names: list[str] = (await self._calling.send(calls.traits(prefix))).json()["traits"]
        return names

    async def resource_classes(self) -> list[str]:
        """The names of all resource classes."""
        body = (await self._calling.send(calls.resource_classes())).json()
        return [record["name"] for record in body["resource_classes"]]

    async def names(self, providers: Consumer | Candidate | Iterable[str]) -> dict[str, str]:
        """Names by uuid of the providers of a claim or candidate, or of some uuids. Cached for a second."""
        uuids: Iterable[str] = getattr(providers, "allocations", providers)  # type: ignore[arg-type]  # an object with allocations, or uuids
        return await self._names.of(uuids)

    async def places(self, providers: Consumer | Candidate | Iterable[str]) -> dict[str, Place]:
        """As :meth:`names`, with the name of the root of each provider's tree: the host."""
        uuids: Iterable[str] = getattr(providers, "allocations", providers)  # type: ignore[arg-type]  # an object with allocations, or uuids
        return await self._names.places_of(uuids)

    async def usages(
        self,
        project: str | None = None,
        *,
        user: str | None = None,
        type: str | None = None,  # noqa: A002  # the name of the API's consumer_type
    ) -> dict[str, Usage]:
        """What a project uses, by consumer type; the site's project if it is missing."""
        project = project or self._project
        if project is None:
            raise InvalidRequest("usages needs a project: usages(project) or connect(…, project=)")
        usages = (await self._calling.send(calls.usages(project, user, type))).json()["usages"]
        return {kind: Usage(kind, record.pop("consumer_count"), record) for kind, record in usages.items()}

    # Changes

    async def changes(self, since: str | None = None, *, wait: int = 0) -> Changes:
        """What changed after the token *since*, as soon as something did; without a token only that of now.

        :meth:`watch` calls this again and again, also after a restart of the server.

        Args:
            wait: seconds to wait for a change.

        Raises:
            StartOver: the changes after the token are not available any more.
        """
        return Changes(await self._calling.changes(since, wait, wait + self._calling.timeout), since or "")

    def watch(
        self, *, project: str | None = None, since: str | None = None, heartbeat: float = 15.0
    ) -> AsyncIterator[Change]:
        """What changes from now on, or after the token *since*, without gaps. It resumes by itself after restarts.

        Args:
            project: only consumers of this project.
            heartbeat: seconds without a change after which a change of the kind ``heartbeat`` is returned.
        """
        changes = watch(self._calling, since, heartbeat)
        return changes if project is None else of_project(changes, self._calling, project)


# A claim: what one consumer has, and what can be done with it.


class Claim(Consumer):
    """What one consumer has on a site. :meth:`move` and :meth:`release` change it there and here.

    As a context manager, it is released at the end, also if an operator moved it meanwhile. A claim can be pickled. It
    has no site then: :meth:`Site.find` connects it again.

    Attributes:
        document: the record of which it was made, with the fields of GET ``/allocations`` or ``/consumers``.
        tries: how often the server tried to claim it; 1 if it was read.
    """

    __slots__ = ("_calling", "document", "tries")

    def __init__(self, calling: Calling, record: Json, name: str | None = None, *, tries: int = 1) -> None:
        """That of a *record* with the fields of GET ``/allocations`` and ``consumer_uuid``."""
        created, ends = record.get("created_at"), record.get("expires_at")
        super().__init__(
            consumer=record["consumer_uuid"],
            project=record["project_id"],
            user=record["user_id"],
            type=record.get("consumer_type", UNKNOWN_TYPE),
            generation=record["consumer_generation"],
            allocations=_amounts(record),
            mappings=record.get("mappings", {}),
            name=name,
            created_at=None if created is None else datetime.fromisoformat(created),
            expires_at=None if ends is None else datetime.fromisoformat(ends),
            on_expiry=record.get("on_expiry"),
            _names=calling.names,
        )
        self._calling: Calling | None = calling
        self.document = record
        self.tries = tries

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        # Without the connection, and with the few names that this claim shows.
        slots = (*Consumer.__slots__, *Claim.__slots__)
        values = {name: getattr(self, name) for name in slots}
        names = {uuid: self._names[uuid] for uuid in self.allocations if uuid in self._names}
        return None, {**values, "_calling": None, "_names": names}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave(None)

    async def _leave(self, timeout: float | None) -> None:
        """Release it, also if an operator moved it meanwhile."""
        try:
            await Claim.release(self, timeout=timeout)
        except Stale as error:
            # A move raises the generation. A claim that another client made under this name begins elsewhere.
            current = error.holding
            if (
                not isinstance(current, Claim)
                or current.generation == self.generation
                or not calls.is_same_claim(self.generation, current.generation)
            ):
                raise
            await Claim._leave(current, timeout)
            self.generation, self.allocations, self.mappings = None, {}, {}

    @property
    def _connected(self) -> Calling:
        if self._calling is None:
            raise InvalidRequest("a claim that was unpickled or copied has no site: use site.find(claim)")
        return self._calling

    async def move(self, request: RequestLike, *, timeout: float | None = None) -> None:
        """Claim the best candidate of *request* instead of what the consumer has, in one step.

        Its present allocations count as free. If nothing fits, it keeps them.

        Raises:
            NothingFits: there is no place.
            NothingFound: the search for one reached its limit.
            Stale: another client changed the consumer; read it again with :meth:`Site.find`.
        """
        call = calls.claim([self._record(request)], [request], distinct_roots=False, explain=True)
        try:
            (granted,) = (await self._connected.send(call, timeout)).json()["claims"]
        except NoPlace as error:
            error.consumer = self.name or self.consumer
            raise
        except Stale as error:
            if _GENERATION in error.detail:
                with suppress(Refused):
                    await self._say_now(error, await self._read(timeout))
            raise
        self.generation = granted["consumer_generation"]
        self.allocations = _amounts(granted)
        self.mappings = granted["mappings"]

    async def release(self, *, timeout: float | None = None) -> None:
        """Give everything back. Does nothing if that was done before.

        Raises:
            Stale: another client changed the consumer; read it again with :meth:`Site.find`.
        """
        if not self.allocations:
            return
        call = calls.release(self.consumer, self.project, self.user, self.type, self.generation)
        try:
            await self._connected.send(call, timeout)
        except Stale as error:
            # An earlier attempt may have been done although its response was lost.
            current = await self._read(timeout)
            if current is not None:
                with suppress(Refused):
                    await self._say_now(error, current)
                raise
        self.generation, self.allocations, self.mappings = None, {}, {}

    async def _read(self, timeout: float | None) -> Claim | None:
        """What the consumer has now."""
        calling = self._connected
        record = await calling.allocations_of(self.consumer, timeout)
        return Claim(calling, {**record, "consumer_uuid": self.consumer}, self.name) if record["allocations"] else None

    async def _say_now(self, error: Stale, current: Claim | None) -> None:
        await tell_stale(error, self._connected, self.name or self.consumer, current, was_read=True)

    def _record(self, request: RequestLike) -> Json:
        return {
            "consumer_uuid": self.consumer,
            "query": calls.query_of(request),
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type,
            "consumer_generation": self.generation,
        }


class Held(Claim):
    """A claim whose lease is renewed by this process, see :meth:`Site.hold`. A pickled or copied one is not held."""

    __slots__ = ("_keeper", "_renewal")

    def __init__(
        self, calling: Calling, record: Json, name: str | None, keeper: Keeper, renewal: Renewal, *, tries: int
    ) -> None:
        """That of a *record*, as a :class:`Claim`."""
        super().__init__(calling, record, name, tries=tries)
        self._keeper = keeper
        self._renewal = renewal

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_held, (self.__getstate__()[1],)

    @property
    def lost(self) -> Event:
        """An event, which is set when the lease has ended, or may have ended."""
        return self._renewal.lost

    def check(self) -> None:
        """Return if the claim is still held.

        Raises:
            LeaseLost: the lease has ended, or may have ended.
        """
        if self._renewal.is_lost:
            reason = self._renewal.reason or f"it could not be renewed for {self._renewal.seconds} s"
            raise LeaseLost(self.name or self.consumer, reason)

    async def release(self, *, timeout: float | None = None) -> None:
        """Give everything back before the end of the block. Does nothing if that was done before.

        Raises:
            Stale: another client changed the consumer; read it again with :meth:`Site.find`.
        """
        self._keeper.remove(self._renewal)
        try:
            await super().release(timeout=timeout)
        except Refused:
            self._keeper.add(self._renewal)
            raise

    async def move(self, request: RequestLike, *, timeout: float | None = None) -> None:
        """Claim the best candidate of *request* instead of what is held, as :meth:`Claim.move` does."""
        await super().move(request, timeout=timeout)
        self._renewal.generation = self.generation

    async def leave(self, *, is_failing: bool, may_end: bool) -> None:
        """End the block: renew no more, and release.

        Args:
            is_failing: an error ends it, which the loss of the lease must not hide.
            may_end: without a release, the claim ends by itself, so a server that is away is no error.
        """
        self._keeper.remove(self._renewal)
        if not self.allocations:
            return
        if self._renewal.is_lost:
            if not is_failing:
                self.check()
            return  # what has its name now may be the claim of another process
        try:
            await self._leave(min(self._connected.timeout, self._renewal.remaining))
        except Stale as error:
            lose(self._renewal, str(error))
            if not is_failing:
                self.check()
        except Unavailable as error:
            if not may_end:
                raise
            _log.warning("%s was not released, and ends by itself: %s", self.name or self.consumer, error)


def _not_held(values: Json) -> Claim:
    claim = Claim.__new__(Claim)
    for name, value in values.items():
        setattr(claim, name, value)
    return claim


class Hold:
    """Claims a place at the beginning of a block, and releases it at the end, see :meth:`Site.hold`."""

    def __init__(
        self, keeper: Keeper, calling: Calling, claiming: partial[Any], seconds: int, *, may_end: bool
    ) -> None:
        """Nothing is claimed yet.

        Args:
            claiming: claims it with a lease of this number of seconds.
            may_end: as of :meth:`Held.leave`.
        """
        self._keeper = keeper
        self._calling = calling
        self._claiming = claiming
        self._seconds = seconds
        self._may_end = may_end

    async def __aenter__(self) -> Held:
        while True:
            since = elapsed()
            claim: Claim = await self._claiming()
            renewal = Renewal(claim.consumer, claim.generation, self._seconds, since)
            # If an earlier attempt or process has claimed it, or after a wait, its lease began at an unknown time.
            if claim.tries and elapsed() < renewal.due:
                break
            await self._keeper.renew(renewal)
            if not renewal.lost.is_set():
                break
        self._process = getpid()
        name, tries = claim.name, claim.tries
        self._held = Held(self._calling, claim.document, name, self._keeper, renewal, tries=tries)
        self._keeper.add(renewal)
        return self._held

    async def __aexit__(self, kind: object, *_: object) -> None:
        if getpid() == self._process:  # one that was forked in the block has nothing to release
            await self._held.leave(is_failing=kind is not None, may_end=self._may_end)


def _gang(
    consumers: str | UUID | Claim | Sequence[str | UUID | Claim] | None, size: int
) -> list[tuple[str, Claim | None]]:
    """The names or uuids of the consumers of *size* claims, each with the claim that it has if that is given."""
    if isinstance(consumers, Claim):
        consumers = [consumers]
    if consumers is None or isinstance(consumers, str | UUID):
        return [(name, None) for name in names_of_gang(consumers, size)]
    replaced = [each if isinstance(each, Claim) else None for each in consumers]
    named = [each.name or each.consumer if isinstance(each, Claim) else each for each in consumers]
    return list(zip(names_of_gang(named, size), replaced, strict=True))


async def tell_stale(error: Stale, calling: Calling, name: str, current: Claim | None, *, was_read: bool) -> None:
    """Let *error* say what the consumer *name* has now, with the names of the providers."""
    error.consumer, error.holding, error.was_read = name, current, was_read
    if current is not None and not current.allocations.keys() <= calling.names.keys():
        with suppress(Refused):
            await Names(calling).of(current.allocations)


def _named_in(tree: Tree, provider: str | UUID) -> Provider:
    """The provider of *tree* with this name or uuid."""
    requested = str(provider).removeprefix(BY_NAME)
    return tree.find(requested.lower()) or tree.find(requested) or tree.root


def _amounts(record: Json) -> dict[str, dict[str, int]]:
    return {uuid: allocation["resources"] for uuid, allocation in record["allocations"].items()}


# Names of providers beside their uuids, cached and kept true by GET ``/changes``.


FRESH_SECONDS = 1.0
"""A name may be this old."""

FEW = 16
"""For more unknown providers, the names of all are read, in pages."""


class Names:
    """A cache of names, and of the roots of trees, by uuid."""

    def __init__(self, calling: Calling) -> None:
        """It is empty."""
        self._calling = calling
        self._names: dict[str, str] = {}
        self._roots: dict[str, str] = {}
        self._token: str | None = None
        self._checked = -FRESH_SECONDS  # on a clock that may begin at 0

    async def of(self, providers: Iterable[str]) -> dict[str, str]:
        """The name of each provider that exists. Costs nothing for those that are known since less than a second."""
        requested = list(dict.fromkeys(providers))
        if not requested:
            return {}
        # Before the reads: a name that changes after this token is discarded by the next call.
        await self._forget_changed()
        unknown = [uuid for uuid in requested if uuid not in self._names]
        if len(unknown) > FEW:
            await self._read({"limit": calls.MOST_TREES})
        else:
            for uuid in unknown:
                if uuid not in self._names:  # a tree may have several of them
                    await self._read({"in_tree": uuid})
        return {uuid: self._names[uuid] for uuid in requested if uuid in self._names}

    async def places_of(self, providers: Iterable[str]) -> dict[str, Place]:
        """The place of each provider that exists."""
        names = await self.of(providers)
        roots = {uuid: self._roots[uuid] for uuid in names}
        hosts = await self.of(roots.values())
        return {uuid: Place(name, hosts.get(roots[uuid], name)) for uuid, name in names.items()}

    async def _forget_changed(self) -> None:
        if monotonic() < self._checked + FRESH_SECONDS:
            return
        # Before the call: a change can happen after the server answers and before the answer arrives.
        checked = monotonic()
        try:
            body = (await self._calling.send(calls.changes(self._token, 0))).json()
            for record in body["providers"]:
                self._names.pop(record["uuid"], None)
        except (NotAllowed, Unsupported):  # the client may see providers, but not their changes
            self._names.clear()
            self._checked = checked
            return
        except StartOver:
            body = (await self._calling.send(calls.changes(None, 0))).json()
            self._names.clear()
        self._token, self._checked = body["token"], checked

    async def _read(self, filters: Json) -> None:
        if len(self._names) > MOST_NAMES:
            self._names.clear()
        try:
            async for body in self._calling.pages(calls.trees({"fields": "name", **filters})):
                for tree in body["provider_trees"]:
                    for provider in tree["providers"]:
                        self._names[provider["uuid"]] = provider["name"]
                        self._roots[provider["uuid"]] = tree["root_provider_uuid"]
                    self._calling.note_names((each["uuid"], each["name"]) for each in tree["providers"])
        except NotFound:
            return
        except Unsupported:
            listed = calls.all_providers({name: value for name, value in filters.items() if name != "limit"})
            for record in (await self._calling.send(listed)).json()["resource_providers"]:
                self._names[record["uuid"]] = record["name"]
                self._roots[record["uuid"]] = record["root_provider_uuid"]


# Changes as they happen, without gaps.


LEAST_SECONDS = 0.05
"""Between two requests: a server that has no room for another waiting request answers at once, as does a closed port.
"""

LONGEST_SECONDS = 30.0
"""Of one wait for a change, if the caller waits as long as it takes."""

POLL_SECONDS = 0.5
"""Between two attempts of a client that may not see changes."""


async def watch(
    calling: Calling, since: str | None, heartbeat: float, outage: float | None = None
) -> AsyncIterator[Change]:
    """All changes after *since*, or after the first call.

    Args:
        heartbeat: seconds without a change after which a heartbeat is returned.
        outage: seconds for which the server may be away; None: any time.

    Raises:
        Unavailable: it was away for longer.
    """
    token = since or await current_token(calling)
    quiet_since = answered = monotonic()
    while True:
        wait = max(0, min(calling.transport.longest_wait, int(quiet_since + heartbeat - monotonic())))
        asked = monotonic()
        try:
            # The server may use the whole wait, and needs the usual time besides.
            body = await calling.changes(token, wait, wait + calling.timeout)
        except StartOver:
            # The token before the notice: what the caller then reads includes all changes up to it.
            token = await current_token(calling)
            yield Change("start over", token)
            continue
        except Unavailable:
            if outage is not None and monotonic() > answered + outage:
                raise
            await sleep(LEAST_SECONDS)  # a site without retries has not paused yet
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
            await sleep(LEAST_SECONDS if wait else min(LEAST_SECONDS * 4, heartbeat))


async def current_token(calling: Calling) -> str:
    """The token of this moment."""
    return str((await calling.send(calls.changes(None, 0))).json()["token"])


async def wait_for_change(calling: Calling, since: str | None, seconds: float) -> str | None:
    """Return when something changed after *since*, or after *seconds*; the token of then.

    Without a token, or if changes are not available, returns after a short pause: the caller looks then, and waits with
    the token of before.
    """
    started = monotonic()
    try:
        if since is None:
            return await current_token(calling)
        wait = min(calling.transport.longest_wait, int(seconds))
        body = (await calling.send(calls.changes(since, wait), wait + min(seconds, calling.timeout))).json()
        token: str | None = body["token"]
    except (StartOver, Unavailable):
        token = None
    except (NotAllowed, Unsupported):
        await sleep(min(POLL_SECONDS, seconds))
        return None
    if monotonic() - started < LEAST_SECONDS:
        await sleep(min(LEAST_SECONDS, seconds))
    return token


async def of_project(changes: AsyncIterator[Change], calling: Calling, project: str) -> AsyncIterator[Change]:
    """The changes of consumers of *project*, and heartbeats.

    A consumer that does not exist any more is of the project if it was before, or if that is not known.
    """
    foreign: set[str] = set()
    async for change in changes:
        if change.kind == CONSUMER and not change.is_deletion:
            record = (await calling.send(calls.allocations(change.uuid))).json()
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
