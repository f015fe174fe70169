"""Candidates of a request, and why it has them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, overload

from stead.client.provider import Displayed, Room, counted, shown_allocations, shown_amounts, table_of

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
        names: of providers, by uuid, as far as the site has read them before. They are for people.
    """

    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]
    names: Mapping[str, str] = field(default_factory=dict, compare=False)

    def record(self) -> Json:
        """The entry of ``allocation_requests`` of GET ``/allocation_candidates``."""
        allocations = {uuid: {"resources": dict(amounts)} for uuid, amounts in self.allocations.items()}
        return {"allocations": allocations, "mappings": dict(self.mappings)}

    def __repr__(self) -> str:
        return f"<Candidate {shown_allocations(self.allocations, self.names)}>"


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
    def of(cls, body: Json, *, is_complete: bool, names: Mapping[str, str] = MappingProxyType({})) -> Candidates:
        """Those of the response *body*; *names* are those of providers that are known, by uuid."""
        known = {uuid: names[uuid] for uuid in body["provider_summaries"] if uuid in names}
        items = tuple(
            Candidate(
                {uuid: record["resources"] for uuid, record in request["allocations"].items()},
                request.get("mappings", {}),
                known,
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
        return f"<{counted(len(self), 'candidate')} of {counted(len(self.summaries), 'provider')}{cut}>"

    def __rich__(self) -> RenderableType:
        rows = [
            (str(number), candidate.names.get(provider, provider), shown_amounts(amounts))
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

    @classmethod
    def of(cls, document: object, *, otherwise: str) -> Explanation:
        """The explanation in a response; one that has the words *otherwise* alone if there is none."""
        if isinstance(document, dict):
            return cls(document)
        nothing = {"candidates": 0, "more": False, "complete": False, "groups": [], "relaxations": []}
        trees = {"in_play": 0, "steps": []}
        return cls({"summary": otherwise, **nothing, "roots": trees, "trees": {**trees, "undecided": 0}})

    @property
    def summary(self) -> str:
        """A sentence, or a few: how many candidates there are, or why there are none."""
        return str(self.document.get("summary") or _counted(self.document))  # older servers have none

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
        return [f"{relaxation_words(change)}: {count_words(change)}" for change in self.document["relaxations"]]

    @property
    def steps(self) -> list[tuple[str, int, int]]:
        """Constraints in order: its text, how many providers or trees it removed, how many remain."""
        steps = [*self.document["roots"]["steps"]]
        for group in self.document["groups"]:
            for choice in group["choices"]:
                steps += choice["steps"]
        steps += self.document["trees"]["steps"]
        return [(constraint_words(step), step["removed"], step["left"]) for step in steps]

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [
            f"{text}: removes {removed}, {remaining} remain" for text, removed, remaining in self.steps if removed
        ]
        lines += [f"would help: {text}" for text in self.relaxations]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Explanation: {self.summary}>"

    def __rich__(self) -> RenderableType:
        rows = [(text, str(removed), str(remaining)) for text, removed, remaining in self.steps]
        title = " ".join([self.summary, *(f"Would help: {text}." for text in self.relaxations)])
        return table_of(title, ("constraint", "removes", "remain"), rows)


def _counted(document: Json) -> str:
    """The summary of a server that sends none."""
    if document["candidates"]:
        return f"There {'is' if document['candidates'] == 1 else 'are'} {count_words(document)}."
    return "Nothing fits." if document["complete"] else "No candidate was found within the work of one query."


# The words of explanations: the only ones, also those of the command line and of the web interface.


_CHECKS = {
    "inventory": "have {0}",
    "units": "allow {1} {0} at once",
    "room": "have {1} {0} free",
    "part": "have a part of {1} {0} free",
    "each": "groups of {0}:{1}",
}


def constraint_words(step: Json) -> str:
    """A constraint in the syntax of the query, with the part that it concerns; or the provider that a tree lacks."""
    if "resource_class" in step:
        return f"provider for {group_words(step['suffix'], step['resource_class'])}"
    if "parameter" not in step:
        return "another constraint"  # of a newer server
    words, check = f"{step['parameter']}={step['value']}", step.get("check")
    if check == "unknown":
        return f"{words}: no such {'aggregate' if 'member_of' in step['parameter'] else 'provider'}"
    if check == "sum":
        return f"have enough free for all groups together ({step['value'].replace(',', ', ')})"
    if step["parameter"] == "disabled":
        return "are enabled"
    name, _, amount = step["value"].rpartition(":")
    if check in _CHECKS and amount.isdecimal():
        return _CHECKS[check].format(name, f"{int(amount):,}")
    return f"{words}: {check}" if check else words


def group_words(suffix: str, resource_class: str | None) -> str:
    """A group of a request and, in the group without a suffix, the class that one provider gives."""
    if not suffix and resource_class is not None:
        return resource_class
    name = f"group {suffix}" if suffix else "the unsuffixed group"
    return name if resource_class is None else f"{name}, {resource_class}"


def limit_words(limit: Json) -> str:
    """What runs out first, of an entry of ``limited_by``."""
    if "resource_class" not in limit:
        return constraint_words(limit)
    name = limit["resource_class"] or "providers with room for all classes"
    return f"{name} for group {limit['suffix']}" if limit["suffix"] else name


def relaxation_words(change: Json) -> str:
    """A change of a request that would help."""
    without, instead = change["without"], change["with"]
    if without is None:
        return "without change" if instead is None else f"with {constraint_words(instead)}"
    if instead is None:
        return f"without {constraint_words(without)}"
    if instead.get("check") == "each":
        number = int(without["value"].rpartition(":")[2])
        return f"with {number:,} {constraint_words(instead)} instead of {without['value']}"
    return f"with {constraint_words(instead)} instead of {without['value']}"


def count_words(count: Json) -> str:
    """``100+ candidates``."""
    number = count["candidates"]
    return f"{number:,}{'+' if count['more'] else ''} candidate{'' if number == 1 else 's'}"
