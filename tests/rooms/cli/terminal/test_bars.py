import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.cli.terminal import CLAIMED, EMPTY, FULL, bar, colour

amounts = st.integers(0, 2**40)


@pytest.mark.parametrize(
    ("used", "capacity", "cells"),
    [
        (0, 100, "░░░░░░░░░░"),
        (1, 10**9, "█░░░░░░░░░"),
        (50, 100, "█████░░░░░"),
        (10**9 - 1, 10**9, "█████████░"),
        (100, 100, "██████████"),
        (150, 100, "██████████"),
        (0, 0, "░░░░░░░░░░"),
        (1, 0, "██████████"),
        (1, -5, "██████████"),
    ],
)
def test_a_bar_is_empty_only_for_nothing_and_full_only_for_everything(used, capacity, cells):
    assert bar(used, capacity, width=10).plain == cells


@pytest.mark.parametrize(
    ("used", "claimed", "cells"),
    [
        (0, 30, "▓▓▓░░░░░░░"),
        (50, 50, "█████▓▓▓▓▓"),
        (0, 1, "▓░░░░░░░░░"),
        (99, 1, "█████████▓"),
        (50, 1, "█████▓░░░░"),
        (100, 1, "█████████▓"),
    ],
)
def test_a_claim_shows_on_top_of_what_was_used(used, claimed, cells):
    assert bar(used, 100, claimed=claimed, width=10).plain == cells


@given(used=amounts, capacity=st.integers(-10, 2**40), claimed=amounts, width=st.integers(2, 40))
def test_a_bar_has_its_width_and_shows_every_claim(used, capacity, claimed, width):
    cells = bar(used, capacity, claimed=claimed, width=width).plain
    assert len(cells) == width
    assert (CLAIMED in cells) == bool(claimed)
    assert cells == "".join(sorted(cells, key=[FULL, CLAIMED, EMPTY].index))


@pytest.mark.parametrize(
    ("used", "capacity", "expected"),
    [
        (0, 0, "bright_black"),
        (1, 0, "red"),
        (59, 100, "green"),
        (60, 100, "yellow"),
        (85, 100, "red"),
        (101, 100, "bold red"),
    ],
)
def test_the_colour_tells_how_tight_it_is(used, capacity, expected):
    assert colour(used, capacity) == expected
