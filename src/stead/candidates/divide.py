"""Divide: what may be split, before the ways are sought: each way to split it is a demand of its own.

The parts of a split do not depend on what else is asked for, so they stand before the search begins. A split is not
begun where what is not split could not be served anyway, nor where it leaves a required trait to nobody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stead.candidates.backtrack import sequences
from stead.candidates.combine import is_over_demanded, open_clauses, ways
from stead.candidates.splits import splits
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.candidates.combine import Demand, Ground
    from stead.candidates.splits import Parts
    from stead.candidates.work import Work


def divided(demand: Demand, ground: Ground, work: Work) -> Iterator[tuple[Demand, Ground]]:
    """*demand* and *ground* for each way to divide what may be divided: there every part is a need of one choice.

    Raises:
        WorkSpent: while iterating.
    """
    if not ground.shares:
        yield demand, ground
        return
    clauses = open_clauses(demand, ground)
    if not all(ground.choices) or is_over_demanded(demand, ground) or _is_hopeless(demand, ground, clauses, work):
        return
    needs = sorted(ground.shares)

    def following(chosen: Sequence[Parts]) -> Iterator[Parts]:
        # A copy, since this iterates while further needs are divided.
        return _divisions(demand, ground, clauses, list(zip(needs, chosen, strict=False)), needs, work)

    for chosen in sequences(len(needs), following):
        yield _with_parts(demand, ground, list(zip(needs, chosen, strict=True)))


def _is_hopeless(demand: Demand, ground: Ground, clauses: Sequence[frozenset[int]], work: Work) -> bool:
    """Whether already the needs that are not divided can not be served together."""
    undivided = demand.clause_needs.difference(ground.shares)
    open_to = {position for need in ground.shares for position in ground.choices[need]}
    amounts = [{} if need in ground.shares else amounts for need, amounts in enumerate(demand.amounts)]
    choices = [some[:1] if need in ground.shares else some for need, some in enumerate(ground.choices)]
    without = replace(
        ground, choices=choices, clauses=[clause for clause in clauses if clause.isdisjoint(open_to)], shares={}
    )
    return next(ways(replace(demand, amounts=amounts, clause_needs=undivided), without, work), None) is None


def _divisions(
    demand: Demand,
    ground: Ground,
    clauses: Sequence[frozenset[int]],
    chosen: Sequence[tuple[int, Parts]],
    needs: Sequence[int],
    work: Work,
) -> Iterator[Parts]:
    """The ways to divide the next of *needs* that leave a way to meet *clauses*, after others were *chosen*."""
    need = needs[len(chosen)]
    musts: list[frozenset[int]] = []
    if clauses:
        serving = {position for _, parts in chosen for position, _ in parts}
        decided = {other for other, _ in chosen} | {need}
        later = {position for other in demand.clause_needs - decided for position in ground.choices[other]}
        musts = [clause for clause in clauses if clause.isdisjoint(serving) and clause.isdisjoint(later)]
    (amount,) = demand.amounts[need].values()
    shares = {
        position: ground.shares[need][position] for position in ground.choices[need] if position in ground.shares[need]
    }
    yield from splits(shares, amount, musts, work)
    for position in ground.choices[need]:
        if position not in shares and all(position in must for must in musts):
            work.spend(TRIED)
            yield ((position, amount),)


def _with_parts(demand: Demand, ground: Ground, chosen: Sequence[tuple[int, Parts]]) -> tuple[Demand, Ground]:
    """The first part stands in the need's place, further ones behind all needs."""
    amounts, choices, parts_of = list(demand.amounts), list(ground.choices), {}
    for need, ((position, amount), *further) in chosen:
        (class_id,) = demand.amounts[need]
        amounts[need], choices[need] = {class_id: amount}, [position]
        for other, part in further:
            parts_of[len(amounts)] = need
            amounts.append({class_id: part})
            choices.append([other])
    together = replace(demand, amounts=amounts, clause_needs=demand.clause_needs.union(parts_of), parts=parts_of)
    return together, replace(ground, choices=choices, shares={})
