"""A short torture on each database, and the planted bugs that it must find."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.databases import required
from tests.servers.programs import Unavailable
from tests.system.torture.checker import Unexplained
from tests.system.torture.model import DONE, Claim, ReadUsages, Wish
from tests.system.torture.run import play
from tests.system.torture.site import Site, site
from tests.system.torture.speech import Caller, World, set_up

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(180)  # a minute of faults

SECONDS = 5.0
ROUNDS = 12
FRESH_CLIENTS = 6
FRESH_READS = 40


@contextmanager
def a_site(kind: str, *, services: int = 1, bug: str | None = None) -> Iterator[Site]:
    """Skips the test where this kind of database cannot be had, unless STEAD_TEST_REQUIRE asks for it."""
    with ExitStack() as ends:
        try:
            tortured = ends.enter_context(site(kind, services=services, workers=3 - services, bug=bug))
        except Unavailable as unavailable:
            (pytest.fail if kind in required() else pytest.skip)(f"no {kind}: {unavailable}")
        yield tortured


@pytest.mark.parametrize(("kind", "services"), [("sqlite", 1), ("postgresql", 2), ("mariadb", 1)])
def test_some_order_explains_what_clients_are_told_under_faults(kind: str, services: int) -> None:
    with a_site(kind, services=services) as tortured:
        claims = faults = 0
        for seed in range(ROUNDS):
            played = play(tortured, seconds=SECONDS, seed=seed)
            claims += played.answers["Claim done"]
            faults += played.faults.total()
            if claims and faults:
                return
    pytest.fail(f"{claims} claims and {faults} faults")


@pytest.mark.parametrize(
    ("kind", "bug"),
    [
        ("sqlite", "without_consumer_generations"),  # its writers are alone, locks or not
        ("postgresql", "without_consumer_generations"),
        ("postgresql", "without_locks_and_swaps"),
        ("mariadb", "without_consumer_generations"),
        ("mariadb", "without_locks_and_swaps"),
        ("postgresql", "with_a_plan_of_trees_before_the_locks"),
        ("sqlite", "with_disabled_providers_in_claims"),
        ("postgresql", "with_disabled_providers_in_claims"),
        ("mariadb", "with_disabled_providers_in_claims"),
    ],
)
def test_a_planted_bug_is_found_in_a_minute(kind: str, bug: str) -> None:
    with a_site(kind, bug=bug) as tortured, pytest.raises(Unexplained):
        play_rounds(tortured)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_own_writes_taken_for_all_writes_are_found(kind: str) -> None:
    bug = "with_own_writes_whatever_came_between"
    with a_site(kind, services=2, bug=bug) as tortured, pytest.raises(Unexplained):
        play_rounds(tortured)


def play_rounds(tortured: Site) -> None:
    for seed in range(ROUNDS):
        play(tortured, seconds=SECONDS, seed=seed, faults=False)


def stale_reads(tortured: Site) -> int:
    """How often a read at one service missed what another service had acknowledged before.

    Each client writes one provider of its own at the first service and reads it at the second; the others keep the
    second busy refreshing.
    """
    world, found, counting = World(), [0], threading.Lock()
    names = [f"p{number}" for number in range(FRESH_CLIENTS)]
    setter = Caller(world, tortured.urls[:1], Random(0))
    set_up(setter, world, dict.fromkeys(names, 100))
    setter.close()

    def go(name: str) -> None:
        writer, reader = (Caller(world, [url], Random(0)) for url in tortured.urls)
        for number in range(FRESH_READS):
            claim = Claim((Wish(f"c-{name}", ((name, number % 100 + 1),), number or None),), number)
            assert writer.ask(claim) == DONE
            seen = reader.ask(ReadUsages(name))
            with counting:
                found[0] += seen != (number + 2, number % 100 + 1)
        writer.close()
        reader.close()

    with ThreadPoolExecutor(FRESH_CLIENTS) as clients:
        list(clients.map(go, names))
    return found[0]


def test_what_one_service_acknowledged_the_other_shows() -> None:
    with a_site("postgresql", services=2) as both:
        assert stale_reads(both) == 0


def test_a_clock_that_is_read_after_the_state_is_noticed() -> None:
    with a_site("postgresql", services=2, bug="with_the_clock_read_last") as both:
        assert stale_reads(both) > 0
