"""Explanations say what brute force counts, and every relaxation that is offered does give candidates."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, event, given, note, settings

from stead.candidates.explain import EACH, MOST_COUNTED, MOST_TRIED, ROOM, explain, funnels, relaxations
from stead.candidates.match import in_ids, match
from stead.candidates.work import WorkSpent
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import RequestGroup, Terms
from tests.rooms.candidates.brute_force import Refusal, every_way
from tests.rooms.candidates.explain.brute_explain import (
    choice_tests,
    group_rows,
    lacking,
    near_misses,
    root_rows,
    tree_rows,
    without_a_term,
)
from tests.rooms.candidates.forests import forests_and_requests_beyond
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.rooms.candidates.test_engine import ask, devices, equal_groups
from tests.rooms.candidates.test_work import packing
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.candidates.explain import Choice, Explanation, Step
    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest

pytestmark = pytest.mark.timeout(180)  # hundreds of cases, each by brute force, and a fault is made smaller for a while

Case = tuple[Forest, "Sequence[CandidateRequest]"]


class Counted(tuple):  # type: ignore[type-arg]  # of any members
    """A tuple that counts how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_the_choices_are_gone_through_once_however_many_groups_there_are() -> None:
    groups = [RequestGroup(str(number), {"VGPU": 9}) for number in range(1, 50)]
    snapshot = snapshot_of(devices(3, PlainInventory(2)))
    choices = Counted(choice for group in groups for choice in funnels(snapshot, group))
    assert len(list(relaxations(ask(*groups), choices))) >= 49
    assert choices.times == 1


def test_an_explanation_ends_with_its_time() -> None:
    snapshot = snapshot_of(devices(3, PlainInventory(2)))
    with pytest.raises(WorkSpent):
        explain(snapshot, ask(RequestGroup("1", {"VGPU": 9})), until=time.monotonic() - 1)


def explained(case: Case, *, empty: bool = False) -> Iterator[tuple[Forest, Snapshot, CandidateRequest, Explanation]]:
    """Each request that is not refused (with *empty*: and finds nothing), with its explanation."""
    forest, requests = case
    note(str(forest))
    snapshot, number = snapshot_of(forest), 0
    for request in requests:
        ways = every_way(forest, request)
        if isinstance(ways, Refusal):
            with pytest.raises(ways.error):
                explain(snapshot, request)
        elif not (empty and ways):
            number += 1
            explanation = explain(snapshot, request)
            note(str(request))
            assert explanation.is_complete
            words = ("There ",) if ways else ("No ", "In no tree ", "All ")
            assert explanation.summary.startswith(words) or (" is disabled since " in explanation.summary and not ways)
            assert explanation.candidates == (min(len(ways), MOST_COUNTED), len(ways) > MOST_COUNTED)
            yield forest, snapshot, request, explanation
    assume(number)


def rows(steps: Sequence[Step], in_play: int) -> list[tuple[tuple[str, str, str | None], int]]:
    """The steps, of which each removes what the next does not have."""
    before = in_play
    for step in steps:
        assert step.left + step.removed == before
        before = step.left
    return [(tuple(step.constraint), step.left) for step in steps]  # type: ignore[misc]  # of three


@settings(max_examples=examples(250), deadline=None)
@given(forests_and_requests_beyond())
def test_the_counts_of_a_request_that_finds_nothing_are_those_of_brute_force(case: Case) -> None:
    for forest, snapshot, request, explanation in explained(case, empty=True):
        assert explanation.roots == len(forest.roots)
        assert rows(explanation.root_steps, explanation.roots) == root_rows(forest, request)
        expected = [
            (group.suffix, name, tests) for group in request.groups for name, tests in choice_tests(forest, group)
        ]
        assert [(choice.suffix, choice.resource_class) for choice in explanation.choices] == [
            (suffix, name) for suffix, name, _ in expected
        ]
        for choice, (_, _, tests) in zip(explanation.choices, expected, strict=True):
            assert choice.in_play == len(forest.providers)
            assert rows(choice.steps, choice.in_play) == group_rows(forest, tests)
            assert_tells_the_near_misses(forest, snapshot, choice, near_misses(forest, tests))


def assert_tells_the_near_misses(
    forest: Forest, snapshot: Snapshot, choice: Choice, expected: dict[tuple[str, str, str | None], set[str]]
) -> None:
    assert {tuple(miss.constraint): miss.providers for miss in choice.misses} == {
        words: len(names) for words, names in expected.items()
    }
    for miss in choice.misses:
        names = expected[tuple(miss.constraint)]  # type: ignore[index]  # of three
        examples = [snapshot.provider(slot).name for slot in miss.examples]
        assert len(set(examples)) == min(3, miss.providers)
        assert names.issuperset(examples)
        if miss.constraint.check == ROOM:
            name, _, amount = miss.constraint.value.partition(":")
            lacks = {one: lacking(forest.by_name[one], name, int(amount)) for one in names}
            assert miss.lacking == tuple(sorted(Counter(lacks.values()).items())[:3])
            assert [lacks[one] for one in examples] == sorted(lacks.values())[:3]
        else:
            assert miss.lacking == ()


