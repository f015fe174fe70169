"""Kinds: trees that are alike for a request are one kind, and what serves one of them serves all.

A cloud's hosts are built alike, and where they differ (names, what else is taken) it often does not matter to a
request. So ways are sought once for each kind, in positions: those of a tree's own providers, parents first, and after
them those of the sharing providers that reach it from other trees.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.candidate import Arrangement
from stead.candidates.combine import Demand, Ground, Subtree, ways
from stead.candidates.divide import divided
from stead.candidates.draw import drawn
from stead.candidates.splits import Share
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.columns import Shares
    from stead.catalog.forest import Shape
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest

_FIRST, _MOST = 32, 4096
"""Trees looked at together: few at first, as few may be asked for, and then more and more."""

_FEW = 32
"""With so many ways at most, all of a kind are found before some are drawn."""


class Kind:
    """Trees whose ways to serve a request are the same, in positions."""

    def __init__(
        self, pools: Sequence[Pool], reaching: Sequence[Slot], demand: Demand, ground: Ground, work: Work
    ) -> None:
        """Nothing is sought before it is asked for; seeking takes of *work*, and raises WorkSpent."""
        self._pools = pools
        self._work = work
        self._reaching = reaching
        self.demand = demand
        self.ground = ground
        self._known: list[Arrangement] = []
        self._source: Iterator[Arrangement] | None = self._arranged(ground)

    def _arranged(self, ground: Ground) -> Iterator[Arrangement]:
        for demand, parted in divided(self.demand, ground, self._work):
            pools = self._pools
            if demand.parts or ground.shares:
                whole = [*range(len(pools)), *demand.parts.values()]
                pools = [replace(pools[need], amounts=some) for need, some in zip(whole, demand.amounts, strict=True)]
            for way in ways(demand, parted, self._work):
                yield Arrangement(pools, way, self._reaching, is_divided=bool(demand.parts))

    @property
    def is_explored(self) -> bool:
        """Whether all ways were found."""
        return self._source is None

    def arrangements(self) -> Iterable[Arrangement]:
        """All ways, each once; what was found for one tree is not sought again for the next."""
        return self._known if self._source is None else self._replayed()

    def _replayed(self) -> Iterator[Arrangement]:
        for number in itertools.count():
            if number == len(self._known):
                found = next(self._source, None) if self._source is not None else None
                if found is None:
                    self._source = None
                    return
                self._known.append(found)
            yield self._known[number]

    def shuffled(self) -> Iterator[Arrangement]:
        """All ways, each once, in random order; another one each time."""
        few = list(islice(self.arrangements(), _FEW + 1))
        if len(few) <= _FEW:
            return (few[place] for place in drawn(len(few)))
        choices = [random.sample(some, len(some)) for some in self.ground.choices]
        return self._arranged(replace(self.ground, choices=choices))


class Demanded:
    """What all groups together demand of one tree after the other."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[MatchedGroup],
        work: Work,
        request: CandidateRequest | None = None,
    ) -> None:
        """The demand of *groups*, bound together as *request* says, or not at all; all it does takes of *work*."""
        self._work = work
        self.pools = [pool for group in groups for pool in group.pools]
        self._snapshot = snapshot
        self._clauses = [snapshot.with_traits([clause], ()) for group in groups for clause in group.clauses]
        suffixed = {pool.suffix: need for need, pool in enumerate(self.pools) if pool.suffix != UNSUFFIXED}
        self.demand = _bound(
            Demand(
                [pool.amounts for pool in self.pools],
                clause_needs=frozenset(need for need, pool in enumerate(self.pools) if pool.suffix == UNSUFFIXED),
            ),
            suffixed,
            request,
        )
        self._divided = {need: pool.shares for need, pool in enumerate(self.pools) if pool.shares is not None}
        self._contested = sorted(self.demand.contested)
        self._is_shared = any(pool.shared.size for pool in self.pools)
        self._kinds: list[Kind] = []
        self._numbers: dict[bytes, int] = {}

    @property
    def asked(self) -> Mapping[int, int]:
        """What all groups together take, by class id, in the order in which they name the classes."""
        total: Counter[int] = Counter()
        for pool in self.pools:
            total.update(pool.amounts)
        return total

    def runs(
        self, anchors: NDArray[np.int64], turn: Iterable[int], *, of_all: bool = False
    ) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        """The trees in turn, those of one kind that follow each other together, as their slots by position.

        Args:
            turn: the places in *anchors*, in the order wanted.
            of_all: those of the last trees are wanted as well as those of the first.
        """
        left, together = iter(turn), _MOST if of_all else _FIRST
        while some := list(islice(left, together)):
            self._work.require_time()
            yield from self._runs(anchors[some])
            together = min(together * 4, _MOST)

    def _runs(self, anchors: NDArray[np.int64]) -> Iterator[tuple[Kind, NDArray[np.int64]]]:
        forest = self._snapshot.forest
        shapes = forest.shape.at(anchors)
        kinds, rows = np.empty(len(anchors), np.int64), np.empty(len(anchors), np.int64)
        slots: dict[int, NDArray[np.int64]] = {}
        for shape in np.unique(shapes).tolist():
            places = np.flatnonzero(shapes == shape)
            slots[shape] = forest.members_of(anchors[places], forest.shapes.values[shape])
            kinds[places] = self._sorted(shape, slots[shape], anchors[places])
            rows[places] = np.arange(len(places))
        bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(anchors)]
        for start, stop in itertools.pairwise(bounds):
            first = int(rows[start])  # those of one kind have one shape, so their rows follow each other too
            yield self._kinds[int(kinds[start])], slots[int(shapes[start])][first : first + stop - start]

    def _sorted(self, number: int, slots: NDArray[np.int64], anchors: NDArray[np.int64]) -> list[int]:
        """The numbers of the kinds of trees of one shape, told apart by a signature: all that the request can see."""
        sharing = self._snapshot.sharing
        able = [pool.own[slots] for pool in self.pools]
        meeting = [mask[slots] for mask in self._clauses]
        left = [self._left(class_id, slots) for class_id in self._contested]
        circles = sharing.circle[anchors] if self._is_shared else np.zeros(len(anchors), np.int32)
        shapes = np.full(len(anchors), number, np.int32)
        shares = {need: self._shares(need, some, slots) for need, some in self._divided.items()}
        left_and_shares = [*left, *(column for columns in shares.values() for column in columns)]
        seen = [some.view(np.uint8) for some in (shapes[:, None], circles[:, None])]
        bits = np.packbits(np.concatenate([*able, *meeting], axis=1), axis=1)
        signature = np.concatenate([*seen, *(some.view(np.uint8) for some in left_and_shares), bits], axis=1)
        keys: list[bytes] = signature.view(f"V{signature.shape[1]}").ravel().tolist()
        for key in dict.fromkeys(keys).keys() - self._numbers.keys():
            place = keys.index(key)
            tree = _Tree(
                self._snapshot.forest.shapes.values[number],
                sharing.circles[circles[place]] if self._is_shared else (),
                [some[place] for some in able],
                [some[place] for some in meeting],
                {class_id: some[place] for class_id, some in zip(self._contested, left, strict=True)},
                {need: [column[place] for column in columns] for need, columns in shares.items()},
            )
            self._numbers[key] = len(self._kinds)
            self._kinds.append(Kind(self.pools, tree.reaching, self.demand, self._ground(tree), self._work))
        return [self._numbers[key] for key in keys]

    def _left(self, class_id: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """What one candidate may take of a class at each of *slots*; more than all that is asked is as good as that."""
        most = sum(pool.amounts.get(class_id, 0) for pool in self.pools)
        return self._snapshot.inventory[class_id].left(slots).clip(-1, most)

    def _shares(self, need: int, shares: Shares, slots: NDArray[np.int64]) -> Sequence[NDArray[np.int64]]:
        """Least, most, step and rank of what the providers at *slots* could give as a part; 0 at most if nothing."""
        least, most, step = shares.least[slots], shares.most[slots], shares.step[slots]
        most = np.where(self.pools[need].own[slots], most, 0)
        return least, most, step, _ranks(most, self._snapshot.identities.uuids.at(slots).astype(str))

    def _ground(self, tree: _Tree) -> Ground:
        """What a tree offers, by position."""
        size = tree.shape.size
        choices = [
            np.flatnonzero(able).tolist()
            + [size + number for number, slot in enumerate(tree.reaching) if slot in pool.shared]
            for pool, able in zip(self.pools, tree.able, strict=True)
        ]
        others = np.array(tree.reaching, np.int64)
        left = {
            class_id: [*some.tolist(), *self._left(class_id, others).tolist()] for class_id, some in tree.left.items()
        }
        open_to = {position for need in self.demand.clause_needs for position in choices[need]}
        clauses = [
            frozenset(np.flatnonzero(np.concatenate([meeting, mask[others]])).tolist()) & open_to
            for meeting, mask in zip(tree.meeting, self._clauses, strict=True)
        ]

        shares = {need: _by_position(columns) for need, columns in tree.shares.items()}

        def is_below(position: int, top: int) -> bool:
            if position < size and top < size:
                return tree.shape.is_below(position, top)
            if position < size or top < size:
                return False
            return self._snapshot.forest.is_below(tree.reaching[position - size], tree.reaching[top - size])

        return Ground(choices, lambda position, class_id: left[class_id][position], is_below, clauses, shares)


def _bound(demand: Demand, suffixed: Mapping[str, int], request: CandidateRequest | None) -> Demand:
    """*demand* with its needs (*suffixed* has those of suffixed groups) bound together as *request* says."""
    if request is None:
        return demand
    every = frozenset(suffixed.values())
    isolated = every if request.isolate else frozenset(suffixed[suffix] for suffix in request.isolated)
    subtrees = [Subtree(frozenset(suffixed[suffix] for suffix in bound)) for bound in request.same_subtree]
    subtrees += [
        Subtree(*(frozenset(suffixed[suffix] for suffix in some) for some in (value.together, value.others)))
        for value in request.apart
    ]
    bystanders = every - isolated if isolated else frozenset()
    return replace(demand, isolated=isolated, bystanders=bystanders, subtrees=subtrees)


def _ranks(most: NDArray[np.int64], uuids: NDArray[np.str_]) -> NDArray[np.int64]:
    """By their uuids, the order of those in a row who could give equally much; of shape ``(trees, size)``, as both."""
    turn = np.lexsort((uuids.argsort(axis=1).argsort(axis=1), most), axis=1)
    ascending = np.take_along_axis(most, turn, axis=1)
    place = np.broadcast_to(np.arange(most.shape[1]), most.shape)
    is_first = np.concatenate([np.ones((len(most), 1), np.bool_), ascending[:, 1:] != ascending[:, :-1]], axis=1)
    first = np.maximum.accumulate(np.where(is_first, place, 0), axis=1)
    ranks = np.zeros_like(most)
    np.put_along_axis(ranks, turn, np.where(ascending > 0, place - first, 0), axis=1)
    return ranks


def _by_position(columns: Sequence[NDArray[np.int64]]) -> dict[int, Share]:
    """What could be given as a part, by positions of who could give something."""
    shares = (Share(*numbers) for numbers in zip(*(column.tolist() for column in columns), strict=True))
    return {position: share for position, share in enumerate(shares) if share.most}


@dataclass(frozen=True, slots=True)
class _Tree:
    """What a request can see of one tree; arrays are by position of its own providers.

    ``able``: for each pool, who may serve it. ``meeting``: for each clause, who meets it. ``left``: by contested class,
    how much may be taken. ``shares``: for each pool that may be divided, the columns of what each could give as a part.
    """

    shape: Shape
    reaching: Sequence[Slot]
    able: Sequence[NDArray[np.bool_]]
    meeting: Sequence[NDArray[np.bool_]]
    left: Mapping[int, NDArray[np.int64]]
    shares: Mapping[int, Sequence[NDArray[np.int64]]]
