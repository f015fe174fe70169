"""The worst requests of each expensive question keep to their budgets, say when they are cut, and let others run.

Units of work and calls of functions are counted, so that no clock decides. More cases, with times: ``make worst``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from stead.serve.worker import ApiRoutes
from tests.system.worst import measuring
from tests.system.worst.questions import QUESTIONS, Case, Group, Query, SiteShape, case, changed
from wsgi_lanes.requests import Lane, Peers, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.worst.measuring import Counts

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # each counts the calls of some hundred requests

WORK = 20_000
STEPS, CLIMBS = 14, 2

OVERDRAWN = 3_000
"""Units that the last step of a budget may take beyond it."""

CALLS_OF_UNIT = 3.0
"""Calls per unit: a call takes about 0.1 µs without the profiler, and a unit up to 0.6."""

CALLS_BESIDE = 40_000
"""Calls of a request beside its work: parsing, names, the pieces of the answer."""

LONGEST = 30_000
"""Calls in one slice: some milliseconds."""

POOLS = Case(
    "candidates",
    SiteShape(hosts=200, pools=40, zones=40, zones_of_host=8, kinds=12, consumers=0),
    Query(
        (*(Group((("DISK_GB", amount),)) for amount in (1, 2, 3)), Group((("VCPU", 1),))),
        order="pack",
        limit=1000,
    ),
)
"""Many different trees, each of which reaches many sharing providers."""


def climbed(question: str, seed: int) -> Iterator[tuple[Case, Counts]]:
    """Cases of a question, each a little changed from the one with most calls before it."""
    rng = Random(f"{seed} {question}")
    worst, most = case(rng, question), 0
    following = worst
    remaining = STEPS
    while remaining:
        with measuring.site(WORK) as site:
            shape = following.shape
            site.fill(shape)
            site.counted(following)  # the first question of its kind in a process compiles SQL
            while remaining and following.shape == shape:
                remaining -= 1
                counts = site.counted(following)
                yield following, counts
                if counts.calls > most:
                    worst, most = following, counts.calls
                following = changed(rng, worst)


def require_bounded(tried: Case, counts: Counts, work: int = WORK) -> None:
    """Check one answer."""
    assert counts.answer.status in (200, 409), (tried, counts.answer.body)
    for budget in counts.budgets:
        assert budget.remaining >= -OVERDRAWN, tried
        assert budget.spent <= work + OVERDRAWN, f"a search without a limit: {tried}"
    assert counts.units <= QUESTIONS[tried.question] * (work + OVERDRAWN), tried
    if (
        any(budget.is_cut for budget in counts.budgets) and tried.question != "gang"
    ):  # a gang may be placed all the same
        assert counts.answer.is_marked, tried
    assert counts.calls <= CALLS_OF_UNIT * counts.units + CALLS_BESIDE, (counts.units, tried)
    assert counts.longest <= LONGEST, (counts.longest, tried)


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_worst_of_a_climb_is_bounded_and_says_when_it_is_cut(question: str) -> None:
    for seed in range(CLIMBS):
        for tried, counts in climbed(question, seed):
            require_bounded(tried, counts)


@pytest.mark.parametrize("question", ["candidates", "explain", "headroom", "mix", "advice"])
def test_trees_that_all_differ_and_reach_many_pools_are_read_in_slices(question: str) -> None:
    tried = replace(POOLS, question=question)
    work = 10 * WORK  # enough to read the trees
    with measuring.site(work) as site:
        site.fill(tried.shape)
        require_bounded(tried, site.counted(tried), work)


def test_what_limits_thousands_of_different_trees_is_found_in_slices() -> None:
    tried = Case("headroom", replace(POOLS.shape, hosts=2_000), Query((Group((("VCPU", 3), ("DISK_GB", 2))),)))
    work = 100 * WORK
    with measuring.site(work) as site:
        site.fill(tried.shape)
        site.ask("GET", "/headroom", "resources=VCPU:1,DISK_GB:1")  # reads the site and its sharing providers
        require_bounded(tried, site.counted(tried), work)


def test_a_search_for_an_error_that_another_group_may_hide_has_no_budget_of_its_own() -> None:
    with measuring.site(WORK) as site:
        site.fill(POOLS.shape)
        site.prepare(POOLS)
        counts = site.counted_of(
            "GET", "/allocation_candidates", POOLS.query.text(POOLS.shape) + "&resources_X=CUSTOM_NONE:1"
        )
    assert counts.answer.status == 400
    assert len(counts.budgets) == 1
    assert counts.units > 5 * 40, "the search spent nothing"


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_expensive_question_is_in_the_slow_lane(question: str) -> None:
    method, path, query, body = replace(POOLS, question=question, query=replace(POOLS.query, limit=None)).request()
    text = b"" if body is None else json.dumps(body).encode()
    nobody: Any = None
    peers = Peers("127.0.0.1", False, {})
    request = Request(method, path, query, {}, False, text, len(text), True, peers, nobody, 0.0)
    assert ApiRoutes("", 1 << 24).lane(request) is Lane.BULK
