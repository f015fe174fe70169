"""Each parameter of each query at its greatest size: no request runs for longer than it may.

Source: "Limits", docs/api.md. What counts is the CPU time of the thread, which other processes of the machine do not
change. An answer may need a little more than its bound: what has begun is ended.
"""

from __future__ import annotations

import gc
import json
import time
from typing import TYPE_CHECKING

import pytest

from stead.config import load
from tests.conftest import open_door
from tests.system.api.client import NEWEST, Api, fresh_uuid
from tests.system.api.greatest_queries import LONGEST, Query, parameters, paths, queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.api.client import Door

pytestmark = [
    pytest.mark.one_database,
    pytest.mark.timeout(300),  # some hundred of the largest queries
]

CLAIM_SECONDS = 1
MORE_SECONDS = 1.5
"""For reading the query, which is not interrupted, and writing the answer."""

READ_SECONDS = 10.0
"""A read has no bound of time, but one of length and of work; this is the bound of a claim by default."""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A site of a few small trees."""
    directory = tmp_path_factory.mktemp("greatest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OS_STEAD__CLAIM_TIMEOUT", str(CLAIM_SECONDS))
        with open_door(directory, f"sqlite:///{directory}/p.db") as door:
            own = Api(door)
            for _ in range(4):
                root = own.create_provider(inventories={"VCPU": 8})
                for _ in range(8):
                    own.create_provider(parent=root, inventories={"VCPU": 64, "MEMORY_MB": 1000})
            # A collection that visits what thousands of other tests left in this process would count as the request's.
            gc.collect()
            gc.freeze()
            yield door
            gc.unfreeze()


def ask(door: Door, method: str, target: str, body: bytes | None = None) -> tuple[int, float]:
    """The status of the answer, and seconds of CPU time until it was complete."""
    headers = [
        ("X-Auth-Token", "admin"),
        ("OpenStack-API-Version", f"placement {NEWEST}, stead 1.1"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body or b""))),
    ]
    began = time.thread_time()
    status = door(method, target, headers, body)[0]
    return status, time.thread_time() - began


def test_the_bounds_are_the_defaults(tmp_path: Path) -> None:
    limits = load([]).request_limits
    assert limits.query_length == LONGEST


@pytest.mark.parametrize("path", paths())
def test_no_read_runs_for_long(door: Door, path: str) -> None:
    for query in queries(path):
        assert LONGEST * 0.9 < len(query.text) <= LONGEST, query
        status, seconds = ask(door, "GET", f"{path}?{query.text}")
        assert status in (200, 400, 404, 410), query
        assert seconds < READ_SECONDS, query


@pytest.mark.parametrize("is_explained", [False, True])
def test_no_claim_runs_for_longer_than_its_timeout(door: Door, is_explained: bool) -> None:
    statuses = set()
    for query in queries("/allocation_candidates"):
        status, seconds = ask(door, "POST", "/claims", claim(query, is_explained))
        statuses.add(status)
        assert seconds < CLAIM_SECONDS + MORE_SECONDS, query
    assert {200, 400, 409} <= statuses <= {200, 400, 409, 413, 503}


def claim(query: Query, is_explained: bool) -> bytes:
    one = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
    claims = [{**one, "consumer_uuid": fresh_uuid(), "query": query.text}]
    return json.dumps({"claims": claims, "explain": is_explained}).encode()


def test_every_parameter_has_a_query() -> None:
    for path in paths():
        asked = " ".join(query.what for query in queries(path))
        assert all(f"{name}, many values" in asked for name in parameters(path))
