"""Keeping: the headroom of a request tree by tree, so that a later snapshot costs only the trees that changed.

The claims that fit into a tree depend on nothing beside it, unless sharing providers couple trees. So the bounds of
each tree are kept, and those of changed trees are replaced. A tree has changed if the version of any of its providers
has, or if it gained or lost a provider. Requests that a sharing provider might serve are not kept.

Source: decision 46.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stead.candidates.engine import match_all
from stead.candidates.headroom.counting import MOST
from stead.candidates.headroom.each_tree import NOWHERE, each_tree, each_tree_of_all, form_of, ranked
from stead.candidates.match import resolve, resolve_aggregates, resolve_traits
from stead.candidates.work import WorkSpent
from stead.catalog.snapshot import NO_SLOT, part
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import UNSUFFIXED

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from stead.candidates.headroom.each_tree import Fits, Limit, LimitedBy
    from stead.candidates.work import Work
    from stead.catalog.blocks import Blocks
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

    Mask = NDArray[np.bool_]
    Numbers = NDArray[np.int64]
    InIds = tuple[Any, ...]
    """A request in ids of a snapshot. Kept bounds hold only for a request that is the same in ids."""

_NOWHERE = -1
"""The place of a slot that is no root, and the root of a place whose tree is gone."""

_SPARE = 1024
"""Unused places, besides one for each tree, up to which places are not given again."""

_GREAT = 2**31 - 1
"""Greater bounds need more bytes."""

_MOST_TOGETHER = 2**16
"""Slots, times requests, that are counted together: enough that a vector operation costs much more than its call."""

_MOST_LIMITS = 31
"""Different limits of one request, of which each is a bit. A request with more is not kept."""


@dataclass(frozen=True, slots=True)
class Places:
    """The trees of a snapshot by place, the same for all requests.

    Attributes:
        versions, root: those of the snapshot, by slot.
        place_of: by slot of a root its place, shape ``(slots,)``.
        root_at: by place the slot of the root, shape ``(places,)``.
        names: what decides which ids a request has, and whether sharing providers exist.
    """

    versions: Blocks[np.int64]
    root: Blocks[np.int32]
    place_of: NDArray[np.int32]
    root_at: NDArray[np.int32]
    names: tuple[object, ...]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Places:
        """Places for all trees of *snapshot*."""
        roots = np.flatnonzero(snapshot.roots)
        place_of = np.full(snapshot.size, _NOWHERE, np.int32)
        place_of[roots] = np.arange(len(roots))
        return cls(snapshot.versions, snapshot.forest.root, place_of, roots.astype(np.int32), _names(snapshot))

    def step(self, snapshot: Snapshot, reached: Places | None = None) -> Step | None:
        """What changed until *snapshot*; None if it is so much that everything may as well be counted in full.

        Args:
            reached: the places of *snapshot*; by default, trees keep theirs.
        """
        slots = snapshot.versions.differing(self.versions)
        # Both roots of a moved provider count, because its old tree and its new tree changed.
        before = self.root.at(slots[slots < self.root.size])
        after = snapshot.forest.root.at(slots[slots < snapshot.size])
        touched = np.unique(np.concatenate([before, after])).astype(np.int64)
        touched = touched[touched != NO_SLOT]
        existing = touched[touched < snapshot.size]
        roots = existing[snapshot.roots[existing]]
        if 2 * len(roots) > np.count_nonzero(snapshot.roots):
            return None
        before = touched[touched < len(self.place_of)]
        cleared = self.place_of[before]
        cleared = cleared[cleared != _NOWHERE]
        moved = None
        if reached is None:
            reached = self._reached(snapshot, touched, roots, cleared)
            if reached is None:
                return None
        else:
            is_same = self.root_at != _NOWHERE
            is_same[cleared] = False
            moved = np.flatnonzero(is_same), reached.place_of[self.root_at[is_same]]
        alone, slot_at = part(snapshot, roots) if len(roots) else (None, roots)
        return Step(snapshot, reached, cleared, moved, alone, slot_at)

    def _reached(
        self, snapshot: Snapshot, touched: Numbers, roots: Numbers, cleared: NDArray[np.int32]
    ) -> Places | None:
        """The places of *snapshot*, in which only trees of *touched* differ; None if too many places are unused.

        Args:
            roots: those of *touched* that are roots in *snapshot*.
            cleared: the places of those that were roots.
        """
        # Never shorter than before, because touched slots may lie beyond the end of the new snapshot.
        place_of = np.full(max(snapshot.size, len(self.place_of)), _NOWHERE, np.int32)
        place_of[: len(self.place_of)] = self.place_of
        place_of[touched[~np.isin(touched, roots)]] = _NOWHERE
        new = roots[place_of[roots] == _NOWHERE]
        place_of[new] = np.arange(len(self.root_at), len(self.root_at) + len(new))
        root_at = np.concatenate([self.root_at, np.full(len(new), _NOWHERE, np.int32)])
        root_at[cleared] = _NOWHERE
        root_at[place_of[roots]] = roots
        # New trees always get new places, so a site with many changes would grow the arrays of every flavor.
        if len(root_at) > 2 * np.count_nonzero(snapshot.roots) + _SPARE:
            return None
        return Places(snapshot.versions, snapshot.forest.root, place_of, root_at, _names(snapshot))


@dataclass(frozen=True, slots=True)
class Step:
    """From the trees of one snapshot to those of another.

    Attributes:
        snapshot, places: the later ones.
        cleared: the earlier places of trees that changed or are gone.
        moved: the earlier places of all other trees, and their places now; None if they are the same.
        changed: the trees that changed or are new; None if there are none.
        slot_at: by slot of ``changed`` the slot in ``snapshot``.
    """

    snapshot: Snapshot
    places: Places
    cleared: NDArray[np.int32]
    moved: tuple[Numbers, NDArray[np.int32]] | None
    changed: Snapshot | None
    slot_at: Numbers

    def carried(self, old: NDArray[Any], *, is_great: bool = False) -> NDArray[Any]:
        """The values *old*, which are by the earlier places, by the later ones; 0 for trees that changed."""
        # Once wide, an array stays wide, because a carried value may need the bytes.
        new = np.zeros(len(self.places.root_at), np.int64 if is_great else old.dtype)
        if self.moved is None:
            new[: len(old)] = old
            new[self.cleared] = 0
        else:
            before, now = self.moved
            new[now] = old[before]
        return new


@dataclass(frozen=True, slots=True)
class HeadroomByTree:
    """How many times a request fits, and what of it each tree contributes.

    Attributes:
        request: the request.
        at_least, at_most, limited_by, is_complete: as those of `Headroom`.
        places: the trees; the arrays below have the shape ``(places,)``.
        least, most: the bounds of each tree.
        limiting: by tree a bit for each of ``limits`` that binds there.
        form: that of the request, see `form_of`.
    """

    request: CandidateRequest
    form: Hashable
    at_least: int
    at_most: int
    limited_by: Sequence[Limit]
    is_complete: bool
    places: Places
    least: NDArray[np.integer]
    most: NDArray[np.integer]
    limiting: NDArray[np.int32]
    limits: tuple[LimitedBy, ...]
    _trees_by: Mapping[LimitedBy, int]
    _in_ids: InIds

    @property
    def is_exact(self) -> bool:
        """Whether the two numbers are the same."""
        return self.at_least == self.at_most

    @property
    def bytes(self) -> int:
        """The memory of what is kept, without what all requests share."""
        return self.least.nbytes + self.most.nbytes + self.limiting.nbytes

    def among(self, roots: Mask) -> tuple[int, int]:
        """The bounds if claims are made only in the trees whose roots are in the mask *roots*, shape ``(slots,)``."""
        chosen = np.flatnonzero(self.places.root_at != _NOWHERE)
        chosen = chosen[roots[self.places.root_at[chosen]]]
        return int(self.least[chosen].sum(dtype=np.int64)), int(self.most[chosen].sum(dtype=np.int64))

    def _is_same_in_ids(self, step: Step) -> bool:
        """Whether the request is the same in ids after *step*."""
        snapshot, names = step.snapshot, step.places.names
        if (
            # Objects that are the same prove it without resolving the request again.
            all(before is now for before, now in zip(self.places.names, names, strict=True))
            and not snapshot.sharing.providers.size
            and not any(group.in_tree or group.in_subtree for group in self.request.groups)
        ):
            return True
        return self._in_ids == _in_ids(snapshot, self.request)

    def can_step(self, step: Step) -> bool:
        """Whether what fits into the changed trees of *step*, which begins with these places, is all to count."""
        return self.is_complete and len(self.limits) <= _MOST_LIMITS and self._is_same_in_ids(step)

    def after(self, step: Step, contributions: Contributions) -> HeadroomByTree | None:
        """The same after *step*; None if it must be counted in full.

        Args:
            contributions: of the changed trees.
        """
        limits = tuple(dict.fromkeys([*self.limits, *(by for by, _ in contributions.limiting)]))
        if len(limits) > _MOST_LIMITS:
            return None
        cleared = step.cleared
        trees_by = Counter(self._trees_by)
        bits = self.limiting[cleared]
        for bit, by in enumerate(self.limits):
            trees_by[by] -= int(np.count_nonzero(bits & (1 << bit)))
        limiting = step.carried(self.limiting)
        for by, places in contributions.limiting:
            trees_by[by] += places.size
            limiting[places] |= 1 << limits.index(by)
        return HeadroomByTree(
            self.request,
            self.form,
            self.at_least + int(contributions.least.sum()) - int(self.least[cleared].sum(dtype=np.int64)),
            self.at_most + int(contributions.most.sum()) - int(self.most[cleared].sum(dtype=np.int64)),
            ranked(self.request, trees_by),
            True,
            step.places,
            _with(step, self.least, contributions.places, contributions.least),
            _with(step, self.most, contributions.places, contributions.most),
            limiting,
            limits,
            trees_by,
            self._in_ids,
        )


def most_together(slots: int) -> int:
    """The number of requests of one form to count together in *slots*. More save nothing, and need more memory."""
    return max(_MOST_TOGETHER // max(slots, 1), 1)


def after(headrooms: Sequence[HeadroomByTree], step: Step, work: Work) -> list[HeadroomByTree | None]:
    """Each of *headrooms*, which have one form, after *step*; None for those that must be counted in full."""
    can_step = [headroom.can_step(step) for headroom in headrooms]
    requests = [headroom.request for headroom, can in zip(headrooms, can_step, strict=True) if can]
    contributions = [Contributions.none()] * len(requests)
    if step.changed is not None and requests:
        with suppress(WorkSpent):
            contributions = _contributions(step.changed, requests, work, step)
        # A fill that was cut short has looser bounds than a full count, and the kept numbers must equal that.
        if work.is_cut:
            return [None] * len(headrooms)
    remaining = iter(contributions)
    return [
        headroom.after(step, next(remaining)) if can else None
        for headroom, can in zip(headrooms, can_step, strict=True)
    ]


def headrooms_by_tree(
    snapshot: Snapshot, places: Places, requests: Sequence[CandidateRequest], work: Work
) -> list[HeadroomByTree | None]:
    """The headroom of each of *requests*, which have one form, tree by tree.

    None if that is not known to be possible, or a name is unknown.

    Args:
        places: the trees of *snapshot*.

    Raises:
        WorkSpent: together, several requests used up the work.
    """
    in_ids = [_in_ids(snapshot, request) for request in requests]
    able = [request for request, ids in zip(requests, in_ids, strict=True) if ids is not None]
    step = Step(snapshot, places, np.empty(0, np.int32), None, snapshot, np.arange(snapshot.size))
    is_known, contributions = True, [Contributions.none()] * len(able)
    try:
        contributions = _contributions(snapshot, able, work, step) if able else []
    except WorkSpent:
        if len(requests) > 1:
            raise
        is_known = False
    remaining = iter(contributions)
    return [
        None if ids is None else _kept(request, ids, step, next(remaining), work, is_known=is_known)
        for request, ids in zip(requests, in_ids, strict=True)
    ]


def _kept(
    request: CandidateRequest, in_ids: InIds, step: Step, contributions: Contributions, work: Work, *, is_known: bool
) -> HeadroomByTree:
    """The headroom of *request*, counted in full; *is_known*: with a bound of each tree."""
    places = step.places
    limits = tuple(dict.fromkeys(by for by, _ in contributions.limiting))
    trees_by: Counter[LimitedBy] = Counter()
    limiting = np.zeros(len(places.root_at), np.int32)
    for by, of_limit in contributions.limiting:
        trees_by[by] += of_limit.size
        # With more limits than bits, `after` refuses to continue from these numbers.
        if len(limits) <= _MOST_LIMITS:
            limiting[of_limit] |= 1 << limits.index(by)
    nothing = np.zeros(len(places.root_at), np.int32)
    return HeadroomByTree(
        request,
        form_of(request),
        int(contributions.least.sum()),
        # Without a bound of each tree, only the bound of all counts is proved.
        int(contributions.most.sum()) if is_known else MOST,
        ranked(request, trees_by),
        is_known and not work.is_cut,
        places,
        _with(step, nothing, contributions.places, contributions.least),
        _with(step, nothing, contributions.places, contributions.most),
        limiting,
        limits,
        trees_by,
        in_ids,
    )


@dataclass(frozen=True, slots=True)
class Contributions:
    """What some trees contribute to a headroom, by place. The places of each limit are there once."""

    places: Numbers
    least: Numbers
    most: Numbers
    limiting: Sequence[tuple[LimitedBy, Numbers]]

    @classmethod
    def none(cls) -> Contributions:
        """Of no trees."""
        nowhere = np.empty(0, np.int64)
        return cls(nowhere, nowhere, nowhere, ())


def _contributions(
    trees: Snapshot, requests: Sequence[CandidateRequest], work: Work, step: Step
) -> list[Contributions]:
    """What *trees* contribute to each of *requests*, which have one form.

    Raises:
        WorkSpent
    """

    def places(roots: Numbers) -> Numbers:
        return step.places.place_of[step.slot_at[roots]].astype(np.int64)

    several = each_tree_of_all(trees, requests, work) if len(requests) > 1 else [None]
    fits = [each or _alone(trees, request, work) for each, request in zip(several, requests, strict=True)]
    return [
        Contributions(
            places(each.anchors), each.at_least, each.at_most, [(by, places(roots)) for by, roots in each.limiting]
        )
        for each in fits
    ]


def _alone(trees: Snapshot, request: CandidateRequest, work: Work) -> Fits:
    matched = match_all(trees, request, work)
    return NOWHERE if matched is None else each_tree(trees, request, matched, work).fits


def _with(step: Step, old: NDArray[Any], places: Numbers, values: Numbers) -> NDArray[Any]:
    """*old* after *step*, with *values* at *places*; in few bytes if they fit."""
    new = step.carried(old, is_great=bool(np.max(values, initial=0) > _GREAT))
    new[places] = values
    return new


def _names(snapshot: Snapshot) -> tuple[object, ...]:
    """Objects that stay the same as long as the ids of names do, and as long as nested trees exist or do not."""
    return snapshot.trait_names, snapshot.class_names, snapshot.aggregate_ids, snapshot.forest.has_nested


def _in_ids(snapshot: Snapshot, request: CandidateRequest) -> InIds | None:
    """The request in ids; None if a name is unknown, or if trees cannot be counted without the others."""
    # Whether such a group refers to something that exists decides for trees in which that is not.
    if any(not group.resources and (group.suffix == UNSUFFIXED or group.in_tree) for group in request.groups):
        return None
    try:
        root_traits = resolve_traits(snapshot, request.root_traits)
        groups = tuple(resolve(snapshot, group) for group in request.groups)
    except (UnknownResourceClass, UnknownTraits):
        return None
    if snapshot.sharing.providers.size and _may_be_shared(snapshot, request):
        return None
    return root_traits, resolve_aggregates(snapshot, request.root_aggregates), groups, snapshot.forest.has_nested


def _may_be_shared(snapshot: Snapshot, request: CandidateRequest) -> bool:
    """Whether a sharing provider has any class of *request*, or may meet a group that requests none."""
    if not all(group.resources for group in request.groups):
        return True
    classes = {snapshot.class_names.by_name[name].id for group in request.groups for name in group.resources}
    return any(
        (columns := snapshot.inventory.get(class_id)) is not None and columns.having(snapshot.sharing.providers).any()
        for class_id in classes
    )
