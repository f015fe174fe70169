"""A pattern of names stands for what a regular expression with ``.*`` for each star stands for."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stead.domain.names import NamePattern
from tests.selection import examples

pytestmark = pytest.mark.timeout(240)  # hundreds of cases, and a fault is made smaller for a while


@settings(max_examples=examples(500), deadline=None)
@example("*a*a*", "ab")
@example("a*a", "a")
@given(st.text("aab**", max_size=8), st.text("aab*", max_size=5))
def test_a_star_stands_for_any_text(pattern: str, name: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert NamePattern(pattern).matches(name) == bool(re.fullmatch(expression, name, re.DOTALL))


@pytest.mark.parametrize("pattern", ["*a" * 30_000 + "*", "*" * 60_000 + "b", "*a" * 100 + "b*"])
def test_a_long_pattern_is_held_against_many_names(pattern: str) -> None:
    """These take hours if each name costs as much as the pattern is long, or is tried in every way there is."""
    name_pattern = NamePattern(pattern)
    assert not any(name_pattern.matches("a" * (150 + number % 50)) for number in range(200_000))
