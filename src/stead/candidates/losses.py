"""Losses: how much each candidate lowers the value of its tree for the requests that the site is to serve.

The *value* of a tree is a sum over the forms of a mix: how many times each fits into the tree, and what of the scarce
class it can reach there. The loss of a candidate is the value before it less the value after it.

Trees of one *look* (the same structure, traits and units) have the same providers for each form, so their values are
sums of the same columns. Losses are kept by request and tree. A tree that changed is noticed once, by its rooms and its
version, and only its losses are computed again.

Source: "Order", docs/stead-api.md; decision 70.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, islice
from math import comb, inf
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stead.candidates.match import (
    admitted,
    eligible_anchors,
    in_ids,
    known_traits,
    resolve_aggregates,
)
from stead.candidates.work import CANDIDATE, masked
from stead.catalog.blocks import Blocks
from stead.catalog.columns import InventoryColumns
from stead.catalog.snapshot import NO_SLOT
from stead.domain.provider import keeps_units
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from stead.candidates.kinds import Arrangement, TreeKinds
    from stead.candidates.match import MatchedGroup, Pool
    from stead.candidates.work import Work
    from stead.catalog.blocks import Sparse
    from stead.catalog.columns import InventoryKinds
    from stead.catalog.snapshot import Shape, Snapshot
    from stead.domain.provider import Slot
    from stead.domain.request import CandidateRequest, Wanted

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Rooms = Mapping[int, Floats]
    """By class id the free amounts of some states of trees of one look, shape ``(states, size of each)``."""

EXPONENT = 0.7
"""The second claim of a form that fits into a tree counts less than the first."""

REACH = 10.0
"""Weight of what a form can reach, beside what claims of it take."""

DIGITS = 9
"""Digits of a loss that count. More would order equal trees by the rounding of sums."""

MOST_FORMS = 1_000
"""Maximum number of forms of a mix; the heaviest count."""

AT_ONCE = 1_000
"""Candidates of one tree that are measured together, and combinations of equal groups."""

_TOGETHER = 2**18
"""Numbers in one vector operation, so that a step takes milliseconds and little memory."""

_ANCHORS_AT_ONCE = 1_024
"""Trees whose losses are computed before other requests may run."""

_MOST_BYTES = 64 << 20
"""Limit of the memory of the losses of all requests."""

_NO_LOOK = -1


class Losses:
    """The losses of candidates in the snapshots of one service; safe for several threads."""

    def __init__(self, mix: Callable[[], Sequence[Wanted]]) -> None:
        """*mix* returns the present mix: the same object as long as nothing changed; empty for none."""
        self._mix = mix
        self._lock = Lock()
        self._kept: tuple[Sequence[Wanted], _Kept] | None = None
        self._number = 0

    def of(
        self,
        snapshot: Snapshot,
        request: CandidateRequest,
        groups: Sequence[MatchedGroup],
        tree_kinds: TreeKinds,
    ) -> LeastLoss | None:
        """The order by loss for *request* in *snapshot*; None if there is no mix."""
        kept, _ = self._of_mix()
        return LeastLoss(kept, snapshot, request, groups, tree_kinds) if kept else None

    def mix_number(self) -> int:
        """A number that grows when the mix changes."""
        return self._of_mix()[1]

    def _of_mix(self) -> tuple[_Kept | None, int]:
        mix = self._mix()
        with self._lock:
            if self._kept is None or self._kept[0] is not mix:
                self._number += 1
                self._kept = mix, _Kept(mix)
            return (self._kept[1] if mix else None), self._number

    def has_mix(self) -> bool:
        """Whether there is a mix; without one, no tree has a value."""
        return self._of_mix()[0] is not None

    def scarce_class(self, snapshot: Snapshot) -> int | None:
        """The id of the class of which the mix takes the greatest part; None if it takes none."""
        kept, _ = self._of_mix()
        if kept is None:
            return None
        with kept.lock:
            kept.follow(snapshot, {})
            return kept.scarce

    def values(self, snapshot: Snapshot, roots: Numbers, work: Work, *, free_in: Snapshot | None = None) -> Floats:
        """The value of the tree of each of *roots*; 0 without a mix.

        Args:
            free_in: a snapshot that differs from *snapshot* only in what is free, and whose free amounts count.

        Raises:
            WorkSpent
        """
        values = np.zeros(len(roots))
        for look, of_look in self._looks(snapshot, roots):
            step = look.at_once
            for start in range(0, len(of_look) if look.classes else 0, step):
                places = of_look[start : start + step]
                slots = snapshot.forest.members_of(roots[places], look.shape)
                values[places] = look.values_of(_rooms(free_in or snapshot, look.classes, slots), work)
        return values

    def lost(
        self, snapshot: Snapshot, changes: Sequence[tuple[int, Mapping[Slot, Mapping[int, int]]]], work: Work
    ) -> Floats:
        """How much each of *changes* alone lowers the value of its tree; 0 without a mix.

        Args:
            changes: each the root of a tree, and what is taken of it, or released if negative, by slot and class id.
                What is taken of other trees does not count.

        Raises:
            WorkSpent
        """
        losses = np.zeros(len(changes))
        for look, of_look in self._looks(snapshot, np.array([root for root, _ in changes], np.int64)):
            size = look.shape.size
            roots, trees = np.unique([changes[place][0] for place in of_look.tolist()], return_inverse=True)
            slots = snapshot.forest.members_of(roots, look.shape)
            base = _rooms(snapshot, look.classes, slots)
            rows = _Rows(trees, base)
            positions = [{slot: position for position, slot in enumerate(row[:size])} for row in slots.tolist()]
            for number, (place, tree) in enumerate(zip(of_look.tolist(), trees.tolist(), strict=True)):
                for slot, amounts in changes[place][1].items():
                    if slot in positions[tree]:
                        rows.take(number, positions[tree][slot], amounts)
            losses[of_look] = rows.losses(look, base, work)
        return losses

    def _looks(self, snapshot: Snapshot, roots: Numbers) -> Sequence[tuple[_Look, Numbers]]:
        """The looks of the trees of *roots*, each with the places of its trees among them."""
        kept, _ = self._of_mix()
        if kept is None:
            return ()
        with kept.lock:
            kept.follow(snapshot, {})
            return kept.looks_of(roots)


class LeastLoss:
    """An order: the candidates of one request by their losses, the least first."""

    def __init__(
        self,
        kept: _Kept,
        snapshot: Snapshot,
        request: CandidateRequest,
        groups: Sequence[MatchedGroup],
        tree_kinds: TreeKinds,
    ) -> None:
        self._kept = kept
        self._snapshot = snapshot
        self._plan = _Plan(request, groups, tree_kinds)

    def of_trees(self, anchors: Numbers, work: Work) -> Floats:
        """The least loss of a candidate of each tree, shape ``(1, anchors)``."""
        losses = np.full(len(anchors), inf)
        remaining = np.arange(len(anchors))
        while remaining.size:
            with self._kept.lock:
                self._kept.follow(self._snapshot, self._plan.requested)
                stale, remaining = self._kept.read(self._plan, anchors, losses, remaining)
            if stale is None:
                break
            # Outside the lock, since it may take long, and other requests may run in between.
            computed, is_kept = _computed(self._snapshot, self._plan, stale, work)
            losses[stale.places] = computed
            with self._kept.lock:
                self._kept.keep(self._plan, stale, computed, is_kept)
            work.require_time()
        return losses[None, :]

    def of_arrangements(self, arrangements: Sequence[Arrangement], slots: Numbers, work: Work) -> Floats:
        """The loss of each of *arrangements* for the tree of *slots*, shape ``(1, arrangements)``."""
        with self._kept.lock:
            self._kept.follow(self._snapshot, self._plan.requested)
            look = self._kept.look_of(int(slots[0]))
        size = look.shape.size
        base = _rooms(self._snapshot, look.classes, slots[None, :size])
        rows = _Rows(np.zeros(len(arrangements), np.int64), base)
        for number, arrangement in enumerate(arrangements):
            if number % 64 == 0:  # a thousand arrangements take ten milliseconds
                work.give_way()
            for position, amounts in arrangement.allocations.items():
                if position < size:  # sharing providers of other trees are no part of this one
                    rows.take(number, position, amounts)
        return rows.losses(look, base, work)[None, :]


class _Plan:
    """What decides which candidates a request has in a tree, apart from the tree."""

    def __init__(self, request: CandidateRequest, groups: Sequence[MatchedGroup], tree_kinds: TreeKinds) -> None:
        self.tree_kinds = tree_kinds
        self.pools = tree_kinds.pools
        self.requested = tree_kinds.requested
        self.key = _key(request)
        self.has_clauses = any(group.clauses for group in groups)
        demand = tree_kinds.demand
        # Equal groups are interchangeable, so only the numbers of them at each provider matter.
        equal: dict[object, list[int]] = {}
        for number, pool in enumerate(self.pools):
            terms = next((replace(g, suffix="") for g in request.groups if g.suffix == pool.suffix), None)
            alone = number if pool.suffix == UNSUFFIXED else None
            key = alone, tuple(sorted(pool.amounts.items())), repr(terms)
            equal.setdefault(key, []).append(number)
        self.equal = list(equal.values())
        times = Counter(class_id for numbers in self.equal for class_id in self.pools[numbers[0]].amounts)
        self.is_plain = (
            max(times.values(), default=0) <= 1
            and all(pool.amounts and pool.shares is None and not pool.shared.size for pool in self.pools)
            and not (demand.subtrees or demand.is_isolating or demand.ignores_capacity)
        )

    def depends_on_others(self, slots: Numbers) -> Mask | None:
        """Mask of the trees whose candidates depend on sharing providers of other trees; None if none do."""
        both = [pool.own[slots].any(axis=1) for pool in self.pools if pool.shared.size]
        return np.logical_or.reduce(both) if both else None


def _key(request: CandidateRequest) -> object:
    groups = tuple(
        (g.suffix, tuple(g.resources.items()), g.traits, g.aggregates, g.in_tree, g.in_subtree, g.can_split,
         g.like_any_other)
        for g in request.groups
    )  # fmt: skip
    return (
        groups, request.isolate, request.isolated, request.same_subtree, request.apart, request.root_traits,
        request.root_aggregates, request.one_provider_per_tree,
    )  # fmt: skip


class _Table(NamedTuple):
    """The least losses of one request, by place of the tree. Each holds for the stamp that the tree had."""

    losses: Floats
    stamps: Numbers


class _Stale(NamedTuple):
    """Trees whose losses are computed next: their places in a query, roots, looks with places among them, stamps."""

    places: Numbers
    roots: Numbers
    looks: Sequence[tuple[_Look, Numbers]]
    stamps: Numbers
    epoch: int


class _Kept:
    """What is known of trees for one mix: their looks, when they changed last, and losses by request.

    It follows one snapshot after the other. All methods need the lock.
    """

    def __init__(self, mix: Sequence[Wanted]) -> None:
        self.lock = Lock()
        self._mix = heaviest(mix)
        self._snapshot: Snapshot | None = None
        self._names: tuple[object, ...] = ()
        self._basis: tuple[int | None, frozenset[int]] = None, frozenset()
        self._epoch = 0
        self._clear()

    def _clear(self) -> None:
        self._forms: list[_Form] = []
        self._terms = _Terms()
        self._columns: dict[int, InventoryColumns] = {}
        self._looks: list[_Look] = []
        self._number_of: dict[tuple[int, bytes], int] = {}
        self._look = np.empty(0, np.int32)
        self._place = np.empty(0, np.int32)
        self._places = 0
        self._stamp = np.empty(0, np.int64)
        self._last_stamp = 0
        self._tables: OrderedDict[object, _Table] = OrderedDict()
        self._rows = 0  # of all tables

    def look_of(self, root: int) -> _Look:
        """The look of the tree of *root*."""
        return self._looks[int(self._look[root])]

    def looks_of(self, roots: Numbers) -> list[tuple[_Look, Numbers]]:
        """The looks of the trees of *roots*, each with the places of its trees among them."""
        numbers = self._look[roots]
        return [(self._looks[number], np.flatnonzero(numbers == number)) for number in np.unique(numbers).tolist()]

    @property
    def scarce(self) -> int | None:
        """The id of the scarce class in the snapshot that was followed last."""
        return self._basis[0]

    def follow(self, snapshot: Snapshot, requested: Mapping[int, int]) -> None:
        """Notice which trees differ from those of the snapshot before."""
        before = self._snapshot
        for class_id in requested:
            if class_id not in self._columns and class_id in snapshot.inventory:
                # Losses of requests for the class are not kept yet, so nothing depends on it.
                self._columns[class_id] = (before or snapshot).inventory.get(class_id) or InventoryColumns.none()
        if before is snapshot:
            return
        names = snapshot.trait_names, snapshot.class_names, snapshot.aggregate_ids, snapshot.sharing_trait
        has_same_names = len(names) == len(self._names) and all(
            now is then for now, then in zip(names, self._names, strict=True)
        )
        if before is None or not has_same_names:
            self._restart(snapshot, names, requested)
            return
        is_same = _is_static(before, snapshot) and all(
            _column(snapshot, class_id).kind is columns.kind for class_id, columns in self._columns.items()
        )
        if not is_same and self._basis_in(snapshot) != self._basis:
            self._restart(snapshot, names, requested)
            return
        changed = [
            _differing(_column(snapshot, class_id).room, columns.room) for class_id, columns in self._columns.items()
        ]
        if not is_same:
            changed.append(snapshot.versions.differing(before.versions))
            changed.append(_differing_states(snapshot, before))
        slots = np.unique(np.concatenate(changed)) if changed else np.empty(0, np.int64)
        roots = snapshot.forest.root.at(slots[slots < snapshot.size])
        if snapshot.forest is not before.forest:
            roots = np.concatenate([roots, before.forest.root.at(slots[slots < before.size])])
        roots = np.unique(roots[(roots != NO_SLOT) & (roots < snapshot.size)])
        self._snapshot = snapshot
        self._columns = {class_id: _column(snapshot, class_id) for class_id in self._columns}
        self._grow(snapshot.size)
        self._last_stamp += 1
        self._stamp[roots] = self._last_stamp
        if not is_same:
            self._look_at(snapshot, roots[snapshot.roots[roots]].astype(np.int64))

    def _restart(self, snapshot: Snapshot, names: tuple[object, ...], requested: Mapping[int, int]) -> None:
        self._clear()
        self._snapshot, self._names = snapshot, names
        self._forms = _forms_of(snapshot, self._mix, self._terms)
        self._basis = self._basis_in(snapshot)
        self._epoch += 1
        classes = {class_id for form in self._forms for class_id in form.total}
        self._columns = {class_id: _column(snapshot, class_id) for class_id in classes | set(requested)}
        self._grow(snapshot.size)
        self._look_at(snapshot, np.flatnonzero(snapshot.roots))

    def _basis_in(self, snapshot: Snapshot) -> tuple[int | None, frozenset[int]]:
        """What values of trees depend on: the scarce class, and the classes of the mix that sharing providers have."""
        classes = {class_id for form in self._forms for class_id in form.total}
        return scarcest(snapshot, self._forms), _shared(snapshot, classes)

    def _grow(self, size: int) -> None:
        if size > len(self._look):
            more = size - len(self._look)
            self._look = np.concatenate([self._look, np.full(more, _NO_LOOK, np.int32)])
            self._place = np.concatenate([self._place, np.full(more, NO_SLOT, np.int32)])
            self._stamp = np.concatenate([self._stamp, np.zeros(more, np.int64)])

    def _look_at(self, snapshot: Snapshot, roots: Numbers) -> None:
        """Find the looks of the trees of *roots*."""
        if not roots.size:
            return
        new = roots[self._place[roots] == NO_SLOT]
        self._place[new] = np.arange(self._places, self._places + len(new))
        self._places += len(new)
        masks = self._terms.masks(snapshot)
        amounts: dict[int, set[int]] = defaultdict(set)
        for form in self._forms:
            for need in form.needs:
                for class_id, amount in need.amounts.items():
                    amounts[class_id].add(amount)
        units = {c: _Units(_column(snapshot, c).kinds, sorted(amounts[c])) for c in sorted(amounts)}
        shapes = snapshot.forest.shape.at(roots)
        for number in np.unique(shapes).tolist():
            shape = snapshot.forest.shapes.values[number]
            of_shape = roots[shapes == number]
            for start in range(0, len(of_shape), step := max(_TOGETHER // (shape.size * (len(masks) + 1)), 1)):
                part = of_shape[start : start + step]
                slots = snapshot.forest.members_of(part, shape)
                able = np.stack([mask[slots] for mask in masks])  # terms, trees, positions
                keeping = {c: u.numbers[_column(snapshot, c).kind.at(slots)] for c, u in units.items()}
                bits = np.packbits(able.swapaxes(0, 1).reshape(len(part), -1), axis=1)
                parts = [bits, *(np.ascontiguousarray(numbers).view(np.uint8) for numbers in keeping.values())]
                rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
                keys = rows.view(f"V{rows.shape[1]}").ravel().tolist()
                # The numbers of units are those of this snapshot, so the key has their meaning too.
                meaning = b"".join(u.meaning for u in units.values())
                for place, (root, key) in enumerate(zip(part.tolist(), keys, strict=True)):
                    look = self._number_of.get((number, key + meaning))
                    if look is None:
                        look = self._number_of[number, key + meaning] = len(self._looks)
                        self._looks.append(
                            _Look(shape, self._forms, self._basis[0], able[:, place], {
                                c: units[c].keeps(keeping[c][place]) for c in units
                            })
                        )  # fmt: skip
                    self._look[root] = look

    def read(self, plan: _Plan, anchors: Numbers, losses: Floats, remaining: Numbers) -> tuple[_Stale | None, Numbers]:
        """Write kept losses of *anchors* at the places *remaining* into *losses*.

        Returns:
            The first trees that lack a loss, None if none do; and the places of the others.
        """
        table = self._table(plan)
        roots = anchors[remaining]
        places = self._place[roots]
        is_fresh = table.stamps[places] == self._stamp[roots]
        losses[remaining[is_fresh]] = table.losses[places[is_fresh]]
        lacking = remaining[~is_fresh]
        if not lacking.size:
            return None, lacking
        now = lacking[:_ANCHORS_AT_ONCE]
        roots = anchors[now]
        return _Stale(now, roots, self.looks_of(roots), self._stamp[roots], self._epoch), lacking[_ANCHORS_AT_ONCE:]

    def keep(self, plan: _Plan, stale: _Stale, losses: Floats, is_kept: Mask) -> None:
        """Keep *losses* of trees that did not change since they were read."""
        if stale.epoch != self._epoch:
            return
        table = self._table(plan)
        kept = is_kept & (self._stamp[stale.roots] == stale.stamps)
        places = self._place[stale.roots[kept]]
        table.losses[places] = losses[kept]
        table.stamps[places] = stale.stamps[kept]

    def _table(self, plan: _Plan) -> _Table:
        table = self._tables.get(plan.key)
        if table is not None and len(table.losses) >= self._places:
            self._tables.move_to_end(plan.key)
            return table
        have = 0 if table is None else len(table.losses)
        more = self._places + self._places // 8 - have
        losses, stamps = np.full(more, inf), np.full(more, -1, np.int64)
        if table is not None:
            losses, stamps = np.concatenate([table.losses, losses]), np.concatenate([table.stamps, stamps])
        table = self._tables[plan.key] = _Table(losses, stamps)
        self._tables.move_to_end(plan.key)
        self._rows += more
        while len(self._tables) > 1 and 16 * self._rows > _MOST_BYTES:
            _, oldest = self._tables.popitem(last=False)
            self._rows -= len(oldest.losses)
        return table


def _computed(snapshot: Snapshot, plan: _Plan, stale: _Stale, work: Work) -> tuple[Floats, Mask]:
    """The least losses of some trees, and which of them depend on their trees alone."""
    losses, is_kept = np.full(len(stale.roots), inf), np.ones(len(stale.roots), np.bool_)
    for look, of_look in stale.looks:
        step = max(_TOGETHER // (look.shape.size * 8), 1)
        for start in range(0, len(of_look), step):
            places = of_look[start : start + step]
            slots = snapshot.forest.members_of(stale.roots[places], look.shape)
            depending = plan.depends_on_others(slots)
            if depending is not None:
                is_kept[places] = ~depending
            losses[places] = least_losses(snapshot, plan, look, slots, work)
    return losses, is_kept


def heaviest(mix: Sequence[Wanted]) -> list[Wanted]:
    """The forms of *mix* that count: those of the greatest weights."""
    return sorted((wanted for wanted in mix if wanted.weight > 0), key=lambda wanted: -wanted.weight)[:MOST_FORMS]


def _is_static(before: Snapshot, now: Snapshot) -> bool:
    """Whether nothing but rooms changed."""
    return (
        now.forest is before.forest
        and now.trait_sets is before.trait_sets
        and now.aggregate_sets is before.aggregate_sets
        and now.sharing is before.sharing
        and now.service_states is before.service_states
    )


def _differing_states(now: Snapshot, before: Snapshot) -> Numbers:
    """The slots that only one of the snapshots has out of service."""
    if now.service_states is before.service_states:
        return np.empty(0, np.int64)
    masks = [np.zeros(max(now.size, before.size), np.bool_) for _ in range(2)]
    for mask, snapshot in zip(masks, (now, before), strict=True):
        if (out := snapshot.service_states.out_of_service) is not None:
            mask[: len(out)] = out
    return np.flatnonzero(masks[0] != masks[1])


def _column(snapshot: Snapshot, class_id: int) -> InventoryColumns:
    return snapshot.inventory.get(class_id) or InventoryColumns.none(snapshot.size)


def _differing(now: Blocks[np.int64] | Sparse[np.int64], before: Blocks[np.int64] | Sparse[np.int64]) -> Numbers:
    if now is before:
        return np.empty(0, np.int64)
    if isinstance(now, Blocks) and isinstance(before, Blocks):
        return now.differing(before)
    slots: Numbers = np.union1d(_having(now), _having(before))
    slots = slots[slots < min(now.size, before.size)]
    differing: Numbers = slots[now.at(slots) != before.at(slots)]
    return differing


def _having(column: Blocks[np.int64] | Sparse[np.int64]) -> Numbers:
    if isinstance(column, Blocks):
        return np.arange(column.size)
    slots: Numbers = column.slots
    return slots


# Forms: the requests of the mix in ids, as sums can count them.


class _Need(NamedTuple):
    """Equal choices of a form: ``number`` of them take ``amounts`` by class id of providers that meet ``term``.

    ``is_split``: several providers may give a part each.
    """

    term: int
    amounts: Mapping[int, int]
    number: int
    is_split: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """A request of the mix. ``root`` is the term of the root, ``clauses`` those that one provider each must meet."""

    weight: float
    needs: Sequence[_Need]
    root: int
    clauses: Sequence[int]
    total: Mapping[int, int]


def _shared(snapshot: Snapshot, classes: Iterable[int]) -> frozenset[int]:
    """Those of *classes* that a sharing provider has."""
    providers = snapshot.sharing.providers
    return frozenset(c for c in classes if providers.size and _column(snapshot, c).having(providers).any())


class _Terms:
    """Conditions on single providers, each once."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        # Never empty, because a site without forms has looks, too.
        self._masks: list[Callable[[Snapshot], Mask]] = [lambda snapshot: snapshot.roots]

    def number(self, key: object, mask: Callable[[Snapshot], Mask]) -> int:
        """The number of a condition."""
        if key not in self._numbers:
            self._numbers[key] = len(self._masks)
            self._masks.append(mask)
        return self._numbers[key]

    def masks(self, snapshot: Snapshot) -> list[Mask]:
        """Of each condition the mask of the providers that meet it."""
        return [mask(snapshot) for mask in self._masks]


