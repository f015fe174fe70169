"""Claims: the requested allocations of consumers, and the pure rule that decides whether all of them fit.

Source: "The capacity check", docs/api.md.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from stead.domain.errors import CapacityExceeded, LeaseRefused, NoSuchInventory, ProviderDisabled, UnitsViolated
from stead.domain.moments import in_utc
from stead.domain.provider import exact_capacity, has_room, keeps_units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stead.domain.provider import Inventory
    from stead.domain.request import CandidateRequest


class Unchecked(Enum):
    """The client did not state the generation that it knows (before microversion 1.28)."""

    UNCHECKED = "unchecked"


UNCHECKED = Unchecked.UNCHECKED

Expected = int | None | Unchecked
"""The consumer generation that a client knows: a number, None for a new consumer, or unchecked."""


class Unchanged(Enum):
    """The client did not say whether its claim ends."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


class OnExpiry(Enum):
    """What happens to the allocations of a consumer when its lease ends."""

    RELEASE = "release"
    MARK = "mark"
    """They stay, and the consumer is overdue until its owner renews or releases it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The requested end of a claim: a number of seconds from now, or a time; exactly one of the two.

    ``most`` is the operator's maximum of seconds from now; 0: none.
    """

    seconds: int | None = None
    expires_at: int | None = None
    """In seconds since 1970 (UTC)."""
    on_expiry: OnExpiry = OnExpiry.RELEASE
    most: int = 0

    def end(self, consumer: str, now: int, before: HeldLease | None) -> int:
        """When it ends, in seconds since 1970.

        Args:
            now: the database's time.
            before: the present lease of the consumer, whose end the client may repeat, whatever it is.

        Raises:
            LeaseRefused: the end has passed, or is too far away.
        """
        end = now + self.seconds if self.seconds is not None else self.expires_at
        assert end is not None, "a lease has one of the two"
        if before is not None and end == before.expires_at:
            return end
        if end <= now:
            raise LeaseRefused(f"expires_at of consumer {consumer} is in the past: {in_utc(end)}", in_utc(now))
        if self.most and end - now > self.most:
            most = f"is more than {self.most} s away ([stead] max_lease)"
            raise LeaseRefused(f"The end of the lease of consumer {consumer} {most}: {in_utc(end)}", in_utc(now))
        return end


class HeldLease(NamedTuple):
    """The end of a consumer's claim, in seconds since 1970 (UTC), and what happens then.

    An overdue consumer reached its end, and keeps its allocations until its owner releases or renews it.
    """

    expires_at: int
    on_expiry: OnExpiry
    is_overdue: bool = False


SPAN = 1024
"""A consumer whose generation rose by less has the same claim; see :func:`first_generation`."""

_SPANS = 1 << 20
_drawn = random.SystemRandom()  # processes that were forked draw different numbers


def first_generation(lease: Lease | Unchanged | None) -> int:
    """The generation of a new consumer.

    A claim with a lease ends by itself, so another client may claim for the same consumer while the first one still
    has its generation. So it begins anywhere, and writes with the old generation are refused.
    """
    return 1 + SPAN * _drawn.randrange(_SPANS) if isinstance(lease, Lease) else 1


def is_first_generation(generation: int, lease: HeldLease | None) -> bool:
    """Whether a consumer with this lease may have been written only once."""
    return generation == 1 or (lease is not None and generation % SPAN == 1)


def is_same_claim(known: int, generation: int) -> bool:
    """Whether a consumer has the claim that it had at the generation *known*, perhaps moved, and no new one."""
    return 0 <= generation - known < SPAN


NOBODY = "00000000-0000-0000-0000-000000000000"
"""The project and the user of consumers whose own are unknown."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The complete new allocations of one consumer; empty allocations release everything.

    ``allocations`` maps provider uuids to class names to amounts (each at least 1). ``consumer_type`` None leaves the
    type of an existing consumer alone, and gives a new one none. ``lease`` None: the claim has no end. A new consumer
    gets the generation ``first``, or one of :func:`first_generation`.
    """

    consumer: str
    allocations: Mapping[str, Mapping[str, int]]
    project: str
    user: str
    consumer_type: str | None = None
    expected: Expected = UNCHECKED
    lease: Lease | Unchanged | None = UNCHANGED
    first: int | None = None


class Place(NamedTuple):
    """One class of one provider, from which an amount is allocated."""

    provider: str
    resource_class: str


