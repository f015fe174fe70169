"""Blocks of needs against an enumeration of all ways, and the classes for which a sum per provider is required."""

from __future__ import annotations

from itertools import islice, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.candidates.combine import Demand, SearchSpace, independent_blocks, ways
from stead.candidates.work import Work

VCPU, PGPU, NET = 1, 2, 3


def space(choices: list[list[int]], available: int = 9) -> SearchSpace:
    return SearchSpace(choices, lambda _position, _class_id: available, lambda position, top: position == top)


@st.composite
def isolating(draw: st.DrawFn) -> tuple[Demand, list[list[int]]]:
    """Some isolated needs, often with the same choices, and some that nothing binds."""
    lists = draw(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), min_size=1, max_size=3))
    choices = draw(st.lists(st.sampled_from(lists), min_size=1, max_size=5))
    isolated = draw(st.sets(st.integers(0, len(choices) - 1)))
    return Demand([{10 + need: 1} for need in range(len(choices))], frozenset(isolated)), choices


@given(isolating())
def test_the_ways_of_isolated_needs_are_those_of_an_enumeration(case: tuple[Demand, list[list[int]]]) -> None:
    demand, choices = case
    expected = [
        way for way in product(*choices) if len({way[need] for need in demand.isolated}) == len(demand.isolated)
    ]
    assert sorted(ways(demand, space(choices), Work())) == sorted(expected)


def test_needs_with_the_same_choices_are_a_block_and_the_unbound_needs_are_another() -> None:
    demand = Demand([{VCPU: 1}, {PGPU: 1}, {NET: 1}, {PGPU: 1}], isolated=frozenset({1, 2, 3}))
    blocks = independent_blocks(demand, [[0], [1, 2], [3, 4, 5], [1, 2]])
    assert blocks is not None
    assert [(block.needs, block.is_isolated) for block in blocks] == [([0], False), ([1, 3], True), ([2], True)]


@pytest.mark.parametrize("choices", [[[1, 2], [2, 3]], [[1], [1, 2]]])
def test_isolated_needs_that_share_some_choices_need_a_search(choices: list[list[int]]) -> None:
    assert independent_blocks(Demand([{PGPU: 1}, {NET: 1}], isolated=frozenset({0, 1})), choices) is None


def test_a_block_without_a_way_ends_the_enumeration_before_the_others_begin() -> None:
    plenty, few = list(range(60)), list(range(60, 67))
    demand = Demand([{PGPU: 1}] * 30 + [{NET: 1}] * 8, isolated=frozenset(range(38)))
    assert list(ways(demand, space([plenty] * 30 + [few] * 8, available=1), Work(10_000))) == []


def test_ways_of_a_large_block_are_enumerated_one_by_one() -> None:
    demand = Demand([{PGPU: 1}] * 60, isolated=frozenset(range(60)))
    first = list(islice(ways(demand, space([list(range(60))] * 60, available=1), Work(100_000)), 100))
    assert len(set(first)) == 100
    assert all(earlier < later for earlier, later in pairwise(first))


@pytest.mark.parametrize(
    ("isolated", "bystanders", "contested"),
    [
        (set(), set(), {VCPU, PGPU}),
        ({1, 2, 3}, set(), {VCPU}),  # the first need, of the unsuffixed group, may have the provider of the second
        ({2, 3}, {1}, {VCPU}),  # and that of a bystander
        ({1}, {2, 3}, {VCPU, PGPU}),  # bystanders may share a provider
        ({2}, {1, 3}, {VCPU}),
    ],
)
def test_a_class_is_contested_if_two_needs_can_request_it_of_one_provider(
    isolated: set[int], bystanders: set[int], contested: set[int]
) -> None:
    demand = Demand([{VCPU: 1}, {VCPU: 1}, {PGPU: 1}, {PGPU: 1}], frozenset(isolated), frozenset(bystanders))
    assert demand.contested == contested
    assert demand.repeated == {VCPU, PGPU}
