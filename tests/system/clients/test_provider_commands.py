"""``openstack resource provider create|list|show|set|delete``, and the aggregates and traits of a provider."""

import pytest

from tests.system.api.client import Api, fresh_custom, fresh_name, fresh_uuid
from tests.system.clients.clients import OpenStack

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first


def uuids(rows: list[dict[str, str]]) -> set[str]:
    return {row["uuid"] for row in rows}


@pytest.mark.runs("resource provider create", "resource provider show", "resource provider delete")
def test_a_provider_comes_and_goes(openstack: OpenStack, api: Api) -> None:
    name = fresh_name("Rechenknecht-ß")
    made = openstack.tell("resource provider create", name)
    uuid = made["uuid"]
    alone = {"root_provider_uuid": uuid, "parent_provider_uuid": None}
    assert made == {"uuid": uuid, "name": name, "generation": 0, **alone}
    assert openstack.tell("resource provider show", uuid) == made
    assert api.get(f"/resource_providers/{uuid}").name == name
    openstack.do("resource provider delete", uuid)
    assert api.get(f"/resource_providers/{uuid}").status == 404
    gone = f"No resource provider with uuid {uuid} found"
    assert openstack.run("resource provider show", uuid).refused(f"{gone} (HTTP 404)")
    assert openstack.run("resource provider delete", uuid).refused(f"{gone} for delete (HTTP 404)")


@pytest.mark.runs("resource provider create", "resource provider set")
def test_a_provider_gets_a_parent_and_another_name(openstack: OpenStack, api: Api) -> None:
    root, other = api.create_provider(), api.create_provider()
    own, name, renamed = fresh_uuid(), fresh_name(), fresh_name()
    made = openstack.tell("resource provider create", f"{name} --uuid {own} --parent-provider {root.uuid}")
    below = {"root_provider_uuid": root.uuid, "parent_provider_uuid": root.uuid}
    assert made == {"uuid": own, "name": name, "generation": 0, **below}
    changed = openstack.tell("resource provider set", f"{own} --name {renamed}")
    assert (changed["name"], changed["parent_provider_uuid"]) == (renamed, root.uuid)

    moving = openstack.run("resource provider set", f"{own} --name {renamed} --parent-provider {other.uuid} -f json")
    if openstack.knows("1.37"):
        assert moving.json == {**made, "name": renamed, **dict.fromkeys(below, other.uuid)}
    else:
        assert moving.refused("re-parenting a provider is not currently allowed", "(HTTP 400)")
    parent = other if openstack.knows("1.37") else root
    assert api.get(f"/resource_providers/{own}").parent_provider_uuid == parent.uuid
    assert openstack.run("resource provider delete", parent.uuid).refused("(HTTP 409)", parent.uuid)


@pytest.mark.runs("resource provider create", "resource provider set")
def test_a_name_or_uuid_that_is_taken_is_refused(openstack: OpenStack, api: Api) -> None:
    one, two = api.create_provider(), api.create_provider()
    taken = openstack.run("resource provider create", one.name)
    assert taken.refused(f"Conflicting resource provider name: {one.name} already exists. (HTTP 409)")
    assert openstack.run("resource provider create", f"{fresh_name()} --uuid {one.uuid}").refused(
        "(HTTP 409)", one.uuid
    )
    renamed = openstack.run("resource provider set", f"{two.uuid} --name {one.name}")
    assert renamed.refused(f"Conflicting resource provider {one.name} already exists", "(HTTP 409)")
    assert openstack.run("resource provider create", f"{fresh_name()} --uuid nonsense").refused(
        "JSON does not validate: 'nonsense' is not a 'uuid'", "(HTTP 400)"
    )
    assert openstack.run("resource provider create", "x" * 201).refused("Failed validating 'maxLength'", "(HTTP 400)")
    openstack.tell("resource provider create", fresh_name())
    openstack.tell("resource provider set", f"{two.uuid} --name {fresh_name()}")


