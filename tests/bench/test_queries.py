"""Queries: no request is like another, so that nothing that was kept can answer it."""

import re

import pytest

from stead_bench.suites import SUITES, cases

CASES = [case for name in SUITES for case in cases(name, [8])]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.site.kind} {case.query.name}")
def test_requests_differ(case):
    targets = {case.query.target(number, limit) for number in range(1000) for limit in case.limits}
    alike = case.query.name == "all providers"  # which has nothing to vary; claims change its answer
    assert len(targets) == (1 if alike else 1000 * len(case.limits))


@pytest.mark.parametrize("name", SUITES)
def test_the_limits_can_be_chosen(name):
    chosen = cases(name, [8], limits=[0, 10])
    assert {limit for case in chosen for limit in case.limits} <= {None, 10}
    assert len(cases(name, [8, 8, 9])) == len(cases(name, [8])) + len(cases(name, [9]))


def test_answers_are_counted_without_reading_them():
    query = cases("flat", [8])[0].query
    assert query.count(b'{"allocation_requests": [{"allocations": {}}, {"allocations":{}}]}') == 2
    assert re.search(r"limit=10$", query.target(3, 10))
