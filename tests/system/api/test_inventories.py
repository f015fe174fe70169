"""``/resource_providers/{uuid}/inventories`` and ``…/inventories/{resource_class}``."""

from typing import Any

import pytest

from tests.system.api.client import CONCURRENT_UPDATE, INVENTORY_IN_USE, MAX_INT, Api, fresh_uuid

DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": MAX_INT, "step_size": 1, "allocation_ratio": 1.0}

# What the body of every inventory write refuses: a record, and what the refusal says.
MALFORMED_RECORDS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["'total' is a required property", "Failed validating 'required' in schema"]),
    *(
        (
            {"total": 1, field: 0},
            ["0 is less than the minimum of 1", "Failed validating 'minimum' in schema", f"'{field}'"],
        )
        for field in ("total", "min_unit", "max_unit", "step_size")
    ),
    ({"total": -1}, ["-1 is less than the minimum of 1"]),
    ({"total": 1, "reserved": -1}, ["-1 is less than the minimum of 0"]),
    *(
        ({"total": 1, field: MAX_INT + 1}, ["Failed validating 'maximum'", f"'{field}'"])
        for field in ("total", "reserved", "min_unit", "max_unit", "step_size")
    ),
    ({"total": 1, "allocation_ratio": 3.5e38}, ["Failed validating 'maximum'", "'allocation_ratio'"]),
    ({"total": "8"}, ["'8' is not of type 'integer'"]),
    ({"total": 10.5}, ["10.5 is not of type 'integer'"]),
    ({"total": True}, ["True is not of type 'integer'"]),
    ({"total": None}, ["None is not of type 'integer'"]),
    ({"total": 1, "allocation_ratio": "1.0"}, ["'1.0' is not of type 'number'"]),
    ({"total": 1, "colour": "red"}, ["Additional properties are not allowed", "'colour' was unexpected"]),
]


