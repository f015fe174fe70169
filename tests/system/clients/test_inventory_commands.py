"""``openstack resource provider inventory …`` and ``resource provider usage show``."""

from typing import Any

import pytest

from tests.system.api.client import MAX_INT, Api, Provider, fresh_uuid
from tests.system.clients.clients import OpenStack

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first

DEFAULTS = {
    "allocation_ratio": 1.0, "min_unit": 1, "max_unit": MAX_INT, "reserved": 0, "step_size": 1,
}  # fmt: skip
EVERY_FIELD = {
    "allocation_ratio": 1.5, "min_unit": 2, "max_unit": 64, "reserved": 8, "step_size": 2, "total": 128,
}  # fmt: skip


def held(api: Api, provider: Provider) -> dict[str, Any]:
    return dict(api.get(provider.inventories).expect(200).inventories)


def by_class(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["resource_class"]: {name: of for name, of in row.items() if name != "resource_class"} for row in rows}


@pytest.mark.runs("resource provider inventory set", "resource provider inventory list")
def test_inventories_are_replaced_as_a_whole(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"DISK_GB": 10})
    fields = " ".join(f"--resource MEMORY_MB:{name}={of}" for name, of in EVERY_FIELD.items())
    said = openstack.tell("resource provider inventory set", f"{host.uuid} --resource VCPU=8 {fields}")
    wanted = {"VCPU": {**DEFAULTS, "total": 8}, "MEMORY_MB": EVERY_FIELD}
    assert by_class(said) == held(api, host) == wanted
    api.claim((host, {"VCPU": 3}))
    assert by_class(openstack.tell("resource provider inventory list", host.uuid)) == {
        "VCPU": {**wanted["VCPU"], "used": 3}, "MEMORY_MB": {**EVERY_FIELD, "used": 0},
    }  # fmt: skip


@pytest.mark.runs("resource provider inventory set")
def test_inventories_are_amended_or_only_shown(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": {"total": 8, "reserved": 1}})
    before = held(api, host)
    more = f"{host.uuid} --resource VCPU:allocation_ratio=4.0 --resource DISK_GB=10"
    dry = openstack.tell("resource provider inventory set", f"{more} --amend --dry-run")
    assert by_class(dry)["VCPU"] == {**before["VCPU"], "allocation_ratio": 4.0}
    assert held(api, host) == before
    amended = openstack.tell("resource provider inventory set", f"{more} --amend")
    wanted = {"VCPU": {**before["VCPU"], "allocation_ratio": 4.0}, "DISK_GB": {**DEFAULTS, "total": 10}}
    assert by_class(amended) == held(api, host) == wanted
    assert openstack.tell("resource provider inventory set", host.uuid) == []
    assert held(api, host) == {}


@pytest.mark.runs("resource provider inventory set")
def test_inventories_of_an_aggregate_are_set_together(openstack: OpenStack, api: Api) -> None:
    rack = fresh_uuid()
    hosts = [api.create_provider(inventories={"DISK_GB": 1}, aggregates=[rack]) for _ in range(2)]
    rows = openstack.tell("resource provider inventory set", f"{rack} --aggregate --amend --resource VCPU=8")
    assert {(row["resource_provider"], row["resource_class"], row["total"]) for row in rows} == {
        (host.uuid, *of) for host in hosts for of in (("VCPU", 8), ("DISK_GB", 1))
    }
    assert all(held(api, host)["VCPU"]["total"] == 8 for host in hosts)
    api.claim((hosts[0], {"VCPU": 1}))
    partly = openstack.run("resource provider inventory set", f"{rack} --aggregate --resource MEMORY_MB=8")
    assert partly.refused("Failed to set inventory for 1 of 2 resource providers.")
    assert f"Inventory for 'VCPU' on resource provider '{hosts[0].uuid}' in use" in partly.err
    assert held(api, hosts[0]).keys() == {"VCPU", "DISK_GB"}
    assert held(api, hosts[1]).keys() == {"MEMORY_MB"}
    nobody = openstack.run("resource provider inventory set", f"{fresh_uuid()} --aggregate --resource VCPU=8")
    assert nobody.refused("No resource providers found in aggregate")


@pytest.mark.runs("resource provider inventory class set", "resource provider inventory show")
def test_the_inventory_of_one_class_is_set_and_shown(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 10})
    fields = " ".join(f"--{name} {of}" for name, of in EVERY_FIELD.items())
    assert openstack.tell("resource provider inventory class set", f"{host.uuid} VCPU {fields}") == EVERY_FIELD
    assert held(api, host) == {"VCPU": EVERY_FIELD, "DISK_GB": {**DEFAULTS, "total": 10}}
    assert openstack.tell("resource provider inventory show", f"{host.uuid} VCPU") == {**EVERY_FIELD, "used": 0}
    missing = openstack.run("resource provider inventory show", f"{host.uuid} MEMORY_MB")
    assert missing.refused(f"No inventory of class MEMORY_MB for {host.uuid} (HTTP 404)")
    absent = openstack.run("resource provider inventory class set", f"{host.uuid} MEMORY_MB --total 5")
    assert absent.refused("No inventory record with resource class", "MEMORY_MB", "(HTTP 400)")
    assert openstack.run("resource provider inventory class set", f"{host.uuid} VCPU").code == 2  # --total is missing


