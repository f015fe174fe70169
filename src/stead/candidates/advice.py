"""Advice: the fewest consumers to move, and where, so that a request fits a number of times.

The search tries sets of consumers, those with the fewest members first. It begins with sets of which the counts say
that they make enough room. If a consumer of a set finds no new place, it adds another consumer whose place it could
take. The first set of which all members find places is the plan. `bound` proves how many moves every plan needs.

Source: "GET /advice", docs/stead-api.md; decision 47.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import combinations, count
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.draining import Move, largest_first, new_place
from stead.candidates.engine import find
from stead.candidates.headroom.headroom import headroom
from stead.candidates.match import resolve_classes
from stead.candidates.placing import negated, summed, taken_by
from stead.candidates.work import Work, WorkSpent, masked
from stead.domain.request import PACK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.draining import ConsumerHoldings
    from stead.candidates.engine import Enumeration
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest


MOST_SETS = 100
"""Sets of consumers for which new places are searched."""

MOST_HELPERS = 30
"""Consumers of which it is tried whether another can take their place."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The best plan that was found, and what is proved.

    Attributes:
        moves: in an order in which each is valid when its turn comes; None if no plan was found.
        at_least: every plan has this number of moves; None if no plan exists.
        is_complete: false if the work was used up first.
    """

    moves: Sequence[Move] | None
    at_least: int | None
    is_complete: bool


def advise(
    snapshot: Snapshot,
    request: CandidateRequest,
    number: int,
    before: Headroom,
    movables: Sequence[MovableConsumer],
    countable: Collection[int],
    gaining: Collection[int],
    enumeration: Enumeration,
    works: tuple[Work, Work],
) -> Advice:
    """Which of *movables* to move so that *request* fits *number* times.

    Args:
        before: the headroom of *snapshot*, less than *number*.
        movables: the consumers that can move from the trees of *countable*, the largest first.
        gaining: the trees into which *request* fits more often without their consumers.
        works: the budgets of the bound and of the search.
    """
    at_least = fewest_moves(snapshot, request, number, before, movables, countable, works[0])
    if at_least is None:
        return Advice(None, None, is_complete=True)
    search = _Search(Relocating(snapshot, request, number, enumeration, works[1]), snapshot, movables, works[1])
    moves = search.moves(before, number - before.at_least, gaining)
    return Advice(moves, at_least, not any(work.is_cut for work in works))


class _Origin(NamedTuple):
    """How a set was chosen: options that gain ``needed``, none of them banned."""

    options: Sequence[Option]
    needed: int
    banned: frozenset[Option]


def _effort(option: Option) -> tuple[int, int]:
    return option.moves, -sum(option.movables)


class _Search:
    """Sets of consumers, by the number of their members."""

    def __init__(
        self, relocating: Relocating, snapshot: Snapshot, movables: Sequence[MovableConsumer], work: Work
    ) -> None:
        self._relocating = relocating
        self._snapshot = snapshot
        self._leavers = movables
        self._work = work
        self._waiting: list[tuple[int, int, frozenset[int], _Origin | None]] = []
        self._numbers = count()
        self._proposed: set[object] = set()

    def moves(self, before: Headroom, needed: int, gaining: Collection[int]) -> list[Move] | None:
        """The moves of the first set whose members all find places."""
        trees = self._options(before, needed, gaining)
        failed: dict[frozenset[int], NoPlace] = {}
        try:
            self._choose(trees, needed, frozenset())
            for _ in range(MOST_SETS):
                if not self._waiting or self._work.is_cut:
                    return None
                _, _, members, origin = heapq.heappop(self._waiting)
                if members not in failed:
                    moves = self._relocating.moves([self._leavers[number] for number in sorted(members)])
                    if not isinstance(moves, NoPlace):
                        return moves
                    failed[members] = moves
                    # The heap returns the smallest sets first, so this larger set waits until those have failed.
                    for helper in self._helpers(moves, members):
                        self._propose(members | {helper}, None)
                if origin is not None:
                    for option in origin.options:
                        self._choose(trees, origin.needed, origin.banned | {option})
                    # Places exist but would cost room of the request, so a set that gains one more may afford them.
                    if failed[members].is_crowded:
                        self._choose(trees, origin.needed + 1, origin.banned)
        except WorkSpent:
            pass
        return None

    def _options(self, before: Headroom, needed: int, gaining: Collection[int]) -> list[list[Option]]:
        """For each tree of *gaining*, which consumers to move."""
        fits = dict(zip(before.roots.tolist(), before.roots_at_least.tolist(), strict=True))
        numbers: dict[int, list[int]] = defaultdict(list)
        for number, movable in enumerate(self._leavers):
            if movable.root in gaining:
                numbers[movable.root].append(number)
        among = np.zeros(self._snapshot.size, np.bool_)
        among[list(numbers)] = True

        def gains(released: Amounts) -> dict[int, int]:
            headroom = self._relocating.fits(self._snapshot.with_taken(negated(released)), among)
            if self._work.is_cut:
                raise WorkSpent
            counts = zip(headroom.roots.tolist(), headroom.roots_at_least.tolist(), strict=True)
            return {root: number - fits.get(root, 0) for root, number in counts}

        options: dict[int, dict[Option, None]] = defaultdict(dict)
        try:
            for root, option in vacating(self._leavers, numbers, needed, gains):
                options[root][option] = None
        except WorkSpent:
            pass
        # The later a consumer comes, the smaller it is: of options with as many moves, the smallest are preferred.
        trees = [sorted(of_tree, key=_effort) for of_tree in options.values()]
        return sorted(trees, key=lambda of_tree: _effort(of_tree[0]))

    def _choose(self, trees: Sequence[Sequence[Option]], needed: int, banned: frozenset[Option]) -> None:
        """Propose the cheapest set of options without banned ones."""
        if (needed, banned) in self._proposed:
            return
        self._proposed.add((needed, banned))
        allowed = [[option for option in options if option not in banned] for options in trees]
        chosen = fewest(allowed, needed, self._work)
        if chosen is not None:
            members = frozenset[int]().union(*(option.movables for option in chosen))
            self._propose(members, _Origin(chosen, needed, banned))

    def _propose(self, members: frozenset[int], origin: _Origin | None) -> None:
        if origin is not None or members not in self._proposed:
            self._proposed.add(members)
            heapq.heappush(self._waiting, (len(members), next(self._numbers), members, origin))

    def _helpers(self, failed: NoPlace, members: frozenset[int]) -> Iterator[int]:
        """Consumers whose place the one that failed could take, the smallest first."""
        if failed.movable is None:
            return
        tried: set[object] = set()
        for number in reversed(range(len(self._leavers))):
            helper = self._leavers[number]
            if number in members or helper.root == failed.movable.root or helper.kind in tried:
                continue
            if len(tried) >= MOST_HELPERS or self._work.is_cut:
                return
            tried.add(helper.kind)
            there = np.zeros(self._snapshot.size, np.bool_)
            there[helper.root] = True
            free = failed.snapshot.with_taken(negated(helper.leaving))
            if self._relocating.place(free, failed.movable, there) is not None:
                yield number


# Choosing: from each tree at most one option, so that their gains reach a number with the fewest moves.
#
# Source: decision 47.


_NEVER = 2**30
"""More moves than any plan has."""


class Option(NamedTuple):
    """If these *movables* leave a tree, the request fits ``gain`` times more often into it."""

    moves: int
    gain: int
    movables: frozenset[int] = frozenset()


def fewest(trees: Sequence[Sequence[Option]], needed: int, work: Work) -> list[Option] | None:
    """Options of different *trees* whose gains reach *needed*, with the fewest moves; None if none do.

    Raises:
        WorkSpent
    """
    reached = np.arange(needed + 1)
    moves = np.full(needed + 1, _NEVER, np.int64)
    moves[0] = 0
    numbers = []
    for options in trees:
        after, of_tree = moves, np.full(needed + 1, -1, np.int16)
        for number, option in enumerate(options):
            work.spend(masked(needed))
            # A gain beyond the number counts as reaching it.
            moved = moves[np.maximum(reached - option.gain, 0)] + option.moves
            better = moved < after
            after = np.where(better, moved, after)
            of_tree[better] = number
        moves = after
        numbers.append(of_tree)
    if moves[needed] >= _NEVER:
        return None
    chosen, remaining = list[Option](), needed
    for options, of_tree in zip(reversed(trees), reversed(numbers), strict=True):
        if of_tree[remaining] >= 0:
            chosen.append(options[of_tree[remaining]])
            remaining = max(remaining - chosen[-1].gain, 0)
    return chosen


# Vacating: which consumers of a tree to move so that a request fits into it more often.
#
# All trees are tried side by side. In each round every tree names some of its consumers, and one count of all trees
# finds what each tree gains if these leave. So a round costs little more for many trees than for one.
#
# Source: decision 47.


MOST_KINDS = 10
"""Kinds of consumers of one tree of which all pairs are tried."""

MOST_ROUNDS = 400

Numbers = frozenset[int]
"""Consumers, by their numbers."""


def vacating(
    movables: Sequence[MovableConsumer],
    trees: Mapping[int, Sequence[int]],
    needed: int,
    gains: Callable[[Amounts], Mapping[int, int]],
) -> Iterator[tuple[int, Option]]:
    """Options, each with the root of its tree. The same option may come again.

    Args:
        trees: by root, the numbers of its consumers in *movables*, the largest first.
        needed: no tree has to gain more than this.
        gains: by root, how much more often the request fits if these amounts are released.

    Raises:
        WorkSpent: while iterating.
    """
    trials = {root: _of_tree(movables, numbers, needed) for root, numbers in trees.items() if numbers}
    leaving = {root: next(trial) for root, trial in trials.items()}
    for _ in range(MOST_ROUNDS):
        if not leaving:
            return
        gain_of = gains(summed(movables[number].leaving for numbers in leaving.values() for number in numbers))
        for root, numbers in list(leaving.items()):
            gain = gain_of.get(root, 0)
            if gain > 0:
                yield root, Option(len(numbers), gain, numbers)
            try:
                leaving[root] = trials[root].send(gain)
            except StopIteration:
                del leaving[root]


def _of_tree(movables: Sequence[MovableConsumer], numbers: Sequence[int], needed: int) -> Generator[Numbers, int, None]:
    """Sets of consumers of one tree; each is answered with what the tree gains if it leaves."""
    alike: dict[object, list[int]] = {}
    for number in numbers:
        alike.setdefault(movables[number].kind, []).append(number)
    best = 0
    for same in alike.values():
        best = max(best, (yield frozenset(same[:1])))
    # Pairs are tried only if no consumer gains alone, because their number grows with the square of the kinds.
    if not best and len(alike) <= MOST_KINDS:
        firsts = [same[0] for same in alike.values()]
        for pair in [*combinations(firsts, 2), *(same[:2] for same in alike.values() if len(same) > 1)]:
            best = max(best, (yield frozenset(pair)))
    if best < needed:
        for ordered in _orders(movables, numbers):
            yield from _growing(ordered, needed)


def _orders(movables: Sequence[MovableConsumer], numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    """*numbers* in their order, and by the amounts of each class, the largest first."""
    yield numbers
    of_class = [
        {number: sum(amounts.get(class_id, 0) for amounts in movables[number].leaving.values()) for number in numbers}
        for class_id in sorted(
            {c for number in numbers for amounts in movables[number].leaving.values() for c in amounts}
        )
    ]
    for amount_of in of_class:
        yield sorted((number for number in numbers if amount_of[number]), key=lambda number: -amount_of[number])


def _growing(ordered: Sequence[int], needed: int) -> Generator[Numbers, int, None]:
    """A set that grows. Whenever it gains, it is tried without each of its members, the last ones first."""
    best = 0
    for size in range(1, len(ordered) + 1):
        gain = yield frozenset(ordered[:size])
        if gain <= best:
            continue
        best, chosen = gain, frozenset(ordered[:size])
        for number in reversed(ordered[: size - 1]):
            if (yield chosen - {number}) >= gain:
                chosen -= {number}
        if best >= needed:
            return


# Leaving: the consumers that a plan may move, and what at most they release.
#
# A consumer can move if its allocations are from one tree, besides those from sharing providers, which stay.
#
# Source: "GET /advice", docs/stead-api.md; decision 47.


@dataclass(frozen=True, slots=True)
class MovableConsumer:
    """A consumer that can leave the tree of ``root``, where it releases ``leaving``."""

    holdings: ConsumerHoldings
    root: int
    leaving: Amounts

    @property
    def kind(self) -> object:
        """Equal for consumers with equal allocations."""
        return frozenset(
            (slot, class_id, n) for slot, amounts in self.holdings.amounts.items() for class_id, n in amounts.items()
        )


def movable_consumers(snapshot: Snapshot, all_holdings: Sequence[ConsumerHoldings]) -> list[MovableConsumer]:
    """Those of *all_holdings* that can move, the largest first."""
    movables = []
    for holdings in largest_first(snapshot, all_holdings):
        leaving = {slot: amounts for slot, amounts in holdings.amounts.items() if not snapshot.sharing.mask[slot]}
        roots = {snapshot.forest.root[slot] for slot in leaving}
        if len(roots) == 1:
            movables.append(MovableConsumer(holdings, roots.pop(), leaving))
    return movables


class MostReleased:
    """What is released at most of some classes if a number of consumers leaves each tree."""

    def __init__(self, movables: Iterable[MovableConsumer], classes: Collection[int]) -> None:
        self._amounts: dict[tuple[Slot, int], list[int]] = defaultdict(list)
        for movable in movables:
            for slot, amounts in movable.leaving.items():
                for class_id in amounts.keys() & set(classes):
                    self._amounts[slot, class_id].append(amounts[class_id])
        for amounts_there in self._amounts.values():
            amounts_there.sort(reverse=True)

    def by(self, number: int) -> Amounts:
        """The sum of the *number* largest amounts at each place, which may be of different consumers."""
        released: Amounts = {}
        for (slot, class_id), amounts in self._amounts.items():
            released.setdefault(slot, {})[class_id] = sum(amounts[:number])
        return released


# Relocating: new places for consumers that leave their trees, such that a request still fits often enough.
#
# Each consumer takes a place in another tree: one into which the request does not fit, or one where the new consumer
# costs few of its places. If a consumer finds none, the search gives the earlier ones other places, the last first.
#
# Source: decision 47.


DEAD_ENDS = 20
"""The search for places of some consumers gives up after this number of dead ends."""

HARMLESS, HARMFUL = 3, 5
"""Trees that are tried for a consumer: without and with places of the request."""


@dataclass(frozen=True, slots=True)
class NoPlace:
    """No places were found. ``movable`` is the consumer that lacked one, None if no single one did.

    ``snapshot`` is what it searched. ``is_crowded``: there are places, but they would take room of the request.
    """

    snapshot: Snapshot
    movable: MovableConsumer | None = None
    is_crowded: bool = True


@dataclass(frozen=True, slots=True)
class _Place:
    """A place, and how often the request still fits into its tree."""

    root: int
    taken: Amounts
    fits: int


class Relocating:
    """Finds places in one snapshot for the consumers that leave it."""

    def __init__(
        self, snapshot: Snapshot, request: CandidateRequest, number: int, enumeration: Enumeration, work: Work
    ) -> None:
        """*request* must still fit *number* times."""
        self._snapshot = snapshot
        self._request = request
        self._number = number
        self._enumeration = replace(enumeration, maximum=None, randomize=False)
        self._work = work

    def moves(self, movables: Sequence[MovableConsumer]) -> list[Move] | NoPlace:
        """The moves of *movables*, in an order in which each is valid when its turn comes."""
        free = self._snapshot.with_taken(negated(summed(movable.leaving for movable in movables)))
        room = self.fits(free)
        if room.at_least < self._number:
            return NoPlace(free)
        self._dead_ends = DEAD_ENDS
        self._failed, self._depth = NoPlace(free), -1
        fits = dict(zip(room.roots.tolist(), room.roots_at_least.tolist(), strict=True))
        places = self._places(free, movables, 0, fits, room.at_least - self._number)
        if places is None:
            return self._failed
        moves = self._in_turn(
            [Move(movable.holdings, amounts) for movable, amounts in zip(movables, places, strict=True)]
        )
        return NoPlace(free) if moves is None else moves

    def fits(self, snapshot: Snapshot, among: NDArray[np.bool_] | None = None) -> Headroom:
        """How often the request fits."""
        return headroom(snapshot, self._request, self._work, among=among)

    def place(self, snapshot: Snapshot, movable: MovableConsumer, among: NDArray[np.bool_]) -> Amounts | None:
        """The best place for *movable* under the roots *among*: by default, one that packs trees."""
        request, _ = new_place(self._snapshot, movable.holdings, movable.leaving)
        request = replace(request, order=request.order or PACK)
        free = snapshot.with_taken(negated(_shared(movable)))
        candidate = next(find(free, request, self._enumeration, work=self._work, among=among), None)
        return None if candidate is None else taken_by(candidate)

    def _places(
        self, snapshot: Snapshot, movables: Sequence[MovableConsumer], depth: int, fits: Mapping[int, int], spare: int
    ) -> list[Amounts] | None:
        """Places for the movable consumers from number *depth* on; they may cost *spare* places of the request."""
        if depth == len(movables):
            if self.fits(snapshot).at_least >= self._number:
                return []
            self._dead_ends -= 1
            return None
        movable, is_crowded = movables[depth], False
        for place in self._places_of(snapshot, movable, fits):
            loss = fits.get(place.root, 0) - place.fits
            if loss > spare:
                is_crowded = True
                continue
            change = summed([negated(_shared(movable)), place.taken])
            after, remaining = snapshot.with_taken(change), {**fits, place.root: place.fits}
            rest = self._places(after, movables, depth + 1, remaining, spare - loss)
            if rest is not None:
                return [place.taken, *rest]
            if self._dead_ends <= 0:
                return None
        self._dead_ends -= 1
        # A helper may make room for the consumer that failed deepest, so its failure is kept.
        if depth > self._depth:
            self._failed, self._depth = NoPlace(snapshot, movable, is_crowded), depth
        return None

    def _places_of(self, snapshot: Snapshot, movable: MovableConsumer, fits: Mapping[int, int]) -> Iterator[_Place]:
        """Places of different trees, those that cost the request least first."""
        others = np.ones(snapshot.size, np.bool_)
        others[movable.root] = False
        useful = np.zeros(snapshot.size, np.bool_)
        useful[[root for root, number in fits.items() if number]] = True
        for root, taken in self._of_different_trees(snapshot, movable, others & ~useful, HARMLESS):
            yield _Place(root, taken, 0)
        harmful = []
        for root, taken in self._of_different_trees(snapshot, movable, others & useful, HARMFUL):
            here = np.zeros(snapshot.size, np.bool_)
            here[root] = True
            # Counted in this tree alone, because a full count per place would cost a pass over the site.
            after = self.fits(snapshot.with_taken(summed([negated(_shared(movable)), taken])), here)
            harmful.append(_Place(root, taken, int(after.roots_at_least.sum())))
        yield from sorted(harmful, key=lambda place: fits[place.root] - place.fits)

    def _of_different_trees(
        self, snapshot: Snapshot, movable: MovableConsumer, among: NDArray[np.bool_], most: int
    ) -> Iterator[tuple[int, Amounts]]:
        for _ in range(most):
            taken = self.place(snapshot, movable, among) if among.any() else None
            if taken is None:
                return
            root = next(r for slot in taken if among[r := snapshot.forest.root[slot]])
            yield root, taken
            among[root] = False

    def _in_turn(self, moves: Sequence[Move]) -> list[Move] | None:
        """*moves* in an order in which each has room when its turn comes; None if there is none."""
        snapshot, waiting, ordered = self._snapshot, list(moves), list[Move]()
        while waiting:
            for move in waiting:
                # The consumer's own allocations do not count against its move: it is one write that replaces them.
                without = snapshot.with_taken(negated(move.holdings.amounts))
                if _have_room(without, move.amounts):
                    break
            else:
                return None
            snapshot = without.with_taken(move.amounts)
            waiting.remove(move)
            ordered.append(move)
        return ordered


def _shared(movable: MovableConsumer) -> Amounts:
    """The allocations from sharing providers, which the request for a new place has again."""
    return {slot: amounts for slot, amounts in movable.holdings.amounts.items() if slot not in movable.leaving}


def _have_room(snapshot: Snapshot, amounts: Amounts) -> bool:
    return all(
        snapshot.inventory[class_id].room[slot] >= amount
        for slot, by_class in amounts.items()
        for class_id, amount in by_class.items()
    )


# The bound: a number of moves that every plan needs.
#
# A move releases something in one tree only, and takes room elsewhere. So after a plan, the request fits into each
# tree at most as often as if its movable consumers were gone, and nothing had come. What k of them release is at most
# the k largest amounts of each place. The fewest movable consumers for which these counts add up to the number are a
# bound for every plan.
#
# Source: decision 47.


_GREAT = 2**40
"""More than the usage of most providers."""

MOST_COUNTED = 32
"""Up to this number of movable consumers of one tree, their effect is bounded; more count as if all had left."""


def requested(snapshot: Snapshot, request: CandidateRequest) -> Counter[int]:
    """The amounts that *request* takes, by class id.

    Raises:
        UnknownResourceClass
    """
    amounts: Counter[int] = Counter()
    for group in request.groups:
        amounts.update(resolve_classes(snapshot, group.resources))
    return amounts


class Sources(NamedTuple):
    """Roots of the trees with consumers, the least used first. ``gaining``: without them, a request fits more often."""

    gaining: Sequence[int]
    others: Sequence[int]


def sources(snapshot: Snapshot, request: CandidateRequest, before: Headroom, work: Work) -> Sources:
    """The trees from which moves may help *request*, whose headroom is *before*."""
    amounts = requested(snapshot, request)
    released = headroom(snapshot.with_all_released(amounts, snapshot.sharing.mask), request, work)
    now = _most(before)
    gaining = {root for root, most in _most(released).items() if most > now.get(root, 0)}
    used = np.zeros(snapshot.size)
    for class_id, columns in snapshot.inventory.items():
        slots = columns.slots[~snapshot.sharing.mask[columns.slots]]
        np.add.at(used, snapshot.forest.root.at(slots), columns.used(slots) / amounts.get(class_id, _GREAT))
    ordered = sorted(np.flatnonzero(used).tolist(), key=lambda root: used[root])
    return Sources([root for root in ordered if root in gaining], [root for root in ordered if root not in gaining])


def fewest_moves(
    snapshot: Snapshot,
    request: CandidateRequest,
    number: int,
    before: Headroom,
    movables: Sequence[MovableConsumer],
    countable: Collection[int],
    work: Work,
) -> int | None:
    """A number of moves that every plan needs after which *request* fits *number* times; None if no plan exists.

    Args:
        before: the headroom of *snapshot*.
        movables: the consumers that can move from the trees of *countable*. All consumers of other trees can move.
    """
    least = 1 if before.at_most < number else 0
    classes = requested(snapshot, request)
    unreleased = snapshot.sharing.mask | np.isin(snapshot.forest.root.whole, list(countable))
    everyone = negated(summed(movable.leaving for movable in movables))
    most = headroom(snapshot.with_all_released(classes, unreleased).with_taken(everyone), request, work)
    if not (most.is_complete and before.is_complete):
        return least
    if most.at_most < number:
        return None
    needed = number - int(before.roots_at_most.sum())
    if needed <= 0:
        return least
    try:
        trees = _options(snapshot, request, _most(before), _most(most), movables, countable, work)
        alike = Counter(tuple(options) for options in trees)
        # Each tree adds at least one, so more than the needed number of equal trees cannot be used.
        several = [options for options, times in alike.items() for _ in range(min(times, needed))]
        options = fewest(several, needed, work)
    except WorkSpent:
        return least
    return None if options is None else max(least, sum(option.moves for option in options))


def _most(headroom: Headroom) -> dict[int, int]:
    return dict(zip(headroom.roots.tolist(), headroom.roots_at_most.tolist(), strict=True))


def _options(
    snapshot: Snapshot,
    request: CandidateRequest,
    now: Mapping[int, int],
    empty: Mapping[int, int],
    movables: Sequence[MovableConsumer],
    countable: Collection[int],
    work: Work,
) -> list[list[Option]]:
    """By tree the most that its movable consumers gain. N of them gain at most what its option with N moves gains."""
    options = {root: [Option(1, most - now.get(root, 0))] for root, most in empty.items() if most > now.get(root, 0)}
    counted = {root for root in options if root in countable}
    for root in counted:
        options[root] = []
    of_tree = Counter(movable.root for movable in movables)
    released = MostReleased(
        [movable for movable in movables if movable.root in counted], set(requested(snapshot, request))
    )
    among = np.zeros(snapshot.size, np.bool_)
    for number in range(1, min(max(of_tree.values(), default=0), MOST_COUNTED) + 1):
        among[:] = False
        among[list(counted)] = True
        with_room = headroom(snapshot.with_taken(negated(released.by(number))), request, work, among=among)
        if not with_room.is_complete:
            raise WorkSpent
        most = _most(with_room)
        for root in list(counted):
            gain = most.get(root, 0) - now.get(root, 0)
            if gain > max((option.gain for option in options[root]), default=0):
                options[root].append(Option(number, gain))
            if number >= of_tree[root] or most.get(root, 0) >= empty[root]:
                counted.discard(root)
        if not counted:
            break
    for root in counted:
        # More movable consumers gain at most what the empty tree gains, so the bound still holds.
        options[root].append(Option(MOST_COUNTED + 1, empty[root] - now.get(root, 0)))
    return list(options.values())
