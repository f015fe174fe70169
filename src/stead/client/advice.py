"""Which consumers to move so that a request fits, as the library returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.client.amounts import shown_allocations
from stead.client.display import Displayed, table_of
from stead.client.what_if import Move

if TYPE_CHECKING:
    from rich.console import RenderableType

    from stead.client.amounts import Json


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
        return f"<Advice: {len(self.document['moves'])} moves, then it fits {self.fits_after} times>"

    def __rich__(self) -> RenderableType:
        rows = [
            (move.consumer, shown_allocations(move.before), shown_allocations(move.allocations)) for move in self.moves
        ]
        return table_of(repr(self).strip("<>"), ("consumer", "from", "to"), rows)
