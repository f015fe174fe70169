"""Limits of what a provider and a site may have. Each thing takes memory in every worker, whoever writes it."""

from __future__ import annotations

from typing import Any

import pytest

from stead.domain.provider import MOST_OF_PROVIDER
from tests.system.api.client import NEWEST, Api, fresh_uuid

pytestmark = [pytest.mark.differs("it has no such limits"), pytest.mark.one_database]

OWN = f"{NEWEST}, stead 1.1"
MANY = MOST_OF_PROVIDER + 1


def inventories(number: int) -> dict[str, Any]:
    return {f"CUSTOM_LAMP_{place}": {"total": 1} for place in range(number)}


def traits(number: int) -> list[str]:
    return [f"CUSTOM_LIGHT_{place}" for place in range(number)]


def aggregates(number: int) -> list[str]:
    return [fresh_uuid() for _ in range(number)]


@pytest.mark.parametrize("make", [inventories, traits, aggregates], ids=lambda make: make.__name__)
def test_a_body_with_too_many_of_a_provider_changes_nothing(api: Api, make: Any) -> None:
    host, field = api.create_provider(), make.__name__
    body = {field: make(MANY), "resource_provider_generation": 0}
    error = api.put(f"{host.path}/{field}", body).expect(400).json["errors"][0]
    assert f"more than {MOST_OF_PROVIDER}" in error["detail"]
    assert len(error["detail"]) < 5_000
    assert api.get(f"{host.path}/{field}").expect(200).json["resource_provider_generation"] == 0


@pytest.mark.parametrize("make", [inventories, traits, aggregates], ids=lambda make: make.__name__)
def test_a_document_names_the_place_of_the_list_that_is_too_long(api: Api, make: Any) -> None:
    own, names = api.at(OWN), [f"host-{fresh_uuid()}" for _ in range(2)]
    providers = [{"name": names[0]}, {"name": names[1], make.__name__: make(MANY)}]
    body = {"provider_trees": [{"providers": providers}], "create_names": True}
    error = own.put("/provider_trees", body).expect(400).json["errors"][0]
    assert f"provider_trees[0].providers[1].{make.__name__}" in error["detail"]
    assert f"more than {MOST_OF_PROVIDER}" in error["detail"]
    assert own.get("/resource_providers", {"name": names[0]}).expect(200).json["resource_providers"] == []


@pytest.mark.timeout(180)  # a provider with all the classes that it may have
def test_a_provider_gets_no_more_one_by_one_or_merged(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    full = {"name": "full", "inventories": inventories(MOST_OF_PROVIDER)}
    outcome = own.put("/provider_trees", {"provider_trees": [{"providers": [full]}], "create_names": True}).expect(200)
    path = f"/resource_providers/{outcome.json['providers'][0]['uuid']}"
    more = {"name": "full", "inventories": {"CUSTOM_ONE_MORE": {"total": 1}}}
    merged = {"provider_trees": [{"providers": [more]}], "create_names": True, "merge": True}
    error = own.put("/provider_trees", merged).expect(400).json["errors"][0]
    assert f"{MANY} inventories; a resource provider may have up to {MOST_OF_PROVIDER}" in error["detail"]
    own.put("/resource_classes/CUSTOM_ONE_MORE").expect(201)
    added = own.post(f"{path}/inventories", {"resource_class": "CUSTOM_ONE_MORE", "total": 1}).expect(400)
    assert f"up to {MOST_OF_PROVIDER} resource classes" in added.json["errors"][0]["detail"]
    assert len(own.get(f"{path}/inventories").expect(200).json["inventories"]) == MOST_OF_PROVIDER
