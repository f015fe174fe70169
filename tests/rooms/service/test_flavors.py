"""The headrooms of flavors follow the site, whichever were asked before, and what is kept of them is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from stead.candidates.headroom.headroom import headroom
from stead.candidates.headroom.keeping import HeadroomByTree
from stead.candidates.work import Work
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.domain.request import CandidateRequest, RequestGroup, Wanted
from stead.service import flavors
from stead.service.flavors import FlavorHeadrooms, StrandedAmounts
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.catalog.pictures import Picture

if TYPE_CHECKING:
    from collections.abc import Mapping

HOSTS = 12


class Site:
    """Hosts with 8 VCPU each, and what is asked about them."""

    def __init__(self) -> None:
        hosts = [PlainProvider(f"host {number}", inventories={"VCPU": PlainInventory(8)}) for number in range(HOSTS)]
        self.truth = Picture.of(Forest(tuple(hosts), frozenset({"VCPU"}), frozenset()))
        self.snapshot = refreshed(Snapshot.empty(), self.truth.everything())
        self.state = 0

    def use(self, host: int, used: int) -> None:
        id_ = sorted(self.truth.providers)[host]
        self.truth.set_inventory(id_, self.truth.class_id("VCPU"), PlainInventory(8, used=used))
        self.snapshot = refreshed(self.snapshot, self.truth.changes({id_}))
        self.state += 1

    def expected(self, request: CandidateRequest) -> int:
        return headroom(self.snapshot, request, Work()).at_least


def ask(amount: int, name: str = "VCPU") -> CandidateRequest:
    return CandidateRequest((RequestGroup("", {name: amount}),))


FLAVORS = {f"m{amount}": ask(amount) for amount in range(1, 7)}


def found_in(site: Site, headrooms: FlavorHeadrooms, requests: Mapping[str, CandidateRequest]) -> dict[str, int | str]:
    by_flavor = headrooms.headrooms(site.snapshot, str(site.state), requests, None)
    return {name: room if isinstance(room, str) else room.at_least for name, room in by_flavor.items()}


def test_they_follow_each_change_whichever_were_asked_before() -> None:
    site, headrooms = Site(), FlavorHeadrooms()
    for turn in range(20):
        site.use(turn % HOSTS, 3 * turn % 8)
        asked = {name: request for place, (name, request) in enumerate(FLAVORS.items()) if (turn + place) % 3}
        assert found_in(site, headrooms, asked) == {name: site.expected(request) for name, request in asked.items()}


def test_what_did_not_change_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    site, headrooms = Site(), FlavorHeadrooms()
    found_in(site, headrooms, FLAVORS)
    monkeypatch.setattr(flavors, "headrooms_by_tree", None)  # what counts everything anew
    monkeypatch.setattr(flavors, "headroom", None)
    for host in range(3):
        site.use(host, 5)
        assert found_in(site, headrooms, FLAVORS) == {name: site.expected(request) for name, request in FLAVORS.items()}


def test_a_flavor_that_is_replaced_or_at_fault_is_answered_as_it_is_now() -> None:
    site, headrooms = Site(), FlavorHeadrooms()
    assert found_in(site, headrooms, {"m": ask(1)}) == {"m": 8 * HOSTS}
    assert found_in(site, headrooms, {"m": ask(8)}) == {"m": HOSTS}
    assert "CUSTOM_NONE" in str(found_in(site, headrooms, {"m": ask(1, "CUSTOM_NONE")})["m"])
    assert found_in(site, headrooms, {"m": ask(1)}) == {"m": 8 * HOSTS}


def test_the_course_of_what_is_stranded_has_an_entry_per_five_minutes_of_a_day() -> None:
    site, now = Site(), 1_000_000.0
    form = Wanted(ask(5), 1)
    amounts = StrandedAmounts(lambda: mix, lambda: now)
    mix: list[Wanted] = []
    assert amounts.now(site.snapshot, str(site.state), None).course == ()  # nothing is counted
    mix = [form]
    for turn in range(600):
        site.use(turn % HOSTS, turn % 4)
        stranded = amounts.now(site.snapshot, str(site.state), None)
        now += 150
    assert [entry.time for entry in stranded.course] == [int(now) - 300 * back for back in range(288, 0, -1)]
    assert [*stranded.stranded.values()] == [amount - 5 * HOSTS for amount in stranded.free.values()]
    site.use(0, 8)
    latest = amounts.now(site.snapshot, str(site.state), None)
    assert latest.course[-1] == (int(now), {"VCPU": next(iter(latest.stranded.values()))})


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_site_that_is_loaded_again_at_the_same_moment_has_other_slots(is_empty: bool) -> None:
    site, headrooms = Site(), FlavorHeadrooms()
    for host in range(HOSTS):
        site.use(host, host % 8)
    found_in(site, headrooms, FLAVORS)
    for id_ in sorted(site.truth.providers)[: HOSTS if is_empty else 3]:
        site.truth.remove_provider(id_)
        site.snapshot = refreshed(site.snapshot, site.truth.changes({id_}))
        site.state += 1
    found_in(site, headrooms, FLAVORS)
    site.snapshot = refreshed(Snapshot.empty(), site.truth.everything())  # as after a failed refresh
    half = np.arange(site.snapshot.size) % 2 == 0
    rooms = list(headrooms.among(site.snapshot, str(site.state), FLAVORS, {"half": half}, None))
    expected = {}
    for name, request in FLAVORS.items():
        for label, among in (("", None), ("half", half)):
            fits = 0 if is_empty else headroom(site.snapshot, request, Work(), among=among).at_least
            expected[name, label] = fits
    assert {(room.flavor, room.aggregate): room.at_least for room in rooms} == expected


@pytest.mark.parametrize("limit", ["MOST_KEPT", "MOST_BYTES"])
def test_what_is_kept_is_bounded_and_answers_are_right_all_the_same(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(flavors, limit, 3 if limit == "MOST_KEPT" else 3 * 12 * HOSTS)
    site, headrooms = Site(), FlavorHeadrooms()
    for turn in range(4):
        site.use(turn, 2)
        assert found_in(site, headrooms, FLAVORS) == {name: site.expected(request) for name, request in FLAVORS.items()}
        assert len(headrooms._found) == 3
        assert all(isinstance(stored, HeadroomByTree) for _, stored in headrooms._found.values())
    assert list(headrooms._found) == ["m1", "m2", "m3"], "those that were kept go on being brought up to date"
