"""Candidates of a request, and why it has them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

from stead.client.provider import Displayed, Room, shown_allocations, shown_amounts, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stead.client.provider import Amounts, Json


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


# Why a request finds what it finds.


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Displayed):
    """Why a request finds what it finds.

    Attributes:
        document: the response of GET ``/allocation_candidates/explain``.
    """

    document: Json = field(hash=False)

    @property
    def candidates(self) -> int:
        """Number of candidates that were counted."""
        return int(self.document["candidates"])

    @property
    def is_complete(self) -> bool:
        """False if the server stopped at its limit of work."""
        return bool(self.document["complete"])

    @property
    def relaxations(self) -> list[str]:
        """Single changes of the request that would find candidates, as text."""
        return [_relaxation(change) for change in self.document["relaxations"]]

    @property
    def steps(self) -> list[tuple[str, int, int]]:
        """Constraints in order: its text, how many providers or trees it removed, how many remain."""
        steps = [*self.document["roots"]["steps"]]
        for group in self.document["groups"]:
            for choice in group["choices"]:
                steps += choice["steps"]
        steps += self.document["trees"]["steps"]
        return [(shown_constraint(step), step["removed"], step["left"]) for step in steps]

    def __str__(self) -> str:
        lines = [f"{self.candidates} candidates{'' if self.is_complete else ' (not complete)'}"]
        lines += [
            f"{text}: removes {removed}, {remaining} remain" for text, removed, remaining in self.steps if removed
        ]
        lines += [f"would help: {text}" for text in self.relaxations]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Explanation: {self.candidates} candidates, {len(self.relaxations)} changes would help>"

    def __rich__(self) -> RenderableType:
        rows = [(text, str(removed), str(remaining)) for text, removed, remaining in self.steps]
        title = "; ".join([f"{self.candidates} candidates", *(f"would help: {text}" for text in self.relaxations)])
        return table_of(title, ("constraint", "removes", "remain"), rows)


def shown_constraint(step: Json) -> str:
    """A constraint, or a group and its class, as text."""
    if "resource_class" in step:
        return f"room for {step['resource_class']}" + (f" in group {step['suffix']}" if step["suffix"] else "")
    if "parameter" not in step:
        return "another constraint"  # of a newer server
    check = f" ({step['check']})" if step.get("check") else ""
    return f"{step['parameter']}={step['value']}{check}"


def _relaxation(change: Json) -> str:
    more = "+" if change["more"] else ""
    parts = [f"without {shown_constraint(change['without'])}"] if change["without"] else []
    parts += [f"with {shown_constraint(change['with'])}"] if change["with"] else []
    return f"{' '.join(parts)}: {change['candidates']}{more} candidates"
