"""Blocks: needs that do not restrict the needs outside their block, so their ways need no search.

Most requests bind their needs by isolation alone, over devices that all of them can use. Their ways are the sequences
of different devices, and the ways of independent blocks combine freely.
"""

from __future__ import annotations

from itertools import chain, permutations, product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.candidates.demand import Choices, Demand


class Block(NamedTuple):
    """Some needs, and the positions for each of them.

    If ``is_isolated``, all have the same choices, and no two may have the same position. Otherwise, the needs do not
    restrict each other.
    """

    needs: Sequence[int]
    choices: Choices
    is_isolated: bool = False

    @property
    def has_ways(self) -> bool:
        """Whether there is any way."""
        return len(self.choices[0]) >= len(self.needs) if self.is_isolated else all(self.choices)

    def ways(self) -> Iterator[tuple[int, ...]]:
        """A position for each need, in all ways. Lazy."""
        return permutations(self.choices[0], len(self.needs)) if self.is_isolated else product(*self.choices)


def independent_blocks(demand: Demand, choices: Choices) -> list[Block] | None:
    """The needs of *demand* in blocks, those with few choices first; None if they restrict each other in other ways.

    Clauses are not considered.
    """
    if demand.contested or demand.subtrees or (demand.isolated and demand.bystanders):
        return None
    if not demand.isolated:
        return [Block(range(len(choices)), choices)]
    alike: dict[tuple[int, ...], list[int]] = {}
    for need in sorted(demand.isolated):
        alike.setdefault(tuple(choices[need]), []).append(need)
    # Two needs of different blocks must have no position in common, because isolation forbids that they share it.
    if len(set(chain.from_iterable(alike))) < sum(map(len, alike)):
        return None
    blocks = [Block(needs, [positions] * len(needs), is_isolated=True) for positions, needs in alike.items()]
    unbound = [need for need in range(len(choices)) if need not in demand.isolated]
    if unbound:
        blocks.append(Block(unbound, [choices[need] for need in unbound]))
    return sorted(blocks, key=lambda block: min(map(len, block.choices)))
