"""Headroom is what brute force finds, or lies between its own bounds; what is polynomial is exact.

More cases: `make headroom`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, assume, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.engine import Enumeration, find
from stead.candidates.explain import SUM, Constraint
from stead.candidates.headroom import filling
from stead.candidates.headroom.coupling import most_served
from stead.candidates.headroom.filling import pack
from stead.candidates.headroom.headroom import headroom
from stead.candidates.work import Work
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import CandidateRequest, RequestGroup, Terms
from tests.rooms.candidates.brute_force import SHARES, Refusal, every_way
from tests.rooms.candidates.forests import forests, forests_and_requests, forests_and_requests_beyond, pick
from tests.rooms.candidates.headroom.brute_headroom import TooMany, after, greatest_number
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.candidates.headroom.headroom import Headroom

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(150))

pytestmark = pytest.mark.timeout(240 + CASES)  # hundreds of cases, each by brute force
some = settings(max_examples=CASES, deadline=None, phases=[Phase.explicit, Phase.generate, Phase.shrink])

Case = tuple[Forest, "Sequence[CandidateRequest]"]


def ask(*groups: RequestGroup, isolate: bool = False) -> CandidateRequest:
    return CandidateRequest(groups, isolate=isolate)


def of(forest: Forest, request: CandidateRequest, most: int | None = None) -> Headroom:
    return headroom(snapshot_of(forest), request, Work(most))


def forest_of(*providers: PlainProvider) -> Forest:
    classes = frozenset(name for one in providers for name in one.inventories)
    return Forest(providers, classes, frozenset().union(*(one.traits for one in providers), {SHARES}))


def limits_of(found: Headroom) -> list[tuple[object, int]]:
    return [(limit.by, limit.trees) for limit in found.limited_by]


@some
@given(st.one_of(forests_and_requests(), forests_and_requests_beyond()))
def test_headroom_is_what_brute_force_finds_or_lies_between_its_bounds(case: Case) -> None:
    forest, requests = case
    note(str(forest))
    for request in requests:
        if isinstance(every_way(forest, request), Refusal):
            continue
        try:
            truth = greatest_number(forest, request)
        except TooMany:
            assume(False)
        found = of(forest, request)
        note(f"{request}\n{truth} {found}")
        event(f"{'exact' if found.is_exact else 'bounds'}, {'some' if truth else 'none'}")
        assert found.is_complete
        assert found.at_least <= truth <= found.at_most
        assert truth or not found.at_most
        assert (found.roots_at_least <= found.roots_at_most).all()
        assert int(found.roots_at_most.sum()) >= found.at_most


@some
@given(st.one_of(forests_and_requests(), forests_and_requests_beyond()), st.sampled_from(["CUSTOM_RED", "CUSTOM_BLUE"]))
def test_where_nothing_fits_the_bound_is_0(case: Case, trait: str) -> None:
    """Whatever the constraint is; most cases have a required trait beside amounts that may be split."""
    forest, requests = case
    note(str(forest))
    for request in requests:
        groups = [
            replace(group, traits=Terms((*group.traits.clauses, frozenset({trait})), group.traits.forbidden))
            if group.can_split
            else group
            for group in request.groups
        ]
        request = replace(request, groups=tuple(groups))
        snapshot = snapshot_of(forest)
        try:
            searching = Work(200_000)
            candidates = list(find(snapshot, replace(request, limit=1), Enumeration(), work=searching))
        except (UnknownResourceClass, UnknownTraits):
            continue
        found = headroom(snapshot, request, Work(1_000_000))
        if searching.is_cut or not found.is_complete:
            continue  # amounts that may be split have more ways than there is work for
        event(f"{'some' if candidates else 'none'}, {'split' if any(one.can_split for one in groups) else 'whole'}")
        assert bool(found.at_most) == bool(candidates)


def test_a_split_amount_without_a_required_trait_fits_0_times() -> None:
    """The provider with the trait is too full for the least part, and the sums count the other one."""
    red = frozenset({"CUSTOM_RED"})
    nodes = [
        PlainProvider("node-0", "host", {"MEMORY_MB": PlainInventory(8, min_unit=4, used=6)}, red),
        PlainProvider("node-1", "host", {"MEMORY_MB": PlainInventory(80)}),
    ]
    group = RequestGroup("", {"MEMORY_MB": 10}, Terms((red,)), can_split=frozenset({"MEMORY_MB"}))
    found = of(forest_of(PlainProvider("host"), *nodes), ask(group))
    assert (found.at_least, found.at_most, found.is_complete) == (0, 0, True)


@st.composite
def plain_requests(draw: st.DrawFn) -> tuple[Forest, CandidateRequest]:
    """A request of one provider, of an unsuffixed group without sharing, or of equal isolated groups."""
    forest = draw(forests())
    forest = replace(forest, providers=tuple(replace(one, traits=one.traits - {SHARES}) for one in forest.providers))
    amounts = {name: draw(st.integers(1, 3)) for name in pick(draw, (("VCPU",), ("VCPU", "MEMORY_MB")))}
    kind = pick(draw, ("one provider", "unsuffixed", "isolated"))
    event(kind)
    if kind == "unsuffixed":
        return forest, ask(RequestGroup("", {**amounts, "CUSTOM_DISK": 1}))
    number = draw(st.integers(2, 3)) if kind == "isolated" else 1
    return forest, ask(*(RequestGroup(f"_{place}", amounts) for place in range(number)), isolate=True)


@some
@given(plain_requests())
def test_what_is_polynomial_is_exact(case: tuple[Forest, CandidateRequest]) -> None:
    forest, request = case
    note(str(forest))
    found = of(forest, request)
    assert found.is_exact
    try:
        assert found.at_least == greatest_number(forest, request)
    except TooMany:
        event("too many to try")


def devices(*used: int, total: int = 4) -> Forest:
    return forest_of(
        PlainProvider("host"),
        *(
            PlainProvider(f"device-{place}", "host", {"VGPU": PlainInventory(total, used=taken)})
            for place, taken in enumerate(used)
        ),
    )


class TestIsolatedGroups:
    def test_alike_devices_are_counted_without_trying_all_ways(self) -> None:
        """Forty devices have more ways for eight groups than there is time for."""
        groups = [RequestGroup(f"_{place}", {"VGPU": 1}) for place in range(8)]
        found = of(devices(*[0] * 40), ask(*groups, isolate=True), 10_000)
        assert (found.at_least, found.at_most) == (20, 20)

    def test_a_full_device_is_no_use_to_the_others(self) -> None:
        """Each claim needs both devices, and one of them has room for one."""
        groups = [RequestGroup(f"_{place}", {"VGPU": 1}) for place in range(2)]
        found = of(devices(3, 0), ask(*groups, isolate=True))
        assert (found.at_least, found.at_most) == (1, 1)
        assert limits_of(found) == [(Constraint("group_policy", "isolate"), 1)]


class TestSharing:
    def hosts(self, *vcpus: int, disk: int) -> Forest:
        pool = PlainProvider("pool", None, {"DISK_GB": PlainInventory(disk)}, frozenset({SHARES}), frozenset("a"))
        some_hosts = [
            PlainProvider(f"host-{place}", None, {"VCPU": PlainInventory(total)}, aggregates=frozenset("a"))
            for place, total in enumerate(vcpus)
        ]
        return forest_of(pool, *some_hosts)

    def test_a_pool_is_counted_once_for_all_trees(self) -> None:
        found = of(self.hosts(4, 4, 4, disk=70), ask(RequestGroup("", {"VCPU": 1, "DISK_GB": 10})))
        assert (found.at_least, found.at_most) == (7, 7)
        assert found.roots_at_least.tolist() == [4, 4, 4]  # of each tree alone
        assert limits_of(found)[0] == (("", "DISK_GB"), 3)

    def test_a_tree_uses_its_own_providers_first(self) -> None:
        forest = self.hosts(4, 4, disk=20)
        first = forest.by_name["host-0"]
        own = replace(first, inventories={**first.inventories, "DISK_GB": PlainInventory(30)})
        forest = replace(forest, providers=tuple(own if one is first else one for one in forest.providers))
        found = of(forest, ask(RequestGroup("", {"VCPU": 1, "DISK_GB": 10})))
        assert (found.at_least, found.at_most) == (5, 5)

    @pytest.mark.parametrize("isolate", [False, True])
    @pytest.mark.parametrize("disk", [0, 60])
    def test_many_pools_cost_what_kinds_of_trees_cost_and_not_combinations(self, *, isolate: bool, disk: int) -> None:
        """Three groups have 27,000 ways to use thirty pools."""
        pools = [
            PlainProvider(
                f"pool-{n}", None, {"DISK_GB": PlainInventory(600 + 6 * n)}, frozenset({SHARES}), frozenset("a")
            )
            for n in range(30)
        ]
        own = {"DISK_GB": PlainInventory(disk)} if disk else {}
        hosts = [
            PlainProvider(f"host-{n}", None, {"VCPU": PlainInventory(4), **own}, aggregates=frozenset("a"))
            for n in range(300)
        ]
        room = sum(one.inventories["DISK_GB"].capacity for one in [*pools, *hosts] if "DISK_GB" in one.inventories)
        groups = [RequestGroup(f"_{place}", {"DISK_GB": place + 1}) for place in range(3)]
        found = of(forest_of(*pools, *hosts), ask(*groups, isolate=isolate), 1_000_000)
        assert found.is_complete
        assert found.at_most == room // 6
        # With isolation and disks of their own, trees must also share the pools well, and are not proved to.
        assert found.at_least >= (0.9 if isolate and disk else 1) * found.at_most
        assert limits_of(found)[0] == (Constraint("resources", "DISK_GB", SUM), 330)

    def test_a_pool_of_one_tree_is_no_bound_for_a_class_of_another(self) -> None:
        """The pool serves the disk of all hosts, and only its own tree can use its cores."""
        pool = PlainProvider(
            "pool", None, {"DISK_GB": PlainInventory(9), "VCPU": PlainInventory(4)}, frozenset({SHARES}), frozenset("a")
        )
        forest = forest_of(pool, PlainProvider("host", None, {"VCPU": PlainInventory(2)}, aggregates=frozenset("a")))
        request = ask(
            RequestGroup("_A", {"VCPU": 1}), RequestGroup("_B", {"VCPU": 1}), RequestGroup("_C", {"DISK_GB": 1})
        )
        assert of(forest, request).at_most >= greatest_number(forest, request)

    def test_a_flow_moves_what_others_took(self) -> None:
        """The first takes from a pool that only the second can reach, until it learns of another."""
        both, one = frozenset({1, 2}), frozenset({1})
        assert most_served({both: 3, one: 3}, {1: 3, 2: 3}, Work()) == {both: 3, one: 3}
        assert most_served({both: 3, one: 3}, {1: 4, 2: 1}, Work()).total() == 5


class TestPacking:
    def test_prices_prove_what_a_filling_achieves(self) -> None:
        """3 + 3 and 2 + 2 + 2 of 6: the relaxation alone would take a part of a claim."""
        ways = [{(0, 1): 3, (1, 1): 2}, {(0, 1): 2, (1, 1): 3}]
        packed = pack(ways, {(0, 1): 6, (1, 1): 6}, 99, Work())
        assert (packed.at_least, packed.at_most) == (2, 2)
        assert all(amount <= 6 for amount in packed.taken.values())

    def test_unequal_groups_that_may_share_a_provider_are_packed(self) -> None:
        """Two providers of 5 hold 3 + 2 each: two claims of 3 and 2."""
        nodes = [PlainProvider(f"node-{n}", "host", {"VCPU": PlainInventory(5)}) for n in range(2)]
        forest = forest_of(PlainProvider("host"), *nodes)
        found = of(forest, ask(RequestGroup("_A", {"VCPU": 3}), RequestGroup("_B", {"VCPU": 2})))
        assert (found.at_least, found.at_most) == (2, 2)

    def test_with_too_many_ways_the_bounds_hold(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(filling, "MOST_WAYS", 0)
        nodes = [PlainProvider(f"node-{n}", "host", {"VCPU": PlainInventory(5)}) for n in range(3)]
        request = ask(RequestGroup("_A", {"VCPU": 3}), RequestGroup("_B", {"VCPU": 2}))
        found = of(forest_of(PlainProvider("host"), *nodes), request)
        assert 2 <= found.at_least <= 3 <= found.at_most

    def test_wherever_the_work_ends_the_bounds_hold_and_the_answer_is_incomplete(self) -> None:
        nodes = [PlainProvider(f"node-{n}", "host", {"VCPU": PlainInventory(5)}) for n in range(2)]
        request = ask(RequestGroup("_A", {"VCPU": 3}), RequestGroup("_B", {"VCPU": 2}))
        forest = forest_of(PlainProvider("host"), *nodes)
        several = [of(forest, request, units) for units in range(1, 3000, 20)]
        assert all(found.at_least <= 2 <= found.at_most for found in several)
        complete = [found.is_complete for found in several]
        assert complete == sorted(complete)
        assert {(found.is_complete, found.is_exact) for found in several} >= {(True, True), (False, False)}


class TestWhatIsLeft:
    HOSTS = forest_of(
        PlainProvider("small", None, {"VCPU": PlainInventory(10), "MEMORY_MB": PlainInventory(3)}),
        PlainProvider("large", None, {"VCPU": PlainInventory(4, reserved=1), "MEMORY_MB": PlainInventory(90)}),
    )

    def test_the_class_that_runs_out_limits_each_tree(self) -> None:
        found = of(self.HOSTS, ask(RequestGroup("", {"VCPU": 1, "MEMORY_MB": 1})))
        assert (found.at_least, found.roots_at_least.tolist()) == (6, [3, 3])
        assert sorted(limits_of(found), key=str) == [(("", "MEMORY_MB"), 1), (("", "VCPU"), 1)]

    def test_what_is_stranded_is_what_no_claim_takes(self) -> None:
        snapshot = snapshot_of(self.HOSTS)
        found = headroom(snapshot, ask(RequestGroup("", {"VCPU": 1, "MEMORY_MB": 1})), Work())
        names = {class_id: row.name for class_id, row in snapshot.class_names.by_id.items()}
        assert {names[class_id]: amount for class_id, amount in found.stranded.items()} == {"VCPU": 7, "MEMORY_MB": 87}

    def test_where_no_provider_has_room_all_that_is_free_is_stranded(self) -> None:
        snapshot = snapshot_of(self.HOSTS)
        found = headroom(snapshot, ask(RequestGroup("", {"VCPU": 1, "MEMORY_MB": 91})), Work())
        names = {class_id: row.name for class_id, row in snapshot.class_names.by_id.items()}
        assert found.at_most == 0
        assert {names[class_id]: amount for class_id, amount in found.stranded.items()} == {"VCPU": 13, "MEMORY_MB": 93}

    def test_a_sum_of_groups_limits_where_each_alone_would_fit(self) -> None:
        forest = forest_of(PlainProvider("host", None, {"VCPU": PlainInventory(6)}))
        found = of(forest, ask(RequestGroup("_A", {"VCPU": 1}), RequestGroup("_B", {"VCPU": 1})))
        assert found.at_most == 3
        assert limits_of(found) == [(Constraint("resources", "VCPU", SUM), 1)]

    def test_a_subtree_limits_where_cores_and_devices_are_apart(self) -> None:
        nodes = [PlainProvider(f"node-{n}", "host", {"PCPU": PlainInventory(4 * n + 1)}) for n in range(2)]
        gpus = [PlainProvider(f"gpu-{n}", f"node-{n}", {"VGPU": PlainInventory(5 - 4 * n)}) for n in range(2)]
        forest = forest_of(PlainProvider("host"), *nodes, *gpus)
        request = ask(RequestGroup("_N", {"PCPU": 1}), RequestGroup("_G", {"VGPU": 1}))
        found = of(forest, replace(request, same_subtree=(frozenset({"_N", "_G"}),)))
        assert (found.at_least, found.at_most) == (2, 2)
        assert limits_of(found) == [(Constraint("same_subtree", "_G,_N"), 1)]

    def test_a_trait_that_no_provider_has_leaves_nothing(self) -> None:
        forest = replace(self.HOSTS, traits=frozenset({"CUSTOM_RED"}))
        wanted = RequestGroup("", {"VCPU": 1}, traits=Terms((frozenset({"CUSTOM_RED"}),)))
        assert of(forest, ask(wanted)).at_most == 0


def test_claims_one_after_the_other_never_exceed_the_bound() -> None:
    """Greedy filling, each claim the first candidate that brute force lists."""
    forest = devices(0, 1, 2)
    request = ask(RequestGroup("_A", {"VGPU": 1}), RequestGroup("_B", {"VGPU": 2}))
    found, number = of(forest, request), 0
    while ways := every_way(forest, request):
        assert not isinstance(ways, Refusal)
        forest, number = after(forest, min(ways, key=repr).takes), number + 1
    assert 0 < number <= found.at_most