@pytest.mark.runs("resource provider list")
def test_providers_are_listed_by_every_filter(openstack: OpenStack, api: Api) -> None:
    rack, row, trait, other_trait = fresh_uuid(), fresh_uuid(), api.create_trait(), api.create_trait()
    root = api.create_provider(inventories={"VCPU": 4}, aggregates=[rack])
    child = api.create_provider(parent=root, inventories={"MEMORY_MB": 64}, traits=[trait], aggregates=[rack, row])
    tree = f"--in-tree {root.uuid}"

    def listed(filters: str) -> set[str]:
        return uuids(openstack.tell("resource provider list", filters))

    assert listed("") >= {root.uuid, child.uuid}
    assert openstack.tell("resource provider list", f"--name {child.name}") == [
        {"uuid": child.uuid, "name": child.name, "generation": 3}
        | {"root_provider_uuid": root.uuid, "parent_provider_uuid": root.uuid}
    ]
    assert listed(f"--uuid {root.uuid}") == {root.uuid}
    assert listed(f"--in-tree {child.uuid}") == {root.uuid, child.uuid}
    assert listed(f"{tree} --resource VCPU=4") == {root.uuid}
    assert listed(f"{tree} --resource VCPU=5") == set()
    assert listed(f"{tree} --resource VCPU=1 --resource MEMORY_MB=1") == set()
    assert listed(f"{tree} --required {trait}") == {child.uuid}
    assert listed(f"{tree} --forbidden {trait}") == {root.uuid}
    assert listed(f"{tree} --forbidden {trait} --forbidden {other_trait}") == {root.uuid}
    assert listed(f"{tree} --required {trait} --required {other_trait}") == set()
    assert listed(f"--member-of {rack}") == {root.uuid, child.uuid}
    assert listed(f"--member-of {rack},{row} --member-of {row}") == {child.uuid}
    assert listed(f"--aggregate-uuid {row}") == {child.uuid}
    any_of = openstack.run("resource provider list", f"{tree} --required {trait},{other_trait} -f json")
    if openstack.knows("1.39"):
        assert uuids(any_of.json) == {child.uuid}
    else:
        assert any_of.refused("requires at least version 1.39")


@pytest.mark.runs("resource provider list")
def test_a_filter_that_means_nothing_is_refused(openstack: OpenStack) -> None:
    openstack.tell("resource provider list")
    for filters, text in {
        "--uuid nonsense": "Invalid query string parameters: 'nonsense' is not a 'uuid'",
        "--resource VCPU": "Badly formed resources parameter",
        "--resource CUSTOM_NO_SUCH=1": "CUSTOM_NO_SUCH",
        "--required CUSTOM_NO_SUCH": "No such trait(s): CUSTOM_NO_SUCH",
        "--member-of nonsense": "Expected 'member_of' parameter to contain valid UUID(s).",
    }.items():
        assert openstack.run("resource provider list", filters).refused(text, "(HTTP 400)"), filters


@pytest.mark.runs("resource provider show")
def test_a_provider_shows_its_allocations(openstack: OpenStack, api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 4})
    consumer = api.claim((host, {"VCPU": 3}))
    shown = openstack.tell("resource provider show", f"{host.uuid} --allocations")
    held = {"resources": {"VCPU": 3}, **({"consumer_generation": 1} if openstack.knows("1.28") else {})}
    assert shown["allocations"] == {consumer: held}
    assert shown["generation"] == 2
    in_use = openstack.run("resource provider delete", host.uuid)
    assert in_use.refused(f"Unable to delete resource provider {host.uuid}", "(HTTP 409)")


@pytest.mark.runs("resource provider aggregate set", "resource provider aggregate list")
def test_aggregates_are_set_with_the_generation(openstack: OpenStack, api: Api) -> None:
    host, rack, row = api.create_provider(), fresh_uuid(), fresh_uuid()
    assert openstack.tell("resource provider aggregate list", host.uuid) == []
    both = f"{host.uuid} --aggregate {rack} --aggregate {row}"
    assert openstack.run("resource provider aggregate set", both).refused("A generation must be specified.")
    assert uuids(openstack.tell("resource provider aggregate set", f"{both} --generation 0")) == {rack, row}
    assert set(api.get(host.aggregates).aggregates) == {rack, row}
    stale = openstack.run("resource provider aggregate set", f"{host.uuid} --generation 0")
    assert stale.refused("Please update the generation and try again. (HTTP 409)")
    assert uuids(openstack.tell("resource provider aggregate list", host.uuid)) == {rack, row}
    assert openstack.tell("resource provider aggregate set", f"{host.uuid} --generation 1") == []
    odd = openstack.run("resource provider aggregate set", f"{host.uuid} --aggregate nonsense --generation 2")
    assert odd.refused("'nonsense' is not a 'uuid'", "(HTTP 400)")
    assert (api.get(host.aggregates).aggregates, api.generation(host)) == ([], 2)


