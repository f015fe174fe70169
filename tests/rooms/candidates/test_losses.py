"""``order_by=headroom``: the candidate that lowers the value of its tree least comes first, as brute force finds it."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from stead.candidates.engine import AT_ONCE, Enumeration, find
from stead.candidates.gangs import place
from stead.candidates.losses import Losses
from stead.candidates.placing import NoPlace, taken_by
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.errors import BadRequest
from stead.domain.request import SPREAD, ByHeadroom, CandidateRequest, RequestGroup, Wanted
from tests.rooms.candidates.brute_force import Refusal, every_way
from tests.rooms.candidates.brute_losses import free_in, loss, value_of
from tests.rooms.candidates.forests import forests_and_requests, forests_and_requests_beyond
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of, way_of
from tests.rooms.catalog.pictures import Picture
from tests.rooms.catalog.small_blocks import InSmallBlocks
from tests.rooms.catalog.test_refresh import Refreshing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.rooms.candidates.brute_force import Way

CASES = int(os.environ.get("STEAD_HEADROOM_CASES", "60"))

pytestmark = pytest.mark.timeout(240 + 2 * CASES)  # hundreds of cases, each by brute force

brisk = settings(max_examples=2 * CASES, deadline=None)

EXACT = 2**40
"""Values of such numbers differ by much more than rounding."""

CLOSE = 1e-6

weights = st.sampled_from([0.5, 1.0, 1.0, 3.0])


def ordered(snapshot: Snapshot, request: CandidateRequest, losses: Losses | None) -> list[tuple[str, Way]]:
    request = replace(request, order=ByHeadroom())
    return [
        (snapshot.provider(candidate.members[0]).name, way_of(snapshot, candidate))
        for candidate in find(snapshot, request, Enumeration(losses=losses))
    ]


@brisk
@given(st.one_of(forests_and_requests(), forests_and_requests_beyond()), st.lists(weights, min_size=8, max_size=8))
def test_the_candidate_with_the_least_loss_comes_first(
    case: tuple[Forest, Sequence[CandidateRequest]], weights: list[float]
) -> None:
    forest, requests = case
    assume(all(max(held.capacity, held.used) < EXACT for one in forest.providers for held in one.inventories.values()))
    note(str(forest))
    mix = tuple(Wanted(request, weight) for request, weight in zip(requests, weights, strict=False))
    snapshot, losses = snapshot_of(forest), Losses(lambda: mix)
    before = {root.name: value_of(forest, mix, root, free_in(forest)) for root in forest.roots}
    event(f"value: {any(before.values())}")
    for request in requests:
        request = replace(request, one_provider_per_tree=False)
        everything = every_way(forest, request)
        if isinstance(everything, Refusal) or not everything:
            continue
        found = ordered(snapshot, request, losses)
        assert {way for _, way in found} == everything
        lost = [(root, loss(forest, mix, forest.by_name[root], way, before)) for root, way in found]
        note(f"{request}\n{lost}")
        runs = [(root, [each for _, each in run]) for root, run in itertools.groupby(lost, lambda pair: pair[0])]
        assert len({root for root, _ in runs}) == len(runs)
        for _, of_tree in runs:
            # Each thousand candidates of a tree is sorted by itself.
            falls = sum(first > then + CLOSE for first, then in itertools.pairwise(of_tree))
            assert falls <= len(everything) // AT_ONCE
        firsts = [(of_tree[0], forest.by_name[root].uuid) for root, of_tree in runs]
        for (first, uuid), (then, other) in itertools.pairwise(firsts):
            assert first <= then + CLOSE
            # A tree of which all candidates were found under another root has a key all the same.
            assert abs(first - then) > CLOSE or uuid < other or len(everything) < len(found) + 1


@brisk
@given(forests_and_requests())
def test_without_a_mix_it_is_the_order_spread(case: tuple[Forest, Sequence[CandidateRequest]]) -> None:
    forest, requests = case
    snapshot = snapshot_of(forest)
    for request in requests:
        try:
            spread = [way_of(snapshot, each) for each in find(snapshot, replace(request, order=SPREAD), Enumeration())]
        except BadRequest:
            continue
        for losses in (None, Losses(tuple)):
            assert [way for _, way in ordered(snapshot, request, losses)] == spread


@brisk
@given(forests_and_requests(), st.integers(2, 4))
def test_each_member_of_a_gang_takes_the_least_loss_in_what_the_earlier_ones_leave(
    case: tuple[Forest, Sequence[CandidateRequest]], number: int
) -> None:
    forest, requests = case
    mix = tuple(Wanted(request, 1.0) for request in requests)
    snapshot, losses = snapshot_of(forest), Losses(lambda: mix)
    gang = [replace(request, order=ByHeadroom(), limit=1) for request in (*requests, *requests)[:number]]
    try:
        placed = place(snapshot, gang, Enumeration(losses=losses), distinct_roots=False)
    except BadRequest:
        return
    if isinstance(placed, NoPlace):
        event("no place")
        return
    event("placed")
    in_turn = []
    for member in gang:
        best = next(find(snapshot, member, Enumeration(losses=Losses(lambda: mix))), None)
        if best is None:  # so that all have a place, the members before it chose another one
            event("revised")
            return
        in_turn.append(way_of(snapshot, best))
        snapshot = snapshot.with_taken(taken_by(best))
    assert [way_of(snapshot, candidate) for candidate in placed] == in_turn


class Following(Refreshing):
    """The site changes a little, and what was kept of losses gives the same order as losses computed anew."""

    requests: Sequence[CandidateRequest]

    @initialize(case=st.one_of(forests_and_requests(), forests_and_requests_beyond()))
    def begin(self, case: tuple[Forest, Sequence[CandidateRequest]]) -> None:
        forest, self.requests = case
        self.mix = tuple(Wanted(request, 1.0 + number) for number, request in enumerate(self.requests))
        self.truth = Picture.of(forest)
        self.snapshot = refreshed(Snapshot.empty(), self.truth.everything())
        self.losses = Losses(lambda: self.mix)
        note(f"{forest}\n{self.requests}")

    @rule()
    def reload(self) -> None:
        self.snapshot = refreshed(self.snapshot, self.truth.everything())
        self.touched, self.claimed, self.names_changed = set(), set(), False

    @invariant()
    def orders_are_those_of_losses_computed_anew(self) -> None:
        for request in self.requests if hasattr(self, "requests") else ():
            self.compare(self.snapshot, request)
            try:
                first = next(find(self.snapshot, request, Enumeration()), None)
            except BadRequest:
                continue
            if first is not None:  # as a gang and other claims underway change it, without new versions
                self.compare(self.snapshot.with_taken(taken_by(first)), request)

    def compare(self, snapshot: Snapshot, request: CandidateRequest) -> None:
        try:
            anew = ordered(snapshot, request, Losses(lambda: self.mix))
        except BadRequest:
            return
        assert ordered(snapshot, request, self.losses) == anew


class FollowingManyBlocks(InSmallBlocks, Following):
    """The same where two providers fill a block."""


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=CASES, stateful_step_count=20, deadline=None, report_multiple_bugs=False)
TestFollowingManyBlocks = FollowingManyBlocks.TestCase
TestFollowingManyBlocks.settings = settings(TestFollowing.settings, max_examples=CASES // 3)


def gpus(*free: int, cpu: int = 100) -> list[PlainProvider]:
    """A host with CPUs and a GPU of 10 for each of *free*."""
    name = f"host{'-'.join(map(str, free))}-{cpu}"
    return [
        PlainProvider(name, inventories={"VCPU": PlainInventory(cpu)}),
        *(
            PlainProvider(f"{name}-{number}", name, {"PGPU": PlainInventory(10, used=10 - each)})
            for number, each in enumerate(free)
        ),
    ]


def request(*devices: int, cpu: int = 1) -> CandidateRequest:
    groups = [RequestGroup("", {"VCPU": cpu})]
    groups += [RequestGroup(f"_{number}", {"PGPU": amount}) for number, amount in enumerate(devices)]
    return CandidateRequest(tuple(groups))


def first_place(hosts: Sequence[Sequence[PlainProvider]], wanted: CandidateRequest, *mix: Wanted) -> set[str]:
    providers = tuple(provider for host in hosts for provider in host)
    forest = Forest(providers, frozenset({"VCPU", "PGPU"}), frozenset())
    (_, way), *_ = ordered(snapshot_of(forest), wanted, Losses(lambda: mix))
    return {giver for giver, name, _ in way.takes if name == "PGPU"}


def test_a_small_task_goes_to_the_device_that_whole_devices_cannot_use() -> None:
    mix = Wanted(request(10), 3.0), Wanted(request(4), 1.0)
    assert first_place([gpus(10, 10), gpus(10, 4)], request(4), *mix) == {"host10-4-100-1"}


def test_equal_devices_that_are_taken_together_leave_whole_hosts_whole() -> None:
    mix = Wanted(request(10, 10, 10, 10), 1.0), Wanted(request(10, 10), 1.0)
    chosen = first_place([gpus(10, 10, 10, 10), gpus(10, 10, 0, 0)], request(10, 10), *mix)
    assert chosen == {"host10-10-0-0-100-0", "host10-10-0-0-100-1"}


def test_a_device_is_not_taken_where_that_leaves_another_without_cpus() -> None:
    mix = (Wanted(request(10, cpu=8), 1.0),)
    assert first_place([gpus(10, 10, cpu=16), gpus(10, 10, cpu=9)], request(10, cpu=8), *mix) == {"host10-10-16-0"}


@pytest.mark.parametrize("wanted", [request(4), request(10), request(10, 10)], ids=["part", "whole", "two"])
def test_many_hosts_in_few_states_are_sorted_by_their_losses(wanted: CandidateRequest) -> None:
    held = (10, 10, 4, 0), (10, 4, 4, 4), (10, 10, 10, 0)
    devices = sorted({devices for each in held for devices in itertools.permutations(each)})
    providers = [each for free, cpu in itertools.product(devices, (100, 9, 3)) for each in gpus(*free, cpu=cpu)]
    forest = Forest(tuple(providers), frozenset({"VCPU", "PGPU"}), frozenset())
    mix = Wanted(request(10, cpu=8), 3.0), Wanted(request(4), 1.0), Wanted(request(10, 10), 1.0)
    before = {root.name: value_of(forest, mix, root, free_in(forest)) for root in forest.roots}
    found = ordered(snapshot_of(forest), wanted, Losses(lambda: mix))
    lost = [(root, loss(forest, mix, forest.by_name[root], way, before)) for root, way in found]
    firsts = [next(run)[1] for _, run in itertools.groupby(lost, lambda pair: pair[0])]
    assert len({round(each, 6) for each in firsts}) > 1
    assert all(first <= then + CLOSE for first, then in itertools.pairwise(firsts))
