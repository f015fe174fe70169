"""The engine finds what brute force finds: all of it, nothing else, nothing twice, in the order that was asked for."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from stead.candidates import kinds
from stead.candidates.engine import Enumeration, answer, find, found_within
from stead.candidates.kinds import Kind, drawn
from stead.candidates.provider_trees import matching_providers
from stead.candidates.render import Form
from stead.candidates.work import Work
from stead.domain.claim import Claim, Place, PlaceUsage, require_room
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.provider import Inventory
from stead.domain.request import Apart, CandidateRequest, ProviderQuery, RequestGroup, Terms
from tests.rooms.candidates.brute_force import (
    Refusal,
    Way,
    eligible_anchors,
    every_provider,
    every_way,
    summarised_givers,
    summarised_trees,
    ways_under,
)
from tests.rooms.candidates.examples import CANDIDATES, PROVIDERS, Case, candidate_request, provider_query
from tests.rooms.candidates.forests import (
    UNKNOWN_CLASS,
    UNKNOWN_UUID,
    forests_and_provider_queries,
    forests_and_requests,
    forests_and_requests_beyond,
)
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider, uuid_of
from tests.rooms.candidates.snapshots import snapshot_of, summary_of, way_of, way_of_json
from tests.rooms.catalog.small_blocks import small_blocks
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.catalog.snapshot import Snapshot

pytestmark = pytest.mark.timeout(240)  # hundreds of cases, each by brute force, and a fault is made smaller for a while

thorough = settings(max_examples=examples(1500), deadline=None)
brisk = settings(max_examples=examples(400), deadline=None)

DEPTH_FIRST = Enumeration()
BREADTH_FIRST = Enumeration(breadth_first=True)
RANDOM = Enumeration(randomize=True)
enumerations = st.sampled_from([DEPTH_FIRST, BREADTH_FIRST, RANDOM, Enumeration(breadth_first=True, randomize=True)])


def found_by_engine(
    snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration = DEPTH_FIRST
) -> list[Way] | Refusal:
    try:
        return [way_of(snapshot, candidate) for candidate in find(snapshot, request, enumeration)]
    except UnknownResourceClass as error:
        return Refusal(UnknownResourceClass, frozenset({error.name}))
    except UnknownTraits as error:
        return Refusal(UnknownTraits, frozenset(error.names))


def agree(found: list[Way] | Refusal, expected: frozenset[Way] | Refusal) -> bool:
    """Whether they are the same candidates, each once; or the same refusal, naming some of what may be named."""
    if isinstance(found, Refusal) or isinstance(expected, Refusal):
        return (
            isinstance(found, Refusal)
            and isinstance(expected, Refusal)
            and found.error is expected.error
            and bool(found.names)
            and found.names <= expected.names
        )
    return Counter(found) == Counter(expected)


@thorough
@given(forests_and_requests())
def test_the_engine_finds_what_brute_force_finds(case: tuple[Forest, Sequence[CandidateRequest]]) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        expected = every_way(forest, request)
        event("refused" if isinstance(expected, Refusal) else f"{min(len(expected), 3)} candidates or more")
        found = found_by_engine(snapshot, request)
        assert agree(found, expected), (request, found, expected)


@settings(max_examples=examples(1000), deadline=None)
@given(forests_and_requests_beyond())
def test_the_engine_finds_what_brute_force_finds_of_what_stead_has_of_its_own(
    case: tuple[Forest, Sequence[CandidateRequest]],
) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        expected = every_way(forest, request)
        event("refused" if isinstance(expected, Refusal) else f"{min(len(expected), 3)} candidates or more")
        found = found_by_engine(snapshot, request)
        assert agree(found, expected), (request, found, expected)


def rooms_of(forest: Forest) -> dict[Place, PlaceUsage]:
    """The rooms of *forest*, as the store gives them to the rule of claims."""
    rooms = {}
    for provider in forest.providers:
        for name, held in provider.inventories.items():
            units = (held.total, held.reserved, held.min_unit, held.max_unit, held.step_size, held.allocation_ratio)
            rooms[Place(provider.name, name)] = PlaceUsage(Inventory(*units), held.used, held.used)
    return rooms


@brisk
@given(st.one_of(forests_and_requests_beyond(), forests_and_requests()))
def test_every_candidate_is_accepted_by_the_rule_of_claims(case: tuple[Forest, Sequence[CandidateRequest]]) -> None:
    forest, requests = case
    note(str(forest))
    snapshot, rooms = snapshot_of(forest), rooms_of(forest)
    for request in requests:
        found = found_by_engine(snapshot, request)
        for way in [] if isinstance(found, Refusal) else found:
            amounts: dict[str, dict[str, int]] = {}
            for provider, name, amount in way.takes:
                amounts.setdefault(provider, {})[name] = amount
            require_room(rooms, [Claim("consumer", amounts, "project", "user")])


@pytest.mark.parametrize(
    "odd",
    [PlainInventory(20, min_unit=5, step_size=4), PlainInventory(20, min_unit=3, max_unit=10, step_size=4)],
    ids=str,
)
@pytest.mark.parametrize("even", [PlainInventory(20, step_size=5), PlainInventory(9)], ids=str)
def test_the_smallest_part_of_a_split_keeps_its_steps(odd: PlainInventory, even: PlainInventory) -> None:
    """The least that a provider gives is its min_unit, rounded up to a multiple of its step_size."""
    nodes = [PlainProvider("odd", "host", {"VCPU": odd}), PlainProvider("even", "host", {"VCPU": even})]
    forest = Forest((PlainProvider("host"), *nodes), frozenset({"VCPU"}), frozenset())
    snapshot = snapshot_of(forest)
    for amount in range(1, 41):
        request = ask(RequestGroup("", {"VCPU": amount}, can_split=frozenset({"VCPU"})))
        found = found_by_engine(snapshot, request)
        assert agree(found, every_way(forest, request)), (amount, found)


@brisk
@given(forests_and_requests_beyond(), enumerations, st.integers(1, 6))
def test_every_order_of_what_stead_has_of_its_own_is_the_same_and_a_limit_a_part_of_it(
    case: tuple[Forest, Sequence[CandidateRequest]], enumeration: Enumeration, limit: int
) -> None:
    forest, requests = case
    note(str(forest))
    with small_blocks(), patch.object(kinds, "_FIRST_TREES", 1), patch.object(kinds, "_MOST_TREES", 2):
        snapshot = snapshot_of(forest)
        for request in requests:
            expected = every_way(forest, request)
            found = found_by_engine(snapshot, request, enumeration)
            assert agree(found, expected), (request, found)
            some = found_by_engine(snapshot, replace(request, limit=limit), enumeration)
            if not isinstance(expected, Refusal) and not isinstance(some, Refusal):
                assert len(some) == len(set(some)) == min(limit, len(expected))
                assert expected.issuperset(some)


@brisk
@given(forests_and_requests(), enumerations)
def test_it_does_not_matter_how_columns_are_cut_and_how_many_trees_are_looked_at_together(
    case: tuple[Forest, Sequence[CandidateRequest]], enumeration: Enumeration
) -> None:
    forest, requests = case
    note(str(forest))
    with small_blocks(), patch.object(kinds, "_FIRST_TREES", 1), patch.object(kinds, "_MOST_TREES", 2):
        snapshot = snapshot_of(forest)
        for request in requests:
            assert agree(found_by_engine(snapshot, request, enumeration), every_way(forest, request)), request


@brisk
@given(forests_and_requests(), enumerations)
def test_every_order_holds_the_same_candidates(
    case: tuple[Forest, Sequence[CandidateRequest]], enumeration: Enumeration
) -> None:
    forest, requests = case
    note(str(forest))
    for request in requests:
        found = found_by_engine(snapshot_of(forest), request, enumeration)
        assert agree(found, every_way(forest, request)), (request, found)


@brisk
@given(forests_and_requests(), enumerations, st.integers(1, 6))
def test_a_limit_gives_so_many_different_ones_of_the_whole(
    case: tuple[Forest, Sequence[CandidateRequest]], enumeration: Enumeration, limit: int
) -> None:
    forest, requests = case
    note(str(forest))
    for request in requests:
        expected = every_way(forest, request)
        found = found_by_engine(snapshot_of(forest), replace(request, limit=limit), enumeration)
        if isinstance(expected, Refusal) or isinstance(found, Refusal):
            assert agree(found, expected)
        else:
            assert len(found) == len(set(found)) == min(limit, len(expected))
            assert expected.issuperset(found)


@brisk
@given(forests_and_requests(), st.integers(0, 6))
def test_a_maximum_is_counted_before_candidates_with_two_providers_of_a_tree_are_dropped(
    case: tuple[Forest, Sequence[CandidateRequest]], maximum: int
) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        everything = replace(request, one_provider_per_tree=False)
        enumeration = Enumeration(maximum=maximum)
        generated = found_by_engine(snapshot, everything, enumeration)
        expected = every_way(forest, everything)
        if isinstance(expected, Refusal) or isinstance(generated, Refusal):
            assert agree(generated, expected)
            continue
        assert len(generated) == min(max(maximum, 1), len(expected))
        survivors = every_way(forest, request)
        assert not isinstance(survivors, Refusal)
        assert found_by_engine(snapshot, request, enumeration) == [way for way in generated if way in survivors]


@brisk
@given(forests_and_requests())
def test_breadth_first_visits_every_tree_before_the_second_candidate_of_any(
    case: tuple[Forest, Sequence[CandidateRequest]],
) -> None:
    forest, requests = case
    note(str(forest))
    for request in requests:
        request = replace(request, one_provider_per_tree=False)
        found = found_by_engine(snapshot_of(forest), request, BREADTH_FIRST)
        if isinstance(found, Refusal) or not found:
            continue
        by_tree = [ways_under(forest, request, anchor) for anchor in eligible_anchors(forest, request)]
        by_tree = [ways for ways in by_tree if ways]
        first_round = set(found[: len(by_tree)])
        # A candidate of sharing providers alone stands under several trees, and represents them all.
        assert all(ways & first_round for ways in by_tree), (request, found)


@brisk
@given(forests_and_requests(), st.none() | st.integers(1, 4))
def test_the_answer_shows_the_candidates_and_the_whole_trees_that_give(
    case: tuple[Forest, Sequence[CandidateRequest]], limit: int | None
) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        request = replace(request, one_provider_per_tree=False, limit=limit)
        expected = every_way(forest, request)
        if isinstance(expected, Refusal):
            continue
        body = json.loads(b"".join(answer(snapshot, request, DEPTH_FIRST, Form()).body))
        shown = [way_of_json(forest, row) for row in body["allocation_requests"]]
        assert len(shown) == len(set(shown)) == min(len(expected), limit or len(expected))
        assert expected.issuperset(shown)
        names = summarised_trees(forest, shown)
        summaries = body["provider_summaries"]
        for summary in summaries.values():
            summary["traits"].sort()
        assert summaries == {forest.by_name[name].uuid: summary_of(forest, forest.by_name[name]) for name in names}


@brisk
@given(forests_and_requests())
def test_an_old_answer_shows_the_givers_alone_if_anything_is_nested(
    case: tuple[Forest, Sequence[CandidateRequest]],
) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    form = Form(mappings=False, summary_traits=False, summary_all_classes=False, summary_tree=False)
    for request in requests:
        request = replace(request, one_provider_per_tree=True)
        expected = every_way(forest, request)
        if isinstance(expected, Refusal):
            continue
        body = json.loads(b"".join(answer(snapshot, request, DEPTH_FIRST, form).body))
        shown = Counter(way_of_json(forest, row) for row in body["allocation_requests"])
        assert shown == Counter(replace(way, mappings=frozenset()) for way in expected)
        givers = summarised_givers(forest, expected, expected)
        names = givers if forest.is_nested else summarised_trees(forest, expected)
        asked = {name for group in request.groups for name in group.resources}
        assert body["provider_summaries"] == {
            forest.by_name[name].uuid: {"resources": resources_shown(forest.by_name[name], asked)} for name in names
        }


def resources_shown(provider: PlainProvider, asked: set[str]) -> dict[str, dict[str, int]]:
    held = {name: inventory for name, inventory in provider.inventories.items() if name in asked}
    return {name: {"capacity": inventory.capacity, "used": inventory.used} for name, inventory in held.items()}


@thorough
@given(forests_and_provider_queries())
def test_the_provider_list_holds_what_brute_force_lists(case: tuple[Forest, ProviderQuery]) -> None:
    forest, query = case
    note(str(forest))
    assert_lists_what_brute_force_lists(forest, query)


def assert_lists_what_brute_force_lists(forest: Forest, query: ProviderQuery) -> None:
    snapshot = snapshot_of(forest)
    expected = every_provider(forest, query)
    if isinstance(expected, Refusal):
        with pytest.raises(expected.error) as refused:
            matching_providers(snapshot, query)
        assert any(name in str(refused.value) for name in expected.names)
    else:
        slots = matching_providers(snapshot, query).tolist()
        assert slots == sorted(set(slots))
        assert {snapshot.provider(slot).name for slot in slots} == expected


@pytest.mark.parametrize("case", CANDIDATES.values(), ids=CANDIDATES.keys())
def test_the_engine_finds_the_candidates_of_the_worked_examples(case: Case) -> None:
    """Odd corners, which random forests meet now and then only. That brute force is right here is tested beside it."""
    request = replace(candidate_request(case), limit=None)
    found = found_by_engine(snapshot_of(case.forest), request)
    assert agree(found, every_way(case.forest, request))


@pytest.mark.parametrize("case", PROVIDERS.values(), ids=PROVIDERS.keys())
def test_the_provider_list_holds_those_of_the_worked_examples(case: Case) -> None:
    assert_lists_what_brute_force_lists(case.forest, provider_query(case))


NOTHING = Forest((), frozenset({"VCPU"}), frozenset({"CUSTOM_RED"}))


def ask(*groups: RequestGroup, **more: object) -> CandidateRequest:
    return CandidateRequest(groups=groups, **more)  # type: ignore[arg-type]  # any field, by name


@pytest.mark.parametrize(
    "request_",
    [
        ask(RequestGroup("", {"VCPU": 1})),
        ask(RequestGroup("", {UNKNOWN_CLASS: 1})),
        ask(RequestGroup("1", {"VCPU": 1}, Terms((frozenset({"CUSTOM_NO_TRAIT"}),)))),
        ask(RequestGroup("1", {"VCPU": 1}, in_tree=UNKNOWN_UUID)),
        ask(RequestGroup("", {UNKNOWN_CLASS: 1}), root_traits=Terms((frozenset({"CUSTOM_RED"}),))),
        ask(RequestGroup("", {"VCPU": 1}), root_traits=Terms((frozenset({"CUSTOM_NO_TRAIT"}),))),
    ],
    ids=["empty", "unknown class", "unknown trait", "unknown tree", "no root qualifies", "unknown root trait"],
)
def test_without_any_provider_names_are_still_looked_up(request_: CandidateRequest) -> None:
    expected = every_way(NOTHING, request_)
    assert agree(found_by_engine(snapshot_of(NOTHING), request_), expected)


def test_a_group_that_only_trees_without_the_root_trait_could_serve_hides_the_errors_of_later_groups() -> None:
    red = PlainProvider("red", None, {"MEMORY_MB": PlainInventory(4)}, frozenset({"CUSTOM_RED"}))
    blue = PlainProvider("blue", None, {"VCPU": PlainInventory(4)}, frozenset({"CUSTOM_BLUE"}))
    forest = Forest((red, blue), frozenset({"VCPU", "MEMORY_MB"}), frozenset({"CUSTOM_RED", "CUSTOM_BLUE"}))
    served_by_blue, unknown = RequestGroup("1", {"VCPU": 1}), RequestGroup("2", {UNKNOWN_CLASS: 1})
    for root, expected in (
        ("CUSTOM_RED", []),
        ("CUSTOM_BLUE", Refusal(UnknownResourceClass, frozenset({UNKNOWN_CLASS}))),
    ):
        request = ask(served_by_blue, unknown, root_traits=Terms((frozenset({root}),)))
        assert found_by_engine(snapshot_of(forest), request) == expected


def devices(number: int, held: PlainInventory) -> Forest:
    """One host with so many children that have the same to give."""
    children = [PlainProvider(f"device {n}", "host", {"VGPU": held}) for n in range(number)]
    return Forest((PlainProvider("host"), *children), frozenset({"VGPU"}), frozenset())


def equal_groups(number: int, amount: int = 1) -> tuple[RequestGroup, ...]:
    return tuple(RequestGroup(str(n), {"VGPU": amount}) for n in range(number))


@pytest.mark.timeout(60)  # not a measure: whoever tries all combinations never ends
def test_a_few_are_found_of_more_than_could_ever_be_counted() -> None:
    request = ask(*equal_groups(20), isolate=True, limit=50)
    found = found_by_engine(snapshot_of(devices(40, PlainInventory(1))), request)
    assert not isinstance(found, Refusal)
    assert len(set(found)) == 50


@pytest.mark.timeout(60)  # likewise
def test_more_isolated_groups_than_providers_are_recognised_as_hopeless() -> None:
    assert found_by_engine(snapshot_of(devices(19, PlainInventory(100))), ask(*equal_groups(20), isolate=True)) == []


@pytest.mark.timeout(60)  # likewise
def test_equal_groups_that_need_more_than_there_is_are_recognised_as_hopeless() -> None:
    assert found_by_engine(snapshot_of(devices(12, PlainInventory(2))), ask(*equal_groups(25))) == []


@pytest.mark.timeout(60)  # likewise
def test_equal_groups_of_which_no_provider_takes_as_many_as_it_has_room_for_are_recognised_as_hopeless() -> None:
    """Each provider has room for 5, which is two groups of 2 with 1 left over."""
    assert found_by_engine(snapshot_of(devices(12, PlainInventory(5))), ask(*equal_groups(25, amount=2))) == []


@pytest.mark.timeout(60)  # likewise
def test_where_one_of_many_alike_led_nowhere_the_others_are_not_tried() -> None:
    """No two of the groups fit together on one device, and there is one device too few."""
    groups = tuple(RequestGroup(str(n), {"VGPU": 6 + n % 3}) for n in range(21))
    assert found_by_engine(snapshot_of(devices(20, PlainInventory(10))), ask(*groups)) == []


@pytest.mark.timeout(60)  # likewise
def test_groups_that_each_fit_somewhere_and_nowhere_in_one_subtree_are_recognised_as_hopeless() -> None:
    nodes = [
        PlainProvider(f"node {n}", "host", {"VCPU" if n % 2 else "MEMORY_MB": PlainInventory(8)}) for n in range(64)
    ]
    forest = Forest((PlainProvider("host"), *nodes), frozenset({"VCPU", "MEMORY_MB"}), frozenset())
    groups = (RequestGroup("_C", {"VCPU": 1}), RequestGroup("_M", {"MEMORY_MB": 1}))
    request = ask(*groups, same_subtree=(frozenset({"_C", "_M"}),))
    assert found_by_engine(snapshot_of(forest), request) == []


@pytest.mark.timeout(60)  # likewise
def test_isolated_groups_that_leave_no_provider_to_one_of_the_others_are_recognised_as_hopeless() -> None:
    groups = equal_groups(20)
    request = ask(*groups, isolated=frozenset(group.suffix for group in groups[:19]))
    assert found_by_engine(snapshot_of(devices(19, PlainInventory(100))), request) == []


@pytest.mark.timeout(60)  # likewise
def test_groups_that_keep_apart_from_a_group_that_is_above_all_are_recognised_as_hopeless() -> None:
    children = [PlainProvider(f"device {n}", "host", {"VGPU": PlainInventory(9)}) for n in range(30)]
    host = PlainProvider("host", None, {"VCPU": PlainInventory(9)})
    forest = Forest((host, *children), frozenset({"VCPU", "VGPU"}), frozenset())
    groups = (RequestGroup("_C", {"VCPU": 1}), *equal_groups(9))
    request = ask(*groups, apart=(Apart(frozenset({"_C"}), frozenset({"8"})),))
    assert found_by_engine(snapshot_of(forest), request) == []


def many_hosts(number: int) -> Snapshot:
    hosts = [PlainProvider(f"host {n}", None, {"VCPU": PlainInventory(8)}) for n in range(number)]
    return snapshot_of(Forest(tuple(hosts), frozenset({"VCPU"}), frozenset()))


def test_ways_are_sought_once_for_all_trees_that_are_alike() -> None:
    with patch.object(kinds, "ways", wraps=kinds.ways) as ways:
        found = found_by_engine(many_hosts(200), ask(RequestGroup("", {"VCPU": 1})))
    assert len(found) == 200
    assert ways.call_count == 1


def test_hosts_with_and_without_devices_in_turn_keep_their_order() -> None:
    one = {"VCPU": PlainInventory(8)}
    hosts = [PlainProvider(f"h{number}", inventories=one) for number in range(9)]
    devices_below = [PlainProvider(f"d{number}", parent=f"h{number}") for number in range(0, 9, 2)]
    snapshot = snapshot_of(Forest((*hosts, *devices_below), frozenset({"VCPU"}), frozenset()))
    found = find(snapshot, ask(RequestGroup("", {"VCPU": 1})), DEPTH_FIRST)
    givers = [slot for candidate in found for slot in candidate.allocations]
    assert givers == sorted(givers)
    assert [snapshot.uuid(slot) for slot in givers] == [host.uuid for host in hosts]


def test_equal_hosts_without_a_choice_are_one_batch() -> None:
    request = ask(RequestGroup("", {"VCPU": 1}))
    batches = list(found_within(many_hosts(50), request, DEPTH_FIRST, Work()))
    assert [batch.size for batch in batches] == [50]


def test_random_order_with_a_limit_draws_no_more_trees_than_that() -> None:
    snapshot, request = many_hosts(500), ask(RequestGroup("", {"VCPU": 1}), limit=3)
    with patch.object(Kind, "shuffled", autospec=True, side_effect=Kind.shuffled) as shuffled:
        drawn = [tuple(found_by_engine(snapshot, request, RANDOM)) for _ in range(20)]
    assert shuffled.call_count == 20 * 3
    assert len(set(drawn)) > 1


@pytest.mark.parametrize("number", [0, 1, 2, 7])
def test_drawing_gives_every_place_once(number: int) -> None:
    assert sorted(drawn(number)) == list(range(number))


def test_every_order_is_drawn_as_often_as_any_other() -> None:
    random.seed(7)
    times = Counter(tuple(drawn(3)) for _ in range(6000))
    assert len(times) == 6
    assert all(800 < count < 1200 for count in times.values())


def test_an_aggregate_of_a_deleted_provider_shares_nothing() -> None:
    host = PlainProvider("host", None, {"MEMORY_MB": PlainInventory(4)}, frozenset(), frozenset("a"))
    forest = Forest((host,), frozenset({"VCPU", "MEMORY_MB"}), frozenset())
    snapshot = snapshot_of(forest)
    assert found_by_engine(snapshot, ask(RequestGroup("", {"VCPU": 1, "MEMORY_MB": 1}))) == []
    member_of = Terms((frozenset({uuid_of("b")}),))
    assert found_by_engine(snapshot, ask(RequestGroup("", {"MEMORY_MB": 1}, aggregates=member_of))) == []
