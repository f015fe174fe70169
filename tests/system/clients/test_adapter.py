"""keystoneauth1's Adapter, with which nova, neutron, ironic and cyborg speak to Placement."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.system.api.client import CONCURRENT_UPDATE, DUPLICATE_NAME, NEWEST, Api, fresh_name, fresh_uuid, holding
from tests.system.clients.clients import Caller, Raised

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first

Refusal = tuple[str, int, Callable[[], Any]]


@pytest.mark.parametrize("auth", ["admin_token", "none"])
def test_the_root_document_is_discovered(auth: str, adapter: Caller, url: str) -> None:
    found = adapter.made_with(auth=auth).get_endpoint_data()
    versions = {"api_version": [1, 0], "min_microversion": [1, 0], "max_microversion": [1, 39]}
    assert found == {"url": f"{url}/", "status": "CURRENT", **versions}


def test_a_range_of_versions_is_negotiated(adapter: Caller) -> None:
    for asked in ({"min_version": "1.0"}, {"min_version": "1", "max_version": "1.latest"}, {"version": "1.0"}):
        assert adapter.made_with(**asked).get_api_major_version() == [1, 0], asked


def test_the_default_microversion_is_sent_and_can_be_outdone(adapter: Caller, api: Api) -> None:
    host = api.create_provider()
    at_1_10 = adapter.made_with(default_microversion="1.10")
    old, new, latest = (
        at_1_10.get(f"/resource_providers/{host.uuid}", **asked)
        for asked in ({}, {"microversion": "1.14"}, {"microversion": "latest"})
    )
    assert [answer["headers"]["openstack-api-version"] for answer in (old, new, latest)] == [
        "placement 1.10", "placement 1.14", f"placement {NEWEST}",
    ]  # fmt: skip
    assert new["body"].keys() - old["body"].keys() == {"parent_provider_uuid", "root_provider_uuid"}
    none = adapter.get(f"/resource_providers/{host.uuid}")
    assert none["headers"]["openstack-api-version"] == "placement 1.0"


def test_a_microversion_of_tomorrow_is_refused_with_the_newest(adapter: Caller) -> None:
    refused = adapter.get("/resource_providers", microversion="1.40", raise_exc=False)
    (error,) = refused["body"]["errors"]
    assert (refused["status"], error["max_version"], error["min_version"]) == (406, NEWEST, "1.0")
    with pytest.raises(Raised) as raised:
        adapter.get("/resource_providers", microversion="1.40")
    assert (raised.value.kinds[0], raised.value.status) == ("NotAcceptable", 406)


def test_refusals_become_exceptions_of_their_kind(adapter: Caller) -> None:
    at = adapter.made_with(default_microversion=NEWEST)
    missing = fresh_uuid()
    plain = {"data": "x", "headers": {"Content-Type": "text/plain"}}
    refusals: list[Refusal] = [
        ("NotFound", 404, lambda: at.get(f"/resource_providers/{missing}")),
        ("NotFound", 404, lambda: at.get("/no/such/route")),
        ("MethodNotAllowed", 405, lambda: at.put("/resource_providers", json={})),
        ("BadRequest", 400, lambda: at.post("/resource_providers", json={})),
        ("UnsupportedMediaType", 415, lambda: at.post("/resource_providers", **plain)),
    ]
    for kind, status, refused in refusals:
        with pytest.raises(Raised) as raised:
            refused()
        assert (raised.value.kinds[0], raised.value.status) == (kind, status)
        assert re.search(r"\(HTTP \d+\) \(Request-ID: req-[0-9a-f-]{36}\)$", raised.value.text), raised.value.text
        assert raised.value.error["code"] == "placement.undefined_code"


def test_nova_finds_out_what_went_wrong_with_a_provider(adapter: Caller, api: Api) -> None:
    compute = adapter.made_with(default_microversion=NEWEST)
    uuid, name = fresh_uuid(), fresh_name()
    made = compute.post("/resource_providers", json={"uuid": uuid, "name": name}, microversion="1.20")
    assert (made["status"], made["body"]["uuid"]) == (200, uuid)
    same_name = compute.post("/resource_providers", json={"uuid": fresh_uuid(), "name": name}, raise_exc=False)
    (error,) = same_name["body"]["errors"]
    assert (same_name["status"], error["code"]) == (409, DUPLICATE_NAME)
    assert "Conflicting resource provider name:" in error["detail"]
    raced = compute.post("/resource_providers", json={"uuid": uuid, "name": fresh_name()}, raise_exc=False)
    assert raced["status"] == 409
    assert "Conflicting resource provider name:" not in raced["body"]["errors"][0]["detail"]  # then it fetches the uuid

    inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    path = f"/resource_providers/{uuid}/inventories"
    assert compute.put(path, json=inventories)["body"]["resource_provider_generation"] == 1
    stale = compute.put(path, json=inventories, raise_exc=False)
    assert (stale["status"], stale["body"]["errors"][0]["code"]) == (409, CONCURRENT_UPDATE)
    api.claim((uuid, {"VCPU": 1}))
    emptied = compute.put(path, json={"resource_provider_generation": 2, "inventories": {}}, raise_exc=False)
    told = re.search(r"Inventory for (.+) on resource provider (.+) in use", emptied["body"]["errors"][0]["detail"])
    assert told is not None
    assert (emptied["status"], told.groups()) == (409, ("'VCPU'", f"'{uuid}'"))
    assert compute.delete(f"/resource_providers/{uuid}", raise_exc=False)["status"] == 409


def test_nova_tells_a_consumer_conflict_from_a_full_host(adapter: Caller, api: Api) -> None:
    compute = adapter.made_with(default_microversion=NEWEST)
    host, consumer = api.create_provider(inventories={"VCPU": 8}), fresh_uuid()
    path = f"/allocations/{consumer}"
    sent = "req-" + fresh_uuid()
    claimed = compute.put(path, json=holding((host, {"VCPU": 2})), global_request_id=sent)
    assert claimed["status"] == 204
    assert re.fullmatch(r"req-[0-9a-f-]{36}", claimed["headers"]["x-openstack-request-id"])
    assert claimed["headers"]["x-openstack-request-id"] != sent
    again = compute.put(path, json=holding((host, {"VCPU": 2})), raise_exc=False)
    (error,) = again["body"]["errors"]
    assert (again["status"], error["code"]) == (409, CONCURRENT_UPDATE)
    assert "consumer generation conflict" in error["detail"]
    full = compute.put(path, json=holding((host, {"VCPU": 9}), generation=1), raise_exc=False)
    (error,) = full["body"]["errors"]
    assert (full["status"], error["code"]) == (409, "placement.undefined_code")
    assert api.held(consumer) == {host.uuid: {"VCPU": 2}}
    assert compute.delete(path)["status"] == 204
    assert compute.delete(path, raise_exc=False)["status"] == 404  # nothing to do


def test_who_has_no_role_is_forbidden_and_who_has_no_token_unauthorized(adapter: Caller) -> None:
    for auth, kind, status in (("none", "Forbidden", 403), (None, "Unauthorized", 401)):
        with pytest.raises(Raised) as raised:
            adapter.made_with(auth=auth).get("/resource_providers", microversion=NEWEST)
        assert (raised.value.kinds[0], raised.value.status) == (kind, status)
    assert adapter.made_with(auth=None).get("/")["body"]["versions"][0]["max_version"] == NEWEST
