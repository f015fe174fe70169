"""``openstack resource class …`` and ``openstack trait …``."""

import pytest

from tests.system.api.client import Api, fresh_custom
from tests.system.clients.clients import OpenStack

pytestmark = pytest.mark.timeout(900)  # the clients may have to be installed first


@pytest.mark.runs(
    "resource class create", "resource class list", "resource class show", "resource class set", "resource class delete"
)
def test_a_resource_class_comes_and_goes(openstack: OpenStack, api: Api) -> None:
    lamp, torch = fresh_custom("LAMP"), fresh_custom("TORCH")
    openstack.do("resource class create", lamp)
    openstack.do("resource class set", torch)
    openstack.do("resource class set", torch)  # it may be there
    assert openstack.tell("resource class show", lamp) == {"name": lamp}
    names = [row["name"] for row in openstack.tell("resource class list")]
    assert {lamp, torch, "VCPU"} <= set(names)
    assert names == [row["name"] for row in api.get("/resource_classes").resource_classes]
    twice = openstack.run("resource class create", lamp)
    assert twice.refused(f"Conflicting resource class already exists: {lamp}", "(HTTP 409)")
    for name in (lamp, torch):
        openstack.do("resource class delete", name)
        assert api.get(f"/resource_classes/{name}").status == 404
        for command in ("show", "delete"):
            said = openstack.run(f"resource class {command}", name)
            assert said.refused(f"No such resource class {name}", "(HTTP 404)"), said


@pytest.mark.runs("resource class set")
def test_standard_classes_and_those_in_use_stay(openstack: OpenStack, api: Api) -> None:
    lamp = api.create_class()
    api.create_provider(inventories={lamp: 1})
    assert openstack.run("resource class delete", lamp).refused("Class is in use in inventory", "(HTTP 409)")
    assert openstack.run("resource class delete", "VCPU").refused("Cannot delete standard resource class", "(HTTP 400)")
    for command in ("create", "set"):
        for name, text in {
            "VCPU": "'VCPU' does not match",
            "CUSTOM_" + "X" * 249: "Failed validating 'maxLength'",
        }.items():
            assert openstack.run(f"resource class {command}", name).refused(
                "JSON does not validate", text, "(HTTP 400)"
            )
    openstack.do("resource class set", lamp)


@pytest.mark.runs("trait create", "trait list", "trait show", "trait delete")
def test_a_trait_comes_and_goes(openstack: OpenStack, api: Api) -> None:
    magic, used = fresh_custom("MAGIC"), api.create_trait()
    api.create_provider(traits=[used])
    openstack.do("trait create", magic)
    openstack.do("trait create", magic)  # it may be there
    assert openstack.tell("trait show", magic) == {"name": magic}

    def listed(arguments: str) -> set[str]:
        return {row["name"] for row in openstack.tell("trait list", arguments)}

    assert {magic, used, "HW_CPU_X86_AVX"} <= listed("") == set(api.get("/traits").traits)
    assert listed(f"--name in:{magic},{used},CUSTOM_NO_SUCH") == {magic, used}
    assert listed(f"--name in:{magic},{used} --associated") == {used}
    assert listed(f"--name startswith:{magic}") == {magic}
    assert listed("--name startswith:CUSTOM_NO_SUCH") == set()
    openstack.do("trait delete", magic)
    assert api.get(f"/traits/{magic}").status == 404
    for command in ("show", "delete"):
        said = openstack.run(f"trait {command}", magic)
        assert said.refused(f"No such trait(s): {magic}.", "(HTTP 404)"), said


@pytest.mark.runs("trait list")
def test_standard_traits_stay_and_others_have_the_prefix(openstack: OpenStack) -> None:
    for name in ("MAGIC", "CUSTOM_magic", "CUSTOM_" + "X" * 249):
        said = openstack.run("trait create", name)
        assert said.refused("The trait is invalid. A valid trait must be no longer than 255", "(HTTP 400)"), said
    standard = openstack.run("trait delete", "HW_CPU_X86_AVX")
    assert standard.refused("Cannot delete standard trait", "HW_CPU_X86_AVX", "(HTTP 400)")
    assert openstack.run("trait list", "--name magic").refused("Badly formatted name parameter", "(HTTP 400)")
    assert {"name": "HW_CPU_X86_AVX"} in openstack.tell("trait list", "--name startswith:HW_")


def test_names_come_with_their_microversions(old: OpenStack, api: Api) -> None:
    lamp, magic = fresh_custom("LAMP"), fresh_custom("MAGIC")
    for version, command, arguments in (
        ("1.2", "resource class create", lamp),
        ("1.2", "resource class show", f"{lamp} -f json"),
        ("1.2", "resource class list", "-f json"),
        ("1.2", "resource class delete", lamp),
        ("1.7", "resource class set", lamp),
        ("1.6", "trait create", magic),
        ("1.6", "trait show", f"{magic} -f json"),
        ("1.6", "trait list", "-f json"),
        ("1.6", "trait delete", magic),
    ):
        before = f"1.{int(version[2:]) - 1}"
        refused = old.at(before).run(command, arguments)
        assert refused.refused(f"requires at least version {version}"), refused
        assert old.at(version).run(command, arguments).code == 0, command
    assert api.get(f"/resource_classes/{lamp}").status == 200
    assert api.get(f"/traits/{magic}").status == 404
