"""How many times a request fits, and flavors, which are requests with a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from stead.client.candidate import Explanation, limit_words
from stead.client.provider import Displayed, table_of
from stead.client.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from stead.client.provider import Json


@dataclass(frozen=True, slots=True)
class TreeHeadroom:
    """How many times a request fits into one tree if nothing is claimed from the others; ``root`` is a uuid."""

    root: str
    name: str
    at_least: int
    at_most: int


@dataclass(frozen=True, slots=True, repr=False)
class Bounded(Displayed):
    """A number of claims or mixes that fit.

    Attributes:
        document: the ``headroom`` in the response of GET ``/headroom``.
        is_complete: False if the server stopped at its limit of work. Both numbers hold all the same.
    """

    document: Json = field(hash=False)
    is_complete: bool = True

    @property
    def at_least(self) -> int:
        """There is a place for this number together."""
        return int(self.document["at_least"])

    @property
    def at_most(self) -> int:
        """There is no place for more."""
        return int(self.document["at_most"])

    @property
    def is_exact(self) -> bool:
        """Whether both numbers are the same."""
        return bool(self.document["exact"])

    @property
    def stranded(self) -> dict[str, int]:
        """What ``at_least`` of them leave of each requested class, by class name."""
        return dict(self.document["stranded"])

    def _bounds(self) -> str:
        return str(self.at_least) if self.is_exact else f"{self.at_least} to {self.at_most}"


@dataclass(frozen=True, slots=True, repr=False)
class Headroom(Bounded):
    """How many times a request can be claimed until nothing fits."""

    @property
    def trees(self) -> list[TreeHeadroom]:
        """The trees in which the request may fit, up to 10,000, in the order of the request or of their uuids."""
        return [
            TreeHeadroom(tree["root"], tree["name"], tree["at_least"], tree["at_most"])
            for tree in self.document["trees"]
        ]

    @property
    def limited_by(self) -> list[tuple[str, int]]:
        """What runs out first, as text, and in how many trees; the most trees first."""
        return [(limit_words(limit), limit["trees"]) for limit in self.document["limited_by"]]

    @property
    def explanation(self) -> Explanation | None:
        """Why nothing fits; None if something does."""
        why = self.document.get("explanation")
        return None if why is None else Explanation(why)

    def __repr__(self) -> str:
        return f"<Headroom: {self._bounds()} in {self.document['tree_count']} trees>"

    def __rich__(self) -> RenderableType:
        rows = [(tree.name, str(tree.at_least), str(tree.at_most)) for tree in self.trees]
        return table_of(repr(self).strip("<>"), ("tree", "at least", "at most"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class MixHeadroom(Bounded):
    """How many mixes of flavors fit together."""

    @property
    def limited_by(self) -> list[str]:
        """The flavors and resource classes that allow no more, even if nothing else did."""
        return [limit.get("flavor") or limit["resource_class"] for limit in self.document["limited_by"]]

    def __repr__(self) -> str:
        mix = ", ".join(f"{part['weight']} {part['flavor']}" for part in self.document["mix"])
        return f"<MixHeadroom: {self._bounds()} times {mix}>"

    def __rich__(self) -> RenderableType:
        rows = [
            (part["flavor"], str(part["weight"]), str(part["at_least"]), str(part["at_most"]))
            for part in self.document["mix"]
        ]
        return table_of(repr(self).strip("<>"), ("flavor", "per mix", "alone, at least", "at most"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class Stranded(Displayed):
    """What is free on a site, and how much of it its mix of flavors cannot use.

    Attributes:
        document: the ``headroom`` in the response of GET ``/headroom`` without a query.
        is_complete: False if the server stopped at its limit of work.
    """

    document: Json = field(hash=False)
    is_complete: bool = True

    @property
    def free(self) -> dict[str, int]:
        """What all enabled providers have free, by name of each class that the mix takes."""
        return dict(self.document["free"])

    @property
    def stranded(self) -> dict[str, int]:
        """What is left of it when a flavor fits no more, by class name: the mean over the flavors by their demand."""
        return dict(self.document["stranded"])

    @property
    def course(self) -> list[tuple[datetime, dict[str, int]]]:
        """What was stranded before, and when: an entry per five minutes of the last day, as far as a worker knows."""
        entries = self.document.get("course", ())
        return [(datetime.fromisoformat(entry["at"]), dict(entry["stranded"])) for entry in entries]

    def __repr__(self) -> str:
        return f"<Stranded: {', '.join(f'{amount} {name}' for name, amount in self.stranded.items()) or 'nothing'}>"

    def __rich__(self) -> RenderableType:
        rows = [(name, str(self.free[name]), str(amount)) for name, amount in self.stranded.items()]
        return table_of(repr(self).strip("<>"), ("class", "free", "stranded"), rows)


# Flavors, as the library returns them.


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
        weight: how often it is asked for, in proportion to the others; None if it has none, or was not requested.
        headroom: None if it was not requested, or cannot be counted.
        fault: why it cannot be counted, for example because a resource class was deleted; None otherwise.
        document: the entry of GET ``/flavors``.
    """

    name: str
    query: str
    description: str = ""
    headroom: FlavorHeadroom | None = None
    fault: str | None = None
    document: Json = field(default_factory=dict, repr=False, compare=False)
    weight: float | None = None

    @classmethod
    def of(cls, record: Json) -> Flavor:
        """That of an entry of GET ``/flavors``."""
        counted = record.get("headroom") or {}
        headroom = None
        if "at_least" in counted:
            limits = [(limit_words(limit), limit["trees"]) for limit in counted["limited_by"]]
            headroom = FlavorHeadroom(counted["at_least"], counted["at_most"], limits, counted["complete"])
        name, query, description = record["name"], record["query"], record["description"]
        return cls(name, query, description, headroom, counted.get("error"), record, record.get("weight"))

    @property
    def request(self) -> Request:
        """The stored query as a value.

        Raises:
            InvalidRequest: it has a parameter that this library does not have.
        """
        return Request.parse(self.query)


@dataclass(frozen=True, slots=True)
class MixForm:
    """A request of the mix.

    Attributes:
        query: percent-encoded.
        share: its weight, as a part of all weights.
        flavor: the name of the flavor, if it is one.
    """

    query: str
    share: float
    flavor: str | None = None

    @property
    def request(self) -> Request:
        """The query as a value.

        Raises:
            InvalidRequest: it has a parameter that this library does not have.
        """
        return Request.parse(self.query)


@dataclass(frozen=True, slots=True)
class Mix:
    """The requests that the site is to serve, for which the order ``headroom`` leaves room.

    Attributes:
        source: ``weights`` of flavors; ``learned``; all ``flavors``, the same each; or ``none``.
        forms: the heaviest first.
        document: the ``mix`` of the response of GET ``/mix``.
    """

    source: str
    forms: Sequence[MixForm]
    document: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, record: Json) -> Mix:
        """That of a response of GET ``/mix``."""
        forms = [MixForm(form["query"], form["share"], form["flavor"]) for form in record["forms"]]
        return cls(record["source"], forms, record)
