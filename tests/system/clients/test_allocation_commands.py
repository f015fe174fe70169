"""``openstack resource provider allocation …``, ``allocation candidate list`` and ``resource usage show``."""

from typing import Any

import pytest

from tests.system.api.client import NEWEST, Api, fresh_uuid
from tests.system.clients.clients import OpenStack

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first


def owner(openstack: OpenStack, project: str, user: str = "me", kind: str = "INSTANCE") -> str:
    """The options that say who consumes, as far as the microversion knows them."""
    named = f"--project-id {project} --user-id {user}" if openstack.knows("1.8") else ""
    return f"{named} --consumer-type {kind}" if openstack.knows("1.38") else named


def owned(openstack: OpenStack, project: str, user: str = "me", kind: str = "INSTANCE") -> dict[str, str]:
    """The columns that say who consumes."""
    named = {"project_id": project, "user_id": user} if openstack.knows("1.12") else {}
    return {**named, "consumer_type": kind} if openstack.knows("1.38") else named


def taken(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    return {row["resource_provider"]: row["resources"] for row in rows}


@pytest.mark.runs(
    "resource provider allocation set", "resource provider allocation show", "resource provider allocation delete"
)
def test_a_consumer_takes_and_gives_back(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "MEMORY_MB": 64})
    disk = api.create_provider(inventories={"DISK_GB": 100})
    consumer, project = fresh_uuid(), fresh_uuid()
    assert openstack.tell("resource provider allocation show", consumer) == []
    both = f"--allocation rp={host.uuid},VCPU=2,MEMORY_MB=16 --allocation rp={disk.uuid},DISK_GB=10"
    said = openstack.tell("resource provider allocation set", f"{consumer} {both} {owner(openstack, project)}")
    wanted = {host.uuid: {"VCPU": 2, "MEMORY_MB": 16}, disk.uuid: {"DISK_GB": 10}}
    assert taken(said) == api.held(consumer) == wanted
    assert [row["generation"] for row in said] == [2, 2]
    assert {**said[0], **owned(openstack, project)} == said[0]
    assert openstack.tell("resource provider allocation show", consumer) == said
    less = f"{consumer} --allocation rp={host.uuid},VCPU=1 {owner(openstack, project)}"
    assert taken(openstack.tell("resource provider allocation set", less)) == {host.uuid: {"VCPU": 1}}
    assert api.get(f"/allocations/{consumer}").consumer_generation == 2
    openstack.do("resource provider allocation delete", consumer)
    assert api.held(consumer) == {}
    nothing = openstack.run("resource provider allocation delete", consumer)
    assert nothing.refused(f"No allocations for consumer '{consumer}' (HTTP 404)")


@pytest.mark.runs("resource provider allocation set", "resource provider allocation unset")
def test_parts_of_what_is_held_are_given_back(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 8, "MEMORY_MB": 64})
    disk = api.create_provider(inventories={"DISK_GB": 100})
    consumer, project = fresh_uuid(), fresh_uuid()
    both = f"--allocation rp={host.uuid},VCPU=2,MEMORY_MB=16 --allocation rp={disk.uuid},DISK_GB=10"
    openstack.tell("resource provider allocation set", f"{consumer} {both} {owner(openstack, project)}")
    left = openstack.tell("resource provider allocation unset", f"{consumer} --resource-class MEMORY_MB")
    assert taken(left) == {host.uuid: {"VCPU": 2}, disk.uuid: {"DISK_GB": 10}}
    assert {**left[0], **owned(openstack, project)} == left[0]
    limited = f"{consumer} --provider {host.uuid} --resource-class DISK_GB"
    assert taken(openstack.tell("resource provider allocation unset", limited)) == taken(left)
    left = openstack.tell("resource provider allocation unset", f"{consumer} --provider {host.uuid}")
    assert taken(left) == api.held(consumer) == {disk.uuid: {"DISK_GB": 10}}
    assert openstack.tell("resource provider allocation unset", consumer) == []
    assert api.held(consumer) == {}
    assert api.used(disk) == {"DISK_GB": 0}


