"""What is kept of a headroom and brought up to date is what counting everything anew finds, bound for bound."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import event, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from stead.candidates.headroom.each_tree import form_of
from stead.candidates.headroom.headroom import headroom
from stead.candidates.headroom.keeping import HeadroomByTree, Places, after, headrooms_by_tree
from stead.candidates.work import Work, WorkSpent
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.errors import BadRequest
from tests.rooms.candidates.forests import forests_and_requests, forests_and_requests_beyond
from tests.rooms.catalog.pictures import Picture
from tests.rooms.catalog.small_blocks import InSmallBlocks
from tests.rooms.catalog.test_refresh import Refreshing, choices
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.domain.request import CandidateRequest
    from tests.rooms.candidates.plain import Forest

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(60))

pytestmark = pytest.mark.timeout(240 + CASES)  # hundreds of histories, each step counted anew

WORK = 200_000
"""For one request: some have room for billions of claims, each of which is searched for."""

COPIES = 4
"""Of each forest, so that a change concerns a small part of it."""


def copied(forest: Forest) -> Forest:
    """*forest* several times, with other names; what requests name is in the first."""
    copies = [
        replace(
            one,
            name=f"{one.name}{number}" if number else one.name,
            parent=one.parent and one.parent + str(number or ""),
        )
        for number in range(COPIES)
        for one in forest.providers
    ]
    return replace(forest, providers=tuple(copies))


def varied(request: CandidateRequest) -> CandidateRequest:
    """A request of the same form, with other amounts and other names of its groups."""

    def named(suffix: str) -> str:
        return suffix and f"{suffix}x"

    def all_named(suffixes: Iterable[str]) -> frozenset[str]:
        return frozenset(map(named, suffixes))

    groups = tuple(
        replace(
            group,
            suffix=named(group.suffix),
            resources={name: amount + 1 for name, amount in group.resources.items()},
        )
        for group in request.groups
    )
    return replace(
        request,
        groups=groups,
        isolated=all_named(request.isolated),
        same_subtree=tuple(map(all_named, request.same_subtree)),
        apart=tuple(replace(a, together=all_named(a.together), others=all_named(a.others)) for a in request.apart),
    )


def bounds(found: HeadroomByTree, size: int) -> tuple[object, ...]:
    """All that is kept, with the bounds of each tree that has any."""
    places = found.places.place_of[np.flatnonzero(found.places.place_of >= 0)]
    columns = (found.places.root_at[places], found.least[places], found.most[places])
    roots = list(zip(*(column.tolist() for column in columns), strict=True))
    if roots:
        some = np.arange(size) % 2 == 0
        chosen = [row for row in roots if some[row[0]]]
        assert found.among(some) == (sum(row[1] for row in chosen), sum(row[2] for row in chosen))
    return (
        found.at_least,
        found.at_most,
        list(found.limited_by),
        found.is_complete,
        [row for row in roots if row[2]],
    )


class Keeping(Refreshing):
    """The truth changes a little, and after each refresh what was kept is brought up to date."""

    requests: Sequence[CandidateRequest]
    changes_made = 0

    @initialize(case=st.one_of(forests_and_requests(), forests_and_requests_beyond()))
    def begin(self, case: tuple[Forest, Sequence[CandidateRequest]]) -> None:
        forest, requests = case
        variants = [varied(request) for request in requests]
        for request, variant in zip(requests, variants, strict=True):
            assert form_of(variant) in (form_of(request), None)  # None: an amount is beyond every inventory now
        self.requests = (*requests, *variants, *requests)  # so that some of them can be behind others
        self.truth = Picture.of(copied(forest))
        self.snapshot = refreshed(Snapshot.empty(), self.truth.everything())
        self.kept: list[HeadroomByTree | None] = [None] * len(self.requests)
        note(f"{forest}\n{self.requests}")
        self.bring_up_to_date(range(len(self.requests)))

    @rule(headrooms_by_tree=st.booleans(), behind=st.none() | choices)
    def refresh(self, headrooms_by_tree: bool, behind: int | None = None) -> None:
        self.truth.moment += 1
        changes = self.truth.changes(self.touched, self.claimed - self.touched, names=self.names_changed)
        self.snapshot = refreshed(self.snapshot, changes)
        self.touched, self.claimed, self.names_changed = set(), set(), False
        if not headrooms_by_tree:
            every = range(len(self.requests))
            self.bring_up_to_date([number for number in every if behind is None or number != behind % len(every)])

    @invariant()
    def is_brought_up_to_date_often(self) -> None:
        self.changes_made += 1
        if self.changes_made % 3 and hasattr(self, "requests"):
            self.refresh(headrooms_by_tree=False, behind=self.changes_made)

    @rule()
    def reload(self) -> None:
        self.snapshot = refreshed(self.snapshot, self.truth.everything())
        self.touched, self.claimed, self.names_changed = set(), set(), False

    def bring_up_to_date(self, numbers: Sequence[int]) -> None:
        together: dict[object, list[int]] = defaultdict(list)
        for number in numbers:
            form, before = form_of(self.requests[number]), self.kept[number]
            alone = number if form is None else None
            together[form, alone, before and id(before.places)].append(number)
        reached: Places | None = None
        for batch in together.values():
            reached = self.bring_together_up_to_date(batch, reached)
        for number in numbers:
            request, found = self.requests[number], self.kept[number]
            if found is None:
                continue
            try:
                full = headroom(self.snapshot, request, Work(WORK))
            except BadRequest as error:
                raise AssertionError(f"{request} is kept although {error}") from error
            if not full.is_complete:
                event("not complete")
                continue
            roots = zip(full.roots.tolist(), full.roots_at_least.tolist(), full.roots_at_most.tolist(), strict=True)
            expected = (full.at_least, full.at_most, list(full.limited_by), full.is_complete, list(roots))
            assert bounds(found, self.snapshot.size) == expected, request

    def bring_together_up_to_date(self, batch: Sequence[int], reached: Places | None) -> Places:
        """Bring headrooms of one form that are behind by the same step up to date; the places of all."""
        headrooms = [kept for number in batch if (kept := self.kept[number]) is not None]
        step = headrooms[0].places.step(self.snapshot, reached) if headrooms else None
        brought = [None] * len(batch) if step is None else after(headrooms, step, Work(WORK * len(batch)))
        reached = reached or (Places.of(self.snapshot) if step is None else step.places)
        for number, kept in zip(batch, brought, strict=True):
            event(f"{'counted anew' if kept is None else 'brought up to date'}{' together' * (len(batch) > 1)}")
            self.kept[number] = kept
        missing = [number for number in batch if self.kept[number] is None]
        for number, kept in zip(missing, self.counted([self.requests[n] for n in missing], reached), strict=True):
            self.kept[number] = kept
        return reached

    def counted(self, requests: Sequence[CandidateRequest], places: Places) -> list[HeadroomByTree | None]:
        try:
            return headrooms_by_tree(self.snapshot, places, requests, Work(WORK * len(requests)))
        except WorkSpent:
            return [kept for one in requests for kept in headrooms_by_tree(self.snapshot, places, [one], Work(WORK))]

    def teardown(self) -> None:
        if hasattr(self, "requests"):
            self.refresh(headrooms_by_tree=False)


class KeepingManyBlocks(InSmallBlocks, Keeping):
    """The same where two providers fill a block."""


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=CASES, stateful_step_count=30, deadline=None, report_multiple_bugs=False)
TestKeepingManyBlocks = KeepingManyBlocks.TestCase
TestKeepingManyBlocks.settings = settings(TestKeeping.settings, max_examples=CASES // 3)
