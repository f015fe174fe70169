"""What one consumer has. It has a short ``repr``, and a drawing for Rich."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.client.amounts import shown_allocations, shown_amounts
from stead.client.display import Displayed, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from stead.client.amounts import Amounts


@dataclass(slots=True, repr=False, eq=False)
class Holding(Displayed):
    """What one consumer has.

    Attributes:
        consumer: its uuid.
        name: the name from which the uuid was made; None if only the uuid is known.
        allocations: amounts by class, by uuid of the provider; empty after a release.
        mappings: uuids of the providers of each group, by its name; empty if they are unknown.
        generation: the consumer's; None after a release.
    """

    consumer: str
    project: str
    user: str
    type: str
    generation: int | None
    allocations: Mapping[str, Amounts]
    mappings: Mapping[str, Sequence[str]]
    name: str | None = None

    @property
    def providers(self) -> tuple[str, ...]:
        """The uuids of all providers."""
        return tuple(self.allocations)

    def __repr__(self) -> str:
        allocations = shown_allocations(self.allocations) or "nothing"
        return f"<Claim of {self.name or self.consumer} ({self.project}): {allocations}>"

    def __rich__(self) -> RenderableType:
        groups = {provider: name for name, providers in self.mappings.items() for provider in providers}
        rows = [
            (provider, groups.get(provider, ""), shown_amounts(amounts))
            for provider, amounts in self.allocations.items()
        ]
        title = f"{self.name or self.consumer}  {self.project}"
        return table_of(title, ("provider", "group", "allocations"), rows)
