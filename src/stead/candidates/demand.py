"""What a request needs of every tree, and what one tree offers.

A need is one open choice of a provider: a suffixed group, or one resource class of the unsuffixed group. Needs are
numbered by their places in ``Demand.amounts``. Providers are numbered by their positions: first the tree's own
providers, parents before children, then the sharing providers of other trees that serve this tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from stead.candidates.match import Pool
    from stead.candidates.parts import Share
    from stead.domain.request import CandidateRequest

    Choices = Sequence[Sequence[int]]
    """For each need the positions that may serve it."""

    Way = tuple[int, ...]
    """For each need the position that serves it."""


class Subtree(NamedTuple):
    """Needs that must be close to each other, and needs that must stay away from them.

    One provider that serves a need of ``bound`` is the top: it is an ancestor of the providers of all other ``bound``
    needs, or the same provider. A provider of an ``apart`` need is neither below the top nor above it.
    """

    bound: frozenset[int]
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Demand:
    """What a request needs, the same for every tree.

    ``amounts`` is by need, then by class id. Each of the ``isolated`` needs requires a provider of its own that serves
    none of the ``bystanders`` either; bystanders may share a provider. The providers of ``clause_needs`` must meet the
    required traits together. ``parts`` maps each need that is a further part of a split amount to the need that has the
    first part. ``ignores_capacity``: several needs may take more of a provider than it has, as long as each alone fits.
    """

    amounts: Sequence[Mapping[int, int]]
    isolated: frozenset[int] = frozenset()
    bystanders: frozenset[int] = frozenset()
    subtrees: Sequence[Subtree] = ()
    clause_needs: frozenset[int] = frozenset()
    parts: Mapping[int, int] = field(default_factory=dict)
    ignores_capacity: bool = False

    @cached_property
    def repeated(self) -> frozenset[int]:
        """Ids of the classes that more than one need requests.

        The parts of one need count once, because each comes from another provider that has room for its part.
        """
        if self.ignores_capacity:
            return frozenset()
        times = self._times(range(len(self.amounts)))
        return frozenset(class_id for class_id, count in times.items() if count > 1)

    @cached_property
    def contested(self) -> frozenset[int]:
        """Ids of the classes that two needs can request of one provider.

        Only these require a sum per provider: `match` has checked that each provider has room for each need alone, and
        two isolated needs never have the same provider.
        """
        if not self.isolated:
            return self.repeated
        times = self._times(need for need in range(len(self.amounts)) if need not in self.isolated)
        # An isolated need can share a provider with a need of the unsuffixed group, but not with a bystander.
        of_isolated = {class_id for need in self.isolated for class_id in self.amounts[need]}
        unsuffixed = (need for need in range(len(self.amounts)) if need not in self.isolated | self.bystanders)
        shared = of_isolated.intersection(self._times(unsuffixed))
        return self.repeated & ({class_id for class_id, count in times.items() if count > 1} | shared)

    def _times(self, needs: Iterable[int]) -> Counter[int]:
        """How many of *needs* request each class; further parts of a split amount do not count."""
        return Counter(class_id for need in needs if need not in self.parts for class_id in self.amounts[need])

    @property
    def is_isolating(self) -> bool:
        """Whether there are two needs that must not have the same provider."""
        return bool(self.isolated) and len(self.isolated | self.bystanders) > 1


@dataclass(frozen=True, slots=True)
class Ground:
    """What one tree, with the sharing providers that serve it, offers to a demand.

    ``choices`` has the positions that may serve each need. ``available(position, class id)`` is how much of a repeated
    class one candidate may take there. ``is_below(position, top)`` says whether a provider is in another's subtree. At
    least one position of each of ``clauses`` must serve one of the demand's ``clause_needs``. ``shares`` has the
    needs whose amount may be split: what each position could give as a part. Positions without a share can only give
    the whole amount.
    """

    choices: Choices
    available: Callable[[int, int], int]
    is_below: Callable[[int, int], bool]
    clauses: Sequence[frozenset[int]] = ()
    shares: Mapping[int, Mapping[int, Share]] = field(default_factory=dict)


def demand_of(pools: Sequence[Pool], request: CandidateRequest | None = None) -> Demand:
    """A need for each of *pools*, bound to each other as *request* says; unbound without a request."""
    amounts = [pool.amounts for pool in pools]
    clause_needs = frozenset(need for need, pool in enumerate(pools) if pool.suffix == UNSUFFIXED)
    if request is None:
        return Demand(amounts, clause_needs=clause_needs)
    suffixed = {pool.suffix: need for need, pool in enumerate(pools) if pool.suffix != UNSUFFIXED}

    def needs_of(suffixes: frozenset[str]) -> frozenset[int]:
        return frozenset(suffixed[suffix] for suffix in suffixes)

    every = frozenset(suffixed.values())
    isolated = every if request.isolate else needs_of(request.isolated)
    return Demand(
        amounts,
        isolated=isolated,
        bystanders=every - isolated if isolated else frozenset(),
        subtrees=[
            *(Subtree(needs_of(together)) for together in request.same_subtree),
            *(Subtree(needs_of(apart.together), needs_of(apart.others)) for apart in request.apart),
        ],
        clause_needs=clause_needs,
    )


def open_clauses(demand: Demand, ground: Ground) -> list[frozenset[int]]:
    """The clauses that some choices would not meet; every choice for some need meets the others."""
    needs, choices = demand.clause_needs, ground.choices
    return [clause for clause in ground.clauses if not any(clause.issuperset(choices[need]) for need in needs)]


def is_over_demanded(demand: Demand, ground: Ground) -> bool:
    """Whether all providers together have less of a repeated class than the needs request.

    This is a bound on the sum, so it is cheap and ends hopeless searches that would otherwise try to pack the needs.
    """
    requested: Counter[int] = Counter()
    positions: dict[int, set[int]] = defaultdict(set)
    for amounts, choices in zip(demand.amounts, ground.choices, strict=True):
        for class_id in demand.repeated.intersection(amounts):
            requested[class_id] += amounts[class_id]
            positions[class_id].update(choices)
    return any(
        sum(ground.available(position, class_id) for position in positions[class_id]) < amount
        for class_id, amount in requested.items()
    )
