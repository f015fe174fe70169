"""Why a request finds what it finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.client.display import Displayed, table_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stead.client.amounts import Json


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
