"""A short run on each database, the document asked at random, and bugs planted that the fuzzer must find."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from schemathesis.core.failures import FailureGroup

from scripts.docs import the_routes
from stead.api import answers
from stead.api.openapi import document
from stead.api.query import candidates
from stead.domain.errors import SteadError
from stead.service.service import Service
from stead.store import traits
from tests.system.fuzz.document import operations, probe
from tests.system.fuzz.runs import Tally, fuzz
from tests.system.fuzz.site import Site, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # hundreds of requests, some of them long

REQUESTS = 300
MOST_ROUNDS = 40
"""So often as many are sent: some routes are granted once in a thousand."""

EXAMPLES = 2
"""For each operation, that fit its description; and as many that do not."""

ROUTES = [
    "POST /resource_providers", "PUT /resource_providers/*", "POST /resource_providers/*/inventories",
    "PUT /resource_providers/*/inventories", "PUT /resource_providers/*/inventories/*",
    "PUT /resource_providers/*/traits",
    "PUT /resource_providers/*/aggregates", "POST /resource_classes", "PUT /allocations/*", "POST /allocations",
    "POST /reshaper", "GET /allocation_candidates",
    "GET /allocation_candidates/explain", "GET /resource_providers", "GET /traits", "GET /usages",
    "GET /consumers", "GET /headroom", "GET /advice", "GET /flavors", "GET /provider_trees", "GET /changes",
    "POST /claims",
    "PUT /provider_trees",
    "PATCH /provider_trees/*", "PUT /flavors/*", "POST /whatif",
]  # fmt: skip


@pytest.fixture
def fuzzed(tmp_path: Path, ready_database_url: str) -> Iterator[Site]:
    with site(tmp_path, ready_database_url, everything_on=False) as opened:
        yield opened


@pytest.mark.parametrize("everything_on", [False, True])
def test_no_request_is_a_bug(tmp_path: Path, ready_database_url: str, everything_on: bool) -> None:
    tally = Tally()
    with site(tmp_path, ready_database_url, everything_on=everything_on) as opened:
        fuzz(opened, seed=int(everything_on), number=REQUESTS, tally=tally)
    assert tally.faults == []


@pytest.mark.one_database
def test_every_route_is_granted_and_refused(fuzzed: Site) -> None:
    """A grammar whose requests are all refused for the same fault would find nothing."""
    tally = Tally()
    for seed in range(2, 2 + MOST_ROUNDS):
        fuzz(fuzzed, seed=seed, number=REQUESTS, tally=tally)
        granted = {route for route, status in tally.answers if status in (200, 201, 204)}
        refused = {route for route, status in tally.answers if status in (400, 409)}
        if granted.issuperset(ROUTES) and refused.issuperset(ROUTES):
            return
    pytest.fail(f"never granted: {set(ROUTES) - granted}; never refused: {set(ROUTES) - refused}")


@pytest.mark.one_database
def test_the_document_says_what_is_answered(fuzzed: Site) -> None:
    asked: Counter[int] = Counter()
    described = json.loads(json.dumps(document(the_routes())))
    for operation in operations(described, fuzzed.application):
        probe(operation, EXAMPLES, asked)
    assert asked.keys() >= {200, 204, 400, 404, 409}


@pytest.mark.one_database
def test_a_document_that_is_not_true_is_noticed(fuzzed: Site) -> None:
    described = json.loads(json.dumps(document(the_routes())))
    described["paths"]["/traits"]["get"]["responses"]["200"]["content"]["application/json"]["schema"] = {
        "type": "array"
    }
    (listing,) = (one for one in operations(described, fuzzed.application) if one.label == "GET /traits")
    with pytest.raises(FailureGroup):
        probe(listing, 3 * EXAMPLES, Counter())


def leave_something_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that are refused write something else."""
    write = Service.write

    def planted(self: Service, body: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return write(self, body, *args, **kwargs)
        except SteadError:
            write(self, traits.create, "CUSTOM_LEFT_BEHIND")
            raise

    monkeypatch.setattr(Service, "write", planted)


@pytest.mark.one_database
class TestPlantedBugs:
    @staticmethod
    def found(fuzzed: Site) -> str:
        tally = Tally()
        for seed in range(3, MOST_ROUNDS):  # which round meets the bug changes whenever the grammar grows
            fuzz(fuzzed, seed=seed, number=REQUESTS, tally=tally)
            if tally.faults:
                break
        return "\n".join(tally.faults)

    def test_an_error_nobody_thought_of(self, fuzzed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "whole_number", int)
        assert "status 500" in self.found(fuzzed)

    def test_a_refusal_that_writes(self, fuzzed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        leave_something_behind(monkeypatch)
        assert "and yet the database changed" in self.found(fuzzed)

    def test_an_error_of_another_form(self, fuzzed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(answers, "_in_one_line", lambda text: text)
        assert "a message of several lines" in self.found(fuzzed)


@pytest.mark.one_database
def test_a_seed_repeats_a_run(tmp_path: Path) -> None:
    runs = []
    for name in ("once", "again"):
        place = tmp_path / name
        place.mkdir()
        with site(place, f"sqlite:///{place}/stead.db", everything_on=True) as opened:
            tally = Tally()
            fuzz(opened, seed=4, number=100, tally=tally)
        runs.append(tally.answers)
    assert runs[0] == runs[1]
