"""A site: the providers of a deployment, and what schedulers do with them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from stead.client import calls
from stead.client.aio import watching
from stead.client.aio.calling import Calling
from stead.client.aio.capacity import Capacity
from stead.client.aio.claim import Claim
from stead.client.aio.names import Names
from stead.client.aio.tokens import Tokens
from stead.client.amounts import Usage
from stead.client.candidate import Candidates
from stead.client.consumers import DEFAULT_TYPE, names_of_gang, uuid_of
from stead.client.description import Applied, document
from stead.client.errors import (
    Invalid,
    InvalidRequest,
    NotFound,
    NothingFits,
    NothingFound,
    Stale,
    Unsupported,
)
from stead.client.explanation import Explanation
from stead.client.provider import Provider, Tree, disabled_of
from stead.client.terms import BY_NAME
from stead.client.terms import provider as reference_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from stead.client.aio.tokens import TokenSource
    from stead.client.aio.transport import Transport
    from stead.client.calls import Json
    from stead.client.candidate import Candidate
    from stead.client.change import Change
    from stead.client.description import Node
    from stead.client.holding import Holding
    from stead.client.provider import Disabled
    from stead.client.request import Request

_GENERATION = "consumer generation conflict"
"""In the detail of a refusal that is not a lost race, so that repeating it is no use."""


class Site(Capacity):
    """A Stead server or, in this process, Stead itself. Make one with ``connect`` or ``open``.

    Close it, or use it as a context manager. Any number of tasks or threads may use it at the same time. Every method
    that sends something raises :class:`~stead.client.errors.Refused` if the server refuses it.
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
        self._project = project
        self._user = user

    # Places

    async def candidates(self, request: Request, *, limit: int | None = None) -> Candidates:
        """The ways to serve *request*, best first if it has an order; up to *limit*."""
        reply = await self._calling.send(calls.candidates(request, limit))
        return Candidates.of(reply.json(), is_complete="stead-incomplete" not in reply.headers)

    async def explain(self, request: Request) -> Explanation:
        """What each constraint of *request* removes, and which single change would help."""
        return Explanation((await self._calling.send(calls.explain(request))).json())

    # Claims

    async def claim(
        self,
        request: Request,
        consumer: str | UUID | None = None,
        *,
        project: str | None = None,
        user: str | None = None,
        type: str = DEFAULT_TYPE,  # noqa: A002  # the name of the API's consumer_type
        wait: float = 0.0,
    ) -> Claim:
        """Find the best place for *request* and claim it, in one step.

        May be repeated after a crash: the same consumer with the same request gets the claim that it has.

        Args:
            consumer: a name, from which a uuid is made, or a uuid; a random uuid if it is missing.
            project, user: the owner; those of the site if missing. The user is the project if there is none.
            wait: seconds to wait for room if nothing fits.

        Raises:
            NothingFits: there is no place.
            NothingFound: the search for one reached its limit.
            Stale: the consumer has another claim already; see :meth:`find` and :meth:`Claim.move`.
        """
        (claim,) = await self.claim_all([request], consumer, project=project, user=user, type=type, wait=wait)
        return claim

    async def claim_all(
        self,
        requests: Sequence[Request],
        consumers: str | UUID | Sequence[str | UUID] | None = None,
        *,
        distinct_hosts: bool = False,
        project: str | None = None,
        user: str | None = None,
        type: str = DEFAULT_TYPE,  # noqa: A002  # the name of the API's consumer_type
        wait: float = 0.0,
    ) -> list[Claim]:
        """Claim a place for each of *requests*, or for none.

        Args:
            consumers: one name or uuid for each, or one name to which ``-0``, ``-1``, … are appended.
            distinct_hosts: no two claims are served under the same root.
            project, user, type, wait: as of :meth:`claim`.

        Raises:
            NothingFits: there is no place for one of them; ``claim`` of the error is its index.
            NothingFound: the search for places reached its limit.
            Stale: a consumer has another claim already.
        """
        owner = self._owner(project, user, type)
        names = names_of_gang(consumers, len(requests))
        records = [
            {"consumer_uuid": uuid_of(name), "query": str(request), "consumer_generation": None, **owner}
            for name, request in zip(names, requests, strict=True)
        ]
        granted = await self._claimed(records, requests, distinct_hosts=distinct_hosts, wait=wait)
        return [
            Claim(self._calling, {**record, **place}, None if name == record["consumer_uuid"] else name)
            for name, record, place in zip(names, records, granted, strict=True)
        ]

    async def _claimed(
        self, records: list[Json], requests: Sequence[Request], *, distinct_hosts: bool, wait: float
    ) -> list[Json]:
        until = monotonic() + wait
        token: str | None = None
        while True:
            is_last = monotonic() >= until
            # Only the last attempt asks for an explanation, because that costs the server more than the search.
            call = calls.claim(records, requests, distinct_roots=distinct_hosts, explain=is_last)
            try:
                granted: list[Json] = (await self._calling.send(call)).json()["claims"]
            except (NothingFits, NothingFound, Stale) as error:
                if is_last or (isinstance(error, Stale) and _GENERATION in error.detail):
                    raise
                token = await watching.wait_for_change(self._calling, token, max(until - monotonic(), 0.0))
            else:
                return granted

    def _owner(self, project: str | None, user: str | None, kind: str) -> Json:
        project = project or self._project
        if project is None:
            raise InvalidRequest("a claim needs a project: claim(…, project=) or connect(…, project=)")
        return {"project_id": project, "user_id": user or self._user or project, "consumer_type": kind}

    async def find(self, consumer: str | UUID) -> Claim | None:
        """The claim of a consumer, by name or uuid; None if it has none."""
        uuid = uuid_of(consumer)
        record = (await self._calling.send(calls.allocations(uuid))).json()
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
    ) -> AsyncIterator[Claim]:
        """The claims of all consumers that pass the filters, ordered by uuid. Mappings are not known.

        Args:
            project, user, type: of the consumer.
            provider: the name or uuid of a provider from which it has allocations.
            in_tree: the same for any provider of this provider's tree: who is on a host.
        """
        call = calls.consumers(project, user, type, reference_to(provider), reference_to(in_tree))
        async for body in self._calling.pages(call):
            for record in body["consumers"]:
                yield Claim(self._calling, {**record, "consumer_uuid": record["uuid"]})

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
            while current is not None and current.generation is not None:
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
        tree = await self.tree(provider)
        requested = str(provider).removeprefix("name:")
        return tree.find(requested.lower()) or tree.find(requested) or tree.root

    async def providers(self, **filters: Any) -> AsyncIterator[Provider]:
        """The providers that pass *filters*, ordered by uuid, read in pages. Inventories are not read.

        Args:
            filters: parameters of GET ``/resource_providers``: ``name``, ``required``, ``member_of``, ``resources``,
                ``in_tree``, ``in_subtree``.
        """
        is_begun = False
        try:
            async for body in self._calling.pages(calls.providers(filters)):
                is_begun = True
                for record in body["resource_providers"]:
                    yield Provider.listed(record)
        except (Invalid, Unsupported):
            # Another call would begin with the first page and return providers twice.
            if is_begun:
                raise
            # The filters are wrong, or the server has no pages: the second response shows which.
            for record in (await self._calling.send(calls.all_providers(filters))).json()["resource_providers"]:
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

        Args:
            filters: parameters of GET ``/provider_trees``: ``name``, ``required``, ``member_of``, ``resources``,
                ``root_required``, ``root_member_of``, ``in_tree``.
        """
        async for body in self._calling.pages(calls.trees(filters)):
            for record in body["provider_trees"]:
                yield Tree.of(record)

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
        options = {
            "exact": exact,
            "prune": prune,
            "keep_used": keep_used,
            "allow_overcommit": allow_overcommit,
            "create_names": create_names,
            "dry_run": dry_run,
        }
        return Applied((await self._calling.send(calls.apply(document(described), options))).json())

    async def disable(self, provider: str | UUID, reason: str, *, until: datetime | str | None = None) -> Disabled:
        """Disable a provider and all below it: they accept no new allocations. Existing ones stay.

        Args:
            provider: its name or uuid.
            reason: one line that users and operators see.
            until: when it is enabled again; a time with a zone.
        """
        time = until if until is None or isinstance(until, str) else until.isoformat()
        state = await self._set_disabled(provider, {"reason": reason, "until": time})
        assert state is not None
        return state

    async def enable(self, provider: str | UUID) -> None:
        """End what :meth:`disable` began."""
        await self._set_disabled(provider, None)

    async def _set_disabled(self, provider: str | UUID, state: Json | None) -> Disabled | None:
        reference = str(reference_to(provider))
        # A path cannot have a name that contains a slash, so the uuid is read first.
        uuid = (await self.provider(provider)).uuid if reference.startswith(BY_NAME) else reference
        return disabled_of((await self._calling.send(calls.disable(uuid, state))).json())

    async def names(self, providers: Holding | Candidate | Iterable[str]) -> dict[str, str]:
        """Names by uuid of the providers of a claim or candidate, or of some uuids. Cached for a second."""
        uuids: Iterable[str] = getattr(providers, "allocations", providers)  # type: ignore[arg-type]  # an object with allocations, or uuids
        return await self._names.of(uuids)

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

    def watch(
        self, *, project: str | None = None, since: str | None = None, heartbeat: float = 15.0
    ) -> AsyncIterator[Change]:
        """What changes from now on, or after the token *since*, without gaps. It resumes by itself after restarts.

        Args:
            project: only consumers of this project.
            heartbeat: seconds without a change after which a change of the kind ``heartbeat`` is returned.
        """
        changes = watching.watch(self._calling, since, heartbeat)
        return changes if project is None else watching.of_project(changes, self._calling, project)
