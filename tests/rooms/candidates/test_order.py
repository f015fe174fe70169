"""``order_by``: the best come first, root by root, and with a limit no others are made.

Source: "Order", docs/stead-api.md.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from stead.candidates import engine
from stead.candidates.engine import Enumeration, find
from stead.domain.errors import UnknownClassInOrder, UnknownResourceClass, UnknownTraits
from stead.domain.request import PACK, SPREAD, ByAmount, ByShare, CandidateRequest, Drawn, Order, RequestGroup
from tests.rooms.candidates import plain
from tests.rooms.candidates.brute_force import Refusal, Way, eligible_anchors, every_way, ways_under
from tests.rooms.candidates.forests import CLASSES, UNKNOWN_CLASS, forests_and_requests
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of, way_of
from tests.rooms.catalog.small_blocks import small_blocks
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.catalog.snapshot import Snapshot

pytestmark = pytest.mark.timeout(180)  # hundreds of cases, each by brute force

brisk = settings(max_examples=examples(120), deadline=None)

EXACT = 2**50
"""Sums of numbers below it are exact in double precision."""

DEPTH_FIRST, BREADTH_FIRST = Enumeration(), Enumeration(breadth_first=True)

_LISTS = [list(some) for number in (1, 2) for some in itertools.permutations(CLASSES, number)]
orders: st.SearchStrategy[Order] = st.sampled_from(
    [
        PACK,
        SPREAD,
        *(ByAmount(dict(zip(some, (-1, 1), strict=False))) for some in _LISTS),
        *(ByAmount(dict(zip(some, (1, 1), strict=False))) for some in _LISTS),
        *(ByShare(dict(zip(some, (1.0, -0.5), strict=False))) for some in _LISTS),
    ]
)

Key = tuple[float, ...]


def key_of(by: Order, request: CandidateRequest, free: dict[str, int], capacity: dict[str, int]) -> Key:
    """What to sort by, the least first; by class what is free afterwards, and the capacity."""
    if isinstance(by, ByAmount):
        return tuple(-way * free.get(name, 0) for name, way in by.directions.items())
    assert isinstance(by, ByShare)
    weights = dict.fromkeys(asked(request), by.weights) if isinstance(by.weights, float) else by.weights
    total = 0.0
    for name, weight in weights.items():
        total += weight * (free.get(name, 0) / capacity[name] if capacity.get(name, 0) > 0 else 0.0)
    return (-total,)


def asked(request: CandidateRequest) -> Counter[str]:
    total = Counter[str]()
    for group in request.groups:
        total.update(group.resources)
    return total


def key_of_tree(forest: Forest, by: Order, request: CandidateRequest, root: str) -> Key:
    members = [provider for provider in forest.providers if forest.root(provider.name) == root]
    free, capacity = Counter[str](), Counter[str]()
    for member in members:
        for name, held in member.inventories.items():
            capacity[name] += held.capacity
            free[name] += held.capacity - held.used
    left = {name: free[name] - asked(request)[name] for name in free if capacity[name] > 0}
    return key_of(by, request, left, capacity)


def key_of_way(forest: Forest, by: Order, request: CandidateRequest, way: Way) -> Key:
    free, capacity = Counter[str](), Counter[str]()
    for giver, name, amount in way.takes:
        held = forest.by_name[giver].inventories[name]
        capacity[name] += held.capacity
        free[name] += held.capacity - held.used - amount
    return key_of(by, request, free, capacity)


def expected(forest: Forest, request: CandidateRequest, by: Order) -> list[tuple[str, Key, frozenset[Way]]]:
    """The candidates as they must come: by root and measure those that come in whatever order of their uuids."""
    roots = sorted(
        eligible_anchors(forest, request), key=lambda root: (key_of_tree(forest, by, request, root.name), root.uuid)
    )
    seen: set[Way] = set()
    found = []
    for root in roots:
        ways = ways_under(forest, request, root) - seen
        seen |= ways
        keys = {way: key_of_way(forest, by, request, way) for way in ways}
        found += [
            (root.name, key, frozenset(way for way in ways if keys[way] == key)) for key in sorted(set(keys.values()))
        ]
    return found


def found_by_engine(
    snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration = DEPTH_FIRST
) -> list[tuple[str, Way]]:
    """The root under which each was found, and the candidate."""
    return [
        (snapshot.provider(candidate.members[0]).name, way_of(snapshot, candidate))
        for candidate in find(snapshot, request, enumeration)
    ]


def grouped(
    forest: Forest, request: CandidateRequest, by: Order, found: Iterable[tuple[str, Way]]
) -> list[tuple[str, Key, frozenset[Way]]]:
    runs = itertools.groupby(found, lambda one: (one[0], key_of_way(forest, by, request, one[1])))
    return [(root, key, frozenset(way for _, way in run)) for (root, key), run in runs]


def shuffled(forest: Forest, chance: st.DataObject) -> Forest:
    """The same with providers in another order, parents before their children all the same."""
    left = list(forest.providers)
    order: list[PlainProvider] = []
    while left:
        ready = [one for one in left if one.parent is None or any(done.name == one.parent for done in order)]
        order.append(chance.draw(st.sampled_from(ready)))
        left.remove(order[-1])
    return replace(forest, providers=tuple(order))


Case = tuple[Forest, "Sequence[CandidateRequest]"]


@brisk
@given(forests_and_requests(), orders)
def test_the_best_come_first_root_by_root(case: Case, by: Order) -> None:
    forest, requests = case
    assume(all(max(held.capacity, held.used) < EXACT for one in forest.providers for held in one.inventories.values()))
    note(str(forest))
    for request in requests:
        request = replace(request, one_provider_per_tree=False, order=by)
        everything = every_way(forest, request)
        if isinstance(everything, Refusal) or not everything:
            continue
        with patch.object(engine, "AT_ONCE", 10**9):
            found = found_by_engine(snapshot_of(forest), request)
        assert len(set(found)) == len(found)
        assert grouped(forest, request, by, found) == expected(forest, request, by), request


@brisk
@given(forests_and_requests(), orders, st.integers(1, 5), st.sampled_from([DEPTH_FIRST, BREADTH_FIRST]))
def test_with_a_limit_the_first_of_these_come_and_columns_may_be_cut_anyhow(
    case: Case, by: Order, limit: int, enumeration: Enumeration
) -> None:
    forest, requests = case
    note(str(forest))
    for request in requests:
        request = replace(request, order=by)
        if isinstance(every_way(forest, request), Refusal):
            continue
        whole = found_by_engine(snapshot_of(forest), request, enumeration)
        with small_blocks():
            some = found_by_engine(snapshot_of(forest), replace(request, limit=limit), enumeration)
        assert some == whole[:limit]


@brisk
@given(forests_and_requests(), orders, st.sampled_from([DEPTH_FIRST, BREADTH_FIRST]), st.data())
def test_the_order_is_the_same_wherever_the_providers_stand_in_memory(
    case: Case, by: Order, enumeration: Enumeration, chance: st.DataObject
) -> None:
    forest, requests = case
    note(str(forest))
    other = shuffled(forest, chance)
    for request in requests:
        request = replace(request, order=by)
        if isinstance(every_way(forest, request), Refusal):
            continue
        here = found_by_engine(snapshot_of(forest), request, enumeration)
        assert found_by_engine(snapshot_of(other), request, enumeration) == here


@brisk
@given(forests_and_requests(), orders)
def test_breadth_first_gives_one_of_each_tree_in_every_round(case: Case, by: Order) -> None:
    forest, requests = case
    assume(not shares(forest))  # what is shared alone comes under another root then
    note(str(forest))
    for request in requests:
        request = replace(request, one_provider_per_tree=False, order=by)
        if isinstance(every_way(forest, request), Refusal):
            continue
        deep = found_by_engine(snapshot_of(forest), request)
        per_tree = {root: [(root, way) for own, way in deep if own == root] for root, _ in deep}
        rounds = itertools.zip_longest(*per_tree.values())
        wide = found_by_engine(snapshot_of(forest), request, BREADTH_FIRST)
        assert wide == [one for some in rounds for one in some if one is not None]


def shares(forest: Forest) -> bool:
    return any("MISC_SHARES_VIA_AGGREGATE" in provider.traits for provider in forest.providers)


@brisk
@given(forests_and_requests(), st.none() | st.integers(1, 4))
def test_drawn_ones_are_some_of_them(case: Case, limit: int | None) -> None:
    forest, requests = case
    for request in requests:
        everything = every_way(forest, request)
        if isinstance(everything, Refusal):
            continue
        found = [way for _, way in found_by_engine(snapshot_of(forest), replace(request, order=Drawn(), limit=limit))]
        assert len(set(found)) == len(found) == min(len(everything), len(everything) if limit is None else limit)
        assert everything.issuperset(found)


@brisk
@given(forests_and_requests(), orders)
def test_what_is_refused_without_an_order_is_refused_with_one(case: Case, by: Order) -> None:
    forest, requests = case
    for request in requests:
        refusal = every_way(forest, request)
        if isinstance(refusal, Refusal):
            with pytest.raises((UnknownResourceClass, UnknownTraits)):
                found_by_engine(snapshot_of(forest), replace(request, order=by))


def hosts(number: int, **more: PlainInventory) -> list[PlainProvider]:
    return [
        PlainProvider(f"host {n}", None, {"VCPU": PlainInventory(number + 1, used=n), **more}) for n in range(number)
    ]


def forest_of(*providers: PlainProvider) -> Forest:
    return Forest(providers, frozenset({"VCPU", "MEMORY_MB"}), frozenset())


ONE = CandidateRequest((RequestGroup("", {"VCPU": 1}),))


def names(forest: Forest, request: CandidateRequest) -> list[str]:
    return [root for root, _ in found_by_engine(snapshot_of(forest), request)]


@pytest.mark.parametrize(
    ("by", "found"),
    [
        (PACK, [3, 2, 1, 0]),
        (SPREAD, [0, 1, 2, 3]),
        (ByAmount({"VCPU": -1}), [3, 2, 1, 0]),
        (ByAmount({"VCPU": 1}), [0, 1, 2, 3]),
        (ByShare({"VCPU": 0.001}), [0, 1, 2, 3]),
        (ByShare({"VCPU": -7.0}), [3, 2, 1, 0]),
    ],
)
def test_each_order_in_its_simplest_form(by: Order, found: list[int]) -> None:
    assert names(forest_of(*hosts(4)), replace(ONE, order=by)) == [f"host {n}" for n in found]


def test_equal_ones_come_by_uuid_even_if_the_uuids_differ_only_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(name: str) -> str:
        return f"{'0' * 8}-0000-4000-8000-{name.removeprefix('host '):0>12}"

    monkeypatch.setattr(plain, "uuid_of", ending)
    equal = [PlainProvider(f"host {n}", None, {"VCPU": PlainInventory(4)}) for n in (5, 12, 3, 40, 1)]
    fuller = PlainProvider("host 9", None, {"VCPU": PlainInventory(4, used=1)})
    spread = [f"host {n}" for n in (1, 3, 5, 12, 40, 9)]
    assert names(forest_of(*equal, fuller), replace(ONE, order=SPREAD)) == spread


def test_the_share_is_that_after_the_claim() -> None:
    """Half of each is free before; then nothing of the small one, and most of that half of the large one."""
    large = PlainProvider("large", None, {"VCPU": PlainInventory(10, used=5)})
    small = PlainProvider("small", None, {"VCPU": PlainInventory(2, used=1)})
    forest = forest_of(large, small)
    assert names(forest, replace(ONE, order=PACK)) == ["small", "large"]
    assert names(forest, replace(ONE, order=SPREAD)) == ["large", "small"]


def test_of_a_host_the_fuller_node_comes_first_if_it_is_to_be_packed() -> None:
    nodes = [PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(8, used=n)}) for n in (2, 6, 4)]
    forest = forest_of(PlainProvider("host"), *nodes)
    givers = [
        [giver for giver, _, _ in way.takes]
        for _, way in found_by_engine(snapshot_of(forest), replace(ONE, order=PACK))
    ]
    assert givers == [["node 6"], ["node 4"], ["node 2"]]


def test_a_class_that_the_request_does_not_take_may_decide() -> None:
    full = PlainProvider("full", None, {"VCPU": PlainInventory(4), "MEMORY_MB": PlainInventory(9, used=9)})
    free = PlainProvider("free", None, {"VCPU": PlainInventory(4, used=2), "MEMORY_MB": PlainInventory(9)})
    assert names(forest_of(full, free), replace(ONE, order=ByAmount({"MEMORY_MB": 1}))) == ["free", "full"]


def test_an_unknown_class_is_refused() -> None:
    with pytest.raises(UnknownClassInOrder):
        found_by_engine(snapshot_of(forest_of(*hosts(2))), replace(ONE, order=ByAmount({UNKNOWN_CLASS: 1})))


def test_only_trees_that_are_wanted_are_looked_into() -> None:
    """Each has ways of its own, since nodes differ in what is left of them."""
    providers: list[PlainProvider] = []
    for n in range(200):
        providers.append(PlainProvider(f"host {n}"))
        providers += [
            PlainProvider(f"node {n}.{m}", f"host {n}", {"VCPU": PlainInventory(300, used=n)}) for m in range(2)
        ]
    groups = tuple(RequestGroup(suffix, {"VCPU": 1}) for suffix in ("1", "2"))
    request = CandidateRequest(groups, order=PACK, limit=3)
    snapshot = snapshot_of(forest_of(*providers))
    with patch.object(engine._Sorter, "sorted", autospec=True, side_effect=engine._Sorter.sorted) as measured:
        assert [root for root, _ in found_by_engine(snapshot, request)] == ["host 199"] * 3
    assert measured.call_count == 1


def test_of_a_tree_with_many_candidates_some_are_put_in_order_at_a_time() -> None:
    nodes = [PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(8, used=n)}) for n in (0, 3, 1, 2)]
    request = replace(ONE, order=PACK)
    with patch.object(engine, "AT_ONCE", 2):
        found = found_by_engine(snapshot_of(forest_of(PlainProvider("host"), *nodes)), request)
    used = [int(giver.removeprefix("node ")) for _, way in found for giver in way.givers]
    assert sorted(used) == [0, 1, 2, 3]
    assert (used[0] > used[1], used[2] > used[3]) == (True, True)


@pytest.mark.timeout(60)  # not a measure: whoever puts all candidates of a tree in order never ends
def test_of_a_tree_with_more_candidates_than_could_be_counted_some_are_found() -> None:
    children = [PlainProvider(f"device {n}", "host", {"VCPU": PlainInventory(9, used=n % 3)}) for n in range(40)]
    forest = forest_of(PlainProvider("host"), *children)
    groups = tuple(RequestGroup(str(n), {"VCPU": 1}) for n in range(20))
    request = CandidateRequest(groups, isolate=True, order=SPREAD, limit=50)
    found = found_by_engine(snapshot_of(forest), request)
    assert len(set(found)) == 50


def test_what_is_left_of_the_work_is_put_in_order() -> None:
    nodes = [PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(8, used=n)}) for n in range(8)]
    request = replace(ONE, order=PACK)
    found = list(find(snapshot_of(forest_of(PlainProvider("host"), *nodes)), request, Enumeration(work=100)))
    assert len(found) < 8
