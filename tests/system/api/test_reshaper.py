"""``POST /reshaper``: inventories and allocations move between providers in one step."""

from dataclasses import replace
from typing import Any

import pytest

from tests.system.api.client import CONCURRENT_UPDATE, INVENTORY_IN_USE, Api, Provider, fresh_uuid, holding

UNKNOWN = "d0d0d0d0-0000-4000-8000-00000000dead"


def has(generation: int, **totals: int) -> dict[str, Any]:
    """What ``inventories`` says of one provider: the generation that was read, and the new totals."""
    return {
        "resource_provider_generation": generation,
        "inventories": {name: {"total": total} for name, total in totals.items()},
    }


@pytest.fixture
def host(api: Api) -> Provider:
    """A host at generation 1."""
    return api.create_provider(inventories={"VCPU": 8, "DISK_GB": 100})


@pytest.fixture
def gpu(api: Api, host: Provider) -> Provider:
    """An empty child of the host, at generation 0."""
    return api.create_provider(parent=host)


class TestMoving:
    def test_inventory_and_its_consumers_move_to_a_new_child(self, api: Api, host: Provider, gpu: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2, "DISK_GB": 10}))
        api.post(
            "/reshaper",
            inventories={host.uuid: has(2, DISK_GB=100), gpu.uuid: has(0, VCPU=8)},
            allocations={consumer: holding((host, {"DISK_GB": 10}), (gpu, {"VCPU": 2}), generation=1)},
        ).expect(204)
        assert api.held(consumer) == {host.uuid: {"DISK_GB": 10}, gpu.uuid: {"VCPU": 2}}
        assert (api.used(host), api.used(gpu)) == ({"DISK_GB": 10}, {"VCPU": 2})

    def test_without_allocations_only_inventories_change(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        api.post("/reshaper", inventories={host.uuid: has(2, VCPU=4)}, allocations={}).expect(204)
        assert {name: of["total"] for name, of in api.get(host.inventories).inventories.items()} == {"VCPU": 4}
        assert api.held(consumer) == {host.uuid: {"VCPU": 2}}

    def test_what_is_allocated_is_released_with_the_inventory_it_was_in(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        api.post("/reshaper", inventories={host.uuid: has(2)}, allocations={consumer: holding(generation=1)}).expect(
            204
        )
        assert api.get(f"/allocations/{consumer}").json == {"allocations": {}}
        assert api.get(host.inventories).inventories == {}

    def test_new_consumers_may_be_made(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        api.post(
            "/reshaper",
            inventories={host.uuid: has(1, VCPU=20)},
            allocations={consumer: holding((host, {"VCPU": 20}), mappings={"": [host.uuid]})},
        ).expect(204)
        assert api.held(consumer) == {host.uuid: {"VCPU": 20}}

    def test_allocations_are_checked_against_the_union_of_old_and_new(self, api: Api, host: Provider) -> None:
        """The new values win: 8 became 20 before the claim is checked."""
        body = {"inventories": {host.uuid: has(1, VCPU=20)}, "allocations": {UNKNOWN: holding((host, {"VCPU": 21}))}}
        assert api.post("/reshaper", body).refused(409, "Unable to allocate inventory")

    def test_the_reserve_is_not_checked(self, api: Api, host: Provider) -> None:
        inventories = {host.uuid: has(1, VCPU=4)}
        inventories[host.uuid]["inventories"]["VCPU"]["reserved"] = 5
        api.post("/reshaper", inventories=inventories, allocations={}).expect(204)
        assert api.get(host.inventory("VCPU")).reserved == 5

    def test_a_kept_class_may_become_over_committed(self, api: Api, host: Provider) -> None:
        api.claim((host, {"VCPU": 8}))
        api.post("/reshaper", inventories={host.uuid: has(2, VCPU=2)}, allocations={}).expect(204)
        assert (api.used(host), api.get(host.inventory("VCPU")).total) == ({"VCPU": 8}, 2)


class TestGenerations:
    """+1 for a non-empty new inventory, +1 for a place in the new allocations, +1 always."""

    def test_new_inventory_and_allocations_give_3(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        api.post(
            "/reshaper",
            inventories={host.uuid: has(2, VCPU=9)},
            allocations={consumer: holding((host, {"VCPU": 1}), generation=1)},
        ).expect(204)
        assert (api.generation(host), api.get(f"/allocations/{consumer}").consumer_generation) == (5, 2)

    def test_new_inventory_alone_gives_2(self, api: Api, host: Provider) -> None:
        api.post("/reshaper", inventories={host.uuid: has(1, VCPU=9)}, allocations={}).expect(204)
        assert api.generation(host) == 3

    def test_empty_inventory_alone_gives_1(self, api: Api, host: Provider) -> None:
        api.post("/reshaper", inventories={host.uuid: has(1)}, allocations={}).expect(204)
        assert api.generation(host) == 2

    def test_empty_inventory_that_a_consumer_gave_up_gives_2(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        api.post("/reshaper", inventories={host.uuid: has(2)}, allocations={consumer: holding(generation=1)}).expect(
            204
        )
        assert api.generation(host) == 4

    def test_allocations_alone_give_1(self, api: Api, host: Provider, gpu: Provider) -> None:
        consumer = fresh_uuid()
        api.post(
            "/reshaper",
            inventories={gpu.uuid: has(0, PGPU=1)},
            allocations={consumer: holding((host, {"VCPU": 1}))},
        ).expect(204)
        assert (api.generation(host), api.generation(gpu)) == (2, 2)

    def test_a_provider_that_a_consumer_leaves_gets_no_more_for_it(
        self, api: Api, host: Provider, gpu: Provider
    ) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        api.post(
            "/reshaper",
            inventories={host.uuid: has(2, DISK_GB=100), gpu.uuid: has(0, VCPU=8)},
            allocations={consumer: holding((gpu, {"VCPU": 1}), generation=1)},
        ).expect(204)
        assert (api.generation(host), api.generation(gpu)) == (4, 3)


class TestRefusals:
    @pytest.fixture
    def consumer(self, api: Api, host: Provider) -> str:
        return api.claim((host, {"VCPU": 2}), project="p", user="u")

    @pytest.fixture
    def good(self, host: Provider, gpu: Provider, consumer: str) -> dict[str, Any]:
        """A body that would be accepted."""
        return {
            "inventories": {host.uuid: has(2, DISK_GB=100), gpu.uuid: has(0, VCPU=8)},
            "allocations": {consumer: holding((gpu, {"VCPU": 2}), generation=1, project="p2")},
        }

    @pytest.fixture(autouse=True)
    def nothing_is_written(self, api: Api, host: Provider, gpu: Provider, consumer: str) -> Any:
        paths = [host.path, host.inventories, gpu.path, gpu.inventories, f"/allocations/{consumer}"]
        before = [api.get(path).json for path in paths]
        yield
        assert [api.get(path).json for path in paths] == before

    def test_an_unknown_provider_in_inventories(self, api: Api, good: Any) -> None:
        good["inventories"][UNKNOWN] = has(0, VCPU=1)
        assert api.post("/reshaper", good).refused(400, code="placement.resource_provider.not_found")

    @pytest.mark.parametrize("given", [0, 1, 3])
    def test_another_provider_generation(self, api: Api, good: Any, host: Provider, given: int) -> None:
        good["inventories"][host.uuid] = has(given, DISK_GB=100)
        assert api.post("/reshaper", good).refused(
            409, "resource provider generation conflict", f"actual: 2, given: {given}", code=CONCURRENT_UPDATE
        )

    @pytest.mark.parametrize(("given", "text"), [(None, "expected 1 but got None"), (2, "expected 1 but got 2")])
    def test_another_consumer_generation(
        self, api: Api, good: Any, consumer: str, given: int | None, text: str
    ) -> None:
        good["allocations"][consumer]["consumer_generation"] = given
        refused = api.post("/reshaper", good)
        assert refused.refused(409, f"consumer generation conflict - {text}", code=CONCURRENT_UPDATE)

    def test_an_unknown_provider_in_allocations(self, api: Api, good: Any, consumer: str) -> None:
        good["allocations"][consumer]["allocations"] = {UNKNOWN: {"resources": {"VCPU": 2}}}
        assert api.post("/reshaper", good).refused(400, "that does not exist")

    def test_an_unknown_class_in_inventories(self, api: Api, good: Any, gpu: Provider) -> None:
        good["inventories"][gpu.uuid] = has(0, VCPU=8, CUSTOM_NOBODY_MADE_THIS=1)
        assert api.post("/reshaper", good).refused(400, "No such resource class CUSTOM_NOBODY_MADE_THIS")

    def test_an_unknown_class_in_allocations(self, api: Api, good: Any, gpu: Provider, consumer: str) -> None:
        good["allocations"][consumer]["allocations"][gpu.uuid]["resources"] = {"CUSTOM_NOBODY_MADE_THIS": 1}
        assert api.post("/reshaper", good).refused(400, "No such resource class CUSTOM_NOBODY_MADE_THIS")

    def test_a_removed_class_still_in_use(self, api: Api, good: Any) -> None:
        good["allocations"] = {}
        assert api.post("/reshaper", good).refused(
            409, "update conflict:", "Inventory for 'VCPU'", "in use", code=INVENTORY_IN_USE
        )

    def test_allocations_that_do_not_fit(self, api: Api, good: Any, gpu: Provider, consumer: str) -> None:
        good["allocations"][consumer]["allocations"][gpu.uuid]["resources"] = {"VCPU": 9}
        assert api.post("/reshaper", good).refused(409, "Unable to allocate inventory")

    def test_allocations_without_inventory(self, api: Api, good: Any, gpu: Provider, consumer: str) -> None:
        good["allocations"][consumer]["allocations"][gpu.uuid]["resources"] = {"PGPU": 1}
        assert api.post("/reshaper", good).refused(409, "Unable to allocate inventory", "Inventory for 'PGPU'")

    def test_provider_faults_are_spoken_of_before_consumer_faults(
        self, api: Api, good: Any, gpu: Provider, consumer: str
    ) -> None:
        good["inventories"][gpu.uuid] = has(4, VCPU=8)
        good["allocations"][consumer]["consumer_generation"] = 9
        assert api.post("/reshaper", good).refused(409, "resource provider generation", code=CONCURRENT_UPDATE)

    @pytest.mark.parametrize(
        ("change", "texts"),
        [
            ({"inventories": ...}, ["'inventories' is a required property"]),
            ({"allocations": ...}, ["'allocations' is a required property"]),
            ({"colour": "red"}, ["'colour' was unexpected"]),
            ({"inventories": {}}, ["should be non-empty"]),
            ({"inventories": {"not-a-uuid": has(0)}}, ["does not match any of the regexes"]),
            ({"inventories": {UNKNOWN: {}}}, ["is a required property"]),
            ({"inventories": {UNKNOWN: has(0, VCPU=0)}}, ["0 is less than the minimum of 1"]),
            ({"allocations": {"not-a-uuid": holding()}}, ["does not match any of the regexes"]),
            ({"allocations": {UNKNOWN: {**holding(), "consumer_type": "instance"}}}, ["does not match"]),
            ({"allocations": {UNKNOWN: {"allocations": {}}}}, ["is a required property"]),
            ({"allocations": []}, ["[] is not of type 'object'"]),
        ],
    )
    def test_a_malformed_body(self, api: Api, good: Any, change: Any, texts: list[str]) -> None:
        body = {key: value for key, value in {**good, **change}.items() if value is not ...}
        assert api.post("/reshaper", body).refused(400, "JSON does not validate", *texts)

    def test_a_missing_consumer_type(self, api: Api, good: Any, consumer: str) -> None:
        del good["allocations"][consumer]["consumer_type"]
        assert api.post("/reshaper", good).refused(400, "'consumer_type' is a required")

    def test_a_caller_without_the_service_role_is_refused_before_the_body_is_read(self, api: Api) -> None:
        admin = replace(api, roles="admin")
        assert admin.call("POST", "/reshaper", raw=b"", headers={"Content-Type": "application/json"}).refused(403)
        assert admin.post("/reshaper", {"colour": "red"}).refused(403)
