"""A worker takes a bounded multiple of the longest body for one request, whatever the body has."""

from __future__ import annotations

import json
import tracemalloc
from uuid import UUID

import pytest

from tests.system.worst import measuring

pytestmark = pytest.mark.one_database

LONGEST = 1 << 20
VALUES = LONGEST // 12
"""JSON values that such a body may have."""

TIMES = 24
"""Bytes of memory that one byte of the limit may take: the values of a body, and what is built from them."""


def _many(text: str, number: int) -> str:
    return ",".join(text.replace("@", f"{place:07x}") for place in range(number))


OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
BODIES = {
    "empty consumers": ("/reshaper", '{"inventories":{},"allocations":{' + _many('"@":{}', VALUES // 3) + "}}"),
    "inventories": (
        "/reshaper",
        json.dumps(
            {
                "inventories": {
                    str(UUID(int=place)): {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}}
                    for place in range(VALUES // 12)
                },
                "allocations": {},
            }
        ),
    ),
    "consumers": (
        "/reshaper",
        json.dumps(
            {
                "inventories": {},
                "allocations": {
                    str(UUID(int=place)): {"allocations": {str(UUID(int=1)): {"resources": {"VCPU": 1}}}, **OWNER}
                    for place in range(LONGEST // 260)
                },
            }
        ),
    ),
    "short strings": ("/whatif", '{"changes":[' + _many('"@"', VALUES - 10) + "]}"),
    "empty changes": ("/whatif", '{"changes":[' + _many('{"@":0}', VALUES // 3) + "]}"),
    "a long query": ("/whatif", json.dumps({"changes": [], "ask": {"headroom": "resources=VCPU:1&" * (VALUES // 2)}})),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_longest_body_takes_bounded_memory(name: str) -> None:
    path, body = BODIES[name]
    assert LONGEST // 5 < len(body) <= LONGEST
    with measuring.site(20_000, longest_body=LONGEST) as site:
        site.ask("POST", path, body={})  # what the first request imports and compiles is not counted
        tracemalloc.start()
        try:
            answer = site.ask("POST", path, text=body.encode())
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert answer.status in (400, 413), answer.body
    assert most < TIMES * LONGEST