@pytest.mark.runs("resource provider inventory delete")
def test_inventories_are_deleted_one_by_one_or_all(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 10, "MEMORY_MB": 64})
    openstack.do("resource provider inventory delete", f"{host.uuid} --resource-class VCPU")
    assert held(api, host).keys() == {"DISK_GB", "MEMORY_MB"}
    again = openstack.run("resource provider inventory delete", f"{host.uuid} --resource-class VCPU")
    assert again.refused("No inventory of class VCPU found for delete (HTTP 404)")
    consumer = api.claim((host, {"DISK_GB": 1}))
    in_use = f"Inventory for 'DISK_GB' on resource provider '{host.uuid}' in use"
    for of in ("", "--resource-class DISK_GB"):
        refused = openstack.run("resource provider inventory delete", f"{host.uuid} {of}")
        assert refused.refused(in_use, "(HTTP 409)")
    assert held(api, host).keys() == {"DISK_GB", "MEMORY_MB"}
    api.delete(f"/allocations/{consumer}").expect(204)
    openstack.do("resource provider inventory delete", host.uuid)
    assert held(api, host) == {}


@pytest.mark.runs("resource provider inventory set", "resource provider inventory class set")
def test_an_inventory_that_cannot_be_is_refused(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8})
    before = held(api, host)
    for resource, text in {
        "VCPU=0": "JSON does not validate: 0 is less than the minimum of 1",
        f"VCPU={MAX_INT + 1}": "Failed validating 'maximum'",
        "CUSTOM_NO_SUCH=1": "Unknown resource class in inventory",
        "vcpu=1": "vcpu",
    }.items():
        said = openstack.run("resource provider inventory set", f"{host.uuid} --resource {resource}")
        assert said.refused(text, "(HTTP 400)"), said
    all_and_one = f"{host.uuid} --resource VCPU=8 --resource VCPU:reserved=9"
    for said in (
        openstack.run("resource provider inventory set", all_and_one),
        openstack.run("resource provider inventory class set", f"{host.uuid} VCPU --total 8 --reserved 9"),
    ):
        assert said.refused(f"Unable to update inventory for resource provider {host.uuid}", "(HTTP 400)"), said
    assert held(api, host) == before
    openstack.tell("resource provider inventory set", f"{host.uuid} --resource VCPU=9")
    openstack.tell("resource provider inventory class set", f"{host.uuid} VCPU --total 9 --reserved 9")
    nowhere = fresh_uuid()
    for command, arguments in {
        "set": "--resource VCPU=1",
        "class set": "VCPU --total 1",
        "list": "",
        "delete": "",
    }.items():
        said = openstack.run(f"resource provider inventory {command}", f"{nowhere} {arguments}")
        assert said.refused(f"No resource provider with uuid {nowhere} found", "(HTTP 404)"), said


@pytest.mark.runs("resource provider usage show")
def test_usages_count_what_is_taken_of_every_class(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 10})
    api.claim((host, {"VCPU": 1}))
    api.claim((host, {"VCPU": 2}))
    rows = openstack.tell("resource provider usage show", host.uuid)
    assert {row["resource_class"]: row["usage"] for row in rows} == {"VCPU": 3, "DISK_GB": 0}
    nowhere = fresh_uuid()
    assert openstack.run("resource provider usage show", nowhere).refused(
        f"No resource provider with uuid {nowhere} found (HTTP 404)"
    )


def test_inventories_worked_from_the_first_microversion(old: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"DISK_GB": 10, "MEMORY_MB": 1})
    said = old.tell("resource provider inventory set", f"{host.uuid} --resource VCPU=8 --resource DISK_GB=9")
    assert by_class(said) == {"VCPU": {**DEFAULTS, "total": 8}, "DISK_GB": {**DEFAULTS, "total": 9}}
    assert old.tell("resource provider inventory class set", f"{host.uuid} VCPU --total 9")["total"] == 9
    assert by_class(old.tell("resource provider inventory list", host.uuid))["VCPU"]["total"] == 9
    assert old.tell("resource provider inventory show", f"{host.uuid} VCPU")["used"] == 0
    assert len(old.tell("resource provider usage show", host.uuid)) == 2
    reserved = f"{host.uuid} VCPU --total 9 --reserved 9"
    assert old.at("1.25").run("resource provider inventory class set", reserved).refused("(HTTP 400)")
    assert old.at("1.26").tell("resource provider inventory class set", reserved)["reserved"] == 9


def test_all_inventories_are_deleted_at_once_since_1_5(old: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 10})
    everything = old.at("1.4").run("resource provider inventory delete", host.uuid)
    assert (everything.code, "--resource-class" in everything.err) == (2, True)
    old.at("1.4").do("resource provider inventory delete", f"{host.uuid} --resource-class VCPU")
    assert held(api, host).keys() == {"DISK_GB"}
    old.at("1.5").do("resource provider inventory delete", host.uuid)
    assert held(api, host) == {}


def test_an_aggregate_is_no_target_before_1_3(old: OpenStack, api: Api) -> None:
    rack = fresh_uuid()
    api.create_provider(aggregates=[rack])
    rows = old.at("1.3").tell("resource provider inventory set", f"{rack} --aggregate --resource VCPU=8")
    assert [row["total"] for row in rows] == [8]
    refused = old.at("1.2").run("resource provider inventory set", f"{rack} --aggregate --resource VCPU=8")
    assert refused.refused("requires at least version 1.3")