@settings(max_examples=examples(250), deadline=None)
@given(forests_and_requests_beyond())
def test_the_trees_that_each_choice_and_bond_removes_are_those_of_brute_force(case: Case) -> None:
    for forest, _, request, explanation in explained(case):
        trees = explanation.trees
        before = trees.in_play
        for step in trees.steps:
            assert step.left + step.removed == before
            before = step.left
        found = [(tuple(step.by), step.left) for step in trees.steps]
        assert found == tree_rows(forest, request)
        assert trees.undecided == 0
        event("lost by a bond" if any(step.removed for step in trees.steps if len(step.by) == 3) else "else")
        assert (before == 0) == (explanation.candidates.number == 0)


@settings(max_examples=examples(200), deadline=None)
@given(forests_and_requests_beyond())
def test_every_relaxation_that_is_offered_gives_so_many_candidates(case: Case) -> None:
    for forest, _, request, explanation in explained(case, empty=True):
        for relaxation, count in explanation.relaxations:
            ways = every_way(forest, relaxation.request)
            assert not isinstance(ways, Refusal)
            assert count == (min(len(ways), MOST_COUNTED), len(ways) > MOST_COUNTED)
            assert count.number
            event(f"relaxed {(relaxation.without or relaxation.instead).parameter.rstrip('12_A')}")  # type: ignore[union-attr]  # one of them
        offered = [relaxation.request for relaxation, _ in explanation.relaxations]
        for relaxed in without_a_term(request):
            ways = every_way(forest, relaxed)
            assert (relaxed in offered) == (bool(ways) and not isinstance(ways, Refusal)), relaxed


@settings(max_examples=examples(100), deadline=None)
@given(forests_and_requests_beyond())
def test_a_funnel_ends_with_those_whom_the_engine_matches(case: Case) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        for group in request.groups:
            matched = match(snapshot, in_ids(snapshot, group))
            for pool, choice in zip(matched.pools, funnels(snapshot, group), strict=True):
                serving = pool.own.copy()
                serving[pool.shared] = True
                assert choice.steps[-1].left == np.count_nonzero(serving) if choice.steps else serving.all()


HOST = PlainProvider(
    "host", None, {"VCPU": PlainInventory(8, used=2), "VGPU": PlainInventory(8, max_unit=1)}, traits=frozenset({"T"})
)


@pytest.mark.parametrize(
    ("group", "summary"),
    [
        ({"resources": {"VCPU": 6}}, "There is 1 candidate."),
        ({"resources": {"VCPU": 7}}, "No provider has 7 VCPU free; the largest has 6. With 6, there is 1 candidate."),
        ({"resources": {"PGPU": 1}}, "No provider has PGPU."),
        ({"resources": {"VCPU": 1, "PGPU": 1}}, "No provider has PGPU."),
        ({"resources": {"VGPU": 4}}, "No provider allows 4 VGPU at once."),
        ({"resources": {"VCPU": 1}, "traits": Terms((), frozenset({"T"}))}, "No provider lacks the trait T."),
        (
            {"resources": {"VCPU": 1}, "traits": Terms((frozenset({"U", "V"}),))},
            "No provider has one of the traits U, V.",
        ),
        ({"resources": {"VCPU": 1}, "in_tree": "name:nix"}, "No provider has the name or uuid nix."),
        (
            {"resources": {"VCPU": 1}, "aggregates": Terms((frozenset({"a"}),))},
            "No provider is in the aggregate a.",
        ),
    ],
)
def test_the_summary_is_the_cause(group: dict[str, Any], summary: str) -> None:
    forest = Forest((HOST,), frozenset({"VCPU", "VGPU", "PGPU"}), frozenset({"T", "U", "V"}))
    assert explain(snapshot_of(forest), ask(RequestGroup("_A", **group))).summary == summary


def test_the_summary_of_groups_that_one_tree_cannot_serve_together() -> None:
    other = PlainProvider("other", None, {"PGPU": PlainInventory(1)})
    forest = Forest((HOST, other), frozenset({"VCPU", "VGPU", "PGPU"}), frozenset({"T"}))
    both = ask(RequestGroup("", {"VCPU": 1}), RequestGroup("_A", {"PGPU": 1}))
    assert explain(snapshot_of(forest), both).summary == "No tree has providers for VCPU and group _A."
    twice = ask(RequestGroup("_A", {"VCPU": 4}), RequestGroup("_B", {"VCPU": 4}))
    assert explain(snapshot_of(forest), twice).summary == "No tree has room for all groups together: they share VCPU."


def test_what_is_asked_of_nobody_is_explained_too() -> None:
    forest = Forest((), frozenset({"VCPU"}), frozenset())
    told = explain(snapshot_of(forest), ask(RequestGroup("", {"VCPU": 1})))
    assert (told.candidates, told.roots, told.trees.in_play, told.relaxations) == ((0, False), 0, 0, ())


