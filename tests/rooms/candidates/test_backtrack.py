"""Backtracking finds every sequence that its choices allow, once, in their order, and none before it is asked for."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from stead.candidates.splits import sequences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3))
def test_all_sequences_that_the_choices_allow_are_found_in_order(
    length: int, number: int, remainder: int, step: int
) -> None:
    def may_follow(chosen: Sequence[int], choice: int) -> bool:
        return (sum(chosen) + choice * step) % 4 != remainder

    def choices(chosen: Sequence[int]) -> Iterator[int]:
        return iter([choice for choice in range(number) if may_follow(chosen, choice)])

    expected = [
        whole
        for whole in product(range(number), repeat=length)
        if all(may_follow(whole[:place], choice) for place, choice in enumerate(whole))
    ]
    assert [tuple(chosen) for chosen in sequences(length, choices)] == expected


def test_no_choice_is_tried_before_it_is_needed() -> None:
    tried: list[tuple[int, ...]] = []

    def choices(chosen: Sequence[int]) -> Iterator[int]:
        before = tuple(chosen)
        for choice in range(3):
            tried.append((*before, choice))
            yield choice

    found = sequences(2, choices)
    assert tuple(next(found)) == (0, 0)
    assert tried == [(0,), (0, 0)]


def test_more_levels_than_python_allows_calls_are_no_matter() -> None:
    only = next(sequences(5000, lambda _chosen: iter([1])))
    assert len(only) == 5000
