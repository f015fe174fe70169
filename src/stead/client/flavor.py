"""Flavors, as the library returns them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stead.client.explanation import shown_constraint
from stead.client.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlavorHeadroom:
    """How many times a flavor can be claimed until nothing fits, if only that flavor is claimed.

    Attributes:
        at_least: there is a place for this number of claims together.
        at_most: there is no place for more.
        limited_by: what runs out first, as text, and in how many trees; the most trees first.
        is_complete: False if the server stopped at its limit of work. Both numbers hold all the same.
    """

    at_least: int
    at_most: int
    limited_by: Sequence[tuple[str, int]] = field(hash=False)
    is_complete: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether both numbers are the same."""
        return self.at_least == self.at_most


@dataclass(frozen=True, slots=True)
class Flavor:
    """A request that is stored under a name. ``Request(flavor=name)`` requests it.

    Attributes:
        query: as it was stored, percent-encoded.
        description: one line for people; may be empty.
        headroom: None if it was not requested, or cannot be counted.
        fault: why it cannot be counted, for example because a resource class was deleted; None otherwise.
    """

    name: str
    query: str
    description: str = ""
    headroom: FlavorHeadroom | None = None
    fault: str | None = None

    @classmethod
    def of(cls, record: Json) -> Flavor:
        """That of an entry of GET ``/flavors``."""
        counted = record.get("headroom") or {}
        headroom = None
        if "at_least" in counted:
            limits = [(shown_constraint(limit), limit["trees"]) for limit in counted["limited_by"]]
            headroom = FlavorHeadroom(counted["at_least"], counted["at_most"], limits, counted["complete"])
        return cls(record["name"], record["query"], record["description"], headroom, counted.get("error"))

    @property
    def request(self) -> Request:
        """The stored query as a value.

        Raises:
            InvalidRequest: it has a parameter that this library does not have.
        """
        return Request.parse(self.query)
