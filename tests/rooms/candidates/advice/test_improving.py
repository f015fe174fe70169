"""Each move that improves the mix is the best that brute force finds after those before it, and valid in its turn."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import Phase, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.advice import movable_consumers
from stead.candidates.draining import ConsumerHoldings
from stead.candidates.engine import Enumeration
from stead.candidates.improving import LEAST_GAIN, Improvement, improve, promising
from stead.candidates.losses import Losses
from stead.candidates.work import Work
from stead.domain.request import CandidateRequest, RequestGroup, Wanted
from tests.rooms.candidates.advice.brute_advice import Occupied, State, Takes, places
from tests.rooms.candidates.advice.test_advice import a_request, occupied_sites
from tests.rooms.candidates.brute_losses import free_in, value_of
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(100))
CLOSE = 1e-6

pytestmark = pytest.mark.timeout(240 + 3 * CASES)  # hundreds of cases, each by brute force
some = settings(max_examples=CASES, deadline=None, phases=[Phase.explicit, Phase.generate])

Mix = tuple[Wanted, ...]


@st.composite
def sites_and_mixes(draw: st.DrawFn) -> tuple[Occupied, Mix]:
    site, request = draw(occupied_sites())
    rng = random.Random(draw(st.integers(0, 10**9)))
    others = [a_request(rng, site.forest, 4) for _ in range(rng.randint(0, 2))]
    return site, tuple(Wanted(each, rng.choice([0.5, 1.0, 3.0])) for each in (request, *others))


def worth(site: Occupied, mix: Mix, state: State) -> float:
    forest = site.used(state)
    return sum(value_of(forest, mix, root, free_in(forest)) for root in forest.roots)


def improvement_of(site: Occupied, mix: Mix, number: int, work: int | None = None) -> Improvement:
    snapshot = snapshot_of(site.used(site.state))
    slots = {provider.name: snapshot.find(provider.uuid) for provider in site.forest.providers}
    all_holdings = []
    for consumer, takes in site.consumers.items():
        amounts: dict[object, dict[int, int]] = {}
        for name, cls, amount in takes:
            amounts.setdefault(slots[name], {})[snapshot.class_names.by_name[cls].id] = amount
        all_holdings.append(ConsumerHoldings(consumer, amounts))  # type: ignore[arg-type]  # a plain dict instead of Amounts
    losses = Losses(lambda: mix)
    return improve(
        snapshot, movable_consumers(snapshot, all_holdings), number, losses, Enumeration(losses=losses), Work(work)
    )


def takes_of(site: Occupied, improvement: Improvement) -> list[tuple[int, Takes]]:
    """The moves: the number of each consumer, and what it has afterwards."""
    snapshot = snapshot_of(site.forest)
    names = {row.id: row.name for row in snapshot.class_names.by_name.values()}
    return [
        (
            list(site.consumers).index(move.holdings.consumer),
            frozenset(
                (snapshot.provider(slot).name, names[class_id], amount)
                for slot, of in move.amounts.items()
                for class_id, amount in of.items()
            ),
        )
        for move in improvement.moves
    ]


@some
@given(sites_and_mixes(), st.integers(1, 4))
def test_each_move_is_the_best_after_those_before_it(case: tuple[Occupied, Mix], number: int) -> None:
    site, mix = case
    note(f"{site.used(site.state)}\n{site.consumers}\n{mix}")
    improvement = improvement_of(site, mix, number)
    note(str(improvement))
    assert improvement.is_complete
    state, moved = site.state, set[int]()
    steps = [*zip(takes_of(site, improvement), improvement.gains, strict=True)]
    event(f"{len(steps)} moves of {number}")
    for step in range(len(steps) + 1):
        before = worth(site, mix, state)
        gain_of = {
            (consumer, takes): worth(site, mix, (*state[:consumer], takes, *state[consumer + 1 :])) - before
            for consumer in range(len(state))
            if consumer not in moved
            for takes in places(site, state, consumer)
        }
        best = max(gain_of.values(), default=0.0)
        if step == len(steps):
            assert len(steps) == number or best < LEAST_GAIN + CLOSE
            return
        move, gain = steps[step]
        assert abs(gain_of[move] - gain) < CLOSE
        assert gain > best - CLOSE
        consumer, takes = move
        state, moved = (*state[:consumer], takes, *state[consumer + 1 :]), moved | {consumer}


@some
@given(sites_and_mixes(), st.integers(1, 60))
def test_wherever_the_work_ends_the_moves_are_the_first_of_all(case: tuple[Occupied, Mix], portion: int) -> None:
    site, mix = case
    whole, cut = improvement_of(site, mix, 4), improvement_of(site, mix, 4, portion * 50)
    event(f"{'complete' if cut.is_complete else 'cut'}, {len(cut.moves)} of {len(whole.moves)} moves")
    assert list(cut.moves) == list(whole.moves[: len(cut.moves)])
    assert len(cut.moves) == len(whole.moves) or not cut.is_complete


def host(name: str, cores: int, used: int, *gpus: int) -> list[PlainProvider]:
    """A host with CPUs, and a GPU of 10 for each of *gpus*, of which this is in use."""
    return [
        PlainProvider(name, inventories={"VCPU": PlainInventory(cores, used=used)}),
        *(
            PlainProvider(f"{name}-{number}", name, {"PGPU": PlainInventory(10, used=each)})
            for number, each in enumerate(gpus)
        ),
    ]


def test_hosts_whose_free_part_is_worth_the_least_come_first() -> None:
    mix = (Wanted(CandidateRequest((RequestGroup("", {"VCPU": 4}), RequestGroup("_1", {"PGPU": 10}))), 1.0),)
    no_cpus, full, in_pieces = host("a", 16, 16, 0, 0), host("b", 16, 16, 10, 10), host("c", 16, 4, 1, 10)
    forest = Forest((*full, *in_pieces, *no_cpus, *host("d", 16, 0, 0, 0)), frozenset({"VCPU", "PGPU"}), frozenset())
    snapshot = snapshot_of(forest)
    roots = promising(snapshot, Losses(lambda: mix), Work())
    assert [snapshot.provider(root).name for root in roots] == ["a", "c", "b"]
