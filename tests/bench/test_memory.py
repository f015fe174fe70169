"""Memory follows what exists: a site with twice as many of one thing takes at most twice the memory for them."""

import pytest

from stead_bench import in_process
from stead_bench.app import REFUSED
from stead_bench.memory import LADDERS, Ladder, rung
from stead_bench.worker_memory import CONSUMER, FLAVOR, THINGS, WATCHER, rungs

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


@pytest.mark.timeout(300)  # services in this process, with every allocation counted
@pytest.mark.parametrize(("of", "numbers"), [(CONSUMER, (500, 4_000)), (FLAVOR, (1_200, 4_000))])
def test_what_only_the_database_has_takes_no_memory_of_a_worker(of: str, numbers: tuple[int, int]) -> None:
    # A worker keeps the headroom of 1,000 flavors, and reads the other ones when they are requested.
    few, many = (rung.bytes_in_use for rung in rungs([of], numbers, HOSTS, in_process.silent))
    assert many <= few + SPARE


@pytest.mark.timeout(300)  # starts servers
def test_the_command_has_a_row_for_each_thing_and_a_column_for_each_number(bench) -> None:
    ran = bench("memory", "--thing=sharing", "--thing=watcher", "--number=20", "--number=40", "--hosts=10")
    assert ran.code == 0, ran.err
    (sharing,) = (thing.of for thing in THINGS if "sharing" in thing.of)
    rungs = ran.json["rungs"]
    assert [(rung["of"], rung["number"]) for rung in rungs] == [
        (of, number) for of in (sharing, WATCHER) for number in (20, 40)
    ]
    assert all(of in ran.out for of in (sharing, WATCHER))
    # So few take less than what else a server frees meanwhile: the difference may be below zero.
    assert rungs[0]["bytes_in_use"] <= rungs[0]["bytes_at_most"]


def test_a_number_beyond_what_can_exist_becomes_the_largest_possible() -> None:
    within = {thing.of: thing.within([2_000_000, 100, 1_000_000]) for thing in THINGS}
    assert within[CONSUMER] == [100, 1_000_000]
    assert within[WATCHER] == [100, 9_000], "a worker has up to 10,000 connections"
    assert all(numbers == [100, 100_000] for of, numbers in within.items() if of.startswith(("trait", "class")))


def test_an_unknown_thing_is_refused_with_the_names_of_all(bench) -> None:
    ran = bench("memory", "--thing", "hat")
    assert ran.code == REFUSED
    assert "no thing 'hat'" in ran.err
    assert WATCHER in ran.err
