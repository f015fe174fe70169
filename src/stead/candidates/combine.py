"""Combine: all ways to serve every need in one tree, each found before the next is searched for.

The search assigns a provider to one need after the other. Before it enters a branch, it checks whether capacities,
isolation, required traits and subtrees can still leave a way through it. Providers in the same state are equal for the
needs that are still open: if one of them led nowhere, the search skips the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import chain, permutations, product
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates.splits import sequences, splits
from stead.candidates.work import LOOKED, TRIED
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from stead.candidates.match import Pool
    from stead.candidates.splits import Parts, Share
    from stead.candidates.work import Work
    from stead.domain.request import CandidateRequest

    Choices = Sequence[Sequence[int]]
    """For each need the positions that may serve it."""
    Way = tuple[int, ...]
    """For each need the position that serves it."""
    State = tuple[int, tuple[int, ...], bool]
    """All that the needs still open can see of a provider. Providers in equal states are interchangeable for them.

    The number of its look (what distinguishes it before anything is assigned), the amounts taken of each contested
    class, and whether it serves an isolated need.
    """
    _Topped = tuple[int, Choices]
    """A top, and the choices that remain below it."""


def ways(demand: Demand, space: SearchSpace, work: Work) -> Iterator[Way]:
    """All ways to serve *demand* on *space*, each once.

    Raises:
        WorkSpent: while iterating, if *work* does not suffice to find the next.
    """
    choices = space.choices
    clauses = open_clauses(demand, space)
    # The cheap bounds come first: most trees of a full site end here, without a search.
    if not all(choices) or (demand.repeated and is_over_demanded(demand, space)):
        return
    blocks = None if clauses else independent_blocks(demand, choices)
    if blocks is not None:
        yield from _ways_of_blocks(blocks, work)
        return
    for tops, narrowed in topped(demand, space, work):
        # The setup of a search visits every need, so a long series of tops without a way is not free.
        work.spend(TRIED * len(narrowed))
        yield from _Search(demand, space, tops, narrowed, clauses, work).run()


def _ways_of_blocks(blocks: Sequence[Block], work: Work) -> Iterator[Way]:
    """All ways to serve needs of *blocks*: each choice of one block beside each of the others."""
    if not all(block.has_ways for block in blocks):  # the blocks before it would be enumerated in vain
        return
    needs = [need for block in blocks for need in block.needs]
    places = sorted(range(len(needs)), key=needs.__getitem__)
    for chosen in sequences(len(blocks), lambda beginning: blocks[len(beginning)].ways()):
        work.spend(TRIED)
        positions = list(chain.from_iterable(chosen))
        yield tuple([positions[place] for place in places])


@dataclass(slots=True)
class _Level:
    """One need of the search: the positions not tried yet, and the matchings before the need is assigned.

    ``dead_ends`` has the states of tried providers that left no way. ``state`` is that of the provider tried last,
    ``ways_before`` the number of ways that were found before it was tried.
    """

    need: int
    untried: Iterator[int]
    matchings: Sequence[Matching | NeedMatching]
    dead_ends: set[State]
    state: State | None = None
    ways_before: int = 0


class _Search:
    """Depth-first search over the needs; it has a stack of its own.

    It does not use `backtrack.sequences`: a level must learn whether the levels below it found a way, because only then
    is the state of its provider a dead end.
    """

    def __init__(
        self,
        demand: Demand,
        space: SearchSpace,
        tops: Sequence[int],
        choices: Choices,
        clauses: Sequence[frozenset[int]],
        work: Work,
    ) -> None:
        self._work = work
        self._choices = choices
        # Needs with few choices come first, because they fail early, where the tree of branches is narrow. Bystanders
        # come last: they do not restrict each other, and the matchings leave each of them a position.
        self._order = sorted(range(len(choices)), key=lambda need: (need in demand.bystanders, len(choices[need])))
        self._requirements = Requirements(demand, tops, clauses, choices, self._order)
        self._matchings = matchings(demand, space, choices, work)
        self._ledger = Ledger(demand, space, choices, self._requirements)
        self._way: dict[int, int] = {}
        self._number_of_ways = 0

    def run(self) -> Iterator[Way]:
        """All ways."""
        if not (all(matching.is_complete for matching in self._matchings) and self._requirements.can_be_met):
            return
        levels = [self._level(0, self._matchings)]
        while levels:
            level = levels[-1]
            if level.need in self._way:  # the levels below have tried everything with this provider
                self._release(level.need)
            after = self._assign_next(level, len(levels))
            if after is None:
                levels.pop()
            elif len(levels) == len(self._order):
                self._number_of_ways += 1
                yield tuple([self._way[need] for need in range(len(levels))])
            else:
                levels.append(self._level(len(levels), after))

    def _level(self, depth: int, before: Sequence[Matching | NeedMatching]) -> _Level:
        need = self._order[depth]
        return _Level(need, iter(self._choices[need]), before, set())

    def _assign_next(self, level: _Level, depth: int) -> Sequence[Matching | NeedMatching] | None:
        """Assign the next provider that can leave a way to the need of *level*.

        Returns:
            The matchings after that; None if no provider remains.
        """
        ledger = self._ledger
        if level.state is not None and level.ways_before == self._number_of_ways:
            level.dead_ends.add(level.state)
        for position in level.untried:
            level.state, level.ways_before = ledger.states[position], self._number_of_ways
            if level.state in level.dead_ends:
                continue
            self._work.spend(TRIED)
            # From cheap to expensive: a comparison of numbers, then the matchings, then what must be undone again.
            if ledger.has_room(level.need, position):
                after = [matching.assigned(level.need, position) for matching in level.matchings]
                if None not in after:
                    self._assign(level.need, position)
                    if self._requirements.allow(level.need, depth):
                        return [matching for matching in after if matching is not None]
                    self._release(level.need)
            level.dead_ends.add(level.state)
        return None

    def _assign(self, need: int, position: int) -> None:
        self._way[need] = position
        self._ledger.assign(need, position)
        self._requirements.assign(need, position)

    def _release(self, need: int) -> None:
        position = self._way.pop(need)
        self._ledger.release(need, position)
        self._requirements.release(need, position)


# What a request needs of every tree, and what one tree offers.
#
# A need is one open choice of a provider: a suffixed group, or one resource class of the unsuffixed group. Needs are
# numbered by their places in ``Demand.amounts``. Providers are numbered by their positions: first the tree's own
# providers, parents before children, then the sharing providers of other trees that serve this tree.


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
class SearchSpace:
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


def open_clauses(demand: Demand, space: SearchSpace) -> list[frozenset[int]]:
    """The clauses that some choices would not meet; every choice for some need meets the others."""
    needs, choices = demand.clause_needs, space.choices
    return [clause for clause in space.clauses if not any(clause.issuperset(choices[need]) for need in needs)]


def is_over_demanded(demand: Demand, space: SearchSpace) -> bool:
    """Whether all providers together have less of a repeated class than the needs request.

    This is a bound on the sum, so it is cheap and ends hopeless searches that would otherwise try to pack the needs.
    """
    requested: Counter[int] = Counter()
    positions: dict[int, set[int]] = defaultdict(set)
    for amounts, choices in zip(demand.amounts, space.choices, strict=True):
        for class_id in demand.repeated.intersection(amounts):
            requested[class_id] += amounts[class_id]
            positions[class_id].update(choices)
    return any(
        sum(space.available(position, class_id) for position in positions[class_id]) < amount
        for class_id, amount in requested.items()
    )


# Matching: whether needs that compete for the same providers can all be served.
#
# Isolated needs compete because a provider serves only one of them. Needs of equal amounts compete because a provider
# has room for a limited number of them. Before the search enters a branch, it updates a complete matching of these
# needs. If none exists, the branch has no way. So the search finds each next way in polynomial time, except where
# unequal needs share a provider, which is bin packing.


_NO_NEEDS: frozenset[int] = frozenset()


class NeedMatching:
    """The matching of competing needs that all have the same choices.

    Then it does not matter which need has which position: a matching exists if the positions have enough room in all.
    Immutable.
    """

    __slots__ = ("_needs", "_room", "is_complete")

    def __init__(self, needs: Collection[int], room: Mapping[int, int], *, is_complete: bool) -> None:
        """*room* is the number of *needs* for which each position has room; complete if that is enough for all."""
        self._needs = needs
        self._room = room
        self.is_complete = is_complete

    def assigned(self, need: int, position: int) -> NeedMatching | None:
        """The room that remains after *need* gets *position*; None if the position has none.

        A need that does not compete changes nothing. The rest is complete: one need fewer, and room for one fewer.
        """
        if need not in self._needs:
            return self
        room = self._room[position]
        return NeedMatching(self._needs, {**self._room, position: room - 1}, is_complete=True) if room else None


class Matching:
    """Competing needs, each with a position. Fixed needs keep theirs; others may be moved. Immutable."""

    __slots__ = ("_choices", "_fixed", "_needs_at", "_position_of", "_room", "_work", "is_complete")

    def __init__(
        self,
        choices: Mapping[int, Sequence[int]],
        room: Callable[[int], int],
        work: Work,
        position_of: dict[int, int] | None = None,
        needs_at: dict[int, frozenset[int]] | None = None,
        fixed: frozenset[int] = frozenset(),
    ) -> None:
        """Find positions for the needs that have none, if that is possible.

        Args:
            choices: for each need the positions that may serve it.
            room: the number of needs that a position can serve.
            work: the budget that the search for augmenting paths spends.
            position_of: the positions of the needs that have one. This object takes over the dictionary.
            needs_at: the same by position; also taken over.
            fixed: the needs that must keep their positions.

        Raises:
            WorkSpent
        """
        self._choices = choices
        self._room = room
        self._work = work
        self._fixed = fixed
        self._position_of = {} if position_of is None else position_of
        self._needs_at = {} if needs_at is None else needs_at
        self.is_complete = len(self._position_of) == len(choices) or all(
            self._serve(need) for need in choices if need not in self._position_of
        )

    def assigned(self, need: int, position: int) -> Matching | None:
        """The matching with *need* fixed at *position*; None if the other needs cannot all be served then.

        A need that does not compete changes nothing.

        Raises:
            WorkSpent
        """
        if need not in self._choices:
            return self
        fixed, before = self._fixed | {need}, self._position_of[need]
        if before == position:
            return Matching(self._choices, self._room, self._work, self._position_of, self._needs_at, fixed)
        occupants = self._needs_at.get(position, _NO_NEEDS)
        # Copies, because the search returns to this matching when the branch is done.
        position_of, needs_at = {**self._position_of, need: position}, dict(self._needs_at)
        needs_at[before] -= {need}
        needs_at[position] = occupants | {need}
        if len(occupants) >= self._room(position):
            # One need must make room. Any that is not fixed will do: the augmenting path can move the others as well.
            displaced = next((occupant for occupant in occupants if occupant not in self._fixed), None)
            if displaced is None:
                return None
            needs_at[position] -= {displaced}
            del position_of[displaced]
        after = Matching(self._choices, self._room, self._work, position_of, needs_at, fixed)
        return after if after.is_complete else None

    def _serve(self, need: int) -> bool:
        """Find a position for one more need by a shortest augmenting path, which moves needs that are not fixed."""
        reached_from: dict[int, int] = {}  # by position, the need whose choices it was found among
        queue = deque([need])
        while queue:
            moving = queue.popleft()
            self._work.spend(LOOKED * len(self._choices[moving]))
            for position in self._choices[moving]:
                if position in reached_from:
                    continue
                reached_from[position] = moving
                occupants = self._needs_at.get(position, _NO_NEEDS)
                if len(occupants) < self._room(position):
                    self._move_along(position, reached_from, need)
                    return True
                queue.extend(occupants - self._fixed)
        return False

    def _move_along(self, position: int, reached_from: Mapping[int, int], start: int) -> None:
        """Give *position* to the need it was reached from, that need's position to the one before it, up to *start*."""
        while True:
            need = reached_from[position]
            freed = self._position_of.get(need)
            self._position_of[need] = position
            self._needs_at[position] = self._needs_at.get(position, _NO_NEEDS) | {need}
            if freed is None or need == start:
                return
            self._needs_at[freed] -= {need}
            position = freed