@pytest.mark.runs("resource provider allocation set")
def test_what_does_not_fit_is_refused(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": {"total": 8, "max_unit": 6}, "MEMORY_MB": 64})
    consumer, nowhere, who = fresh_uuid(), fresh_uuid(), owner(openstack, fresh_uuid())
    api.claim((host, {"VCPU": 4}))
    for of, text, status in (
        (f"rp={host.uuid},VCPU=5", "The requested amount would exceed the capacity", 409),
        (f"rp={host.uuid},VCPU=7", "The requested amount would violate inventory constraints", 409),
        (f"rp={host.uuid},DISK_GB=1", f"Inventory for 'DISK_GB' on resource provider '{host.uuid}' invalid", 409),
        (f"rp={host.uuid},CUSTOM_NO_SUCH=1", "No such resource class CUSTOM_NO_SUCH", 400),
        (f"rp={nowhere},VCPU=1", f"Allocation for resource provider '{nowhere}' that does not exist", 400),
        (f"rp={host.uuid},VCPU=0", "JSON does not validate: 0 is less than the minimum of 1", 400),
    ):
        said = openstack.run("resource provider allocation set", f"{consumer} --allocation {of} {who}")
        assert said.refused(text, f"(HTTP {status})"), said
        assert api.held(consumer) == {}
    nothing = openstack.run("resource provider allocation set", f"{consumer} {who}")
    assert nothing.refused("At least one resource allocation must be specified")
    anonymous = openstack.run("resource provider allocation set", f"{consumer} --allocation rp={host.uuid},VCPU=1")
    assert (anonymous.code, "--project-id" in anonymous.err) == (2, True)
    malformed = openstack.run("resource provider allocation set", f"me --allocation rp={host.uuid},VCPU=1 {who}")
    assert malformed.refused("Malformed consumer_uuid: me", "(HTTP 400)")
    openstack.tell("resource provider allocation set", f"{fresh_uuid()} --allocation rp={host.uuid},VCPU=4 {who}")


def candidates(openstack: OpenStack, arguments: str) -> list[dict[str, Any]]:
    return list(openstack.tell("allocation candidate list", arguments))


def ways(rows: list[dict[str, Any]]) -> set[frozenset[tuple[str, str]]]:
    """Each candidate as what it takes from whom."""
    return {
        frozenset((row["resource provider"], row["allocation"]) for row in rows if row["#"] == number)
        for number in {row["#"] for row in rows}
    }


@pytest.mark.runs("allocation candidate list")
def test_candidates_are_found_by_every_option(openstack: OpenStack, api: Api) -> None:
    rack, row, trait, other = fresh_uuid(), fresh_uuid(), api.create_trait(), api.create_trait()
    lamp = api.create_class()
    one = api.create_provider(inventories={lamp: 8}, traits=[trait], aggregates=[rack])
    two = api.create_provider(inventories={lamp: 8}, traits=[other], aggregates=[rack, row])
    api.claim((one, {lamp: 3}))
    on_one, on_two = frozenset({(one.uuid, f"{lamp}=2")}), frozenset({(two.uuid, f"{lamp}=2")})
    wanted = f"--resource {lamp}=2"

    rows = candidates(openstack, wanted)
    assert ways(rows) == {on_one, on_two}
    (of_one,) = (row for row in rows if row["resource provider"] == one.uuid)
    assert (of_one["inventory used/capacity"], of_one["traits"]) == (f"{lamp}=3/8", trait)
    assert ways(candidates(openstack, f"--resource {lamp}=6")) == {frozenset({(two.uuid, f"{lamp}=6")})}
    assert candidates(openstack, f"--resource {lamp}=9") == []
    assert len(ways(candidates(openstack, f"{wanted} --limit 1"))) == 1
    assert ways(candidates(openstack, f"{wanted} --required {trait}")) == {on_one}
    assert ways(candidates(openstack, f"{wanted} --forbidden {trait}")) == {on_two}
    assert ways(candidates(openstack, f"{wanted} --required {trait} --required {other}")) == set()
    assert ways(candidates(openstack, f"{wanted} --member-of {rack},{row}")) == {on_one, on_two}
    assert ways(candidates(openstack, f"{wanted} --member-of {rack} --member-of {row}")) == {on_two}
    assert ways(candidates(openstack, f"{wanted} --aggregate-uuid {row}")) == {on_two}
    any_of = openstack.run("allocation candidate list", f"{wanted} --required {trait},{other} -f json")
    if openstack.knows("1.39"):
        assert ways(any_of.json) == {on_one, on_two}
    else:
        assert any_of.refused("requires at least version 1.39")


@pytest.mark.runs("allocation candidate list")
def test_groups_are_served_by_children_together_or_apart(openstack: OpenStack, api: Api) -> None:
    lamp, trait = api.create_class(), api.create_trait()
    host = api.create_provider(inventories={"VCPU": 8})
    left = api.create_provider(parent=host, inventories={lamp: 2}, traits=[trait])
    right = api.create_provider(parent=host, inventories={lamp: 2})
    groups = f"--resource VCPU=1 --group 1 --resource {lamp}=1 --required {trait} --group 2 --resource {lamp}=1"
    apart = {frozenset({(host.uuid, "VCPU=1"), (left.uuid, f"{lamp}=1"), (right.uuid, f"{lamp}=1")})}
    together = {frozenset({(host.uuid, "VCPU=1"), (left.uuid, f"{lamp}=2")})}
    assert ways(candidates(openstack, f"{groups} --group-policy isolate")) == apart
    assert ways(candidates(openstack, groups)) == apart | together
    suffix = openstack.run("allocation candidate list", f"--group L --resource {lamp}=2 --required {trait} -f json")
    if openstack.knows("1.33"):
        assert ways(suffix.json) == {frozenset({(left.uuid, f"{lamp}=2")})}
    else:
        assert suffix.refused("Invalid query string parameters", "(HTTP 400)")


@pytest.mark.runs("allocation candidate list")
def test_a_question_that_means_nothing_is_refused(openstack: OpenStack) -> None:
    assert candidates(openstack, "--resource VCPU=2147483647") == []
    for arguments, text in {
        "--resource CUSTOM_NO_SUCH=1": "Invalid resource class in resources parameter",
        "--resource VCPU=0": "Requested resource VCPU requires amount >= 1. Got: 0.",
        "--resource VCPU=x": "Requested resource VCPU expected positive integer amount. Got: x.",
        "--resource VCPU=1 --required CUSTOM_NO_SUCH": "No such trait(s): CUSTOM_NO_SUCH",
        "--resource VCPU=1 --limit -1": "Invalid query string parameters",
        "--resource VCPU=1 --member-of nonsense": "valid UUID",
    }.items():
        assert openstack.run("allocation candidate list", arguments).refused(text, "(HTTP 400)"), arguments
    assert openstack.run("allocation candidate list").refused("At least one --resource must be specified.")


@pytest.mark.runs("resource usage show")
def test_usages_of_a_project_are_summed(openstack: OpenStack, api: Api) -> None:
    host, project = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 10}), fresh_uuid()
    api.claim((host, {"VCPU": 1, "DISK_GB": 2}), project=project, user="me")
    api.claim((host, {"VCPU": 2}), project=project, user="you")
    api.claim((host, {"VCPU": 3}), project=project, user="you", consumer_type="MIGRATION")

    def used(arguments: str) -> dict[str, Any]:
        return {row["resource_class"]: row["usage"] for row in openstack.tell("resource usage show", arguments)}

    if openstack.knows("1.38"):  # the plugin shows types where it says classes
        migration = {"consumer_count": 1, "VCPU": 3}
        assert used(project) == {"INSTANCE": {"consumer_count": 2, "VCPU": 3, "DISK_GB": 2}, "MIGRATION": migration}
        assert used(f"{project} --user-id you") == {
            "INSTANCE": {"consumer_count": 1, "VCPU": 2}, "MIGRATION": migration,
        }  # fmt: skip
    else:
        assert used(project) == {"VCPU": 6, "DISK_GB": 2}
        assert used(f"{project} --user-id you") == {"VCPU": 5}
    assert used(f"{project} --user-id nobody") == used(fresh_uuid()) == {}


