"""Planned changes as values, and what they would lead to.

Source: "POST /whatif", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from stead.client import request
from stead.client.candidate import Candidates, Explanation
from stead.client.consumers import UNKNOWN_TYPE
from stead.client.errors import InvalidRequest
from stead.client.headroom import Headroom
from stead.client.provider import Displayed, Total, counted, shown_allocations, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from rich.console import RenderableType

    from stead.client.provider import Amounts, Json


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Base class of the changes that :meth:`Site.what_if` takes."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for each in fields(self):
            canonical = _CANONICAL.get(each.name)
            if canonical is not None:
                object.__setattr__(self, each.name, canonical(getattr(self, each.name)))

    def record(self) -> Json:
        """The entry of the body of POST ``/whatif``."""
        given = {_KEYS.get(each.name, each.name): getattr(self, each.name) for each in fields(self)}
        return {"change": self.kind, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Drain(PlannedChange):
    """Disable the whole tree of a provider, and move its consumers elsewhere.

    Attributes:
        provider: its name or uuid.
        same_traits: a new provider has all traits of the one that it replaces.
        same_aggregates: the new root shares an aggregate with the old one.
        order: which new places are the best, as in a :class:`Request`; None for any.
    """

    kind = "drain"
    provider: str | UUID
    same_traits: bool = False
    same_aggregates: bool = False
    order: str | Mapping[str, str | float] | None = None


@dataclass(frozen=True, slots=True)
class Disable(PlannedChange):
    """Disable a provider, by name or uuid, and all below it."""

    kind = "disable"
    provider: str | UUID


@dataclass(frozen=True, slots=True)
class Copy(PlannedChange):
    """Add ``count`` trees like that of a provider, without allocations."""

    kind = "copy"
    provider: str | UUID
    count: int = 1


@dataclass(frozen=True, slots=True)
class SetInventory(PlannedChange):
    """Give a provider an inventory, or change the fields that are given of one that it has."""

    kind = "set_inventory"
    provider: str | UUID
    resource_class: str
    total: int | None = None
    reserved: int | None = None
    min_unit: int | None = None
    max_unit: int | None = None
    step_size: int | None = None
    allocation_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class RemoveInventory(PlannedChange):
    """Remove an inventory that is not in use."""

    kind = "remove_inventory"
    provider: str | UUID
    resource_class: str


@dataclass(frozen=True, slots=True)
class AddTrait(PlannedChange):
    """Give a provider a trait that exists."""

    kind = "add_trait"
    provider: str | UUID
    trait: str


@dataclass(frozen=True, slots=True)
class RemoveTrait(PlannedChange):
    """Remove a trait from a provider."""

    kind = "remove_trait"
    provider: str | UUID
    trait: str


@dataclass(frozen=True, slots=True)
class DeleteAggregate(PlannedChange):
    """Remove all members of an aggregate, by its uuid."""

    kind = "delete_aggregate"
    aggregate: str | UUID


def _provider(value: str | UUID) -> str:
    reference = request.provider(value)
    if reference is None:
        raise InvalidRequest("a planned change needs a provider")
    return reference


_CANONICAL = {
    "provider": _provider,
    "resource_class": request.resource_class,
    "trait": request.trait,
    "aggregate": request.aggregate,
    "order": request.order_by,
}
_KEYS = {"order": "order_by"}
"""Fields that have another name in a body."""


@dataclass(frozen=True, slots=True)
class Move:
    """The new place of one consumer. :meth:`Site.move` makes it.

    Attributes:
        type: of the consumer; ``unknown`` if it has none.
        generation: of the consumer, before the move; None if the server's database has lost the consumer's row.
        before, allocations: amounts by class, by uuid of the provider; now, and after the move.
    """

    consumer: str
    project: str
    user: str
    type: str
    generation: int | None
    before: Mapping[str, Amounts] = field(hash=False)
    allocations: Mapping[str, Amounts] = field(hash=False)

    @classmethod
    def of(cls, record: Json) -> Move:
        """That of an entry of ``moves``."""
        return cls(
            record["consumer_uuid"],
            record["project_id"],
            record["user_id"],
            record.get("consumer_type", UNKNOWN_TYPE),
            record["consumer_generation"],
            _amounts(record["from"]),
            _amounts(record["allocations"]),
        )

    def record(self) -> Json:
        """The body of PUT ``/allocations/{consumer}``."""
        return {
            "allocations": {
                provider: {"resources": dict(resources)} for provider, resources in self.allocations.items()
            },
            "project_id": self.project,
            "user_id": self.user,
            "consumer_type": self.type,
            "consumer_generation": self.generation,
        }


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A consumer of a drained tree that fits nowhere. It keeps its allocations.

    Attributes:
        allocations: amounts by class, by uuid of the provider.
        gave_up: the search ended first, so there may be a place.
        explanation: why; None for all but the first consumers.
    """

    consumer: str
    allocations: Mapping[str, Amounts] = field(hash=False)
    gave_up: bool
    explanation: Explanation | None = field(hash=False)


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Displayed):
    """What planned changes would lead to. Everything is as of the state after all moves.

    Attributes:
        document: the response of POST ``/whatif``.
        is_complete: False if the server stopped a part at its limit of work.
    """

    document: Json = field(hash=False)
    is_complete: bool = True

    @property
    def moves(self) -> list[Move]:
        """The new places of the consumers of drained trees. Each is valid after the moves before it."""
        return [Move.of(record) for record in self.document["moves"]]

    @property
    def without_place(self) -> list[Unplaced]:
        """The consumers of drained trees that fit nowhere."""
        return [
            Unplaced(record["consumer_uuid"], _amounts(record["from"]), record["gave_up"], _explanation(record))
            for record in self.document["without_place"]
        ]

    @property
    def candidates(self) -> Candidates | None:
        """The candidates of the question; None if there was none."""
        body = self.document.get("candidates")
        return None if body is None else Candidates.of(body, is_complete=self.is_complete)

    @property
    def explanation(self) -> Explanation | None:
        """The answer to the question *explain*; None if there was none."""
        return _explanation(self.document)

    @property
    def headroom(self) -> Headroom | None:
        """How many times the request of the question fits; None if there was none."""
        body = self.document.get("headroom")
        return None if body is None else Headroom(body, is_complete=self.is_complete)

    @property
    def totals(self) -> dict[str, Total] | None:
        """The sums over all providers by class; None if they were not requested."""
        body = self.document.get("totals")
        return None if body is None else {name: Total.of(amounts) for name, amounts in body.items()}

    @property
    def generation(self) -> str | None:
        """The moment to which the changes apply, as a token of :meth:`Site.watch`."""
        token: str | None = self.document["generation"]
        return token

    def __repr__(self) -> str:
        stuck = len(self.document["without_place"])
        return (
            f"<WhatIf: {counted(len(self.document['moves']), 'move')}{f', {stuck} without a place' if stuck else ''}>"
        )

    def __rich__(self) -> RenderableType:
        rows = [
            (move.consumer, shown_allocations(move.before), shown_allocations(move.allocations)) for move in self.moves
        ] + [(each.consumer, shown_allocations(each.allocations), "no place") for each in self.without_place]
        return table_of(repr(self).strip("<>"), ("consumer", "from", "to"), rows)