@pytest.mark.runs("resource provider trait set", "resource provider trait list", "resource provider trait delete")
def test_traits_of_a_provider_are_replaced_and_cleared(openstack: OpenStack, api: Api) -> None:
    host, trait = api.create_provider(), api.create_trait()
    two = openstack.tell("resource provider trait set", f"{host.uuid} --trait {trait} --trait HW_CPU_X86_AVX")
    assert {row["name"] for row in two} == {trait, "HW_CPU_X86_AVX"}
    assert openstack.tell("resource provider trait set", f"{host.uuid} --trait {trait}") == [{"name": trait}]
    assert openstack.tell("resource provider trait list", host.uuid) == [{"name": trait}]
    assert (api.get(host.traits).traits, api.generation(host)) == ([trait], 2)
    unknown = openstack.run("resource provider trait set", f"{host.uuid} --trait CUSTOM_NO_SUCH")
    assert unknown.refused("No such trait", "CUSTOM_NO_SUCH", "(HTTP 400)")
    assert openstack.run("trait delete", trait).refused(
        f"The trait {trait} is in use by a resource provider. (HTTP 409)"
    )
    openstack.do("resource provider trait delete", host.uuid)
    assert api.get(host.traits).traits == []
    nowhere = fresh_uuid()
    for command in ("list", "set", "delete"):
        said = openstack.run(f"resource provider trait {command}", nowhere)
        assert said.refused(f"No resource provider with uuid {nowhere} found", "(HTTP 404)"), said


def test_a_provider_has_no_tree_before_1_14(old: OpenStack, api: Api) -> None:
    name, at_1_13 = fresh_name(), old.at("1.13")
    made = old.tell("resource provider create", name)
    uuid = made["uuid"]
    assert made == old.tell("resource provider show", uuid) == {"uuid": uuid, "name": name, "generation": 0}
    assert at_1_13.tell("resource provider list", f"--name {name}") == [made]
    assert old.tell("resource provider set", f"{uuid} --name {name}-new") == {**made, "name": f"{name}-new"}
    assert at_1_13.run("resource provider list", f"--in-tree {uuid}").refused("requires at least version 1.14")
    tree = {"root_provider_uuid": uuid, "parent_provider_uuid": None}
    assert old.at("1.14").tell("resource provider show", uuid) == {**made, "name": f"{name}-new", **tree}
    old.do("resource provider delete", uuid)
    assert api.get(f"/resource_providers/{uuid}").status == 404


def test_filters_of_the_list_come_with_their_microversions(old: OpenStack, api: Api) -> None:
    rack, row, trait = fresh_uuid(), fresh_uuid(), fresh_custom("LIST")
    api.put(f"/traits/{trait}").expect(201)
    host = api.create_provider(inventories={"VCPU": 4}, traits=[trait], aggregates=[rack])
    for filters, since in {
        f"--member-of {rack}": "1.3",
        f"--member-of {rack} --resource VCPU=4": "1.4",
        f"--member-of {rack} --required {trait}": "1.18",
    }.items():
        before = f"1.{int(since[2:]) - 1}"
        assert uuids(old.at(since).tell("resource provider list", filters)) == {host.uuid}, filters
        assert old.at(before).run("resource provider list", filters).refused(f"requires at least version {since}")
    forbidden = f"--member-of {rack} --forbidden {trait}"
    assert old.at("1.22").tell("resource provider list", forbidden) == []
    assert old.at("1.21").run("resource provider list", forbidden).refused("requires at least version 1.22")
    repeated = f"--member-of {rack} --member-of {row}"  # which the plugin lets pass
    assert old.at("1.24").tell("resource provider list", repeated) == []
    assert old.at("1.23").run("resource provider list", repeated).refused("(HTTP 400)")


def test_aggregates_are_a_plain_list_before_1_19(old: OpenStack, api: Api) -> None:
    host, rack = api.create_provider(), fresh_uuid()
    for version in ("1.1", "1.18"):
        assert old.at(version).tell("resource provider aggregate set", f"{host.uuid} --aggregate {rack}") == [
            {"uuid": rack}
        ]
        assert old.at(version).tell("resource provider aggregate list", host.uuid) == [{"uuid": rack}]
        assert old.at(version).tell("resource provider aggregate set", host.uuid) == []
    assert api.generation(host) == 0
    guarded = f"{host.uuid} --aggregate {rack} --generation 0"
    assert old.at("1.18").run("resource provider aggregate set", guarded).refused("requires at least version 1.19")
    assert old.at("1.19").tell("resource provider aggregate set", guarded) == [{"uuid": rack}]
    assert api.generation(host) == 1
    assert old.run("resource provider aggregate list", host.uuid).refused("requires at least version 1.1")
