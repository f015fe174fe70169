"""openstacksdk's placement proxy: ``connection.placement``."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.system.api.client import NEWEST, Api, fresh_custom, fresh_name, fresh_uuid
from tests.system.clients.clients import Caller, Raised

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first

Refusal = tuple[str, int, str, Callable[[], Any]]


@pytest.mark.runs(
    "create_resource_provider",
    "get_resource_provider",
    "find_resource_provider",
    "resource_providers",
    "update_resource_provider",
    "delete_resource_provider",
)
def test_a_provider_comes_and_goes(sdk: Caller, api: Api) -> None:
    parent, name = api.create_provider(), fresh_name()
    made = sdk.create_resource_provider(name=name, parent_provider_id=parent.uuid)
    assert (made.name, made.generation) == (name, 0)
    assert (made.parent_provider_id, made.root_provider_id) == (parent.uuid, parent.uuid)
    assert {link["rel"] for link in made.links} == {
        "self", "inventories", "usages", "aggregates", "traits", "allocations",
    }  # fmt: skip
    for found in (sdk.get_resource_provider(made.id), sdk.find_resource_provider(made.id)):
        assert found.fields == made.fields
    assert sdk.find_resource_provider(name).id == made.id  # by the filter of the list
    assert sdk.find_resource_provider(fresh_name()) is None
    assert [found.id for found in sdk.resource_providers(in_tree=parent.uuid)] == [parent.uuid, made.id]
    assert [found.id for found in sdk.resource_providers(name=name)] == [made.id]
    renamed = fresh_name()
    assert sdk.update_resource_provider(made.id, name=renamed).name == renamed
    assert api.get(f"/resource_providers/{made.id}").name == renamed
    assert sdk.delete_resource_provider(made.id) is None
    assert api.get(f"/resource_providers/{made.id}").status == 404
    sdk.delete_resource_provider(made.id)  # it may be missing


def test_refusals_become_exceptions_of_their_kind(sdk: Caller, api: Api) -> None:
    host, missing = api.create_provider(inventories={"VCPU": 8}), fresh_uuid()
    api.claim((host, {"VCPU": 1}))
    refusals: list[Refusal] = [
        ("NotFoundException", 404, missing, lambda: sdk.get_resource_provider(missing)),
        ("NotFoundException", 404, missing, lambda: sdk.delete_resource_provider(missing, ignore_missing=False)),
        ("ConflictException", 409, host.name, lambda: sdk.create_resource_provider(name=host.name)),
        ("ConflictException", 409, host.uuid, lambda: sdk.delete_resource_provider(host.uuid)),
        ("ConflictException", 409, "VCPU", lambda: sdk.delete_resource_provider_inventory("VCPU", host.uuid)),
        ("BadRequestException", 400, "x" * 201, lambda: sdk.create_resource_provider(name="x" * 201)),
        ("BadRequestException", 400, "VCPU", lambda: sdk.delete_resource_class("VCPU")),
    ]
    for kind, status, text, refused in refusals:
        with pytest.raises(Raised) as raised:
            refused()
        told = raised.value
        assert (told.kinds[0], told.status, told.error["status"]) == (kind, status, status)
        assert text in told.error["detail"]


@pytest.mark.runs(
    "create_resource_provider_inventory",
    "get_resource_provider_inventory",
    "resource_provider_inventories",
    "update_resource_provider_inventory",
    "delete_resource_provider_inventory",
    "set_resource_provider_inventories",
    "delete_resource_provider_inventories",
)
def test_inventories_are_made_changed_and_deleted(sdk: Caller, api: Api) -> None:
    host = api.create_provider()
    made = sdk.create_resource_provider_inventory(host.uuid, "VCPU", total=8, reserved=1, allocation_ratio=4.0)
    assert (made.total, made.reserved, made.allocation_ratio, made.resource_provider_generation) == (8, 1, 4.0, 1)
    assert sdk.get_resource_provider_inventory("VCPU", host.uuid).total == 8
    changed = sdk.update_resource_provider_inventory("VCPU", host.uuid, resource_provider_generation=1, total=9)
    assert (changed.total, changed.resource_provider_generation) == (9, 2)
    with pytest.raises(Raised) as raised:
        sdk.update_resource_provider_inventory("VCPU", host.uuid, resource_provider_generation=1, total=10)
    assert (raised.value.kinds[0], raised.value.status) == ("ConflictException", 409)
    after = sdk.set_resource_provider_inventories(host.uuid, {"VCPU": {"total": 5}, "DISK_GB": {"total": 6}}, 2)
    assert after.generation == 3
    listed = {found.resource_class: found.total for found in sdk.resource_provider_inventories(host.uuid)}
    assert listed == {"VCPU": 5, "DISK_GB": 6}
    sdk.delete_resource_provider_inventory("VCPU", host.uuid)
    assert api.get(host.inventories).inventories.keys() == {"DISK_GB"}
    sdk.delete_resource_provider_inventories(host.uuid)
    assert api.get(host.inventories).inventories == {}


@pytest.mark.runs("fetch_resource_provider_aggregates", "set_resource_provider_aggregates")
def test_aggregates_are_replaced_with_the_generation(sdk: Caller, api: Api) -> None:
    host, rack, row = api.create_provider(), fresh_uuid(), fresh_uuid()
    held = sdk.get_resource_provider(host.uuid)
    assert set(sdk.set_resource_provider_aggregates(held, rack, row).aggregates) == {rack, row}
    with pytest.raises(Raised) as raised:
        sdk.set_resource_provider_aggregates(held, rack)
    assert (raised.value.kinds[0], raised.value.status) == ("ConflictException", 409)
    fetched = sdk.fetch_resource_provider_aggregates(host.uuid)
    assert (set(fetched.aggregates), fetched.generation) == ({rack, row}, 1)
    assert sdk.set_resource_provider_aggregates(fetched).aggregates == []
    assert api.get(host.aggregates).aggregates == []


@pytest.mark.runs(
    "create_trait", "get_trait", "traits", "delete_trait",
    "get_resource_provider_trait", "set_resource_provider_trait", "delete_resource_provider_trait",
)  # fmt: skip
def test_traits_come_are_associated_and_go(sdk: Caller, api: Api) -> None:
    host, magic = api.create_provider(), fresh_custom("MAGIC")
    assert sdk.create_trait(magic).name == magic
    assert sdk.get_trait(magic).id == magic
    assert [found.name for found in sdk.traits(name=f"in:{magic}")] == [magic]
    assert {magic, "HW_CPU_X86_AVX"} <= {found.name for found in sdk.traits()}
    of_host = sdk.get_resource_provider_trait(host.uuid)
    assert (of_host.traits, of_host.resource_provider_generation) == ([], 0)
    assert sdk.set_resource_provider_trait(of_host, traits=[magic], resource_provider_generation=0).traits == [magic]
    assert [found.name for found in sdk.traits(name=f"in:{magic}", associated="true")] == [magic]
    with pytest.raises(Raised) as raised:
        sdk.delete_trait(magic)
    assert (raised.value.kinds[0], raised.value.status) == ("ConflictException", 409)
    sdk.delete_resource_provider_trait(host.uuid)
    assert api.get(host.traits).traits == []
    sdk.delete_trait(magic)
    assert api.get(f"/traits/{magic}").status == 404
    with pytest.raises(Raised) as raised:
        sdk.get_trait(magic)
    assert raised.value.kinds[0] == "NotFoundException"


@pytest.mark.runs(
    "create_resource_class", "get_resource_class", "resource_classes", "update_resource_class", "delete_resource_class"
)
def test_a_resource_class_comes_is_renamed_and_goes(sdk: Caller, api: Api) -> None:
    lamp, torch = fresh_custom("LAMP"), fresh_custom("TORCH")
    assert sdk.create_resource_class(name=lamp).name == lamp
    assert sdk.get_resource_class(lamp).name == lamp
    assert {lamp, "VCPU"} <= {found.name for found in sdk.resource_classes()}
    assert sdk.update_resource_class(lamp, name=torch).name == torch  # the SDK stays at 1.2, where PUT renames
    assert [api.get(f"/resource_classes/{name}").status for name in (lamp, torch)] == [404, 200]
    sdk.delete_resource_class(torch)
    assert api.get(f"/resource_classes/{torch}").status == 404
    with pytest.raises(Raised) as raised:
        sdk.get_resource_class(torch)
    assert raised.value.kinds[0] == "NotFoundException"


@pytest.mark.runs(
    "allocation_candidates",
    "update_allocation",
    "get_allocation",
    "create_allocations",
    "delete_allocation",
    "resource_provider_allocations",
    "fetch_resource_provider_usages",
    "usages",
)
def test_a_candidate_is_claimed_counted_and_given_back(sdk: Caller, api: Api) -> None:
    lamp = api.create_class()
    host = api.create_provider(inventories={lamp: 8})
    consumer, other, project = fresh_uuid(), fresh_uuid(), fresh_uuid()
    (candidate,) = sdk.allocation_candidates(resources=f"{lamp}:2", limit=5)
    assert candidate.mappings == {"": [host.uuid]}
    assert candidate.provider_summaries[host.uuid]["resources"] == {lamp: {"capacity": 8, "used": 0}}

    who = {"project_id": project, "user_id": "me", "consumer_type": "INSTANCE"}
    claim = {"allocations": candidate.allocations, "consumer_generation": None, **who}
    sdk.create_allocations({consumer: claim})
    held = sdk.get_allocation(consumer)
    assert (held.allocations[host.uuid]["resources"], held.consumer_generation) == ({lamp: 2}, 1)
    assert {name: held.fields[name] for name in who} == who
    sdk.update_allocation(consumer, allocations={host.uuid: {"resources": {lamp: 3}}}, consumer_generation=1, **who)
    assert api.held(consumer) == {host.uuid: {lamp: 3}}
    with pytest.raises(Raised) as raised:  # a consumer that nobody knew
        sdk.create_allocations({other: claim, consumer: claim})
    assert raised.value.error["code"] == "placement.concurrent_update"
    assert "consumer generation conflict - expected 2 but got None" in raised.value.error["detail"]
    assert api.held(other) == {}

    (of_host,) = sdk.resource_provider_allocations(host.uuid)
    assert (of_host.consumer_id, of_host.resources) == (consumer, {lamp: 3})
    assert sdk.fetch_resource_provider_usages(host.uuid).usages == {lamp: 3}
    for wanted in ({}, {"user_id": "me", "consumer_type": "INSTANCE"}):
        (usage,) = sdk.usages(project, **wanted)
        assert (usage.consumer_type, usage.consumer_count, usage.resources) == ("INSTANCE", 1, {lamp: 3})
    sdk.delete_allocation(consumer)
    assert api.held(consumer) == {}
    sdk.delete_allocation(consumer)  # it may hold nothing
    with pytest.raises(Raised) as raised:
        sdk.delete_allocation(consumer, ignore_missing=False)
    assert raised.value.kinds[0] == "NotFoundException"
    assert sdk.get_allocation(consumer).allocations == {}


@pytest.mark.parametrize("version", ["1.10", "1.14", "1.19", "1.29", NEWEST])
def test_the_sdk_may_be_told_a_microversion(version: str, sdk: Caller, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    at = sdk.made_with(placement_default_microversion=version)
    (found,) = at.resource_providers(name=host.name)
    assert (found.root_provider_id is not None) == (version != "1.10")
    assert at.get(f"/resource_providers/{host.uuid}")["headers"]["openstack-api-version"] == f"placement {version}"


def test_who_has_no_role_finds_the_service_and_nothing_else(sdk: Caller) -> None:
    nobody = sdk.made_with(auth="none")
    assert nobody.get_endpoint_data()["max_microversion"] == [1, 39]
    with pytest.raises(Raised) as raised:
        nobody.resource_providers()
    assert (raised.value.kinds[0], raised.value.status) == ("ForbiddenException", 403)
    assert "Policy does not allow placement:resource_providers:list" in raised.value.error["detail"]
