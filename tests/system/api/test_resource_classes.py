"""``/resource_classes`` and ``/resource_classes/{name}``."""

import os_resource_classes
import pytest

from tests.system.api.client import Api, fresh_custom

TOO_LONG = "CUSTOM_" + "L" * 249  # 256 characters


def names(api: Api) -> list[str]:
    return [shown["name"] for shown in api.get("/resource_classes").expect(200).resource_classes]


def test_the_standard_classes_come_first_in_the_library_s_order(api: Api) -> None:
    lamp = api.create_class()
    found = names(api)
    assert found[: len(os_resource_classes.STANDARDS)] == os_resource_classes.STANDARDS
    assert lamp in found


def test_a_class_is_its_name_and_a_link(api: Api) -> None:
    shown = {"name": "VCPU", "links": [{"rel": "self", "href": "/resource_classes/VCPU"}]}
    assert api.get("/resource_classes/VCPU").expect(200).json == shown
    assert shown in api.get("/resource_classes").resource_classes


@pytest.mark.parametrize("name", ["CUSTOM_NOBODY_MADE_THIS", "vcpu", "no%20such", "%C3%A9"])
def test_an_unknown_class_is_404(api: Api, name: str) -> None:
    assert api.get(f"/resource_classes/{name}").refused(404)
    assert api.delete(f"/resource_classes/{name}").refused(404)


class TestPost:
    def test_a_new_class_is_there(self, api: Api) -> None:
        name = fresh_custom()
        made = api.post("/resource_classes", name=name).expect(201)
        assert (made.body, made.header("content-type")) == (b"", None)
        assert (made.header("location") or "").endswith(f"/resource_classes/{name}")
        assert api.get(f"/resource_classes/{name}").name == name

    def test_an_existing_class_is_refused(self, api: Api) -> None:
        name = api.create_class()
        assert api.post("/resource_classes", name=name).refused(409, "Conflicting resource class already exists")

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({}, ["'name' is a required property"]),
            ({"name": "VCPU"}, ["'VCPU' does not match"]),
            ({"name": "CUSTOM_lamp"}, ["does not match"]),
            ({"name": "CUSTOM_"}, ["does not match"]),
            ({"name": "LAMP"}, ["does not match"]),
            ({"name": TOO_LONG}, ["Failed validating 'maxLength'"]),
            ({"name": 7}, ["7 is not of type 'string'"]),
            ({"name": "CUSTOM_LAMP_NEVER", "colour": "red"}, ["Additional properties are not allowed"]),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: dict[str, object], texts: list[str]) -> None:
        assert api.post("/resource_classes", body).refused(400, "JSON does not validate", *texts)


class TestPut:
    def test_a_class_is_made_once(self, api: Api) -> None:
        name = fresh_custom()
        for expected in (201, 204):
            answer = api.put(f"/resource_classes/{name}").expect(expected)
            assert (answer.body, answer.header("content-type")) == (b"", None)
            assert (answer.header("location") or "").endswith(f"/resource_classes/{name}")
        assert names(api).count(name) == 1

    def test_the_body_is_ignored(self, api: Api) -> None:
        name = fresh_custom()
        api.call("PUT", f"/resource_classes/{name}", raw=b"{", headers={"Content-Type": "text/plain"}).expect(201)

    @pytest.mark.parametrize("name", ["VCPU", "LAMP", "CUSTOM_", "CUSTOM_lamp", "CUSTOM_%20"])
    def test_a_name_that_is_not_custom_is_refused(self, api: Api, name: str) -> None:
        assert api.put(f"/resource_classes/{name}").refused(400, "Failed validating 'pattern'")

    def test_the_longest_name_has_255_characters(self, api: Api) -> None:
        longest = fresh_custom("L" * 235)
        assert len(longest) == 255
        api.put(f"/resource_classes/{longest}").expect(201)
        assert api.put(f"/resource_classes/{TOO_LONG}").refused(400, "Failed validating 'maxLength'")


class TestDelete:
    def test_a_deleted_class_is_gone_and_may_be_made_again(self, api: Api) -> None:
        name = api.create_class()
        api.delete(f"/resource_classes/{name}").expect(204)
        assert api.get(f"/resource_classes/{name}").refused(404)
        assert name not in names(api)
        api.put(f"/resource_classes/{name}").expect(201)

    def test_a_standard_class_stays(self, api: Api) -> None:
        assert api.delete("/resource_classes/VCPU").refused(
            400, "Error in delete resource class:", "Cannot delete standard resource class"
        )

    def test_a_class_with_inventory_stays(self, api: Api) -> None:
        name = api.create_class()
        host = api.create_provider(inventories={name: 1})
        assert api.delete(f"/resource_classes/{name}").refused(
            409, "Error in delete resource class", "Class is in use in inventory"
        )
        api.delete(host.inventories).expect(204)
        api.delete(f"/resource_classes/{name}").expect(204)

    def test_a_class_made_after_another_was_deleted_has_nothing_of_it(self, api: Api) -> None:
        gone, host = api.create_class(), api.create_provider()
        api.set_inventories(host, {gone: 5})
        api.set_inventories(host, {})
        api.delete(f"/resource_classes/{gone}").expect(204)
        new = api.create_class()
        api.set_inventories(host, {new: 6})
        assert set(api.get(host.inventories).inventories) == {new}
        assert api.get(host.inventory(gone)).status == 404
