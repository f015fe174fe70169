"""Memory follows what exists: a site with twice as many of one thing takes at most twice the memory for them."""

import pytest

from stead_bench.memory import LADDERS, Ladder, rung

HOSTS, NUMBER = 300, 200

SPARE = 150_000
"""Bytes that tables keep in reserve, whatever their size: values out of use, and the texts of some answers."""

MOST_BYTES_EACH = 4_000
"""Of what is added: a class takes about 2,100 bytes, most other things 100 to 600."""

GROWING = [ladder for ladder in LADDERS if ladder.changes is None]
CHANGING = [ladder for ladder in LADDERS if ladder.changes is not None]


@pytest.mark.costly
@pytest.mark.parametrize("ladder", GROWING, ids=lambda ladder: ladder.of)
def test_memory_is_linear_in_what_exists(ladder: Ladder) -> None:
    less, more, most = (rung(ladder, NUMBER * times, HOSTS) for times in (1, 2, 4))
    first, then = more.bytes_in_use - less.bytes_in_use, most.bytes_in_use - more.bytes_in_use
    # Twice as many are added in the second step.
    assert then <= 2.2 * max(first, 0) + SPARE, f"{first:,} bytes for {NUMBER}, then {then:,} for twice as many"
    assert then <= MOST_BYTES_EACH * 2 * NUMBER
    assert most.bytes_at_most - more.bytes_at_most <= 2 * MOST_BYTES_EACH * 2 * NUMBER, "while it was loaded"


@pytest.mark.costly
@pytest.mark.parametrize("ladder", [ladder for ladder in GROWING if "class" in ladder.of and "each" in ladder.of])
def test_a_class_takes_the_same_memory_among_more_hosts(ladder: Ladder) -> None:
    few, many = (rung(ladder, NUMBER, HOSTS * times).bytes_in_use for times in (1, 8))
    assert many <= few + SPARE


@pytest.mark.costly
@pytest.mark.parametrize("ladder", CHANGING, ids=lambda ladder: ladder.of)
def test_what_is_replaced_gives_its_memory_back(ladder: Ladder) -> None:
    # A change of classes takes the longest, and leaves the most behind if it leaves anything.
    few, many = (rung(ladder, steps, 1).bytes_in_use for steps in ((50, 600) if "traits" in ladder.of else (5, 40)))
    assert many <= few + SPARE