def _amounts(record: Json) -> dict[str, Amounts]:
    return {provider: allocation["resources"] for provider, allocation in record.items()}


def _explanation(record: Json) -> Explanation | None:
    why = record.get("explanation")
    return None if why is None else Explanation(why)


# Which consumers to move so that a request fits, as the library returns it.


@dataclass(frozen=True, slots=True, repr=False)
class Advice(Displayed):
    """A plan that makes room for a request.

    Attributes:
        document: the ``advice`` in the response of GET ``/advice``.
        is_complete: False if the server stopped a part at its limit of work.
    """

    document: Json = field(hash=False)
    is_complete: bool = True

    @property
    def is_found(self) -> bool:
        """Whether there is a plan. It has no moves if there is room already."""
        return self.document["moves"] is not None

    @property
    def is_impossible(self) -> bool:
        """Whether it is proved that no plan exists."""
        return bool(self.document["reason"] == "impossible")

    @property
    def moves(self) -> list[Move]:
        """The moves of the plan, for :meth:`Site.move`. Each is valid after the moves before it."""
        return [Move.of(record) for record in self.document["moves"] or ()]

    @property
    def fewest_moves(self) -> tuple[int | None, int | None]:
        """Every plan has at least the first number of moves; the plan that was found has the second. None: no plan."""
        fewest = self.document["fewest_moves"]
        return fewest["at_least"], fewest["at_most"]

    @property
    def fits_before(self) -> int:
        """How many times the request fits now, at least."""
        return int(self.document["before"]["at_least"])

    @property
    def fits_after(self) -> int | None:
        """How many times it fits after the moves, at least; None without a plan."""
        after = self.document["after"]
        return None if after is None else int(after["at_least"])

    def __repr__(self) -> str:
        if not self.is_found:
            return f"<Advice: {'impossible' if self.is_impossible else 'no plan found'}>"
        return f"<Advice: {counted(len(self.document['moves']), 'move')}, then it fits {self.fits_after} times>"

    def __rich__(self) -> RenderableType:
        rows = [
            (move.consumer, shown_allocations(move.before), shown_allocations(move.allocations)) for move in self.moves
        ]
        return table_of(repr(self).strip("<>"), ("consumer", "from", "to"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class Improvement(Displayed):
    """Moves after which the site has more room for its mix of flavors.

    Attributes:
        document: the ``advice`` in the response of GET ``/advice?improve=mix``.
        is_complete: False if the server stopped at its limit of work, or did not consider all consumers.
    """

    document: Json = field(hash=False)
    is_complete: bool = True

    @property
    def has_mix(self) -> bool:
        """Whether the site has flavors; without them, there are no moves."""
        return self.document["moves"] is not None

    @property
    def moves(self) -> list[Move]:
        """The moves, for :meth:`Site.move`. Each is valid after the moves before it."""
        return [Move.of(record) for record in self.document["moves"] or ()]

    @property
    def gains(self) -> list[float]:
        """By how much each move raises the value of the site."""
        return [float(record["gain"]) for record in self.document["moves"] or ()]

    @property
    def value_before(self) -> float:
        """The value of the site for its mix now: the sum of the values of its trees."""
        return float(self.document["before"]["value"])

    @property
    def value_after(self) -> float:
        """The value after the moves."""
        return float(self.document["after"]["value"])

    def __repr__(self) -> str:
        if not self.has_mix:
            return "<Improvement: no mix>"
        moves = counted(len(self.moves), "move")
        return f"<Improvement: {moves}, value {self.value_before:.6g} to {self.value_after:.6g}>"

    def __rich__(self) -> RenderableType:
        rows = [
            (move.consumer, shown_allocations(move.before), shown_allocations(move.allocations), f"{gain:.6g}")
            for move, gain in zip(self.moves, self.gains, strict=True)
        ]
        return table_of(repr(self).strip("<>"), ("consumer", "from", "to", "gain"), rows)