def _forms_of(snapshot: Snapshot, mix: Sequence[Wanted], terms: _Terms) -> list[_Form]:
    """The forms of *mix* whose classes exist and that no provider is named in."""
    shared = _shared(snapshot, snapshot.inventory)
    forms = []
    for request, weight in mix:
        if any(
            group.in_tree or group.in_subtree or not snapshot.class_names.by_name.keys() >= group.resources.keys()
            for group in request.groups
        ):
            continue
        needs: Counter[tuple[int, tuple[tuple[int, int], ...], bool]] = Counter()
        clauses: list[int] = []
        total: Counter[int] = Counter()
        for group in request.groups:
            resolved = in_ids(snapshot, group)
            bare = replace(resolved, amounts={}, can_split=frozenset())
            term = terms.number(
                (group.suffix == UNSUFFIXED, resolved.traits, resolved.aggregates),
                lambda now, bare=bare: admitted(now, bare),  # type: ignore[misc]  # mypy infers no type for a default
            )
            total.update(resolved.amounts)
            if group.suffix == UNSUFFIXED:
                for class_id, amount in resolved.amounts.items():
                    needs[term, ((class_id, amount),), class_id in resolved.can_split] += 1
                clauses += [
                    terms.number(clause, lambda now, clause=clause: now.with_traits([clause], ()))  # type: ignore[misc]  # as above
                    for clause in resolved.traits.clauses
                ]
            elif resolved.amounts:
                needs[term, tuple(sorted(resolved.amounts.items())), False] += 1
        # What a pool of other trees may give is no limit of this tree.
        kept = [
            _Need(term, dict(amounts), number, is_split)
            for (term, amounts, is_split), number in needs.items()
            if not any(class_id in shared for class_id, _ in amounts)
        ]
        traits = known_traits(snapshot, request.root_traits)
        aggregates = resolve_aggregates(snapshot, request.root_aggregates)
        root = terms.number(
            ("root", traits, aggregates),
            lambda now, traits=traits, aggregates=aggregates: eligible_anchors(now, traits, aggregates),  # type: ignore[misc]  # as above
        )
        forms.append(_Form(weight, kept, root, clauses, total))
    return forms


