"""The same query for candidates again: the same bytes while nothing changes, and never those from before a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_door
from tests.system.api.client import NEWEST, Api, fresh_uuid, holding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.one_database]

OWN = f"{NEWEST}, stead 1.1"
VERSIONS = ("1.10", "1.16", "1.28", NEWEST, OWN)
CANDIDATES = "/allocation_candidates"
QUERY = {"resources": "VCPU:1"}


@pytest.fixture
def both(ready_database_url: str, tmp_path: Path) -> Iterator[tuple[Api, Api]]:
    """Two services on one database, which has a host."""
    with open_door(tmp_path, ready_database_url) as one, open_door(tmp_path, ready_database_url) as other:
        apis = Api(one).at(OWN), Api(other).at(OWN)
        apis[0].create_provider(inventories={"VCPU": 4})
        yield apis


def test_no_answer_is_from_before_a_change_by_either_service(both: tuple[Api, Api]) -> None:
    for used, writer in enumerate([*both, *both], start=1):
        for api in both:
            before = [api.at(version).get(CANDIDATES, QUERY).body for version in VERSIONS]
            assert before == [api.at(version).get(CANDIDATES, QUERY).body for version in VERSIONS]
        (host,) = writer.get("/resource_providers").resource_providers
        writer.put(f"/allocations/{fresh_uuid()}", holding((host["uuid"], {"VCPU": 1}))).expect(204)
        for api in both:
            for version in VERSIONS:
                summaries = api.at(version).get(CANDIDATES, QUERY).expect(200).provider_summaries
                shown = [summary["resources"]["VCPU"]["used"] for summary in summaries.values()]
                assert shown == ([used] if used < 4 else [])


def test_a_changed_flavor_changes_the_answer(both: tuple[Api, Api]) -> None:
    for api, other in (both, both[::-1]):
        for amount in (1, 9):
            other.put("/flavors/m1", {"query": f"resources=VCPU:{amount}"}).expect(200, 201)
            for _ in range(2):
                found = api.get(CANDIDATES, {"flavor": "m1"}).expect(200).allocation_requests
                assert len(found) == (amount == 1)


def test_an_explanation_follows_a_repeated_answer(both: tuple[Api, Api]) -> None:
    api = both[0]
    for _ in range(2):
        assert api.get(CANDIDATES, {"resources": "VCPU:9"}).expect(200).allocation_requests == []
        funnel = api.get("/allocation_candidates/explain", {"resources": "VCPU:9"}).expect(200)
        assert funnel.json


def test_headers_are_those_of_each_request(both: tuple[Api, Api]) -> None:
    first, again = (both[0].get(CANDIDATES, QUERY).expect(200) for _ in range(2))
    assert first.body == again.body
    ids = {answer.header("x-openstack-request-id") for answer in (first, again)}
    assert len(ids) == 2
    assert first.header("content-length") == again.header("content-length") == str(len(first.body))
    assert again.header("last-modified")