@pytest.mark.parametrize("version", ["1.0", "1.7", "1.8", "1.11", "1.12", "1.27", "1.28", "1.37", "1.38", NEWEST])
def test_a_consumer_takes_and_gives_back_at(version: str, old: OpenStack, api: Api) -> None:
    openstack = old.at(version)
    host = api.create_provider(inventories={"VCPU": 8, "MEMORY_MB": 64})
    consumer, project = fresh_uuid(), fresh_uuid()
    both = f"{consumer} --allocation rp={host.uuid},VCPU=2,MEMORY_MB=8 {owner(openstack, project)}"
    row = {"resource_provider": host.uuid, "generation": 2, "resources": {"VCPU": 2, "MEMORY_MB": 8}}
    said = openstack.tell("resource provider allocation set", both)
    assert said == [{**row, **owned(openstack, project)}]
    assert openstack.tell("resource provider allocation show", consumer) == said
    for _ in range(2):  # before 1.28 nobody asks for the consumer's generation, after it the plugin knows it
        openstack.tell("resource provider allocation set", both)
    shown = openstack.tell("resource provider show", f"{host.uuid} --allocations")
    assert shown["allocations"][consumer]["resources"] == row["resources"]
    if openstack.knows("1.12"):
        left = openstack.tell("resource provider allocation unset", f"{consumer} --resource-class VCPU")
        assert taken(left) == api.held(consumer) == {host.uuid: {"MEMORY_MB": 8}}
        assert openstack.tell("resource provider allocation unset", consumer) == []
    else:
        unset = openstack.run("resource provider allocation unset", consumer)
        assert unset.refused("requires at least version 1.12")
        openstack.do("resource provider allocation delete", consumer)
    assert api.held(consumer) == {}


