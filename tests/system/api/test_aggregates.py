"""``/resource_providers/{uuid}/aggregates``."""

from typing import Any

import pytest

from tests.system.api.client import CONCURRENT_UPDATE, Api, fresh_uuid


def test_a_new_provider_is_in_none(api: Api) -> None:
    assert api.get(api.create_provider().aggregates).json == {"resource_provider_generation": 0, "aggregates": []}


def test_the_answer_echoes_the_order_of_the_request(api: Api) -> None:
    host, racks = api.create_provider(), [fresh_uuid() for _ in range(5)]
    replaced = api.put(host.aggregates, aggregates=racks, generation=0).expect(200)
    assert replaced.json == {"resource_provider_generation": 1, "aggregates": racks}
    assert sorted(api.get(host.aggregates).aggregates) == sorted(racks)


def test_the_new_set_replaces_the_old(api: Api) -> None:
    left, kept, joined = fresh_uuid(), fresh_uuid(), fresh_uuid()
    host = api.create_provider(aggregates=[left, kept])
    api.put(host.aggregates, aggregates=[kept, joined], generation=1).expect(200)
    assert set(api.get(host.aggregates).aggregates) == {kept, joined}
    api.put(host.aggregates, aggregates=[], generation=2).expect(200)
    assert api.get(host.aggregates).json == {"resource_provider_generation": 3, "aggregates": []}


def test_the_generation_rises_even_when_nothing_changes(api: Api) -> None:
    host, rack = api.create_provider(), fresh_uuid()
    for generation in range(3):
        assert api.put(host.aggregates, aggregates=[rack], generation=generation).generation == generation + 1


def test_a_stale_generation_changes_nothing(api: Api) -> None:
    host, rack, other = api.create_provider(), fresh_uuid(), fresh_uuid()
    api.put(host.aggregates, aggregates=[rack], generation=0).expect(200)
    assert api.put(host.aggregates, aggregates=[other], generation=0).refused(
        409,
        "Resource provider's generation already changed. Please update the generation and try again.",
        code=CONCURRENT_UPDATE,
    )
    assert api.get(host.aggregates).json == {"resource_provider_generation": 1, "aggregates": [rack]}


def test_a_uuid_is_stored_as_given(api: Api) -> None:
    host, rack = api.create_provider(), fresh_uuid()
    spelled = [rack.upper()]
    assert api.put(host.aggregates, aggregates=spelled, generation=0).expect(200).aggregates == spelled
    assert api.get(host.aggregates).aggregates == spelled


RACK = "4f1d5f5e-7a3c-4c57-9a52-7e0b7f4b9e21"


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ([RACK], ["is not of type 'object'"]),
        ({"aggregates": [RACK]}, ["'resource_provider_generation' is a required property"]),
        ({"resource_provider_generation": 0}, ["'aggregates' is a required property"]),
        ({"aggregates": [RACK, RACK], "resource_provider_generation": 0}, ["has non-unique elements"]),
        ({"aggregates": ["rack-a"], "resource_provider_generation": 0}, ["'rack-a' is not a 'uuid'"]),
        ({"aggregates": [7], "resource_provider_generation": 0}, ["7 is not of type 'string'"]),
        ({"aggregates": RACK, "resource_provider_generation": 0}, ["is not of type 'array'"]),
        (
            {"aggregates": [], "resource_provider_generation": "invalid_generation"},
            ["'invalid_generation' is not of type 'integer'"],
        ),
        ({"aggregates": [], "resource_provider_generation": 0, "colour": "red"}, ["'colour' was unexpected"]),
    ],
)
def test_a_malformed_body_is_refused(api: Api, body: Any, texts: list[str]) -> None:
    host = api.create_provider()
    assert api.put(host.aggregates, body).refused(400, "JSON does not validate", *texts)
    assert api.get(host.aggregates).json == {"resource_provider_generation": 0, "aggregates": []}


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_unknown_provider_is_404_even_with_a_malformed_body(api: Api, method: str) -> None:
    uuid = fresh_uuid()
    body = {"colour": "red"} if method == "PUT" else None
    refused = api.call(method, f"/resource_providers/{uuid}/aggregates", body)
    assert refused.refused(404, f"No resource provider with uuid {uuid} found")
