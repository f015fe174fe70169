"""Advice moves no fewer consumers than brute force does, proves no more than that, and each move has room in its turn.

More cases: `make headroom`.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.advice import Advice, advise, movable_consumers, sources
from stead.candidates.draining import ConsumerHoldings
from stead.candidates.engine import Enumeration
from stead.candidates.headroom.headroom import headroom
from stead.candidates.work import Work
from stead.domain.request import CandidateRequest, RequestGroup
from tests.rooms.candidates.advice.brute_advice import Occupied, fewest_moves, places
from tests.rooms.candidates.brute_force import SHARES, Refusal, every_way
from tests.rooms.candidates.headroom.brute_headroom import TooMany, greatest_number
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from random import Random

    from tests.rooms.candidates.advice.brute_advice import Takes

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(150))

pytestmark = pytest.mark.timeout(240 + 3 * CASES)  # hundreds of cases, each by brute force
some = settings(max_examples=CASES, deadline=None, phases=[Phase.explicit, Phase.generate])

MOST_MOVES = 3


def ask(*groups: dict[str, int], isolate: bool = False) -> CandidateRequest:
    return CandidateRequest(
        tuple(RequestGroup(f"_{number}", amounts) for number, amounts in enumerate(groups)), isolate=isolate
    )


def hosts(rng: Random) -> Forest:
    """Two to four hosts, flat or with NUMA nodes, perhaps with a pool that they share."""
    is_nested, has_pool = rng.random() < 0.5, rng.random() < 0.3
    providers, aggregates = [], frozenset("a") if has_pool else frozenset[str]()
    for number in range(rng.randint(2, 4)):
        host = f"host{number}"
        cores = [PlainInventory(rng.randint(2, 6)) for _ in range(2 if is_nested else 1)]
        memory = {"MEMORY_MB": PlainInventory(rng.randint(4, 10), max_unit=rng.choice([3, 99]))}
        providers.append(
            PlainProvider(host, None, memory if is_nested else {**memory, "VCPU": cores[0]}, aggregates=aggregates)
        )
        if is_nested:
            providers += [PlainProvider(f"{host}-{n}", host, {"VCPU": of}) for n, of in enumerate(cores)]
    if has_pool:
        providers.append(
            PlainProvider(
                "pool", None, {"DISK_GB": PlainInventory(rng.randint(4, 12))}, frozenset({SHARES}), aggregates
            )
        )
    classes = {"VCPU", "MEMORY_MB", "DISK_GB"}
    return Forest(tuple(providers), frozenset(classes), frozenset({SHARES}))


def a_request(rng: Random, forest: Forest, most: int) -> CandidateRequest:
    cores = [{"VCPU": rng.randint(1, most)} for _ in range(rng.choice([1, 1, 2]))]
    more = [{"MEMORY_MB": rng.randint(1, 3)}] if rng.random() < 0.6 else []
    disk = [{"DISK_GB": 1}] if "pool" in forest.by_name and rng.random() < 0.5 else []
    return ask(*cores, *more, *disk, isolate=rng.random() < 0.5)


@st.composite
def occupied_sites(draw: st.DrawFn) -> tuple[Occupied, CandidateRequest]:
    """A site whose consumers have claimed at random places, and a request."""
    rng = random.Random(draw(st.integers(0, 10**9)))
    forest = hosts(rng)
    site = Occupied(forest, {})
    for number in range(rng.randint(3, 8)):
        ways = every_way(site.used(site.state), a_request(rng, forest, 2))
        if not isinstance(ways, Refusal) and ways:
            takes = rng.choice(sorted({way.takes for way in ways}, key=sorted))
            site = Occupied(forest, {**site.consumers, f"consumer{number}": takes})
    return site, a_request(rng, forest, 4)


def advice_of(site: Occupied, request: CandidateRequest, number: int, work: int | None = None) -> Advice:
    snapshot = snapshot_of(site.used(site.state))
    slots = {provider.name: snapshot.find(provider.uuid) for provider in site.forest.providers}
    all_holdings = []
    for consumer, takes in site.consumers.items():
        amounts: dict[object, dict[int, int]] = {}
        for name, cls, amount in takes:
            amounts.setdefault(slots[name], {})[snapshot.class_names.by_name[cls].id] = amount
        all_holdings.append(ConsumerHoldings(consumer, amounts))  # type: ignore[arg-type]  # a plain dict instead of Amounts
    before = headroom(snapshot, request, Work())
    of = sources(snapshot, request, before, Work())
    return advise(
        snapshot, request, number, before, movable_consumers(snapshot, all_holdings), [*of.gaining, *of.others],
        set(of.gaining), Enumeration(), (Work(work), Work(work)),
    )  # fmt: skip


@some
@given(occupied_sites(), st.integers(1, 60))
def test_wherever_the_work_ends_a_plan_is_valid(case: tuple[Occupied, CandidateRequest], portion: int) -> None:
    site, request = case
    number = headroom(snapshot_of(site.used(site.state)), request, Work()).at_most + 1
    advice = advice_of(site, request, number, portion * 100)
    whole = advice_of(site, request, number)
    event(f"{'complete' if advice.is_complete else 'cut'}, {'a plan' if advice.moves is not None else 'no plan'}")
    assert advice.at_least is None or whole.at_least is None or advice.at_least <= whole.at_least
    if advice.moves is not None:
        after = moved(site, advice)
        assert headroom(snapshot_of(after.used(after.state)), request, Work()).at_most >= number


def moved(site: Occupied, advice: Advice) -> Occupied:
    """The site after the moves, each of which is a place that brute force finds, too."""
    assert advice.moves is not None
    names = {row.id: row.name for row in snapshot_of(site.forest).class_names.by_name.values()}
    snapshot = snapshot_of(site.forest)
    for move in advice.moves:
        takes: Takes = frozenset(
            (snapshot.provider(slot).name, names[class_id], amount)
            for slot, of in move.amounts.items()
            for class_id, amount in of.items()
        )
        number = list(site.consumers).index(move.holdings.consumer)
        assert takes in set(places(site, site.state, number))
        site = Occupied(site.forest, {**site.consumers, move.holdings.consumer: takes})
    return site


@some
@given(occupied_sites(), st.integers(1, 2))
def test_a_plan_is_valid_and_no_plan_is_shorter_than_the_bound(
    case: tuple[Occupied, CandidateRequest], more: int
) -> None:
    site, request = case
    note(f"{site.used(site.state)}\n{site.consumers}\n{request}")
    try:
        number = greatest_number(site.used(site.state), request) + more
        if number <= headroom(snapshot_of(site.used(site.state)), request, Work()).at_least:
            return
        truth = fewest_moves(site, request, number, MOST_MOVES)
    except TooMany:
        event("too many to try")
        return
    advice = advice_of(site, request, number)
    note(f"{truth} {advice}")
    assert advice.is_complete
    if advice.moves is None:
        event("no plan" if truth is None else "a plan was missed")
        assert advice.at_least is None or truth is None or advice.at_least <= truth
        assert advice.at_least is not None or truth is None
        return
    assert advice.at_least is not None
    assert advice.at_least <= (truth if truth is not None else MOST_MOVES + 1)
    assert truth is None or truth <= len(advice.moves)
    event(f"{len(advice.moves)} moves, {'the fewest' if len(advice.moves) == truth else 'not the fewest'}, "
          f"{'proved' if len(advice.moves) == advice.at_least else 'not proved'}")  # fmt: skip
    after = moved(site, advice)
    assert greatest_number(after.used(after.state), request) >= number