def test_a_consumer_of_old_has_no_project_to_name(old: OpenStack, api: Api) -> None:
    host, consumer = api.create_provider(inventories={"VCPU": 8}), fresh_uuid()
    named = f"{consumer} --allocation rp={host.uuid},VCPU=1 --project-id mine --user-id me --consumer-type INSTANCE"
    assert taken(old.tell("resource provider allocation set", named)) == {host.uuid: {"VCPU": 1}}
    (row,) = old.at("1.38").tell("resource provider allocation show", consumer)
    assert row["consumer_type"] == "unknown"
    assert "mine" not in (row["project_id"], row["user_id"])


def test_candidates_have_more_to_tell_with_each_microversion(old: OpenStack, api: Api) -> None:
    lamp, trait, rack = api.create_class(), api.create_trait(), fresh_uuid()
    host = api.create_provider(inventories={lamp: 8, "VCPU": 4}, traits=[trait], aggregates=[rack])
    wanted = f"--resource {lamp}=2"
    row = {"#": 1, "allocation": f"{lamp}=2", "resource provider": host.uuid, "inventory used/capacity": f"{lamp}=0/8"}
    for version in ("1.10", "1.11", "1.12", "1.16"):  # lists of allocations become dicts at 1.12
        assert candidates(old.at(version), wanted) == [row]
    for version in ("1.17", "1.26"):
        assert candidates(old.at(version), wanted) == [{**row, "traits": trait}]
    (with_all,) = candidates(old.at("1.27"), wanted)
    assert set(with_all["inventory used/capacity"].split(",")) == {f"{lamp}=0/8", "VCPU=0/4"}
    assert old.at("1.9").run("allocation candidate list", wanted).refused("requires at least version 1.10")
    for more, since in {
        "--limit 1": "1.16",
        f"--required {trait}": "1.17",
        f"--member-of {rack}": "1.21",
        f"--forbidden {api.create_trait()}": "1.22",
        f"--group 1 --resource {lamp}=1": "1.25",
    }.items():
        before = f"1.{int(since[2:]) - 1}"
        assert len(candidates(old.at(since), f"{wanted} {more}")) == 1, more
        refused = old.at(before).run("allocation candidate list", f"{wanted} {more}")
        assert refused.refused(f"requires at least version {since}"), refused


def test_children_are_candidates_since_1_29(old: OpenStack, api: Api) -> None:
    lamp = api.create_class()
    child = api.create_provider(parent=api.create_provider(inventories={"VCPU": 4}), inventories={lamp: 8})
    both = f"--resource VCPU=1 --resource {lamp}=1"
    assert candidates(old.at("1.28"), both) == []
    assert (child.uuid, f"{lamp}=1") in {taking for way in ways(candidates(old.at("1.29"), both)) for taking in way}


def test_usages_of_a_project_are_told_since_1_9(old: OpenStack, api: Api) -> None:
    host, project = api.create_provider(inventories={"VCPU": 8}), fresh_uuid()
    api.claim((host, {"VCPU": 1}), project=project)
    assert old.at("1.9").tell("resource usage show", project) == [{"resource_class": "VCPU", "usage": 1}]
    assert old.at("1.8").run("resource usage show", project).refused("requires at least version 1.9")