@dataclass(frozen=True, slots=True)
class PlaceUsage:
    """The usage of one place: ``used`` by consumers outside the request, ``before`` by all, before the request."""

    inventory: Inventory
    used: int
    before: int


def require_room(rooms: Mapping[Place, PlaceUsage], claims: Sequence[Claim]) -> None:
    """Refuse *claims* unless all of them fit together.

    An inventory that is already over-committed accepts claims that keep or reduce its usage, but none that raise it.

    Args:
        rooms: every place named in the claims at which the provider has inventory.

    Raises:
        NoSuchInventory: a provider has no inventory of a requested class.
        UnitsViolated: one amount breaks min_unit, max_unit or step_size.
        CapacityExceeded: the amounts for one place, together, exceed its free capacity.
    """
    _require_some_inventory(rooms, claims)
    requested: dict[Place, int] = defaultdict(int)
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for resource_class, amount in resources.items():
                place = Place(provider, resource_class)
                requested[place] += amount
                _require_place(place, amount, requested[place], rooms.get(place))


def _require_some_inventory(rooms: Mapping[Place, PlaceUsage], claims: Sequence[Claim]) -> None:
    named = {provider for claim in claims for provider in claim.allocations}
    lacking = named - {place.provider for place in rooms}
    if lacking:
        classes = {c for claim in claims for resources in claim.allocations.values() for c in resources}
        raise NoSuchInventory(sorted(lacking), sorted(classes))


def _require_place(place: Place, amount: int, requested: int, room: PlaceUsage | None) -> None:
    if room is None:
        raise NoSuchInventory([place.provider], [place.resource_class])
    has = room.inventory
    if not keeps_units(amount, has.min_unit, has.max_unit, has.step_size):
        raise UnitsViolated(*place, amount)
    limit = exact_capacity(has.total, has.reserved, has.allocation_ratio)
    kept_or_reduced = room.before > 0 and room.used + requested <= room.before
    if not (has_room(requested, room.used, limit) or kept_or_reduced):
        raise CapacityExceeded(*place, amount)


class DisabledProvider(NamedTuple):
    """Why a provider accepts no new allocations: it, or an ancestor of it, is ``disabled`` (a uuid)."""

    disabled: str
    reason: str


def require_enabled(
    disabled_providers: Mapping[str, DisabledProvider],
    claims: Sequence[Claim],
    before: Mapping[Place, int],
    *,
    may_shift: bool,
) -> None:
    """Refuse *claims* that raise the usage of a disabled provider. Allocations may stay, shrink, or change consumers.

    Args:
        disabled_providers: by provider uuid, for providers that are disabled or below a disabled one.
        before: the present allocations of the consumers of *claims*.
        may_shift: amounts may move between the providers under one barrier, as in a reshape; the sums of each class
            are compared.

    Raises:
        ProviderDisabled: names the first place whose usage rises.
    """

    def counted(place: Place) -> Place:
        return place._replace(provider=disabled_providers[place.provider].disabled) if may_shift else place

    released: dict[Place, int] = defaultdict(int)
    for place, amount in before.items():
        if place.provider in disabled_providers:
            released[counted(place)] += amount
    for claim in claims:
        for provider, resources in claim.allocations.items():
            for resource_class, amount in resources.items() if provider in disabled_providers else ():
                place = counted(Place(provider, resource_class))
                released[place] -= amount
                if released[place] < 0:
                    raise ProviderDisabled(provider, resource_class, *disabled_providers[provider])


# Claims by query: the request of each consumer, and the places that were found.
#
# Source: "POST /claims", docs/stead-api.md.


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """The request of one consumer, replacing its allocations; ``expected`` is its generation, None if it is new.

    ``consumer_type``, ``lease`` and ``first`` are as of a `Claim`.
    """

    consumer: str
    request: CandidateRequest
    project: str
    user: str
    consumer_type: str | None
    expected: int | None
    lease: Lease | Unchanged | None = UNCHANGED
    first: int = 1


@dataclass(frozen=True, slots=True)
class Granted:
    """The result for one consumer: amounts by provider uuid and class name, providers of each group, and its end.

    ``generation`` is that of the consumer afterwards; 0 until the result is written.
    """

    allocations: Mapping[str, Mapping[str, int]]
    mappings: Mapping[str, Sequence[str]]
    lease: HeldLease | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of all requests, in order, and the number of attempts; 0 if an earlier attempt had granted them."""

    granted: Sequence[Granted]
    tries: int