def matchings(demand: Demand, space: SearchSpace, choices: Choices, work: Work) -> list[Matching | NeedMatching]:
    """A matching for each set of needs that compete, which may be incomplete; *choices* are those below the tops.

    Raises:
        WorkSpent
    """
    return [_matching(demand, space, {need: choices[need] for need in needs}, work) for needs in _competing(demand)]


def _competing(demand: Demand) -> list[list[int]]:
    """Sets of needs that compete: the isolated ones, and those that take equal amounts of contested classes.

    Bystanders may share a provider with each other, so each of them competes with the isolated needs in a set of its
    own.
    """
    competing: list[list[int]] = []
    if demand.isolated:
        if not demand.bystanders:
            return [sorted(demand.isolated)]
        competing = [[*sorted(demand.isolated), bystander] for bystander in sorted(demand.bystanders)]
    equal: dict[frozenset[tuple[int, int]], list[int]] = defaultdict(list)
    for need, amounts in enumerate(demand.amounts):
        if need not in demand.isolated and not demand.contested.isdisjoint(amounts):
            equal[frozenset(amounts.items())].append(need)
    return competing + [needs for needs in equal.values() if len(needs) > 1]


def _matching(
    demand: Demand, space: SearchSpace, choices: Mapping[int, Sequence[int]], work: Work
) -> Matching | NeedMatching:
    """The matching of the needs in *choices*, which compete for a provider, or for its room."""
    first = next(iter(choices))
    amounts, is_isolated = demand.amounts[first], not demand.isolated.isdisjoint(choices)

    @cache  # a search through the same positions asks for each of them many times
    def room(position: int) -> int:
        if is_isolated:
            return 1
        return min(space.available(position, class_id) // amount for class_id, amount in amounts.items())

    positions = choices[first]
    if any(others != positions for others in choices.values()):
        return Matching(choices, room, work)
    work.spend(LOOKED * len(positions))
    rooms = {position: room(position) for position in positions}
    return NeedMatching(choices.keys(), rooms, is_complete=sum(rooms.values()) >= len(choices))


# Requirements of a search: sets of providers, of which at least one must serve one of certain needs.
#
# The top of a subtree must serve one of the needs bound to it. One of the providers that meet a required trait must
# serve one of the needs of the unsuffixed group.


class Requirements:
    """How many assigned needs meet each requirement, and whether a later need still can."""

    __slots__ = ("_last_depth", "_met", "_of_need", "_positions")

    def __init__(
        self,
        demand: Demand,
        tops: Sequence[int],
        clauses: Sequence[frozenset[int]],
        choices: Choices,
        order: Sequence[int],
    ) -> None:
        """Nothing is assigned yet.

        Args:
            tops: by subtree of *demand*, the position that is its top.
            clauses: the positions that meet each required trait.
            order: the needs in the order in which the search assigns them.
        """
        requirements = [(subtree.bound, frozenset([top])) for subtree, top in zip(demand.subtrees, tops, strict=True)]
        requirements += [(demand.clause_needs, clause) for clause in clauses]
        self._positions = [positions for _, positions in requirements]
        self._met = [0] * len(requirements)
        self._of_need: dict[int, list[int]] = defaultdict(list)
        # For each requirement the depth of the last need in the order with a choice that meets it; 0 if none has one.
        self._last_depth = [0] * len(requirements)
        for depth, need in enumerate(order, 1):
            for number, (needs, positions) in enumerate(requirements):
                if need in needs:
                    self._of_need[need].append(number)
                    if not positions.isdisjoint(choices[need]):
                        self._last_depth[number] = depth

    @property
    def can_be_met(self) -> bool:
        """Whether each requirement has a need with a choice that meets it."""
        return all(self._last_depth)

    def of_position(self, position: int) -> tuple[bool, ...]:
        """Which requirements a provider meets."""
        return tuple(position in positions for positions in self._positions)

    def assign(self, need: int, position: int) -> None:
        """Count that *position* serves *need*."""
        for number in self._of_need.get(need, ()):
            if position in self._positions[number]:
                self._met[number] += 1

    def release(self, need: int, position: int) -> None:
        """Undo `assign`."""
        for number in self._of_need.get(need, ()):
            if position in self._positions[number]:
                self._met[number] -= 1

    def allow(self, need: int, depth: int) -> bool:
        """Whether each requirement of *need* is met, or can be by a need after *depth*.

        Only the requirements of the need that was just assigned can have become impossible: those of other needs have
        the same later needs as before.
        """
        return all(self._met[number] or self._last_depth[number] > depth for number in self._of_need.get(need, ()))


# The ledger of a search: what the assigned needs take of each provider, and the state in which this leaves it.


class Ledger:
    """The amounts that assigned needs take of contested classes, by position."""

    __slots__ = ("_available", "_isolated", "_requested", "states")

    states: dict[int, State]
    """By position."""

    def __init__(self, demand: Demand, space: SearchSpace, choices: Choices, requirements: Requirements) -> None:
        """Nothing is taken yet."""
        contested = tuple(demand.contested)
        self._isolated = demand.isolated
        # By need: (place of a class in `contested`, amount), without the classes for which no sum is required.
        self._requested = [
            [(place, amounts[class_id]) for place, class_id in enumerate(contested) if class_id in amounts]
            for amounts in demand.amounts
        ]
        self._available: Mapping[int, tuple[int, ...]] = {
            position: tuple([space.available(position, class_id) for class_id in contested])
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


# Blocks: needs that do not restrict the needs outside their block, so their ways need no search.
#
# Most requests bind their needs by isolation alone, over devices that all of them can use. Their ways are the
# sequences of different devices, and the ways of independent blocks combine freely.


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


# Subtrees: the providers that can be the top of each ``same_subtree`` constraint, and what each leaves of the
# choices.
#
# The tops are chosen before the search. After that, a subtree constraint only means that fewer positions serve a
# need.


def topped(demand: Demand, space: SearchSpace, work: Work) -> Iterator[tuple[Sequence[int], Choices]]:
    """Every choice of a top for each subtree constraint, with the choices that remain for the needs.

    A way has exactly one top per constraint, the highest of its bound providers. So no way is found twice, provided
    that the search lets each top serve one of its bound needs.

    Raises:
        WorkSpent: while iterating.
    """
    subtrees = demand.subtrees

    def following(chosen: Sequence[_Topped]) -> Iterator[_Topped]:
        choices = chosen[-1][1] if chosen else space.choices
        return _below_tops(space, subtrees[len(chosen)], choices, work)

    for chosen in sequences(len(subtrees), following):
        yield [top for top, _ in chosen], chosen[-1][1] if chosen else space.choices


def _below_tops(space: SearchSpace, subtree: Subtree, choices: Choices, work: Work) -> Iterator[_Topped]:
    """Each provider that can be the top, with the choices of bound needs below it, and those of apart needs outside."""
    bound, apart = subtree
    # A position that can serve several bound needs is one top; a second pass would repeat its ways.
    for top in dict.fromkeys(position for need in sorted(bound) for position in choices[need]):
        # Narrowing costs time even if nothing is found, so it is paid for before it starts.
        work.spend(TRIED + len(choices) + sum(len(choices[need]) for need in bound | apart))
        narrowed = list(choices)
        for need in bound:
            narrowed[need] = [position for position in choices[need] if space.is_below(position, top)]
        for need in apart:
            narrowed[need] = [position for position in choices[need] if _are_apart(space, position, top)]
        if len(bound) == 1:
            # The only bound need must be served by the top itself, so every lower position is a dead end.
            narrowed[next(iter(bound))] = [top]
        if all(narrowed[need] for need in bound | apart):
            yield top, narrowed


def _are_apart(space: SearchSpace, position: int, top: int) -> bool:
    return not (space.is_below(position, top) or space.is_below(top, position))


# Divide: splits amounts before the search. Each way to split them is a demand of its own.
#
# The possible parts of one amount do not depend on other needs, so the search is not burdened with them. Two checks
# come first, because an amount can have millions of splits: whether the needs that are not split can be served at
# all, and whether a split leaves a provider for each required trait.


def divided(demand: Demand, space: SearchSpace, work: Work) -> Iterator[tuple[Demand, SearchSpace]]:
    """*demand* and *space* for each way to split the amounts that may be split.

    In the results, each part is a need with a single choice.

    Raises:
        WorkSpent: while iterating.
    """
    if not space.shares:
        yield demand, space
        return
    clauses = open_clauses(demand, space)
    # The order is from cheap to expensive: two bounds, then one search without the needs that may be split.
    if not all(space.choices) or is_over_demanded(demand, space) or _is_hopeless(demand, space, clauses, work):
        return
    needs = sorted(space.shares)

    def following(chosen: Sequence[Parts]) -> Iterator[Parts]:
        # A copy, since `chosen` changes while these divisions are iterated.
        return _divisions(demand, space, clauses, dict(zip(needs, chosen, strict=False)), needs[len(chosen)], work)

    for chosen in sequences(len(needs), following):
        yield _with_parts(demand, space, dict(zip(needs, chosen, strict=True)))


def _is_hopeless(demand: Demand, space: SearchSpace, clauses: Sequence[frozenset[int]], work: Work) -> bool:
    """Whether the needs that are not split cannot be served together, even if the others took nothing."""
    unsplit = demand.clause_needs.difference(space.shares)
    positions_of_split = {position for need in space.shares for position in space.choices[need]}
    amounts = [{} if need in space.shares else amounts for need, amounts in enumerate(demand.amounts)]
    choices = [positions[:1] if need in space.shares else positions for need, positions in enumerate(space.choices)]
    # A required trait that a provider of a split amount has may be met by a part, so it excludes nothing here.
    unsplit_clauses = [clause for clause in clauses if clause.isdisjoint(positions_of_split)]
    unsplit_space = replace(space, choices=choices, clauses=unsplit_clauses, shares={})
    unsplit_demand = replace(demand, amounts=amounts, clause_needs=unsplit)
    return next(ways(unsplit_demand, unsplit_space, work), None) is None


def _divisions(
    demand: Demand,
    space: SearchSpace,
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
        later = {position for other in undecided for position in space.choices[other]}
        # Clauses that earlier parts meet, or that later needs still can, do not restrict this split.
        musts = [clause for clause in clauses if clause.isdisjoint(serving) and clause.isdisjoint(later)]
    (amount,) = demand.amounts[need].values()
    shares = {
        position: space.shares[need][position] for position in space.choices[need] if position in space.shares[need]
    }
    yield from splits(shares, amount, musts, work)
    # Sharing providers give all or nothing.
    for position in space.choices[need]:
        if position not in shares and all(position in must for must in musts):
            work.spend(TRIED)
            yield ((position, amount),)


def _with_parts(demand: Demand, space: SearchSpace, chosen: Mapping[int, Parts]) -> tuple[Demand, SearchSpace]:
    """The first part of a need takes its place. Further parts are new needs after all others, so no number changes."""
    amounts, choices, parts_of = list(demand.amounts), list(space.choices), {}
    for need, ((position, amount), *further) in chosen.items():
        (class_id,) = demand.amounts[need]
        amounts[need], choices[need] = {class_id: amount}, [position]
        for further_position, part in further:
            parts_of[len(amounts)] = need
            amounts.append({class_id: part})
            choices.append([further_position])
    with_parts = replace(demand, amounts=amounts, clause_needs=demand.clause_needs.union(parts_of), parts=parts_of)
    return with_parts, replace(space, choices=choices, shares={})