class TestList:
    def test_a_new_provider_has_none(self, api: Api) -> None:
        host = api.create_provider()
        assert api.get(host.inventories).json == {"resource_provider_generation": 0, "inventories": {}}

    def test_a_record_shows_all_six_fields(self, api: Api) -> None:
        record = {"total": 64, "reserved": 2, "min_unit": 2, "max_unit": 16, "step_size": 2, "allocation_ratio": 1.5}
        host = api.create_provider(inventories={"VCPU": record, "DISK_GB": 9})
        assert api.get(host.inventories).json == {
            "resource_provider_generation": 1,
            "inventories": {"VCPU": record, "DISK_GB": {"total": 9, **DEFAULTS}},
        }

    def test_the_ratio_is_a_float(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": {"total": 1, "allocation_ratio": 2}})
        shown = api.get(host.inventory("VCPU"))
        assert isinstance(shown.allocation_ratio, float)
        assert shown.allocation_ratio == 2.0


class TestAdd:
    def test_one_class_is_added_and_the_generation_rises(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        added = api.post(host.inventories, resource_class="DISK_GB", total=100, reserved=5).expect(201)
        assert added.json == {"resource_provider_generation": 2, "total": 100, **DEFAULTS, "reserved": 5}
        assert api.get(host.inventory("DISK_GB")).json == added.json
        assert set(api.get(host.inventories).inventories) == {"VCPU", "DISK_GB"}

    def test_the_location_is_that_of_the_new_inventory(self, api: Api) -> None:
        host = api.create_provider()
        location = api.post(host.inventories, resource_class="DISK_GB", total=1).header("location") or ""
        assert location.startswith("http://")
        assert location.endswith(host.inventory("DISK_GB"))

    def test_a_generation_in_the_body_is_ignored(self, api: Api) -> None:
        host = api.create_provider()
        assert api.post(host.inventories, resource_class="VCPU", total=1, generation=77).expect(201).generation == 1

    def test_a_class_is_added_only_once(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.post(host.inventories, resource_class="VCPU", total=2)
        assert refused.refused(409, "Update conflict", code=CONCURRENT_UPDATE)
        assert (api.get(host.inventory("VCPU")).total, api.generation(host)) == (1, 1)

    def test_an_unknown_class_is_refused(self, api: Api) -> None:
        host = api.create_provider()
        assert api.post(host.inventories, resource_class="CUSTOM_NOBODY_MADE_THIS", total=1).refused(
            400,
            f"Unable to create inventory for resource provider {host.uuid}:",
            "No such resource class CUSTOM_NOBODY_MADE_THIS",
        )
        assert api.generation(host) == 0

    @pytest.mark.parametrize("name", ["vcpu", "", "VC PU", "VCPU:1", "é"])
    def test_a_malformed_class_name_is_refused(self, api: Api, name: str) -> None:
        assert api.post(api.create_provider().inventories, resource_class=name, total=1).refused(400)

    @pytest.mark.parametrize(("record", "texts"), MALFORMED_RECORDS)
    def test_a_malformed_record_is_refused(self, api: Api, record: dict[str, Any], texts: list[str]) -> None:
        host = api.create_provider()
        refused = api.post(host.inventories, {"resource_class": "VCPU", **record})
        assert refused.refused(400, "JSON does not validate", *texts)
        assert api.get(host.inventories).json == {"resource_provider_generation": 0, "inventories": {}}

    def test_more_reserved_than_there_is_is_refused(self, api: Api) -> None:
        host = api.create_provider()
        refused = api.post(host.inventories, resource_class="VCPU", total=4, reserved=5)
        assert refused.refused(400, "Unable to create inventory for resource provider", "greater than total")

    def test_an_unknown_provider_is_404_before_the_body_is_read(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.post(f"/resource_providers/{uuid}/inventories", {"colour": "red"})
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")


class TestReplaceAll:
    def test_the_new_set_replaces_the_old(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1, "DISK_GB": 1})
        replaced = api.put(
            host.inventories, inventories={"VCPU": {"total": 7}, "MEMORY_MB": {"total": 512}}, generation=1
        ).expect(200)
        assert replaced.json == {
            "resource_provider_generation": 2,
            "inventories": {"VCPU": {"total": 7, **DEFAULTS}, "MEMORY_MB": {"total": 512, **DEFAULTS}},
        }
        assert api.get(host.inventories).json == replaced.json

    def test_the_generation_rises_even_when_nothing_changes(self, api: Api) -> None:
        host = api.create_provider()
        for expected in (1, 2):
            assert api.put(host.inventories, inventories={}, generation=expected - 1).generation == expected

    def test_omitted_fields_return_to_their_defaults(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": {"total": 8, "reserved": 2, "allocation_ratio": 4.0}})
        assert api.set_inventories(host, {"VCPU": 8}).inventories == {"VCPU": {"total": 8, **DEFAULTS}}

    def test_a_generation_inside_a_record_is_ignored(self, api: Api) -> None:
        host = api.create_provider()
        record = {"total": 1, "resource_provider_generation": 99}
        shown = api.put(host.inventories, inventories={"VCPU": record}, generation=0).expect(200)
        assert shown.inventories == {"VCPU": {"total": 1, **DEFAULTS}}

    @pytest.mark.parametrize("generation", [0, 2, -1, 2**63])
    def test_another_generation_is_refused(self, api: Api, generation: int) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.put(host.inventories, inventories={}, generation=generation)
        assert refused.refused(409, "resource provider generation conflict", code=CONCURRENT_UPDATE)
        assert set(api.get(host.inventories).inventories) == {"VCPU"}

    def test_an_unknown_class_is_refused(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.put(
            host.inventories, inventories={"VCPU": {"total": 2}, "CUSTOM_NOBODY_MADE_THIS": {"total": 1}}, generation=1
        )
        assert refused.refused(400, "Unknown resource class in inventory")
        assert (api.get(host.inventory("VCPU")).total, api.generation(host)) == (1, 1)

    @pytest.mark.parametrize("name", ["", "vcpu", "VC PU"])
    def test_a_malformed_class_name_is_refused(self, api: Api, name: str) -> None:
        host = api.create_provider()
        assert api.put(host.inventories, inventories={name: {"total": 1}}, generation=0).refused(400)

    @pytest.mark.parametrize(("record", "texts"), MALFORMED_RECORDS)
    def test_a_malformed_record_is_refused(self, api: Api, record: dict[str, Any], texts: list[str]) -> None:
        host = api.create_provider()
        refused = api.put(host.inventories, inventories={"VCPU": record}, generation=0)
        assert refused.refused(400, "JSON does not validate", *texts)
        assert api.get(host.inventories).json == {"resource_provider_generation": 0, "inventories": {}}

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({"inventories": {}}, ["'resource_provider_generation' is a required property"]),
            ({"resource_provider_generation": 0}, ["'inventories' is a required property"]),
            ({"resource_provider_generation": "0", "inventories": {}}, ["'0' is not of type 'integer'"]),
            ({"resource_provider_generation": None, "inventories": {}}, ["None is not of type 'integer'"]),
            ({"resource_provider_generation": 0, "inventories": []}, ["[] is not of type 'object'"]),
            ({"resource_provider_generation": 0, "inventories": {}, "colour": 1}, ["'colour' was unexpected"]),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: dict[str, Any], texts: list[str]) -> None:
        assert api.put(api.create_provider().inventories, body).refused(400, "JSON does not validate", *texts)

    def test_a_removed_class_must_not_be_in_use(self, api: Api) -> None:
        host = api.create_provider(inventories={"DISK_GB": 9, "MEMORY_MB": 9, "VCPU": 9})
        api.claim((host, {"DISK_GB": 1, "VCPU": 1}))
        generation = api.generation(host)
        assert api.put(host.inventories, inventories={"MEMORY_MB": {"total": 9}}, generation=generation).refused(
            409,
            f"\n update conflict: Inventory for 'VCPU, DISK_GB' on resource provider '{host.uuid}' in use.",
            code=INVENTORY_IN_USE,
        )
        assert set(api.get(host.inventories).inventories) == {"DISK_GB", "MEMORY_MB", "VCPU"}
        assert api.generation(host) == generation

    def test_an_inventory_may_shrink_below_what_is_used(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 9})
        api.claim((host, {"VCPU": 8}))
        api.set_inventories(host, {"VCPU": 2})
        assert (api.get(host.inventory("VCPU")).total, api.used(host)) == (2, {"VCPU": 8})

    @pytest.mark.parametrize(
        ("record", "expected"),
        [
            ({"total": 4, "reserved": 4}, 200),
            ({"total": 4, "reserved": 5}, 400),
            ({"total": 4, "reserved": 5, "allocation_ratio": 0.5}, 200),  # -0.5 is truncated to 0
            ({"total": 4, "allocation_ratio": 0.0}, 200),
            ({"total": 4, "allocation_ratio": -1.0}, 400),
        ],
    )
    def test_reserved_may_be_all_but_not_more(self, api: Api, record: dict[str, Any], expected: int) -> None:
        host = api.create_provider()
        answer = api.put(host.inventories, inventories={"VCPU": record}, generation=0)
        assert answer.status == expected
        if expected == 400:
            assert answer.refused(
                400,
                f"Unable to update inventory for resource provider {host.uuid}",
                "The reserved value is greater than total.",
            )

    def test_refusals_have_an_order(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 9})
        api.claim((host, {"VCPU": 1}))
        excess, unknown = {"DISK_GB": {"total": 1, "reserved": 2}}, {"CUSTOM_NOBODY_MADE_THIS": {"total": 1}}

        def put(inventories: dict[str, Any], generation: int) -> Any:
            return api.put(host.inventories, inventories=inventories, generation=generation)

        assert put({**unknown, **excess}, 7).refused(409, "generation conflict", code=CONCURRENT_UPDATE)
        assert put({**unknown, **excess}, 2).refused(400, "greater than total")
        assert put(unknown, 2).refused(400, "Unknown resource class in inventory")
        assert put({}, 2).refused(409, "in use", code=INVENTORY_IN_USE)

    def test_an_unknown_provider_is_404_before_the_body_is_read(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.put(f"/resource_providers/{uuid}/inventories", {"colour": "red"})
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")


class TestDeleteAll:
    @pytest.mark.parametrize("inventories", [{"VCPU": 1, "DISK_GB": 2}, {}], ids=["some", "none"])
    def test_all_are_gone_and_the_generation_rises(self, api: Api, inventories: dict[str, int]) -> None:
        host = api.create_provider(inventories=inventories)
        before = api.generation(host)
        api.delete(host.inventories).expect(204)
        assert api.get(host.inventories).json == {"resource_provider_generation": before + 1, "inventories": {}}

    def test_what_is_in_use_is_named_in_the_order_of_the_classes(self, api: Api) -> None:
        host = api.create_provider(inventories={"DISK_GB": 9, "MEMORY_MB": 9, "VCPU": 9})
        api.claim((host, {"DISK_GB": 1, "VCPU": 1}))
        assert api.delete(host.inventories).refused(
            409, f"\n Inventory for 'VCPU, DISK_GB' on resource provider '{host.uuid}' in use.", code=INVENTORY_IN_USE
        )
        assert len(api.get(host.inventories).inventories) == 3

    def test_an_unknown_provider_is_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        assert api.delete(f"/resource_providers/{uuid}/inventories").refused(
            404, f"No resource provider with uuid {uuid} found"
        )


class TestShowOne:
    @pytest.mark.parametrize("name", ["DISK_GB", "CUSTOM_NOBODY_MADE_THIS", "vcpu", "%00", "no%20such%20class"])
    def test_a_missing_inventory_is_404(self, api: Api, name: str) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        assert api.get(host.inventory(name)).refused(404, "No inventory of class ", f" for {host.uuid}")

    @pytest.mark.parametrize("name", ["DISK_GB", "CUSTOM_NOBODY_MADE_THIS"])
    def test_the_class_that_is_missing_is_named(self, api: Api, name: str) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        assert api.get(host.inventory(name)).refused(404, f"No inventory of class {name} for {host.uuid}")

    def test_an_unknown_provider_is_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.get(f"/resource_providers/{uuid}/inventories/VCPU")
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")


class TestUpdateOne:
    def test_one_class_changes_and_the_others_stay(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": {"total": 1, "allocation_ratio": 9.0}, "DISK_GB": 1})
        updated = api.put(host.inventory("VCPU"), total=7, generation=1).expect(200)
        assert updated.json == {"resource_provider_generation": 2, "total": 7, **DEFAULTS}
        assert api.get(host.inventory("VCPU")).json == updated.json
        assert api.get(host.inventory("DISK_GB")).total == 1

    def test_another_generation_is_refused(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.put(host.inventory("VCPU"), total=7, generation=0)
        assert refused.refused(409, "resource provider generation conflict", code=CONCURRENT_UPDATE)
        assert api.get(host.inventory("VCPU")).total == 1

    def test_it_does_not_create(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.put(host.inventory("DISK_GB"), total=7, generation=1)
        assert refused.refused(400, "No inventory record with resource class")
        assert set(api.get(host.inventories).inventories) == {"VCPU"}

    @pytest.mark.parametrize("name", ["CUSTOM_NOBODY_MADE_THIS", "vcpu"])
    def test_an_unknown_class_is_404(self, api: Api, name: str) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        refused = api.put(host.inventory(name), total=7, generation=1)
        assert refused.refused(404, f"No such resource class {name}")

    def test_the_reserve_is_checked_before_the_inventory_is_looked_for(self, api: Api) -> None:
        host = api.create_provider()
        refused = api.put(host.inventory("DISK_GB"), total=1, reserved=2, generation=0)
        assert refused.refused(
            400, f"Unable to update inventory for resource provider {host.uuid}", "greater than total"
        )

    def test_an_inventory_may_shrink_below_what_is_used(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 9})
        api.claim((host, {"VCPU": 8}))
        api.put(host.inventory("VCPU"), total=2, generation=2).expect(200)
        assert api.used(host) == {"VCPU": 8}

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({"total": 1}, ["'resource_provider_generation' is a required property"]),
            ({"resource_provider_generation": 1}, ["'total' is a required property"]),
            ({"total": 1, "resource_provider_generation": 1, "resource_class": "VCPU"}, ["was unexpected"]),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: dict[str, Any], texts: list[str]) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        assert api.put(host.inventory("VCPU"), body).refused(400, "JSON does not validate", *texts)

    @pytest.mark.parametrize(("record", "texts"), MALFORMED_RECORDS)
    def test_a_malformed_record_is_refused(self, api: Api, record: dict[str, Any], texts: list[str]) -> None:
        host = api.create_provider(inventories={"VCPU": 3})
        refused = api.put(host.inventory("VCPU"), {"resource_provider_generation": 1, **record})
        assert refused.refused(400, "JSON does not validate", *texts)
        assert (api.get(host.inventory("VCPU")).total, api.generation(host)) == (3, 1)


class TestDeleteOne:
    def test_one_class_goes_and_the_generation_rises(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1, "DISK_GB": 1})
        api.delete(host.inventory("VCPU")).expect(204)
        shown = api.get(host.inventories)
        assert (set(shown.inventories), shown.generation) == ({"DISK_GB"}, 2)

    def test_what_is_in_use_stays(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 9})
        api.claim((host, {"VCPU": 1}))
        assert api.delete(host.inventory("VCPU")).refused(
            409,
            "Unable to delete inventory of class VCPU:",
            f"Inventory for 'VCPU' on resource provider '{host.uuid}' in use",
            code=CONCURRENT_UPDATE,
        )
        assert (api.get(host.inventory("VCPU")).total, api.generation(host)) == (9, 2)

    @pytest.mark.parametrize("name", ["DISK_GB", "CUSTOM_NOBODY_MADE_THIS"])
    def test_a_missing_inventory_is_404(self, api: Api, name: str) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        assert api.delete(host.inventory(name)).refused(404, f"No inventory of class {name} found for delete")
        assert api.generation(host) == 1

    def test_an_unknown_provider_is_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.delete(f"/resource_providers/{uuid}/inventories/VCPU")
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")
