"""The response to a query for candidates. It has a short ``repr``, and a drawing for Rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from stead.client.amounts import Room, shown_allocations, shown_amounts
from stead.client.display import Displayed, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stead.client.amounts import Amounts, Json


@dataclass(frozen=True, slots=True)
class Summary:
    """A provider beside candidates, as it was before they are claimed."""

    uuid: str
    root: str
    parent: str | None
    rooms: Mapping[str, Room]
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, repr=False)
class Candidate:
    """One way to serve a request.

    Attributes:
        allocations: amounts by class, by uuid of the provider.
        mappings: uuids of the providers of each group, by its name.
    """

    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]

    def __repr__(self) -> str:
        return f"<Candidate {shown_allocations(self.allocations)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Candidates(Displayed, Sequence[Candidate]):
    """The candidates of a request, and the providers of their trees.

    Attributes:
        summaries: by uuid of the provider.
        is_complete: False if the server stopped the search at its limit of work.
    """

    _items: tuple[Candidate, ...]
    summaries: Mapping[str, Summary]
    is_complete: bool = True

    @classmethod
    def of(cls, body: Json, *, is_complete: bool) -> Candidates:
        """Those of the response *body*."""
        items = tuple(
            Candidate(
                {uuid: record["resources"] for uuid, record in request["allocations"].items()},
                request.get("mappings", {}),
            )
            for request in body["allocation_requests"]
        )
        summaries = {uuid: _summary(uuid, record) for uuid, record in body["provider_summaries"].items()}
        return cls(items, summaries, is_complete)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> Candidate: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Candidate]: ...
    def __getitem__(self, place: int | slice) -> Candidate | Sequence[Candidate]:
        return self._items[place]

    def __repr__(self) -> str:
        cut = "" if self.is_complete else ", not complete"
        return f"<{len(self)} candidates of {len(self.summaries)} providers{cut}>"

    def __rich__(self) -> RenderableType:
        rows = [
            (str(number), provider, shown_amounts(amounts))
            for number, candidate in enumerate(self, 1)
            for provider, amounts in candidate.allocations.items()
        ]
        return table_of(repr(self).strip("<>"), ("", "provider", "allocations"), rows)


def _summary(uuid: str, record: Json) -> Summary:
    rooms = {name: Room(room["capacity"], room["used"]) for name, room in record["resources"].items()}
    root, parent = record["root_provider_uuid"], record["parent_provider_uuid"]
    return Summary(uuid, root, parent, rooms, frozenset(record["traits"]))
