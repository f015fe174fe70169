"""Places drawn from the best, for those who lost a race for the very best.

Source: "POST /claims", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest

from stead.candidates.engine import Enumeration, find
from stead.candidates.gangs import place
from stead.candidates.placing import NoPlace
from stead.domain.request import PACK, SPREAD, CandidateRequest, RequestGroup
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import Order

HOSTS = 6
PACKED = [f"host-{number}" for number in range(HOSTS)]
"""The fullest first: each has one VCPU more than the one before."""


def wanted(amount: int, order: Order) -> CandidateRequest:
    return CandidateRequest(groups=(RequestGroup("", {"VCPU": amount}),), order=order)


def search(
    amounts: list[int],
    among_best: int = 1,
    *,
    order: Order = PACK,
    distinct_roots: bool = False,
    enumeration: Enumeration = Enumeration(),  # noqa: B008 - frozen
    until: float = inf,
) -> list[str] | NoPlace:
    """The hosts of so many VCPU each, or why there are none."""
    providers = [PlainProvider(name, None, {"VCPU": PlainInventory(10, used=9 - n)}) for n, name in enumerate(PACKED)]
    snapshot = snapshot_of(Forest(tuple(providers), frozenset({"VCPU"}), frozenset()))
    requests = [wanted(amount, order) for amount in amounts]
    found = place(snapshot, requests, enumeration, distinct_roots=distinct_roots, among_best=among_best, until=until)
    if isinstance(found, NoPlace):
        return found
    return [snapshot.provider(one.members[0]).name for one in found]


def placed(amounts: list[int], among_best: int, *, distinct_roots: bool = False) -> list[str]:
    found = search(amounts, among_best, distinct_roots=distinct_roots)
    assert not isinstance(found, NoPlace)
    return found


def vcpus_left(snapshot: Snapshot) -> tuple[int, ...]:
    return tuple(snapshot.inventory[snapshot.class_names.by_name["VCPU"].id].room.whole.tolist())


@pytest.mark.parametrize("among_best", [1, 2, 4, 64])
def test_each_of_so_many_of_the_best_is_drawn_and_no_other(among_best: int) -> None:
    drawn = {name for _ in range(100) for name in placed([1], among_best)}
    assert drawn == set(PACKED[:among_best])


def test_a_gang_is_placed_though_few_draws_leave_a_place_for_all() -> None:
    """The first must not take the only host that has room for the second."""
    assert {placed([1, 6], 64)[1] for _ in range(30)} == {PACKED[5]}


def test_a_gang_is_drawn_on_distinct_roots() -> None:
    assert {tuple(sorted(placed([1] * HOSTS, 64, distinct_roots=True))) for _ in range(30)} == {tuple(PACKED)}


def test_who_has_no_place_does_not_depend_on_the_draw() -> None:
    """Nor what the ones before leave, of which the explanation speaks."""
    refusals = [search([1, 5, 6, 6], 64) for _ in range(30)]
    left = {(one.number, vcpus_left(one.remaining)) for one in refusals if isinstance(one, NoPlace)}
    assert len(left) == 1
    assert {number for number, _ in left} == {3}


def test_a_maximum_of_candidates_binds_answers_and_not_places() -> None:
    """The first would take the emptiest host, which is the only one for the second."""
    assert search([1, 6], order=SPREAD, enumeration=Enumeration(maximum=1)) == [PACKED[4], PACKED[5]]


def test_who_has_no_time_left_gives_up() -> None:
    refused = search([1], until=0.0)
    assert isinstance(refused, NoPlace)
    assert refused.gave_up


def test_what_takes_too_much_work_to_order_is_placed_all_the_same() -> None:
    """There is more to put in order than there is work for, but the first to be found would do."""
    devices = [PlainProvider(f"device-{number}", "host", {"VGPU": PlainInventory(8)}) for number in range(12)]
    forest = Forest((PlainProvider("host"), *devices), frozenset({"VGPU"}), frozenset())
    snapshot = snapshot_of(forest)
    request = CandidateRequest(groups=tuple(RequestGroup(f"_{n}", {"VGPU": 1}) for n in range(6)), order=PACK)
    little = Enumeration(work=3000)
    assert not list(find(snapshot, replace(request, limit=1), little))
    assert not isinstance(place(snapshot, [request], little, distinct_roots=False), NoPlace)
