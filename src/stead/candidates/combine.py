"""Combine: all ways to serve every need under one anchor, one after the other, each found before the next is sought.

A need is one open choice: a suffixed group, or one class of the unsuffixed group. Providers, by their positions, are
assigned need by need, those with the fewest choices first; before a branch is entered it is asked whether capacities,
isolation, required traits and subtrees leave a way through it. Providers that are alike are one class: where one of
them led nowhere, the others are not tried.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from stead.candidates.backtrack import sequences
from stead.candidates.matching import Matching, Room
from stead.candidates.work import LOOKED, TRIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.candidates.splits import Share
    from stead.candidates.work import Work

    Choices = Sequence[Sequence[int]]
    """For each need the positions it may be served by."""

    Way = tuple[int, ...]
    """For each need the position that serves it."""

    _Topped = tuple[int, Choices]
    """A top, and what it leaves of the choices."""

    _State = tuple[int, tuple[int, ...], bool]
    """All that the needs still open can see of a provider: to be served by one in the same state is the same.

    How it looked before anything was taken of it, what was taken, and whether an isolated need has it.
    """


class Subtree(NamedTuple):
    """Needs that are close, and needs that keep away from them.

    One of ``bound`` must be served by an ancestor of all the others (or by the same provider): the top. Each of
    ``apart`` must be served neither below that top nor above it.
    """

    bound: frozenset[int]
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Demand:
    """What a request needs of every tree alike; needs go by their places in ``amounts``.

    ``amounts`` says what each need takes, by class id. ``isolated`` needs are served by different providers, and by
    none that serves ``bystanders``. ``clause_needs`` are those whose providers must meet required traits together.
    ``parts`` names for each need that is a further part of another the one that it is a part of. ``is_boundless``:
    what needs take of one provider together is not looked at.
    """

    amounts: Sequence[Mapping[int, int]]
    isolated: frozenset[int] = frozenset()
    bystanders: frozenset[int] = frozenset()
    subtrees: Sequence[Subtree] = ()
    clause_needs: frozenset[int] = frozenset()
    parts: Mapping[int, int] = field(default_factory=dict)
    is_boundless: bool = False

    @cached_property
    def contested(self) -> frozenset[int]:
        """Classes that more than one need takes; of all others a provider that was matched has enough.

        Parts of one need are given by different providers, of which each has enough for its part.
        """
        if self.is_boundless:
            return frozenset()
        whole = (amounts for need, amounts in enumerate(self.amounts) if need not in self.parts)
        times = Counter(class_id for amounts in whole for class_id in amounts)
        return frozenset(class_id for class_id, count in times.items() if count > 1)

    @property
    def is_isolating(self) -> bool:
        """Whether two needs may not be served by the same provider."""
        return bool(self.isolated) and len(self.isolated | self.bystanders) > 1

    @cached_property
    def is_bound(self) -> bool:
        """Whether the choice for one need can be a matter to another."""
        return bool(self.contested or self.is_isolating or self.subtrees)


@dataclass(frozen=True, slots=True)
class Ground:
    """What one tree, with the sharing providers that reach it, offers to a demand.

    ``choices`` has for each need the positions that may serve it. ``left(position, class id)`` is how much of a
    contested class one candidate may take there; ``is_below(position, top)`` the ancestor relation. Of each of
    ``clauses`` one position must serve one of the demand's ``clause_needs``. ``shares`` has the needs whose amount may
    be divided: what each of their choices could give as a part; choices without one give all of it.
    """

    choices: Choices
    left: Callable[[int, int], int]
    is_below: Callable[[int, int], bool]
    clauses: Sequence[frozenset[int]] = ()
    shares: Mapping[int, Mapping[int, Share]] = field(default_factory=dict)


def ways(demand: Demand, ground: Ground, work: Work) -> Iterator[Way]:
    """All ways to serve *demand* on *ground*, each once.

    Raises:
        WorkSpent: while iterating, when there is no *work* left to find the next.
    """
    choices = ground.choices
    clauses = open_clauses(demand, ground)
    if not all(choices) or (demand.contested and is_over_demanded(demand, ground)):
        return
    if not (demand.is_bound or clauses):
        for way in product(*choices):
            work.spend(TRIED)
            yield way
        return
    for tops, narrowed in _topped(demand, ground, work):
        yield from _Search(demand, ground, tops, narrowed, clauses, work).run()


def open_clauses(demand: Demand, ground: Ground) -> list[frozenset[int]]:
    """The clauses that are not met whatever is chosen."""
    needs, choices = demand.clause_needs, ground.choices
    return [clause for clause in ground.clauses if not any(clause.issuperset(choices[need]) for need in needs)]


def is_over_demanded(demand: Demand, ground: Ground) -> bool:
    """Whether all providers together have less of a contested class than is asked of them."""
    demanded: Counter[int] = Counter()
    places: dict[int, set[int]] = defaultdict(set)
    for amounts, some in zip(demand.amounts, ground.choices, strict=True):
        for class_id in demand.contested.intersection(amounts):
            demanded[class_id] += amounts[class_id]
            places[class_id].update(some)
    return any(
        sum(ground.left(position, class_id) for position in places[class_id]) < amount
        for class_id, amount in demanded.items()
    )


def _topped(demand: Demand, ground: Ground, work: Work) -> Iterator[tuple[Sequence[int], Choices]]:
    """Every choice of a top for each subtree constraint, with the needs' choices narrowed to below the tops.

    A way that holds has exactly one top per constraint, so no way is met twice.
    """
    subtrees = demand.subtrees

    def following(chosen: Sequence[_Topped]) -> Iterator[_Topped]:
        narrowed = chosen[-1][1] if chosen else ground.choices
        return _below_tops(ground, subtrees[len(chosen)], narrowed, work)

    for chosen in sequences(len(subtrees), following):
        yield [top for top, _ in chosen], chosen[-1][1] if chosen else ground.choices


def _below_tops(ground: Ground, subtree: Subtree, choices: Choices, work: Work) -> Iterator[tuple[int, Choices]]:
    """Every provider that could be the top, with the choices narrowed to below it, or to what is apart from it."""
    bound, apart = subtree
    for top in dict.fromkeys(position for need in sorted(bound) for position in choices[need]):
        work.spend(TRIED + len(choices) + sum(len(choices[need]) for need in bound | apart))
        narrowed = list(choices)
        for need in bound:
            narrowed[need] = [position for position in choices[need] if ground.is_below(position, top)]
        for need in apart:
            narrowed[need] = [position for position in choices[need] if _are_apart(ground, position, top)]
        if len(bound) == 1:
            narrowed[next(iter(bound))] = [top]
        if all(narrowed[need] for need in bound | apart):
            yield top, narrowed


def _are_apart(ground: Ground, one: int, other: int) -> bool:
    return not (ground.is_below(one, other) or ground.is_below(other, one))


def _rivals(demand: Demand) -> list[list[int]]:
    """Needs that compete with each other: the isolated ones, or those that take equal amounts of contested classes.

    Bystanders of the isolated ones share, so each of them competes with these by itself.
    """
    rivals = []
    if demand.isolated:
        if not demand.bystanders:
            return [sorted(demand.isolated)]
        rivals = [[*sorted(demand.isolated), bystander] for bystander in sorted(demand.bystanders)]
    alike: dict[frozenset[tuple[int, int]], list[int]] = defaultdict(list)
    for need, amounts in enumerate(demand.amounts):
        if need not in demand.isolated and not demand.contested.isdisjoint(amounts):
            alike[frozenset(amounts.items())].append(need)
    return rivals + [needs for needs in alike.values() if len(needs) > 1]


@dataclass(slots=True)
class _Level:
    """Where the search stands with one need: the providers not tried yet, and the matchings before it is served.

    ``dead`` holds the states of providers that were tried and left no way; those in the same state would not either.
    ``trying`` is the state of the one that is tried now, ``found`` the number of ways found before that.
    """

    need: int
    untried: Iterator[int]
    matchings: Sequence[Matching | Room]
    dead: set[_State]
    trying: _State | None = None
    found: int = 0


class _Search:
    """Depth-first search over the needs, those with the fewest choices first."""

    def __init__(
        self,
        demand: Demand,
        ground: Ground,
        tops: Sequence[int],
        choices: Choices,
        clauses: Sequence[frozenset[int]],
        work: Work,
    ) -> None:
        self._demand = demand
        self._work = work
        work.spend(TRIED * len(choices))
        self._left = ground.left
        self._choices = choices
        # Bystanders come last: where they are is no matter to each other, and the matchings leave each of them a place.
        self._order = sorted(range(len(choices)), key=lambda need: (need in demand.bystanders, len(choices[need])))
        self._way: dict[int, int] = {}
        self._taken: Counter[tuple[int, int]] = Counter()
        self._found = 0
        self._claims = [
            [(class_id, amount) for class_id, amount in amounts.items() if class_id in demand.contested]
            for amounts in demand.amounts
        ]
        self._musts = [(subtree.bound, frozenset([top])) for subtree, top in zip(demand.subtrees, tops, strict=True)]
        self._musts += [(demand.clause_needs, clause) for clause in clauses]
        self._musts_of: dict[int, list[int]] = defaultdict(list)
        self._open_until = [0] * len(self._musts)
        self._meeting = [0] * len(self._musts)
        for depth, need in enumerate(self._order, 1):
            for must, (needs, wanted) in enumerate(self._musts):
                if need in needs:
                    self._musts_of[need].append(must)
                    if not wanted.isdisjoint(choices[need]):
                        self._open_until[must] = depth
        self._matchings = [self._matching(rivals) for rivals in _rivals(demand)]
        looks = {position: self._look(position) for position in set().union(*choices)}
        numbers = {look: number for number, look in enumerate(dict.fromkeys(looks.values()))}
        self._looks = {position: numbers[look] for position, look in looks.items()}
        nothing = (0,) * len(demand.contested)
        self._states: dict[int, _State] = {position: (look, nothing, False) for position, look in self._looks.items()}

    def _look(self, position: int) -> tuple[object, ...]:
        """All that the demand can see of a provider before anything is taken of it."""
        return (
            tuple(position in some for some in self._choices),
            tuple(position in wanted for _, wanted in self._musts),
            tuple(self._left(position, class_id) for class_id in self._demand.contested),
        )

    def run(self) -> Iterator[Way]:
        """All ways."""
        if not (all(matching.is_complete for matching in self._matchings) and all(self._open_until)):
            return
        levels = [self._level(0, self._matchings)]
        while levels:
            level = levels[-1]
            if level.need in self._way:
                self._take_back(level.need)
            matchings = self._go_on(level, len(levels))
            if matchings is None:
                levels.pop()
            elif len(levels) == len(self._order):
                self._found += 1
                yield tuple(self._way[need] for need in range(len(levels)))
            else:
                levels.append(self._level(len(levels), matchings))

    def _level(self, depth: int, matchings: Sequence[Matching | Room]) -> _Level:
        need = self._order[depth]
        return _Level(need, iter(self._choices[need]), matchings, set())

    def _go_on(self, level: _Level, depth: int) -> Sequence[Matching | Room] | None:
        """Serve the need of *level* by its next provider that leaves a way; the matchings after that, None if none."""
        if level.trying is not None and level.found == self._found:
            level.dead.add(level.trying)
        for position in level.untried:
            level.trying, level.found = self._states[position], self._found
            if level.trying in level.dead:
                continue
            self._work.spend(TRIED)
            if self._has_room(level.need, position):
                after = [matching.assigned(level.need, position) for matching in level.matchings]
                if None not in after:
                    self._assign(level.need, position)
                    if self._may_still_hold(level.need, depth):
                        return [matching for matching in after if matching is not None]
                    self._take_back(level.need)
            level.dead.add(level.trying)
        return None

    def _matching(self, rivals: Sequence[int]) -> Matching | Room:
        """A matching of needs that compete: for a provider that serves one of them, or for its room."""
        amounts, left = self._demand.amounts[rivals[0]], self._left
        isolated = not self._demand.isolated.isdisjoint(rivals)

        @cache
        def room(position: int) -> int:
            return 1 if isolated else min(left(position, class_id) // amount for class_id, amount in amounts.items())

        choices = {need: self._choices[need] for need in rivals}
        same = choices[rivals[0]]
        if any(some != same for some in choices.values()):
            return Matching(choices, room, self._work)
        self._work.spend(LOOKED * len(same))
        rooms = {position: room(position) for position in same}
        return Room(choices.keys(), rooms, is_complete=sum(rooms.values()) >= len(rivals))

    def _has_room(self, need: int, position: int) -> bool:
        for class_id, amount in self._claims[need]:
            if self._taken[position, class_id] + amount > self._left(position, class_id):
                return False
        return True

    def _assign(self, need: int, position: int) -> None:
        self._way[need] = position
        self._take(need, position, 1)

    def _take_back(self, need: int) -> None:
        self._take(need, self._way.pop(need), -1)

    def _take(self, need: int, position: int, times: int) -> None:
        """Let *need* take of a provider, or take so little more (-1), and note in which state that leaves it."""
        for class_id, amount in self._claims[need]:
            self._taken[position, class_id] += times * amount
        _, _, occupied = self._states[position]
        taken = tuple([self._taken[position, class_id] for class_id in self._demand.contested])
        if need in self._demand.isolated:
            occupied = times > 0
        for must in self._musts_of[need]:
            if position in self._musts[must][1]:
                self._meeting[must] += times
        self._states[position] = self._looks[position], taken, occupied

    def _may_still_hold(self, need: int, depth: int) -> bool:
        """Whether of every set of providers of which one must serve *need* or others, one does or can after *depth*."""
        return all(self._meeting[must] or self._open_until[must] > depth for must in self._musts_of[need])
