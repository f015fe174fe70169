"""``/allocations``, ``/allocations/{consumer_uuid}`` and ``/resource_providers/{uuid}/allocations``.

What fits is the subject of test_capacity.py.
"""

from typing import Any

import pytest

from tests.system.api.client import CONCURRENT_UPDATE, Api, Provider, fresh_uuid, holding


@pytest.fixture
def host(api: Api) -> Provider:
    return api.create_provider(inventories={"VCPU": 16, "DISK_GB": 100})


@pytest.fixture
def other(api: Api) -> Provider:
    return api.create_provider(inventories={"VCPU": 16})


NOBODY: dict[str, Any] = {"allocations": {}}
UNKNOWN = "d0d0d0d0-0000-4000-8000-00000000dead"


class TestShow:
    def test_a_consumer_is_shown_with_its_holdings(self, api: Api, host: Provider, other: Provider) -> None:
        consumer = api.claim(
            (host, {"VCPU": 2, "DISK_GB": 10}), (other, {"VCPU": 1}), project="p", user="u", consumer_type="INSTANCE"
        )
        assert api.get(f"/allocations/{consumer}").json == {
            "allocations": {
                host.uuid: {"generation": 2, "resources": {"VCPU": 2, "DISK_GB": 10}},
                other.uuid: {"generation": 2, "resources": {"VCPU": 1}},
            },
            "consumer_generation": 1,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
        }

    @pytest.mark.parametrize("consumer", [UNKNOWN, "nonsense", "no%20uuid"])
    def test_an_unknown_consumer_holds_nothing(self, api: Api, consumer: str) -> None:
        assert api.get(f"/allocations/{consumer}").expect(200).json == NOBODY

    def test_a_provider_shows_its_consumers(self, api: Api, host: Provider) -> None:
        first = api.claim((host, {"VCPU": 2, "DISK_GB": 10}))
        second = api.claim((host, {"VCPU": 1}))
        assert api.get(host.allocations).json == {
            "resource_provider_generation": 3,
            "allocations": {
                first: {"resources": {"VCPU": 2, "DISK_GB": 10}, "consumer_generation": 1},
                second: {"resources": {"VCPU": 1}, "consumer_generation": 1},
            },
        }

    def test_a_provider_without_consumers_shows_none(self, api: Api, host: Provider) -> None:
        assert api.get(host.allocations).json == {"resource_provider_generation": 1, "allocations": {}}

    def test_the_allocations_of_an_unknown_provider_are_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.get(f"/resource_providers/{uuid}/allocations")
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")

    def test_what_is_shown_may_be_sent_back(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        shown = api.get(f"/allocations/{consumer}").json
        api.put(f"/allocations/{consumer}", shown).expect(204)
        assert api.held(consumer) == {host.uuid: {"VCPU": 2}}


class TestReplace:
    def test_the_new_set_replaces_the_old(self, api: Api, host: Provider, other: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2, "DISK_GB": 10}))
        api.put(f"/allocations/{consumer}", holding((other, {"VCPU": 3}), generation=1)).expect(204)
        assert api.held(consumer) == {other.uuid: {"VCPU": 3}}
        assert api.used(host) == {"VCPU": 0, "DISK_GB": 0}

    def test_nothing_releases_everything_and_the_consumer_is_new_again(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        api.put(f"/allocations/{consumer}", holding(generation=1)).expect(204)
        assert api.get(f"/allocations/{consumer}").json == NOBODY
        assert api.used(host)["VCPU"] == 0
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 2}), generation=None)).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_generation == 1

    def test_project_user_and_type_become_those_of_the_request(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        body = holding((host, {"VCPU": 2}), generation=1, project="p2", user="u2", consumer_type="MIGRATION")
        api.put(f"/allocations/{consumer}", body).expect(204)
        shown = api.get(f"/allocations/{consumer}")
        assert (shown.project_id, shown.user_id, shown.consumer_type) == ("p2", "u2", "MIGRATION")

    def test_a_consumer_without_type_is_shown_as_unknown_until_it_gets_one(self, api: Api, host: Provider) -> None:
        consumer, body = fresh_uuid(), holding((host, {"VCPU": 2}))
        untyped = {key: value for key, value in body.items() if key != "consumer_type"}
        api.at("1.37").put(f"/allocations/{consumer}", untyped).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_type == "unknown"
        api.put(f"/allocations/{consumer}", {**body, "consumer_generation": 1}).expect(204)
        api.at("1.37").put(f"/allocations/{consumer}", {**untyped, "consumer_generation": 2}).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_type == "INSTANCE"

    @pytest.mark.parametrize("given", [0, 999, -1])
    def test_a_generation_beside_the_resources_is_ignored(self, api: Api, host: Provider, given: int) -> None:
        consumer, body = fresh_uuid(), holding((host, {"VCPU": 2}))
        body["allocations"][host.uuid]["generation"] = given
        api.put(f"/allocations/{consumer}", body).expect(204)
        api.post("/allocations", {consumer: {**body, "consumer_generation": 1}}).expect(204)
        assert api.get(f"/allocations/{consumer}").allocations[host.uuid]["generation"] == 3

    @pytest.mark.parametrize("spell", [str.upper, lambda uuid: uuid.replace("-", "")], ids=["upper", "hex"])
    def test_any_spelling_of_the_consumer_names_the_same_one(self, api: Api, host: Provider, spell: Any) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        api.put(f"/allocations/{spell(consumer)}", holding((host, {"VCPU": 3}), generation=1)).expect(204)
        assert api.held(consumer) == {host.uuid: {"VCPU": 3}}
        assert api.get(f"/allocations/{spell(consumer)}").json == NOBODY
        assert api.delete(f"/allocations/{spell(consumer)}").refused(404)

    def test_a_consumer_that_is_no_uuid_is_refused(self, api: Api, host: Provider) -> None:
        refused = api.put("/allocations/nonsense", holding((host, {"VCPU": 1})))
        assert refused.refused(400, "Malformed consumer_uuid")

    @pytest.mark.parametrize(
        "mappings", [{"": [UNKNOWN]}, {"": []}, {"_a": [UNKNOWN, UNKNOWN]}, {"é": [UNKNOWN]}, {"é": "unchecked"}]
    )
    def test_mappings_are_accepted_and_ignored(self, api: Api, host: Provider, mappings: Any) -> None:
        consumer = api.claim((host, {"VCPU": 1}), mappings=mappings)
        assert "mappings" not in api.get(f"/allocations/{consumer}").json

    def test_a_whole_number_written_as_a_float_is_an_amount(self, api: Api, host: Provider) -> None:
        assert api.held(api.claim((host, {"VCPU": 2.0}))) == {host.uuid: {"VCPU": 2}}


class TestGenerations:
    def test_each_named_provider_rises_once(self, api: Api, host: Provider, other: Provider) -> None:
        api.claim((host, {"VCPU": 1, "DISK_GB": 1}), (other, {"VCPU": 1}))
        assert (api.generation(host), api.generation(other)) == (2, 2)

    def test_a_provider_that_is_left_stays(self, api: Api, host: Provider, other: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        api.put(f"/allocations/{consumer}", holding((other, {"VCPU": 1}), generation=1)).expect(204)
        assert (api.generation(host), api.generation(other)) == (2, 2)

    def test_what_a_releasing_put_held_rises(self, api: Api, host: Provider, other: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}), (other, {"VCPU": 1}))
        api.put(f"/allocations/{consumer}", holding(generation=1)).expect(204)
        assert (api.generation(host), api.generation(other)) == (3, 3)

    def test_a_delete_raises_nothing(self, api: Api, host: Provider) -> None:
        api.delete(f"/allocations/{api.claim((host, {'VCPU': 1}))}").expect(204)
        assert api.generation(host) == 2

    def test_a_post_raises_each_provider_once(self, api: Api, host: Provider, other: Provider) -> None:
        body = {fresh_uuid(): holding((host, {"VCPU": 1}), (other, {"VCPU": 1})) for _ in range(3)}
        api.post("/allocations", body).expect(204)
        assert (api.generation(host), api.generation(other)) == (2, 2)

    def test_a_post_that_moves_and_releases_raises_what_the_table_says(
        self, api: Api, host: Provider, other: Provider
    ) -> None:
        moving, leaving = api.claim((host, {"VCPU": 1})), api.claim((host, {"DISK_GB": 1}))
        assert api.generation(host) == 3
        body = {moving: holding((other, {"VCPU": 1}), generation=1), leaving: holding(generation=1)}
        api.post("/allocations", body).expect(204)
        assert (api.generation(host), api.generation(other)) == (4, 2)

    def test_a_consumer_rises_with_each_write(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        for generation in range(1, 4):
            api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), generation=generation)).expect(204)
            assert api.get(f"/allocations/{consumer}").consumer_generation == generation + 1

    def test_a_write_without_a_generation_raises_the_consumer_too(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        old = {"allocations": {host.uuid: {"resources": {"VCPU": 2}}}, "project_id": "p", "user_id": "u"}
        api.at("1.27").put(f"/allocations/{consumer}", old).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_generation == 2

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (None, "consumer generation conflict - expected 1 but got None"),
            (3, "consumer generation conflict - expected 1 but got 3"),
            (0, "consumer generation conflict - expected 1 but got 0"),
            (-1, "consumer generation conflict - expected 1 but got -1"),
        ],
    )
    def test_another_generation_of_the_consumer_is_refused(
        self, api: Api, host: Provider, given: int | None, text: str
    ) -> None:
        consumer = api.claim((host, {"VCPU": 1}))
        refused = api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 5}), generation=given))
        assert refused.refused(409, text, code=CONCURRENT_UPDATE)
        assert (api.held(consumer), api.generation(host)) == ({host.uuid: {"VCPU": 1}}, 2)

    def test_a_new_consumer_has_no_generation(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        refused = api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), generation=5))
        assert refused.refused(409, "consumer generation conflict - expected null but got 5", code=CONCURRENT_UPDATE)
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}))).expect(204)

    def test_of_nothing_to_nothing_nothing_rises(self, api: Api) -> None:
        consumer = fresh_uuid()
        api.put(f"/allocations/{consumer}", holding()).expect(204)
        assert api.get(f"/allocations/{consumer}").json == NOBODY

    @pytest.mark.differs("it keeps the row of the consumer")
    def test_after_nothing_was_written_the_consumer_is_still_new(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        api.put(f"/allocations/{consumer}", holding()).expect(204)
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), generation=None)).expect(204)