@pytest.mark.parametrize("error", [UnknownResourceClass, UnknownTraits])
def test_an_unknown_name_is_refused_unless_a_group_before_hides_it(error: type[Exception]) -> None:
    snapshot = snapshot_of(Forest((PlainProvider("host"),), frozenset({"VCPU"}), frozenset()))
    unknown = (
        RequestGroup("_B", {"CUSTOM_NO": 1})
        if error is UnknownResourceClass
        else RequestGroup("_B", {"VCPU": 1}, Terms((frozenset({"CUSTOM_NO"}),)))
    )
    with pytest.raises(error):
        explain(snapshot, ask(unknown))
    told = explain(snapshot, ask(RequestGroup("_A", {"VCPU": 1}), unknown))
    assert told.choices[-1].steps[-1].left == 0


def test_many_candidates_are_counted_up_to_a_hundred() -> None:
    snapshot = snapshot_of(devices(101, PlainInventory(1)))
    assert explain(snapshot, ask(RequestGroup("1", {"VGPU": 1}))).candidates == (100, True)
    assert explain(snapshot_of(devices(100, PlainInventory(1))), ask(RequestGroup("1", {"VGPU": 1}))).candidates == (
        100,
        False,
    )


def test_a_relaxation_counts_up_to_a_hundred_too() -> None:
    told = explain(snapshot_of(devices(101, PlainInventory(2))), ask(RequestGroup("1", {"VGPU": 3})))
    ((relaxation, count),) = told.relaxations
    assert (relaxation.instead, count) == (("resources1", "VGPU:2", None), (100, True))


def test_groups_of_one_are_offered_where_no_provider_gives_more() -> None:
    told = explain(snapshot_of(devices(3, PlainInventory(1))), ask(RequestGroup("1", {"VGPU": 2})))
    (less, _), (split, count) = told.relaxations
    assert (less.instead, split.instead, count) == (
        ("resources1", "VGPU:1", None),
        ("resources1", "VGPU:1", EACH),
        (6, False),
    )


def test_so_they_are_for_the_group_without_a_suffix() -> None:
    """It is how people ask first: four cards of one host, written as one amount."""
    host = PlainProvider("host", None, {"VCPU": PlainInventory(8)})
    cards = [PlainProvider(f"card {number}", "host", {"VGPU": PlainInventory(1)}) for number in range(3)]
    forest = Forest((host, *cards), frozenset({"VCPU", "VGPU"}), frozenset())
    told = explain(snapshot_of(forest), ask(RequestGroup("", {"VCPU": 2, "VGPU": 3})))
    (split,) = [relaxation for relaxation, _ in told.relaxations if relaxation.instead and relaxation.instead.check]
    assert (split.without, split.instead) == (("resources", "VGPU:3", None), ("resources", "VGPU:1", EACH))
    assert [(group.suffix, group.resources) for group in split.request.groups] == [
        ("", {"VCPU": 2}),
        *((f"_{number}", {"VGPU": 1}) for number in (1, 2, 3)),
    ]
    assert "With 3 groups of 1, there are 6 candidates" in told.summary
    conditional = RequestGroup("", {"VGPU": 3}, aggregates=Terms((), frozenset({"a"})))
    told = explain(snapshot_of(forest), ask(conditional))
    assert not any(each.instead and each.instead.check for each, _ in told.relaxations)


@pytest.mark.timeout(120)  # not a measure: without a bound it would not end
def test_an_explanation_that_would_take_too_long_says_what_it_does_not_know() -> None:
    forest, request = packing()
    told = explain(snapshot_of(forest), request, 20_000)
    assert not told.is_complete
    assert told.trees.undecided == 1
    assert told.trees.steps[-1].left == 1


@pytest.mark.timeout(120)  # likewise
def test_no_more_relaxations_are_tried_than_the_bound_says() -> None:
    groups = tuple(
        RequestGroup(group.suffix, group.resources, aggregates=Terms((), frozenset({f"a{group.suffix}"})))
        for group in equal_groups(100)
    )
    request = ask(*groups, isolate=True)
    assert sum(1 for _ in relaxations(request, ())) > MOST_TRIED
    told = explain(snapshot_of(devices(50, PlainInventory(1000))), request)
    assert told.is_complete
    assert told.relaxations == ()


def test_an_explanation_of_many_groups_ends_with_its_work() -> None:
    snapshot, request = snapshot_of(devices(50, PlainInventory(1))), ask(*equal_groups(400))
    whole = explain(snapshot, request, 3_000_000)
    assert whole.is_complete
    assert len(whole.choices) == len(request.groups)
    for work in (30_000, 90_000):  # spent in the groups, and after them
        told = explain(snapshot, request, work)
        assert not told.is_complete
        assert told.choices == whole.choices[: len(told.choices)]
        assert told.trees.undecided == told.trees.in_play == whole.trees.in_play
        assert len(told.choices) < len(request.groups)
