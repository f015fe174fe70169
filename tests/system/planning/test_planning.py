"""What-if answers what doing it would lead to, and the plan of a drain can be executed beside other writers.

More cases: ``make planning``.
"""

from __future__ import annotations

import os
import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import stead
from stead import Conflict, Drain, Group, NothingFits, ProviderDisabled, Request, Stale, testing
from tests.system.planning import random_sites
from tests.system.planning.doing import make

if TYPE_CHECKING:
    from stead import Site

CASES = int(os.environ.get("STEAD_PLANNING_CASES", "40"))
BATCH = 20
WRITERS = 16
TREES = "1.1"
PATHS = {
    "candidates": "/allocation_candidates",
    "explanation": "/allocation_candidates/explain",
    "headroom": "/headroom",
}

pytestmark = pytest.mark.timeout(300 + CASES)  # twenty sites in one test, more in `make planning`
one_database = pytest.mark.one_database


def body_of(site: Site, question: str, request: Request) -> Any:
    paths = {
        "candidates": "/allocation_candidates",
        "explanation": "/allocation_candidates/explain",
        "headroom": "/headroom",
    }
    limit = {} if question == "explanation" else {"limit": 1000}
    found = site.request("GET", f"{paths[question]}?{request}", stead=TREES, **limit)
    return found["headroom"] if question == "headroom" else found


def comparable(question: str, body: Any) -> Any:
    """*body* without what differs between two moments of one state, and without the order of a random draw."""
    if question == "candidates":
        summaries = {uuid: {**of, "traits": sorted(of["traits"])} for uuid, of in body["provider_summaries"].items()}
        return sorted(map(repr, body["allocation_requests"])), summaries
    return {key: value for key, value in body.items() if key != "generation"}


def totals(site: Site) -> Any:
    return site.request("GET", "/provider_trees?totals=true&depth=0", stead=TREES)["totals"]


@one_database
@pytest.mark.parametrize("batch", range(0, CASES, BATCH))
def test_what_if_equals_doing_it(batch: int) -> None:
    for seed in range(batch, min(batch + BATCH, CASES)):
        rng = Random(seed)
        zones = random_sites.aggregates(rng)
        with testing.site(project=random_sites.PROJECT) as site:
            random_sites.fill(site, rng, zones)
            changes = random_sites.changes(site, rng, zones)
            if not changes:
                continue
            request = random_sites.request(rng, zones)
            planned = site.what_if(*changes, candidates=request, explain=request, headroom=request, totals=True)
            make(site, changes, planned.moves)
            for question in ("candidates", "explanation", "headroom"):
                expected = comparable(question, body_of(site, question, request))
                assert comparable(question, planned.document[question]) == expected, (seed, question, changes)
            assert planned.document["totals"] == totals(site), (seed, changes)


def providers(site: Site, **filters: str) -> list[Any]:
    trees = site.request("GET", "/provider_trees", stead=TREES, **filters)["provider_trees"]
    return [provider for tree in trees for provider in tree["providers"]]


def usages_of(site: Site, host: str) -> list[Any]:
    found = providers(site, in_tree=f"name:{host}")
    assert found
    return [provider["usages"] for provider in found if any(provider["usages"].values())]


def require_within_capacity(site: Site) -> None:
    for provider in providers(site):
        for name, held in provider["inventories"].items():
            capacity = int((held["total"] - held["reserved"]) * held["allocation_ratio"])
            assert provider["usages"][name] <= capacity, provider


@one_database
@pytest.mark.parametrize("batch", range(0, CASES, BATCH))
def test_the_plan_of_a_drain_is_executed_beside_other_writers(batch: int) -> None:
    """Every few moves, another client claims or releases. Then a move may be refused, and a new plan goes on."""
    emptied = 0
    for seed in range(batch, min(batch + BATCH, CASES)):
        rng = Random(f"drain {seed}")
        zones = random_sites.aggregates(rng)
        with testing.site(project=random_sites.PROJECT) as site:
            random_sites.fill(site, rng, zones)
            for number in range(12):
                place = Request(Group(VCPU=1), order="pack")
                try:
                    site.claim(place, f"c{number}")
                except NothingFits:
                    break
            host = f"host-{rng.randrange(3)}"
            plan = site.what_if(Drain(host))
            site.disable(host, "maintenance")
            for attempt in range(5):
                try:
                    for number, move in enumerate(plan.moves):
                        if number % 3 == attempt % 3:
                            write(site, rng, zones)
                        site.move(move)
                        require_within_capacity(site)
                except (Conflict, Stale, ProviderDisabled):
                    plan = site.what_if(Drain(host))
                    continue
                break
            require_within_capacity(site)
            remaining = site.what_if(Drain(host))
            if not remaining.without_place and not remaining.moves:
                assert usages_of(site, host) == [], seed
                emptied += 1
                continue
            assert usages_of(site, host) != [], seed
            if not remaining.moves:
                first = remaining.without_place[0]
                assert first.explanation is not None or first.gave_up, seed
    assert emptied > 0


def write(site: Site, rng: Random, zones: list[str]) -> None:
    """Claim something, or release one of the consumers."""
    consumers = [claim.consumer for claim in site.claims(project=random_sites.PROJECT)]
    if consumers and rng.random() < 0.5:
        found = site.find(rng.choice(consumers))
        if found is not None:
            found.release()
        return
    try:
        site.claim(random_sites.request(rng, zones), str(random_sites.uuid(rng)))
    except NothingFits:
        return


def test_headroom_is_right_for_its_moment_beside_sixteen_writers(database_url: str) -> None:
    """Each claim takes one of two classes at once. So one answer must have the same number of claims in both, and this
    number is between what was acknowledged before the question and what was begun before the answer."""
    begun, done, wrong = [0], [0], []
    counting, over = threading.Lock(), threading.Event()
    request = Request(Group(VCPU=1, MEMORY_MB=1))
    with stead.open(database_url, upgrade=True, project=random_sites.PROJECT) as site:
        site.apply([stead.Node(f"host-{number}", VCPU=400, MEMORY_MB=500) for number in range(4)])

        def claim(number: int) -> None:
            place = 0
            while not over.is_set():
                with counting:
                    begun[0] += 1
                try:
                    site.claim(request, f"{number}-{place}")
                except stead.Error as error:
                    wrong.append(repr(error))
                    return
                with counting:
                    done[0] += 1
                place += 1

        writers = [threading.Thread(target=claim, args=(number,)) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            answers = 0
            # Counting is faster than the claims of a busy machine: it goes on until each writer has claimed again.
            while (answers < 60 or done[0] < 3 * WRITERS) and not wrong:
                answers += 1
                least = done[0]
                found = site.headroom(request)
                most = begun[0]
                claims = 1600 - found.at_least
                if not (found.is_exact and least <= claims <= most):
                    wrong.append(f"{least} <= {claims} <= {most}: {found.document}")
                if found.stranded != {"VCPU": 0, "MEMORY_MB": 400}:
                    wrong.append(str(found.document))
        finally:
            over.set()
            for writer in writers:
                writer.join()
        assert wrong == []
        assert site.headroom(request).at_least == 1600 - done[0]