class TestRefusals:
    def test_an_unknown_provider_is_refused(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((uuid, {"VCPU": 1})))
        assert refused.refused(400, f"Allocation for resource provider '{uuid}' that does not exist")

    def test_an_unknown_class_is_refused(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        refused = api.put(f"/allocations/{consumer}", holding((host, {"CUSTOM_NOBODY_MADE_THIS": 1})))
        assert refused.refused(
            400,
            "Unable to allocate inventory for consumer",
            "No such resource class CUSTOM_NOBODY_MADE_THIS",
        )

    @pytest.mark.parametrize(
        ("amounts", "status"), [({"VCPU": 17}, 409), ({"PCI_DEVICE": 1}, 409), ({"CUSTOM_NOBODY_MADE_THIS": 1}, 400)]
    )
    def test_a_failed_first_claim_leaves_no_consumer(
        self, api: Api, host: Provider, amounts: dict[str, int], status: int
    ) -> None:
        consumer = fresh_uuid()
        api.put(f"/allocations/{consumer}", holding((host, amounts))).expect(status)
        assert api.get(f"/allocations/{consumer}").json == NOBODY
        assert (api.used(host)["VCPU"], api.generation(host)) == (0, 1)
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), generation=None)).expect(204)

    @pytest.mark.differs("it keeps the row of the consumer")
    def test_a_claim_on_an_unknown_provider_leaves_no_consumer(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        api.put(f"/allocations/{consumer}", holding((fresh_uuid(), {"VCPU": 1}))).expect(400)
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}), generation=None)).expect(204)

    def test_a_failed_change_leaves_project_and_holdings(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}), project="p", user="u")
        before = api.get(f"/allocations/{consumer}").json
        body = holding((host, {"VCPU": 99}), generation=1, project="p2", user="u2", consumer_type="OTHER")
        api.put(f"/allocations/{consumer}", body).expect(409)
        assert api.get(f"/allocations/{consumer}").json == before

    RP = "4f1d5f5e-7a3c-4c57-9a52-7e0b7f4b9e21"
    GOOD = holding((RP, {"VCPU": 1}))

    @pytest.mark.parametrize(
        ("change", "texts"),
        [
            *(({key: ...}, [f"'{key}' is a required property"]) for key in GOOD),
            ({"colour": "red"}, ["Additional properties are not allowed", "'colour' was unexpected"]),
            ({"allocations": [{"resource_provider": {"uuid": RP}, "resources": {"VCPU": 1}}]}, []),
            ({"allocations": {"not-a-uuid": {"resources": {"VCPU": 1}}}}, ["does not match any of the regexes"]),
            ({"allocations": {RP.replace("-", ""): {"resources": {"VCPU": 1}}}}, ["does not match any of the regexes"]),
            ({"allocations": {RP: {}}}, ["'resources' is a required property"]),
            ({"allocations": {RP: {"resources": {}}}}, ["should be non-empty"]),
            ({"allocations": {RP: {"resources": {"vcpu": 1}}}}, ["does not match any of the regexes"]),
            ({"allocations": {RP: {"resources": {"VCPU": 0}}}}, ["0 is less than the minimum of 1"]),
            ({"allocations": {RP: {"resources": {"VCPU": -1}}}}, ["-1 is less than the minimum of 1"]),
            ({"allocations": {RP: {"resources": {"VCPU": "1"}}}}, ["'1' is not of type 'integer'"]),
            ({"allocations": {RP: {"resources": {"VCPU": 1.5}}}}, ["1.5 is not of type 'integer'"]),
            ({"allocations": {RP: {"resources": {"VCPU": True}}}}, ["True is not of type 'integer'"]),
            ({"allocations": {RP: {"resources": {"VCPU": 1}, "generation": "1"}}}, ["'1' is not of type 'integer'"]),
            ({"allocations": {RP: {"resources": {"VCPU": 1}, "colour": "red"}}}, ["'colour' was unexpected"]),
            ({"consumer_generation": "1"}, []),
            ({"project_id": ""}, []),
            ({"project_id": "p" * 256}, ["Failed validating 'maxLength'"]),
            ({"user_id": ""}, []),
            ({"user_id": 7}, ["7 is not of type 'string'"]),
            ({"consumer_type": "instance"}, ["'instance' does not match '^[A-Z0-9_]+$'"]),
            ({"consumer_type": ""}, []),
            ({"consumer_type": "T" * 256}, ["Failed validating 'maxLength'"]),
            ({"mappings": {}}, ["{} should be non-empty"]),
            ({"mappings": {"_a": []}}, []),
            ({"mappings": {"_a": ["not-a-uuid"]}}, ["is not a 'uuid'"]),
            ({"mappings": []}, ["[] is not of type 'object'"]),
        ],
    )
    def test_a_malformed_body_is_refused_by_put_and_post(
        self, api: Api, change: dict[str, Any], texts: list[str]
    ) -> None:
        body = {key: value for key, value in {**self.GOOD, **change}.items() if value is not ...}
        consumer = fresh_uuid()
        assert api.put(f"/allocations/{consumer}", body).refused(400, "JSON does not validate", *texts)
        assert api.post("/allocations", {consumer: body}).refused(400, "JSON does not validate", *texts)
        assert api.get(f"/allocations/{consumer}").json == NOBODY


