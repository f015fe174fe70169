"""A gang is placed if a place for all exists, and "nothing fits" is said only of gangs that have none.

More cases: `make headroom`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.draining import ConsumerHoldings, relocate
from stead.candidates.engine import Enumeration
from stead.candidates.gangs import place
from stead.candidates.placing import NoPlace, negated, taken_by
from stead.candidates.work import Work
from stead.domain.request import PACK, CandidateRequest, RequestGroup, Terms
from tests.rooms.candidates.brute_force import Refusal, eligible_anchors, every_way, ways_under
from tests.rooms.candidates.forests import forests_and_requests, forests_and_requests_beyond, pick
from tests.rooms.candidates.headroom.brute_headroom import TooMany, after
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(100))
MOST_STATES = 300

pytestmark = pytest.mark.timeout(240 + CASES)  # hundreds of cases, each by brute force

AMPLE = Enumeration(work=5_000_000)


def fits(forest: Forest, gang: Sequence[CandidateRequest], used: frozenset[str] | None, states: list[int]) -> bool:
    """Whether all of *gang* have a place, by trying all; *used* has the roots that are taken, None if these may be
    the same.

    Raises:
        TooMany
    """
    if not gang:
        return True
    states[0] += 1
    if states[0] > MOST_STATES:
        raise TooMany
    tried = set()
    for root in eligible_anchors(forest, gang[0]):
        if used is not None and root.name in used:
            continue
        for way in ways_under(forest, gang[0], root):
            now = None if used is None else used | {root.name}
            if (way.takes, now) in tried:
                continue
            tried.add((way.takes, now))
            if fits(after(forest, way.takes), gang[1:], now, states):
                return True
    return False


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Forest, list[CandidateRequest]]:
    forest, requests = draw(st.one_of(forests_and_requests(), forests_and_requests_beyond()))
    gang = [pick(draw, requests) for _ in range(draw(st.integers(2, 4)))]
    order = pick(draw, (None, PACK))
    return forest, [replace(request, order=order) for request in gang]


@settings(max_examples=CASES, deadline=None)
@given(gangs(), st.booleans())
def test_a_gang_is_placed_if_brute_force_finds_a_place_for_all(
    case: tuple[Forest, list[CandidateRequest]], distinct_roots: bool
) -> None:
    forest, gang = case
    note(f"{forest}\n{gang}")
    if any(isinstance(every_way(forest, request), Refusal) for request in gang):
        return
    try:
        truth = fits(forest, gang, frozenset() if distinct_roots else None, [0])
    except TooMany:
        assume(False)
    snapshot = snapshot_of(forest)
    placed = place(snapshot, gang, AMPLE, distinct_roots=distinct_roots)
    event(f"{truth}")
    if isinstance(placed, NoPlace):
        # Amounts that may be split have more ways than there is work for.
        assert not placed.gave_up or any(group.can_split for request in gang for group in request.groups)
        assert placed.gave_up or not truth
        return
    assert truth
    for candidate in placed:
        taken = taken_by(candidate)
        assert has_room(snapshot, taken)
        snapshot = snapshot.with_taken(taken)
    if distinct_roots:
        assert len({candidate.members[0] for candidate in placed}) == len(gang)


def has_room(snapshot: Snapshot, taken: Amounts) -> bool:
    return all(
        snapshot.inventory[class_id].room[slot] >= amount
        for slot, amounts in taken.items()
        for class_id, amount in amounts.items()
    )


def hosts(number: int, *, vcpus: int = 1) -> Forest:
    """Hosts of which only the first has the trait, and is the fullest."""
    red = frozenset({"CUSTOM_RED"})
    providers = [
        PlainProvider(f"host-{n}", None, {"VCPU": PlainInventory(vcpus + 8, used=8 if n == 0 else 0)})
        for n in range(number)
    ]
    providers[0] = replace(providers[0], traits=red)
    return Forest(tuple(providers), frozenset({"VCPU"}), red)


def one(amount: int = 1, *, red: bool = False) -> CandidateRequest:
    terms = Terms((frozenset({"CUSTOM_RED"}),)) if red else Terms()
    return CandidateRequest((RequestGroup("", {"VCPU": amount}, terms),), order=PACK)


@pytest.mark.parametrize("number", [2, 10, 60])
@pytest.mark.parametrize("distinct_roots", [False, True])
def test_an_earlier_member_leaves_the_only_host_of_the_last(number: int, *, distinct_roots: bool) -> None:
    """The first member packs the host that only the last one can use, however many members are between."""
    gang = [one() for _ in range(number - 1)] + [one(red=True)]
    placed = place(snapshot_of(hosts(number)), gang, AMPLE, distinct_roots=distinct_roots)
    assert not isinstance(placed, NoPlace)


def test_a_gang_that_is_too_large_for_the_trees_is_refused_for_certain() -> None:
    """Sixty members, and room for fifty-nine: trying all orders would never end."""
    gang = [one(9) for _ in range(59)] + [one(red=True)] + [one(9)]
    refused = place(snapshot_of(hosts(60)), gang, AMPLE, distinct_roots=False)
    assert isinstance(refused, NoPlace)
    assert not refused.gave_up


def test_beyond_the_work_it_is_not_said_that_nothing_fits() -> None:
    gang = [one() for _ in range(9)] + [one(red=True)]
    refused = place(snapshot_of(hosts(10)), gang, AMPLE, distinct_roots=True, work=Work(8000))
    assert isinstance(refused, NoPlace)
    assert refused.gave_up


@settings(max_examples=CASES, deadline=None)
@given(st.data())
def test_a_drain_leaves_nobody_without_a_place_if_all_have_one(data: st.DataObject) -> None:
    """Consumers of one host, and hosts with little room, some with a trait that a consumer needs to keep."""
    red = frozenset({"CUSTOM_RED"})
    rooms = data.draw(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=4))
    amounts = data.draw(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=4))
    drained = [
        PlainProvider(f"old-{n}", None, {"VCPU": PlainInventory(9, used=0)}, red if is_red else frozenset())
        for n, (_, is_red) in enumerate(amounts)
    ]
    others = [
        PlainProvider(
            f"host-{n}", None, {"VCPU": PlainInventory(max(room, 1), used=int(not room))}, red if has else frozenset()
        )
        for n, (room, has) in enumerate(rooms)
    ]
    forest = Forest(
        tuple(replace(each, is_disabled=True) for each in drained) + tuple(others), frozenset({"VCPU"}), red
    )
    snapshot = snapshot_of(forest)
    class_id = snapshot.class_names.by_name["VCPU"].id
    all_holdings = []
    for n, (amount, _) in enumerate(amounts):
        slot = snapshot.find_named(f"old-{n}")
        assert slot is not None
        snapshot = snapshot.with_taken({slot: {class_id: amount}})
        all_holdings.append(ConsumerHoldings(f"consumer-{n}", {slot: {class_id: amount}}, same_traits=True))
    relocation = relocate(
        snapshot, all_holdings, {slot for each in all_holdings for slot in each.amounts}, AMPLE, Work()
    )
    requests = [one(amount, red=is_red) for amount, is_red in amounts]
    truth = fits(replace(forest, providers=tuple(others)), requests, None, [0])
    event(f"{truth}")
    assert truth == (not relocation.stuck)
    assert not any(stuck.gave_up for stuck in relocation.stuck)
    for move in relocation.moves:  # each is valid when its turn comes
        snapshot = snapshot.with_taken(negated(move.holdings.amounts))
        assert has_room(snapshot, move.amounts)
        snapshot = snapshot.with_taken(move.amounts)
