"""The ledger of a search: what the assigned needs take of each provider, and the state in which this leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.candidates.demand import Choices, Demand, Ground
    from stead.candidates.requirements import Requirements

    State = tuple[int, tuple[int, ...], bool]
    """All that the needs still open can see of a provider. Providers in equal states are interchangeable for them.

    The number of its look (what distinguishes it before anything is assigned), the amounts taken of each contested
    class, and whether it serves an isolated need.
    """


class Ledger:
    """The amounts that assigned needs take of contested classes, by position."""

    __slots__ = ("_available", "_isolated", "_requested", "states")

    states: dict[int, State]
    """By position."""

    def __init__(self, demand: Demand, ground: Ground, choices: Choices, requirements: Requirements) -> None:
        """Nothing is taken yet."""
        contested = tuple(demand.contested)
        self._isolated = demand.isolated
        # By need: (place of a class in `contested`, amount), without the classes for which no sum is required.
        self._requested = [
            [(place, amounts[class_id]) for place, class_id in enumerate(contested) if class_id in amounts]
            for amounts in demand.amounts
        ]
        self._available: Mapping[int, tuple[int, ...]] = {
            position: tuple([ground.available(position, class_id) for class_id in contested])
            for position in set().union(*choices)
        }
        numbers: dict[tuple[object, ...], int] = {}
        self.states = {}
        for position, available in self._available.items():
            serves = tuple([position in positions for positions in choices])
            look = serves, requirements.of_position(position), available
            self.states[position] = numbers.setdefault(look, len(numbers)), (0,) * len(contested), False

    def has_room(self, need: int, position: int) -> bool:
        """Whether a provider has room for *need* beside the needs that it serves already."""
        requested = self._requested[need]
        if not requested:
            return True
        available, taken = self._available[position], self.states[position][1]
        for place, amount in requested:  # noqa: SIM110 - a generator takes longer than the comparison
            if taken[place] + amount > available[place]:
                return False
        return True

    def assign(self, need: int, position: int) -> None:
        """Take what *need* requests of a provider."""
        look, taken, serves_isolated = self.states[position]
        after = list(taken)
        for place, amount in self._requested[need]:
            after[place] += amount
        self.states[position] = look, tuple(after), serves_isolated or need in self._isolated

    def release(self, need: int, position: int) -> None:
        """Undo `assign`."""
        look, taken, serves_isolated = self.states[position]
        after = list(taken)
        for place, amount in self._requested[need]:
            after[place] -= amount
        # A provider serves at most one isolated need, so releasing that need leaves no isolated one.
        self.states[position] = look, tuple(after), serves_isolated and need not in self._isolated