def scarcest(snapshot: Snapshot, forms: Sequence[_Form]) -> int | None:
    """The class of which the mix takes the greatest part of what all enabled providers have; None if it takes none."""
    taken: Counter[int] = Counter()
    for form in forms:
        for class_id, amount in form.total.items():
            taken[class_id] += form.weight * amount  # type: ignore[assignment]  # weights are no whole numbers
    enabled = snapshot.enabled
    best, most = None, 0.0
    for class_id in snapshot.in_class_order(taken):
        columns = _column(snapshot, class_id)
        slots = columns.slots
        capacity = float(columns.kinds.capacities()[columns.kind.at(slots[enabled[slots]])].clip(0).sum())
        if capacity > 0 and taken[class_id] / capacity > most * (1 + 1e-9):
            best, most = class_id, taken[class_id] / capacity
    return best


class _Units:
    """Which of some amounts the inventories of a class admit, by min_unit, max_unit and step_size."""

    def __init__(self, kinds: InventoryKinds, amounts: Sequence[int]) -> None:
        _, _, min_unit, max_unit, step_size, _ = kinds.table()
        keeping: Mask = keeps_units(np.array(amounts, np.float64)[:, None], min_unit, max_unit, step_size)
        keeping[:, 0] = False  # no inventory
        self.different, inverse = np.unique(keeping, axis=1, return_inverse=True)
        self.numbers = inverse.ravel().astype(np.int32)
        self.meaning = np.packbits(self.different).tobytes() + repr(self.different.shape).encode()
        self._amounts = amounts

    def keeps(self, numbers: NDArray[np.int32]) -> Mapping[int, Mask]:
        """By amount, the mask of the positions that admit it."""
        return dict(zip(self._amounts, self.different[:, numbers], strict=True))


