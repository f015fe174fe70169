"""Divide: splits amounts before the search. Each way to split them is a demand of its own.

The possible parts of one amount do not depend on other needs, so the search is not burdened with them. Two checks come
first, because an amount can have millions of splits: whether the needs that are not split can be served at all, and
whether a split leaves a provider for each required trait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stead.candidates.backtrack import sequences
from stead.candidates.combine import ways
from stead.candidates.demand import is_over_demanded, open_clauses
from stead.candidates.splits import splits
from stead.candidates.work import TRIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.candidates.demand import Demand, Ground
    from stead.candidates.parts import Parts
    from stead.candidates.work import Work


def divided(demand: Demand, ground: Ground, work: Work) -> Iterator[tuple[Demand, Ground]]:
    """*demand* and *ground* for each way to split the amounts that may be split.

    In the results, each part is a need with a single choice.

    Raises:
        WorkSpent: while iterating.
    """
    if not ground.shares:
        yield demand, ground
        return
    clauses = open_clauses(demand, ground)
    # The order is from cheap to expensive: two bounds, then one search without the needs that may be split.
    if not all(ground.choices) or is_over_demanded(demand, ground) or _is_hopeless(demand, ground, clauses, work):
        return
    needs = sorted(ground.shares)

    def following(chosen: Sequence[Parts]) -> Iterator[Parts]:
        # A copy, since `chosen` changes while these divisions are iterated.
        return _divisions(demand, ground, clauses, dict(zip(needs, chosen, strict=False)), needs[len(chosen)], work)

    for chosen in sequences(len(needs), following):
        yield _with_parts(demand, ground, dict(zip(needs, chosen, strict=True)))


def _is_hopeless(demand: Demand, ground: Ground, clauses: Sequence[frozenset[int]], work: Work) -> bool:
    """Whether the needs that are not split cannot be served together, even if the others took nothing."""
    unsplit = demand.clause_needs.difference(ground.shares)
    positions_of_split = {position for need in ground.shares for position in ground.choices[need]}
    amounts = [{} if need in ground.shares else amounts for need, amounts in enumerate(demand.amounts)]
    choices = [positions[:1] if need in ground.shares else positions for need, positions in enumerate(ground.choices)]
    # A required trait that a provider of a split amount has may be met by a part, so it excludes nothing here.
    unsplit_clauses = [clause for clause in clauses if clause.isdisjoint(positions_of_split)]
    unsplit_ground = replace(ground, choices=choices, clauses=unsplit_clauses, shares={})
    unsplit_demand = replace(demand, amounts=amounts, clause_needs=unsplit)
    return next(ways(unsplit_demand, unsplit_ground, work), None) is None


def _divisions(
    demand: Demand,
    ground: Ground,
    clauses: Sequence[frozenset[int]],
    chosen: Mapping[int, Parts],
    need: int,
    work: Work,
) -> Iterator[Parts]:
    """The ways to divide *need* that leave a way to meet *clauses*, after the parts of other needs were chosen."""
    musts: list[frozenset[int]] = []
    if clauses:
        serving = {position for parts in chosen.values() for position, _ in parts}
        undecided = demand.clause_needs.difference(chosen, (need,))
        later = {position for other in undecided for position in ground.choices[other]}
        # Clauses that earlier parts meet, or that later needs still can, do not restrict this split.
        musts = [clause for clause in clauses if clause.isdisjoint(serving) and clause.isdisjoint(later)]
    (amount,) = demand.amounts[need].values()
    shares = {
        position: ground.shares[need][position] for position in ground.choices[need] if position in ground.shares[need]
    }
    yield from splits(shares, amount, musts, work)
    # Sharing providers give all or nothing.
    for position in ground.choices[need]:
        if position not in shares and all(position in must for must in musts):
            work.spend(TRIED)
            yield ((position, amount),)


def _with_parts(demand: Demand, ground: Ground, chosen: Mapping[int, Parts]) -> tuple[Demand, Ground]:
    """The first part of a need takes its place. Further parts are new needs after all others, so no number changes."""
    amounts, choices, parts_of = list(demand.amounts), list(ground.choices), {}
    for need, ((position, amount), *further) in chosen.items():
        (class_id,) = demand.amounts[need]
        amounts[need], choices[need] = {class_id: amount}, [position]
        for further_position, part in further:
            parts_of[len(amounts)] = need
            amounts.append({class_id: part})
            choices.append([further_position])
    with_parts = replace(demand, amounts=amounts, clause_needs=demand.clause_needs.union(parts_of), parts=parts_of)
    return with_parts, replace(ground, choices=choices, shares={})
