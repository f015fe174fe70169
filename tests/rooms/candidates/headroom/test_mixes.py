"""The number of mixes is what brute force finds, or lies between its own bounds. More cases: `make headroom`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.engine import Enumeration
from stead.candidates.mixing import Mixed, Part, mixed
from stead.candidates.work import Work
from stead.domain.request import CandidateRequest, RequestGroup, Terms
from tests.rooms.candidates.brute_force import SHARES, Refusal, every_way
from tests.rooms.candidates.forests import forests_and_requests
from tests.rooms.candidates.headroom.brute_headroom import TooMany, greatest_number_of_mixes
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(150))

pytestmark = pytest.mark.timeout(240 + CASES)  # hundreds of cases, each by brute force


def of(forest: Forest, *parts: tuple[CandidateRequest, int], work: int | None = None) -> Mixed:
    return mixed(
        snapshot_of(forest), [Part(request, weight) for request, weight in parts], Enumeration(work=work), Work(work)
    )


def takes(**amounts: int) -> CandidateRequest:
    return CandidateRequest((RequestGroup("", amounts),))


def hosts(*providers: PlainProvider, traits: Sequence[str] = ()) -> Forest:
    classes = frozenset(name for one in providers for name in one.inventories)
    return Forest(providers, classes, frozenset({SHARES, *traits}))


def alike(number: int, **totals: int) -> list[PlainProvider]:
    inventories = {name: PlainInventory(total) for name, total in totals.items()}
    return [PlainProvider(f"host-{place}", None, inventories) for place in range(number)]


@settings(max_examples=CASES, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.shrink])
@given(forests_and_requests(), st.lists(st.integers(1, 3), min_size=2, max_size=3))
def test_mixes_are_what_brute_force_finds_or_lie_between_their_bounds(
    case: tuple[Forest, Sequence[CandidateRequest]], weights: list[int]
) -> None:
    forest, requests = case
    usable = [one for one in requests if not isinstance(every_way(forest, one), Refusal)]
    assume(usable)
    halves = [
        replace(usable[0], groups=tuple(replace(g, resources=dict.fromkeys(g.resources, 1)) for g in usable[0].groups))
    ]
    parts = list(zip([*usable, *halves], weights, strict=False))
    assume(not any(isinstance(every_way(forest, request), Refusal) for request, _ in parts))
    note(str(forest))
    try:
        truth = greatest_number_of_mixes(forest, parts)
    except TooMany:
        assume(False)
    found = of(forest, *parts)
    note(f"{parts}\n{truth} {found}")
    event(f"{'exact' if found.at_least == found.at_most else 'bounds'}, {'some' if truth else 'none'}")
    assert found.is_complete
    assert found.at_least <= truth <= found.at_most


def test_a_mix_takes_each_request_as_often_as_its_weight_says() -> None:
    """Three of 2 and one of 8 take 14, and every host has 28."""
    found = of(hosts(*alike(5, VCPU=28)), (takes(VCPU=2), 3), (takes(VCPU=8), 1))
    assert (found.at_least, found.at_most) == (10, 10)
    assert found.limiting_parts == []
    assert len(found.limiting_classes) == 1
    assert list(found.stranded.values()) == [0]


def test_thousands_of_mixes_are_filled_within_little_work() -> None:
    found = of(hosts(*alike(500, VCPU=64, MEMORY_MB=256)), (takes(VCPU=2, MEMORY_MB=4), 3), (takes(VCPU=10), 1),
               work=300_000)  # fmt: skip
    assert (found.at_least, found.at_most) == (2000, 2000)


def test_a_request_that_others_could_displace_takes_its_places_first() -> None:
    """Only one host has the trait. The large request fits everywhere, and must leave it that host."""
    providers = alike(3, VCPU=4)
    providers[1] = replace(providers[1], traits=frozenset({"CUSTOM_RED"}))
    special = CandidateRequest((RequestGroup("", {"VCPU": 1}, Terms(clauses=(frozenset({"CUSTOM_RED"}),))),))
    found = of(hosts(*providers, traits=["CUSTOM_RED"]), (takes(VCPU=4), 1), (special, 2))
    assert (found.at_least, found.at_most) == (2, 2)
    assert found.limiting_parts == [1]


def test_trees_of_several_providers_are_filled() -> None:
    nodes = [
        PlainProvider(f"{host}-{node}", host, {"VCPU": PlainInventory(8)})
        for host in ("a", "b")
        for node in ("left", "right")
    ]
    found = of(hosts(PlainProvider("a"), PlainProvider("b"), *nodes), (takes(VCPU=2), 1), (takes(VCPU=6), 1))
    assert (found.at_least, found.at_most) == (4, 4)


def test_what_fits_nowhere_leaves_no_mix() -> None:
    found = of(hosts(*alike(2, VCPU=4)), (takes(VCPU=1), 1), (takes(VCPU=5), 1))
    assert (found.at_least, found.at_most) == (0, 0)
    assert found.limiting_parts == [1]


def test_without_work_the_bounds_hold() -> None:
    found = of(hosts(*alike(4, VCPU=4)), (takes(VCPU=1), 1), (takes(VCPU=3), 1), work=100)
    assert not found.is_complete
    assert found.at_least <= 4 <= found.at_most


def test_hosts_that_share_a_pool() -> None:
    pool = PlainProvider("pool", None, {"DISK_GB": PlainInventory(10)}, frozenset({SHARES}), frozenset("a"))
    members = [replace(one, aggregates=frozenset("a")) for one in alike(3, VCPU=4)]
    found = of(hosts(pool, *members), (takes(VCPU=1, DISK_GB=2), 1), (takes(VCPU=2, DISK_GB=1), 1))
    assert (found.at_least, found.at_most) == (3, 3)