# Looks: what the forms of the mix can see of trees, apart from what is free.


class _Column(NamedTuple):
    """A sum of one look: how many times ``amounts`` fit at ``positions``; as a whole at each, or ``pooled``."""

    amounts: tuple[tuple[int, int], ...]
    positions: tuple[int, ...]
    pooled: bool


_WORTH_COMPARING = 64
"""Fewer states are not compared: that would take longer than their values do."""

_MULTIPLIER = 0x9E3779B97F4A7C15
"""Odd, so that its powers keep every bit. Source: 2^64 by the golden ratio, as multiplicative hashing has it."""


class _Look:
    """Computes the values of trees that look the same to the mix."""

    def __init__(
        self,
        shape: Shape,
        forms: Sequence[_Form],
        scarce: int | None,
        able: Mask,
        keeping: Mapping[int, Mapping[int, Mask]],
    ) -> None:
        """*able* has a row for each term, and *keeping* a mask by class and amount, all by position."""
        self.shape = shape
        self._scarce = scarce
        self._columns: dict[_Column, int] = {}
        self._quotients: dict[tuple[int, int], int] = {}
        limits: list[list[tuple[int, int]]] = []
        reaching: list[int] = []
        takes: list[float] = []
        weights: list[float] = []
        mean = sum(form.weight * form.total.get(scarce, 0) for form in forms) if scarce is not None else 0.0
        for form in forms:
            amount = form.total.get(scarce, 0) if scarce is not None else 0
            if not amount or not able[form.root][0] or not all(able[clause].any() for clause in form.clauses):
                continue
            columns = self._of_form(form, able, keeping)
            if columns is None:
                continue
            limits.append(columns)
            of_scarce = [
                place for place, _ in columns if any(c == scarce for c, _ in list(self._columns)[place].amounts)
            ]
            # The widest of them, since equal groups have one, and a form that a pool serves has none.
            reaching.append(of_scarce[0] if of_scarce else -1)
            takes.append(form.weight * amount / mean)
            weights.append(form.weight / mean)
        width = max(map(len, limits), default=0)
        self.classes = sorted({c for column in self._columns for c, _ in column.amounts})
        self._groups = self._grouped()
        self._alike = self._interchangeable()
        counted = sum(len(positions) for sets in self._alike.values() for positions in sets)
        self._multipliers = np.array([pow(_MULTIPLIER, place + 1, 1 << 64) for place in range(counted)], np.uint64)
        # A need of several equal groups is a quotient of a column; the others are columns as they are.
        self._limits = np.array(
            [
                [self._quotient(place, number) for place, number in (each + [each[0]] * width)[:width]]
                for each in limits
            ],
            np.int64,
        ).reshape(len(limits), width)
        self._divided = np.array(list(self._quotients), np.int64).reshape(-1, 2)
        self._reaching = np.array(reaching, np.int64)
        self._takes, self._weights = np.array(takes), np.array(weights)
        self._reachable = np.array([place for place in self._reaching if place >= 0], np.int64)

    def _of_form(
        self, form: _Form, able: Mask, keeping: Mapping[int, Mapping[int, Mask]]
    ) -> list[tuple[int, int]] | None:
        """The columns that limit a form, each with the number of needs that share it; None if it fits nowhere."""
        columns: list[tuple[int, int]] = []
        of_class: dict[int, list[tuple[int, Mask]]] = defaultdict(list)
        for need in form.needs:
            mask = able[need.term].copy()
            for class_id, amount in need.amounts.items():
                if not need.is_split:
                    mask &= keeping[class_id][amount]
                of_class[class_id].append((amount * need.number, mask))
            if not mask.any():
                return None
            columns.append(
                (self._number(_Column(tuple(need.amounts.items()), _positions(mask), need.is_split)), need.number)
            )
        for class_id, several in of_class.items():
            if len(several) > 1:
                either = np.logical_or.reduce([mask for _, mask in several])
                total = sum(amount for amount, _ in several)
                columns.append((self._number(_Column(((class_id, total),), _positions(either), True)), 1))
        return columns or None

    def _number(self, column: _Column) -> int:
        return self._columns.setdefault(column, len(self._columns))

    def _quotient(self, place: int, number: int) -> int:
        if number == 1:
            return place
        return len(self._columns) + self._quotients.setdefault((place, number), len(self._quotients))

    def _grouped(self) -> list[tuple[tuple[int, ...], Numbers, bool, Numbers, Floats]]:
        """Columns of the same classes and positions together: classes, positions, pooled, places, amounts by class."""
        groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
        columns = list(self._columns)
        for place, column in enumerate(columns):
            groups[tuple(c for c, _ in column.amounts), column.positions, column.pooled].append(place)
        return [
            (
                tuple(c for c, _ in columns[places[0]].amounts),
                np.array(columns[places[0]].positions, np.int64),
                columns[places[0]].pooled,
                np.array(places, np.int64),
                np.array([[amount for _, amount in columns[place].amounts] for place in places], np.float64).T,
            )
            for places in groups.values()
        ]

    def _interchangeable(self) -> dict[int, list[Numbers]]:
        """By class, the positions that count: together those that every column has or lacks together.

        Positions that give several classes stand alone, since what is free of each belongs together.
        """
        classes_at: dict[int, set[int]] = defaultdict(set)
        columns_at: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, column in enumerate(self._columns):
            for position in column.positions:
                for class_id, _ in column.amounts:
                    classes_at[position].add(class_id)
                    columns_at[class_id, position].append(number)
        sets: dict[tuple[int, int | None, tuple[int, ...]], list[int]] = defaultdict(list)
        for (class_id, position), numbers in sorted(columns_at.items()):
            alone = position if len(classes_at[position]) > 1 else None
            sets[class_id, alone, tuple(numbers)].append(position)
        alike: dict[int, list[Numbers]] = defaultdict(list)
        for (class_id, *_), positions in sets.items():
            alike[class_id].append(np.array(positions, np.int64))
        return dict(alike)

    @property
    def at_once(self) -> int:
        """Number of states whose values are computed together."""
        return max(_TOGETHER // (self.shape.size * 64), 16)

    def values_of(self, rooms: Rooms, work: Work) -> Floats:
        """The value of a tree in each state of *rooms*."""
        number = len(next(iter(rooms.values()))) if rooms else 0
        if not len(self._limits) or not number:
            return np.zeros(number)
        distinct = self._distinct(rooms) if number >= _WORTH_COMPARING else None
        if distinct is None:
            return self._values(rooms, number, work)
        index, inverse = distinct
        return self._values({c: free[index] for c, free in rooms.items()}, len(index), work)[inverse]

    def _distinct(self, rooms: Rooms) -> tuple[Numbers, Numbers] | None:
        """One of each kind of equal states, and which of them each state is equal to; None if hardly any are equal.

        Most states are equal: a claim may take any of eight free GPUs, and many hosts hold the same.
        """
        parts = [
            np.sort(free[:, positions], axis=1) if len(positions) > 1 else free[:, positions]
            for class_id, sets in self._alike.items()
            for positions in sets
            for free in (rooms[class_id],)
        ]
        states = np.ascontiguousarray(np.concatenate(parts, axis=1))
        # A sum of products stands for the whole state while they are sorted; that it did is checked afterwards.
        keys = states.view(np.uint64) @ self._multipliers
        _, index, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if 4 * len(index) > 3 * len(states) or not np.array_equal(states[index][inverse], states):
            return None
        return index, inverse

    def _values(self, rooms: Rooms, number: int, work: Work) -> Floats:
        columns = len(self._columns)
        times = np.empty((number, columns + len(self._divided)))
        reach = np.zeros((number, columns))
        free_of = {class_id: np.maximum(free, 0) for class_id, free in rooms.items()}
        for classes, positions, pooled, places, amounts in self._groups:
            work.spend(masked(number * len(places) * (1 if pooled else len(positions))))
            if pooled:
                total = free_of[classes[0]][:, positions].sum(axis=1)
                times[:, places] = fitting = np.floor(total[:, None] / amounts[0])
                if self._scarce in classes:
                    reach[:, places] = np.where(fitting > 0, total[:, None], 0)
                continue
            each = None
            for class_id, of_class in zip(classes, amounts, strict=True):
                fitting = free_of[class_id][:, None, positions] / of_class[:, None]
                np.floor(fitting, out=fitting)
                each = fitting if each is None else np.minimum(each, fitting)
            assert each is not None
            times[:, places] = each.sum(axis=2)
            if self._scarce in classes:
                free = free_of[self._scarce][:, None, positions]
                reach[:, places] = (free * (each > 0)).sum(axis=2)
        if len(self._divided):
            times[:, columns:] = np.floor(times[:, self._divided[:, 0]] / self._divided[:, 1])
        fits = times[:, self._limits[:, 0]]
        for place in range(1, self._limits.shape[1]):
            np.minimum(fits, times[:, self._limits[:, place]], out=fits)
        reached = np.where((fits > 0) & (self._reaching >= 0), reach[:, self._reaching], 0)
        values: Floats = _powers(fits) @ self._takes + REACH * (reached @ self._weights)
        return values


def _positions(mask: Mask) -> tuple[int, ...]:
    return tuple(np.flatnonzero(mask).tolist())


_POWERS = np.arange(4096, dtype=np.float64) ** EXPONENT


def _powers(fits: Floats) -> Floats:
    """*fits* to the power of ``EXPONENT``, from a table where it has them."""
    if fits.max(initial=0) < len(_POWERS):
        known: Floats = _POWERS[fits.astype(np.int64)]
        return known
    powers: Floats = fits**EXPONENT
    return powers


# Candidates of many trees at once.


def _rooms(snapshot: Snapshot, classes: Sequence[int], slots: Numbers) -> Rooms:
    """What is free at *slots*, by class id."""
    rooms = {}
    for class_id in classes:
        columns = _column(snapshot, class_id)
        rooms[class_id] = np.where(columns.kind.at(slots) > 0, columns.room.at(slots), 0).astype(np.float64)
    return rooms


class _Rows:
    """Candidates of some trees: the tree of each, and what is free in it after the candidate."""

    def __init__(self, trees: Numbers, base: Rooms) -> None:
        self.trees = trees
        self._rooms = {class_id: rooms[trees] for class_id, rooms in base.items()}

    def take(self, rows: Any, positions: Any, amounts: Mapping[int, int]) -> None:
        """Subtract *amounts* at *positions* of *rows*."""
        for class_id, amount in amounts.items():
            if class_id in self._rooms:
                self._rooms[class_id][rows, positions] -= amount

    def take_times(self, times: Numbers, amounts: Mapping[int, int]) -> None:
        """Subtract *amounts* as many times as *times* says, shape ``(rows, positions)``."""
        for class_id, amount in amounts.items():
            if class_id in self._rooms:
                self._rooms[class_id] -= times * amount

    def losses(self, look: _Look, base: Rooms, work: Work) -> Floats:
        """The loss of each row, rounded."""
        trees = len(next(iter(base.values()))) if base else 0
        if not trees:
            return np.zeros(len(self.trees))
        step = look.at_once
        if trees + len(self.trees) <= step:
            # Nearly always. One call for both takes half as long as two, since few states take as long as one.
            values = look.values_of({c: np.concatenate([rooms, self._rooms[c]]) for c, rooms in base.items()}, work)
            return np.round(values[:trees][self.trees] - values[trees:], DIGITS)
        before = look.values_of(base, work)
        after = [
            look.values_of({c: rooms[start : start + step] for c, rooms in self._rooms.items()}, work)
            for start in range(0, len(self.trees), step)
        ]
        losses: Floats = np.round(before[self.trees] - np.concatenate([np.empty(0), *after]), DIGITS)
        return losses


def least_losses(snapshot: Snapshot, plan: _Plan, look: _Look, slots: Numbers, work: Work) -> Floats:
    """The least loss of a candidate in each of the trees *slots*, which look the same; inf where there is none."""
    least = np.full(len(slots), inf)
    base = _rooms(snapshot, look.classes, slots)
    alone = np.ones(len(slots), np.bool_)
    if plan.is_plain:
        alone = _of_plain(snapshot, plan, look, slots, base, least, work)
    remaining = np.flatnonzero(alone)
    if not remaining.size:
        return least
    # By the arrangements of each kind, as the search finds them.
    place_of = dict(zip(slots[remaining, 0].tolist(), remaining.tolist(), strict=True))
    for kind, members in plan.tree_kinds.runs(slots[remaining, 0], of_all=True):
        taken: dict[object, dict[int, Mapping[int, int]]] = {}
        for arrangement in islice(kind.arrangements(), AT_ONCE):
            work.spend(CANDIDATE)
            allocations = {p: a for p, a in arrangement.allocations.items() if p < look.shape.size}
            taken.setdefault(tuple((p, tuple(a.items())) for p, a in sorted(allocations.items())), allocations)
        if not taken:
            continue
        trees = np.array([place_of[root] for root in members[:, 0].tolist()], np.int64)
        for allocations in taken.values():
            rows = _Rows(trees, base)
            for position, amounts in allocations.items():
                rows.take(slice(None), position, amounts)
            least[trees] = np.minimum(least[trees], rows.losses(look, base, work))
    return least


def _of_plain(
    snapshot: Snapshot,
    plan: _Plan,
    look: _Look,
    slots: Numbers,
    base: Rooms,
    least: Floats,
    work: Work,
) -> Mask:
    """Write the least losses of trees in which at most one group has a choice; returns the mask of the others."""
    able = [plan.pools[numbers[0]].own[slots] for numbers in plan.equal]
    choices = np.stack([mask.sum(axis=1) for mask in able])
    several = np.array([len(numbers) > 1 for numbers in plan.equal])
    open_groups = (choices > 1) | several[:, None]
    is_possible = (choices > 0).all(axis=0)
    done = is_possible & (open_groups.sum(axis=0) <= 1)
    if plan.has_clauses:
        # A choice of the unsuffixed group may decide whether its required traits are met.
        unsuffixed = [plan.pools[numbers[0]].suffix == UNSUFFIXED for numbers in plan.equal]
        done &= ~open_groups[unsuffixed].any(axis=0)
    fixed = done & ~open_groups.any(axis=0)
    for number in range(-1, len(plan.equal)):
        trees = np.flatnonzero(fixed if number < 0 else done & open_groups[number])
        if not trees.size:
            continue
        positions, times = None, None
        if number < 0:
            rows = _Rows(trees, base)
        elif not several[number]:
            in_trees, positions = np.nonzero(able[number][trees])
            rows = _Rows(trees[in_trees], base)
        else:
            combined = _combined(snapshot, plan.pools[plan.equal[number][0]], len(plan.equal[number]), slots[trees])
            if combined is None:
                done[trees] = False
                continue
            in_trees, times = combined
            rows = _Rows(trees[in_trees], base)
        all_rows = np.arange(len(rows.trees))
        for other, numbers in enumerate(plan.equal):
            amounts = plan.pools[numbers[0]].amounts
            if other != number:
                rows.take(all_rows, able[other][rows.trees].argmax(axis=1), amounts)
            elif times is not None:
                rows.take_times(times, amounts)
            else:
                rows.take(all_rows, positions, amounts)
        np.minimum.at(least, rows.trees, rows.losses(look, base, work))
    # Impossible ones need no search: they have no candidate.
    others: Mask = ~done & is_possible
    return others


def _combined(snapshot: Snapshot, pool: Pool, number: int, slots: Numbers) -> tuple[Numbers, Numbers] | None:
    """All ways to place *number* equal groups in the trees *slots*: the tree of each, and the times by position.

    None if they are too many.
    """
    fits = np.where(pool.own[slots], number, 0)
    for class_id, amount in pool.amounts.items():
        fits = np.minimum(fits, snapshot.inventory[class_id].left(slots).clip(0) // amount)
    positions = np.flatnonzero(fits.any(axis=0)).tolist()
    is_each_once = fits.max(initial=0) <= 1
    total = comb(len(positions) if is_each_once else len(positions) + number - 1, number)
    if total > AT_ONCE:
        return None
    chosen: Iterator[tuple[int, ...]] = (combinations if is_each_once else combinations_with_replacement)(
        positions, number
    )
    times = np.zeros((total, slots.shape[1]), np.int64)
    for row, each in enumerate(chosen):
        for position in each:
            times[row, position] += 1
    trees, rows = np.nonzero((times[None] <= fits[:, None, :]).all(axis=2))
    return trees, times[rows]