class TestPost:
    def test_several_consumers_are_written_at_once(self, api: Api, host: Provider, other: Provider) -> None:
        first, second = fresh_uuid(), fresh_uuid()
        api.post(
            "/allocations", {first: holding((host, {"VCPU": 1})), second: holding((other, {"VCPU": 2}), project="p")}
        ).expect(204)
        assert (api.held(first), api.held(second)) == ({host.uuid: {"VCPU": 1}}, {other.uuid: {"VCPU": 2}})
        assert api.get(f"/allocations/{second}").project_id == "p"

    def test_one_consumer_takes_over_from_another(self, api: Api, host: Provider) -> None:
        instance, migration = api.claim((host, {"VCPU": 16})), fresh_uuid()
        body = {instance: holding(generation=1), migration: holding((host, {"VCPU": 16}), consumer_type="MIGRATION")}
        api.post("/allocations", body).expect(204)
        assert (api.held(instance), api.held(migration)) == ({}, {host.uuid: {"VCPU": 16}})

    def test_two_consumers_swap_at_full_capacity(self, api: Api, host: Provider) -> None:
        first, second = api.claim((host, {"VCPU": 6})), api.claim((host, {"VCPU": 10}))
        body = {first: holding((host, {"VCPU": 10}), generation=1), second: holding((host, {"VCPU": 6}), generation=1)}
        api.post("/allocations", body).expect(204)
        assert api.used(host)["VCPU"] == 16

    @pytest.mark.parametrize(
        ("bad", "status", "text"),
        [
            (({"VCPU": 17}, None), 409, "Unable to allocate inventory"),
            (({"CUSTOM_NOBODY_MADE_THIS": 1}, None), 400, "Unable to allocate inventory"),
            (({"VCPU": 1}, 4), 409, "consumer generation conflict - expected null but got 4"),
        ],
    )
    def test_one_refusal_refuses_all(
        self, api: Api, host: Provider, other: Provider, bad: Any, status: int, text: str
    ) -> None:
        amounts, generation = bad
        consumers = [fresh_uuid() for _ in range(3)]
        held = api.claim((host, {"VCPU": 2}))
        body = {
            held: holding(generation=1),
            consumers[0]: holding((host, {"VCPU": 1})),
            consumers[1]: holding((other, amounts), generation=generation),
            consumers[2]: holding((host, {"VCPU": 1})),
        }
        code = CONCURRENT_UPDATE if generation else "placement.undefined_code"
        assert api.post("/allocations", body).refused(status, text, code=code)
        assert api.used(host)["VCPU"] == 2
        for consumer in consumers:
            assert api.get(f"/allocations/{consumer}").json == NOBODY
        assert (api.generation(host), api.generation(other)) == (2, 1)
        body[consumers[1]] = holding((other, {"VCPU": 1}))
        api.post("/allocations", body).expect(204)

    def test_an_unknown_provider_is_refused(self, api: Api, host: Provider) -> None:
        uuid, first = fresh_uuid(), fresh_uuid()
        body = {first: holding((host, {"VCPU": 1})), fresh_uuid(): holding((uuid, {"VCPU": 1}))}
        refused = api.post("/allocations", body)
        assert refused.refused(400, f"Allocation for resource provider '{uuid}' that does not exist")
        assert api.held(first) == {}

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            ({}, "should be non-empty"),
            ([], "is not of type 'object'"),
            ({"not-a-uuid": holding()}, "does not match any of the regexes"),
            ({UNKNOWN.replace("-", ""): holding()}, "does not match any of the regexes"),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: Any, text: str) -> None:
        assert api.post("/allocations", body).refused(400, "JSON does not validate", text)


class TestDelete:
    def test_everything_is_released(self, api: Api, host: Provider, other: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2, "DISK_GB": 10}), (other, {"VCPU": 1}))
        api.delete(f"/allocations/{consumer}").expect(204)
        assert api.get(f"/allocations/{consumer}").json == NOBODY
        assert (api.used(host), api.used(other)) == ({"VCPU": 0, "DISK_GB": 0}, {"VCPU": 0})

    def test_the_consumer_is_new_again(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        api.delete(f"/allocations/{consumer}").expect(204)
        api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 2}), generation=None)).expect(204)

    @pytest.mark.parametrize("consumer", [UNKNOWN, "nonsense"])
    def test_nothing_to_release_is_404(self, api: Api, consumer: str) -> None:
        assert api.delete(f"/allocations/{consumer}").refused(404, f"No allocations for consumer '{consumer}'")
