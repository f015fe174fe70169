"""Amounts that several providers give together: every set of which nobody is dispensable, and how it divides them."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stead.candidates.engine import Enumeration
from stead.candidates.splits import Share, splits
from stead.candidates.work import Work
from stead.domain.request import RequestGroup, Terms
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.rooms.candidates.test_engine import ask, found_by_engine
from tests.rooms.candidates.test_work import found
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Parts = frozenset[tuple[int, int]]


@st.composite
def a_share(draw: st.DrawFn) -> Share:
    step = draw(st.sampled_from([1, 1, 2, 3, 4, 6]))
    least = draw(st.integers(1, 3))
    return Share(least * step, (least + draw(st.integers(0, 4))) * step, step, draw(st.integers(0, 9)))


def amounts(share: Share) -> range:
    return range(share.least, share.most + 1, share.step)


def every_split(shares: Mapping[int, Share], amount: int) -> Iterator[Parts]:
    """By trying all sets, and all ways in which each could divide the amount."""
    minimal: list[frozenset[int]] = []
    for size in range(1, len(shares) + 1):
        for members in combinations(shares, size):
            if any(less <= set(members) for less in minimal):
                continue
            turn = sorted(members, key=lambda one: (-shares[one].most, shares[one].rank, one))
            fitting = [parts for parts in product(*(amounts(shares[one]) for one in turn)) if sum(parts) == amount]
            if fitting:
                minimal.append(frozenset(members))
                yield frozenset(zip(turn, max(fitting), strict=True))


def every_split_found(shares: Mapping[int, Share], amount: int) -> list[Parts]:
    return [frozenset(parts) for parts in splits(shares, amount, (), Work())]


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(a_share(), min_size=1, max_size=6), st.integers(1, 40))
def test_every_set_that_can_spare_nobody_is_found_once(shares: list[Share], amount: int) -> None:
    by_position = dict(enumerate(shares))
    some = every_split_found(by_position, amount)
    assert sorted(map(sorted, some)) == sorted(map(sorted, every_split(by_position, amount)))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(a_share(), min_size=2, max_size=6), st.integers(1, 30), st.sets(st.integers(0, 5)))
def test_only_those_are_found_in_which_somebody_has_what_must_be_there(
    shares: list[Share], amount: int, having: set[int]
) -> None:
    by_position = dict(enumerate(shares))
    some = [frozenset(parts) for parts in splits(by_position, amount, [having], Work())]
    wanted = [parts for parts in every_split(by_position, amount) if any(one in having for one, _ in parts)]
    assert sorted(map(sorted, some)) == sorted(map(sorted, wanted))


def test_steps_of_many_sizes_make_what_they_can_and_no_more() -> None:
    sizes = [4, 6, 9, 1024, 999_983]
    shares = {number: Share(step, step * 2_000_000_000, step) for number, step in enumerate(sizes)}
    amount = sum(step * 3 for step in sizes) + 1
    for parts in splits(shares, amount, (), Work()):
        assert sum(part for _, part in parts) == amount
        assert all(part % shares[one].step == 0 for one, part in parts)
    even = {number: Share(step, step * 2_000_000_000, step) for number, step in enumerate([4, 6, 1024])}
    assert every_split_found(even, 10**9 + 1) == []


@pytest.mark.timeout(60)  # not a measure: who tries all sets never ends
def test_the_first_of_more_splits_than_could_ever_be_counted_come_at_once() -> None:
    nodes = [PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(4)}) for n in range(64)]
    forest = Forest((PlainProvider("host"), *nodes), frozenset({"VCPU"}), frozenset())
    group = RequestGroup("", {"VCPU": 128}, can_split=frozenset({"VCPU"}))
    ways = found_by_engine(snapshot_of(forest), ask(group, limit=20))
    assert len(set(ways)) == 20
    ways = found_by_engine(snapshot_of(forest), ask(group, limit=20), Enumeration(randomize=True))
    assert len(set(ways)) == 20


@pytest.mark.timeout(60)  # likewise
@pytest.mark.parametrize(
    "more",
    [
        {"traits": Terms((frozenset({"CUSTOM_RED"}),))},
        {"amounts": {"VGPU": 1}},
        {"amounts": {"VCPU": 257}},
        {"amounts": {"VCPU": 10**40}},
    ],
    ids=["a trait that nobody has", "a class that nobody has", "too much", "more than any number"],
)
def test_nothing_is_split_where_the_rest_is_nowhere(more: dict[str, object]) -> None:
    nodes = [PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(4)}) for n in range(64)]
    forest = Forest((PlainProvider("host"), *nodes), frozenset({"VCPU", "VGPU"}), frozenset({"CUSTOM_RED"}))
    asked = {"VCPU": 128} | more.pop("amounts", {})  # type: ignore[operator]  # of the classes above
    group = RequestGroup("", asked, can_split=frozenset({"VCPU"}), **more)  # type: ignore[arg-type]  # by name
    assert found_by_engine(snapshot_of(forest), ask(group)) == []


@pytest.mark.timeout(60)  # likewise
def test_a_split_that_would_take_too_long_is_cut() -> None:
    nodes = [
        PlainProvider(f"node {n}", "host", {"VCPU": PlainInventory(900 + n, min_unit=2 + n % 5)}) for n in range(40)
    ]
    forest = Forest((PlainProvider("host"), *nodes), frozenset({"VCPU"}), frozenset())
    group = RequestGroup("", {"VCPU": 20_000}, can_split=frozenset({"VCPU"}))
    some, is_cut = found(snapshot_of(forest), ask(group), Enumeration(work=100_000))
    assert is_cut
    assert len(set(some)) == len(some)


def test_who_gives_most_is_decided_by_uuid_in_every_tree() -> None:
    """Trees that are alike but for the order of their providers' uuids are divided each in its own way."""
    nodes = [PlainProvider(f"n{n}", f"h{n // 2}", {"VCPU": PlainInventory(4)}) for n in range(24)]
    hosts = [PlainProvider(f"h{n}") for n in range(12)]
    forest = Forest((*hosts, *nodes), frozenset({"VCPU"}), frozenset())
    ways = found_by_engine(snapshot_of(forest), ask(RequestGroup("", {"VCPU": 5}, can_split=frozenset({"VCPU"}))))
    assert isinstance(ways, list)
    assert len(ways) == 12
    for way in ways:
        amounts_of = {name: amount for name, _, amount in way.takes}
        first, second = sorted(amounts_of, key=lambda name: forest.by_name[name].uuid)
        assert (amounts_of[first], amounts_of[second]) == (4, 1)
