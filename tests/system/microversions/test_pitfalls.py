"""What is easily missed, of older microversions and of what no single resource is responsible for.

What is so at the newest microversion is in tests/system/api; what a microversion brought, in test_history.py.
"""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from tests.system.api.client import (
    CONCURRENT_UPDATE,
    INVENTORY_IN_USE,
    Answer,
    Api,
    Provider,
    fresh_custom,
    fresh_name,
    fresh_uuid,
    holding,
)
from tests.system.microversions.rows import ALL, body_of, put

pytestmark = pytest.mark.one_database

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def host(api: Api) -> Provider:
    return api.create_provider(inventories={"VCPU": 8, "DISK_GB": 8})


class TestVersions:
    @pytest.mark.parametrize("version", ALL)
    def test_the_root_is_the_same_at_every_microversion(self, api: Api, version: str) -> None:
        assert api.at(version).get("/").expect(200).json == api.get("/").json

    @pytest.mark.parametrize("version", ALL)
    def test_an_unknown_path_is_404_at_every_microversion_which_is_named(self, api: Api, version: str) -> None:
        answer = api.at(version).get("/nothing").expect(404)
        assert answer.header("openstack-api-version") == f"placement {version}"

    @pytest.mark.parametrize(
        ("method", "path", "status"), [("GET", "/traits", 200), ("GET", "/allocations", 405), ("PUT", "/usages", 405)]
    )
    def test_answers_vary_by_version_on_success_and_on_405(self, api: Api, method: str, path: str, status: int) -> None:
        answer = api.call(method, path).expect(status)
        assert "openstack-api-version" in (answer.header("vary") or "").lower()

    @pytest.mark.parametrize(
        ("method", "path", "sent", "older", "newer"),
        [
            ("GET", "{}/aggregates", {"Accept": "text/plain"}, (406, "1.0"), (406, "1.1")),
            ("PUT", "{}/aggregates", {"Content-Type": "text/plain"}, (415, "1.0"), (415, "1.1")),
            ("GET", "{}/traits", {"Accept": "text/plain"}, (404, "1.5"), (406, "1.6")),
            ("PUT", "{}/traits", {"Content-Type": "text/plain"}, (404, "1.5"), (415, "1.6")),
            ("GET", "/resource_classes", {"Accept": "text/plain"}, (404, "1.1"), (406, "1.2")),
            ("POST", "/resource_classes", {"Content-Type": "text/plain"}, (404, "1.1"), (415, "1.2")),
            ("GET", "/traits", {"Accept": "text/plain"}, (404, "1.5"), (406, "1.6")),
            ("GET", "/usages", {"Accept": "text/plain"}, (404, "1.8"), (406, "1.9")),
            ("GET", "/allocation_candidates", {"Accept": "text/plain"}, (404, "1.9"), (406, "1.10")),
            ("POST", "/allocations", {"Content-Type": "text/plain"}, (404, "1.12"), (415, "1.13")),
            ("POST", "/reshaper", {"Content-Type": "text/plain"}, (404, "1.29"), (415, "1.30")),
        ],
    )
    def test_aggregates_look_at_media_types_first_and_all_others_at_the_version(
        self,
        api: Api,
        host: Provider,
        method: str,
        path: str,
        sent: dict[str, str],
        older: tuple[int, str],
        newer: tuple[int, str],
    ) -> None:
        raw = b"{" if "Content-Type" in sent else None
        for status, version in (older, newer):
            assert api.at(version).call(method, path.format(host.path), raw=raw, headers=sent).status == status

    @pytest.mark.parametrize(("version", "status"), [("1.29", 404), ("1.30", 403)])
    def test_who_may_not_reshape_is_told_so_before_the_body_is_read(self, api: Api, version: str, status: int) -> None:
        nobody = replace(api, token="nobody", roles=None)
        assert nobody.at(version).call("POST", "/reshaper", raw=b"{").status == status

    @pytest.mark.parametrize("version", ["1.0", "1.39"])
    @pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
    def test_an_unknown_method_is_405_with_what_any_microversion_knows(
        self, api: Api, method: str, version: str
    ) -> None:
        answer = api.at(version).call(method, "/reshaper").expect(405)
        assert answer.header("allow") == "POST"

    @pytest.mark.parametrize("accept", ["text/html", "text/html;q=0.9, application/json;q=0.8"])
    def test_a_browser_gets_a_page_at_every_microversion(self, api: Api, accept: str) -> None:
        for version in ("1.0", "1.22", "1.39"):
            answer = api.at(version).get("/nothing", headers={"Accept": accept}).expect(404)
            assert answer.header("content-type") == "text/html; charset=UTF-8"
            assert b"The resource could not be found" in answer.body


class TestHeadersOfAnswers:
    @pytest.mark.parametrize(
        ("version", "method", "path", "body", "status"),
        [
            ("1.0", "POST", "/resource_providers", {"name": "{name}"}, 201),
            ("1.20", "POST", "/resource_providers", {"name": "{name}"}, 200),
            ("1.0", "POST", "{host}/inventories", {"resource_class": "PCPU", "total": 1}, 201),
            ("1.2", "POST", "/resource_classes", {"name": "{custom}"}, 201),
            ("1.7", "PUT", "/resource_classes/{custom}", None, 201),
            ("1.7", "PUT", "/resource_classes/{known}", None, 204),
            ("1.6", "PUT", "/traits/{custom}", None, 201),
            ("1.6", "PUT", "/traits/{trait}", None, 204),
        ],
    )
    def test_the_location_is_absolute(
        self, api: Api, host: Provider, version: str, method: str, path: str, body: Any, status: int
    ) -> None:
        names = {
            "name": fresh_name(),
            "custom": fresh_custom(),
            "host": host.path,
            "known": api.create_class(),
            "trait": api.create_trait(),
        }
        sent = {key: str(value).format(**names) if key == "name" else value for key, value in (body or {}).items()}
        target = path.format(**names)
        answer = api.at(version).call(method, target, sent or None).expect(status)
        expected = target if method == "PUT" else f"{target}/{sent.get('resource_class', sent.get('name'))}"
        if path == "/resource_providers":
            (found,) = api.get(path, {"name": names["name"]}).resource_providers
            expected = f"{path}/{found['uuid']}"
        assert re.fullmatch(rf"http://[^/]+{re.escape(expected)}", answer.header("location") or "")

    @pytest.mark.parametrize(
        ("version", "method", "path", "body"),
        [
            ("1.0", "POST", "/resource_providers", {"name": "{name}"}),
            ("1.19", "POST", "/resource_providers", {"name": "{name}"}),
            ("1.2", "POST", "/resource_classes", {"name": "{custom}"}),
            ("1.7", "PUT", "/resource_classes/{custom}", None),
            ("1.6", "PUT", "/traits/{custom}", None),
        ],
    )
    def test_a_201_without_body_has_no_content_type(
        self, api: Api, version: str, method: str, path: str, body: Any
    ) -> None:
        names = {"name": fresh_name(), "custom": fresh_custom()}
        sent = {key: value.format(**names) for key, value in body.items()} if body else None
        answer = api.at(version).call(method, path.format(**names), sent).expect(201)
        assert (answer.body, answer.header("content-type"), answer.header("content-length")) == (b"", None, "0")

    @pytest.mark.parametrize("version", ["1.0", "1.14", "1.15", "1.39"])
    def test_a_changed_provider_has_no_location_and_no_content_type_but_json(self, api: Api, version: str) -> None:
        host = api.create_provider()
        answer = api.at(version).put(host.path, name=fresh_name()).expect(200)
        assert (answer.header("location"), answer.header("content-type")) == (None, "application/json")
        assert answer.generation == 0

    @pytest.mark.parametrize(("version", "expected"), [("1.14", (None, None)), ("1.15", ("no-cache", None))])
    def test_no_inventory_has_no_date(self, api: Api, version: str, expected: tuple[str | None, str | None]) -> None:
        host = api.create_provider()
        v = api.at(version)
        for answer in (v.get(host.inventories), v.put(host.inventories, inventories={}, generation=0)):
            assert (answer.header("cache-control"), answer.header("last-modified")) == expected

    @pytest.mark.parametrize("version", ["1.0", "1.39"])
    def test_links_are_paths_without_a_host(self, api: Api, host: Provider, version: str) -> None:
        for link in api.at(version).get(host.path).links:
            assert re.fullmatch(rf"{host.path}(/[a-z]+)?", link["href"])


class TestProviders:
    @pytest.mark.parametrize("version", ["1.0", "1.13", "1.14", "1.37", "1.39"])
    @pytest.mark.parametrize("key", ["uuid", "root_provider_uuid", "generation"])
    def test_what_is_given_once_can_not_be_changed(self, api: Api, host: Provider, version: str, key: str) -> None:
        values = {"uuid": host.uuid, "root_provider_uuid": host.uuid, "generation": 1}
        answer = api.at(version).put(host.path, {"name": host.name, key: values[key]}).expect(400)
        assert f"'{key}' was unexpected" in answer.error.detail

    @pytest.mark.parametrize("version", ["1.14", "1.37"])
    def test_who_changes_the_parent_says_the_name_too(self, api: Api, host: Provider, version: str) -> None:
        answer = api.at(version).put(host.path, parent_provider_uuid=None).expect(400)
        assert "'name' is a required property" in answer.error.detail


class TestQueries:
    @pytest.mark.parametrize("path", ["/resource_providers", "/allocation_candidates"])
    @pytest.mark.parametrize(
        ("version", "form"),
        [
            ("1.18", "HW_CPU_X86_VMX,CUSTOM_MAGIC"),
            ("1.21", "HW_CPU_X86_VMX,CUSTOM_MAGIC"),
            ("1.22", "HW_CPU_X86_VMX,!CUSTOM_MAGIC"),
            ("1.39", "HW_CPU_X86_VMX,!CUSTOM_MAGIC"),
        ],
    )
    def test_the_example_of_required_forbids_from_1_22_on(self, api: Api, path: str, version: str, form: str) -> None:
        for value in ("", "HW_CPU_X86_SHA,"):
            answer = api.at(version).get(path, {"resources": "VCPU:1", "required": value}).expect(400)
            assert f"Expected 'required' parameter value of the form: {form}." in answer.error.detail

    @pytest.mark.parametrize("version", ["1.18", "1.38"])
    @pytest.mark.parametrize("path", ["/resource_providers", "/allocation_candidates"])
    def test_up_to_1_38_only_the_last_required_is_even_looked_at(self, api: Api, path: str, version: str) -> None:
        resources = [] if path == "/resource_providers" else [("resources", "VCPU:1")]
        query = [*resources, ("required", "CUSTOM_NOBODY_MADE_THIS"), ("required", "HW_CPU_X86_SHA")]
        assert api.at(version).get(path, query).status == 200
        assert api.get(path, query).refused(400, "No such trait(s): CUSTOM_NOBODY_MADE_THIS.")

    def test_a_suffix_is_named_by_what_is_said_of_its_aggregates(self, api: Api) -> None:
        rack = fresh_uuid()
        v = api.at("1.31")
        answer = v.get("/allocation_candidates", {"resources1": "VCPU:1", "member_of1": f"!{rack}"})
        assert answer.refused(400, "Forbidden member_of1 parameters are not supported in the specified microversion")

    @pytest.mark.parametrize(
        ("version", "patterns"),
        [
            ("1.25", ["^member_of([1-9][0-9]*)?$", "^required([1-9][0-9]*)?$", "^resources([1-9][0-9]*)?$"]),
            (
                "1.31",
                [f"^{word}([1-9][0-9]*)?$" for word in ("in_tree", "member_of", "required", "resources")],
            ),
            (
                "1.33",
                [f"^{word}([a-zA-Z0-9_-]{{1,64}})?$" for word in ("in_tree", "member_of", "required", "resources")],
            ),
        ],
    )
    def test_an_unknown_key_is_told_the_patterns_of_its_microversion(
        self, api: Api, version: str, patterns: list[str]
    ) -> None:
        answer = api.at(version).get("/allocation_candidates", {"resources": "VCPU:1", "colour": "red"})
        regexes = ", ".join(f"'{pattern}'" for pattern in patterns)
        assert answer.refused(400, f"'colour' does not match any of the regexes: {regexes}")

    @pytest.mark.parametrize("version", ["1.0", "1.14", "1.39"])
    def test_names_are_unicode_at_every_microversion(self, api: Api, version: str) -> None:
        name, v = fresh_name("mašina-機械-🖥"), api.at(version)
        v.post("/resource_providers", name=name).expect(200, 201)
        (found,) = v.get(f"/resource_providers?name={quote(name)}").resource_providers
        assert found["name"] == name
        v.delete(f"/resource_providers/{found['uuid']}").expect(204)


class TestResourceClassRename:
    """PUT from 1.2 to 1.6."""

    @pytest.fixture(params=["1.2", "1.6"])
    def old(self, api: Api, request: pytest.FixtureRequest) -> Api:
        return api.at(request.param)

    def test_the_answer_is_the_class_without_location(self, api: Api, old: Api) -> None:
        new = fresh_custom()
        answer = old.put(f"/resource_classes/{api.create_class()}", name=new).expect(200)
        assert answer.json == {"name": new, "links": [{"rel": "self", "href": f"/resource_classes/{new}"}]}
        assert answer.header("location") is None

    def test_the_same_name_may_be_given(self, api: Api, old: Api) -> None:
        name = api.create_class()
        assert old.put(f"/resource_classes/{name}", name=name).expect(200).name == name

    def test_inventories_go_with_the_class(self, api: Api, old: Api) -> None:
        name, new = api.create_class(), fresh_custom()
        host = api.create_provider(inventories={name: 3})
        old.put(f"/resource_classes/{name}", name=new).expect(200)
        assert list(api.get(host.inventories).inventories) == [new]

    def test_an_unknown_class_is_404(self, old: Api) -> None:
        assert old.put(f"/resource_classes/{fresh_custom()}", name=fresh_custom()).status == 404

    def test_a_taken_name_is_409(self, api: Api, old: Api) -> None:
        taken = api.create_class()
        answer = old.put(f"/resource_classes/{api.create_class()}", name=taken)
        assert answer.refused(409, "Resource class already exists", taken, code=None)  # type: ignore[arg-type]  # no code yet

    def test_a_standard_class_keeps_its_name(self, old: Api) -> None:
        answer = old.put("/resource_classes/VCPU", name=fresh_custom())
        assert answer.refused(400, "Cannot update standard resource class VCPU", code=None)  # type: ignore[arg-type]  # no code yet

    @pytest.mark.parametrize("name", ["VCPU", "custom_lamp", "LAMP"])
    def test_the_new_name_is_custom_which_is_checked_first(self, old: Api, name: str) -> None:
        answer = old.put("/resource_classes/VCPU", name=name)
        assert answer.refused(400, "JSON does not validate", code=None)  # type: ignore[arg-type]  # no code yet


class TestInventories:
    @pytest.mark.parametrize(("version", "code"), [("1.5", None), ("1.22", None), ("1.23", INVENTORY_IN_USE)])
    def test_what_is_in_use_is_named_with_and_without_a_code(
        self, api: Api, host: Provider, version: str, code: str
    ) -> None:
        api.claim((host, {"VCPU": 1, "DISK_GB": 1}))
        answer = api.at(version).delete(host.inventories)
        text = f"Inventory for 'VCPU, DISK_GB' on resource provider '{host.uuid}' in use"
        assert answer.refused(409, text, code=code)

    def test_changing_aggregates_before_1_19_leaves_the_generation_that_others_know(self, api: Api) -> None:
        host, rack = api.create_provider(), fresh_uuid()
        assert api.at("1.18").put(host.aggregates, [rack]).expect(200).json == {"aggregates": [rack]}
        api.put(host.inventories, inventories={"VCPU": {"total": 1}}, generation=0).expect(200)
        assert api.get(host.aggregates).json == {"aggregates": [rack], "resource_provider_generation": 1}

    @pytest.mark.parametrize("version", ["1.0", "1.39"])
    def test_a_put_of_nothing_removes_everything_and_counts(self, api: Api, host: Provider, version: str) -> None:
        v = api.at(version)
        assert v.put(host.inventories, inventories={}, generation=1).expect(200).generation == 2
        assert v.put(host.inventories, inventories={}, generation=2).expect(200).generation == 3


class TestAllocations:
    @pytest.mark.parametrize("version", ALL)
    def test_who_holds_nothing_is_shown_in_the_same_way_at_every_microversion(self, api: Api, version: str) -> None:
        assert api.at(version).get(f"/allocations/{fresh_uuid()}").expect(200).json == {"allocations": {}}

    @pytest.mark.parametrize("version", ALL)
    def test_what_is_written_in_the_form_of_any_microversion_is_held(
        self, api: Api, host: Provider, version: str
    ) -> None:
        consumer, project = fresh_uuid(), fresh_name("project")
        put(api.at(version), consumer, host, {"VCPU": 2, "DISK_GB": 3}, project_id=project).expect(204)
        held = api.get(f"/allocations/{consumer}")
        assert held.json == {
            "allocations": {host.uuid: {"generation": 2, "resources": {"VCPU": 2, "DISK_GB": 3}}},
            "project_id": project if ALL.index(version) >= 8 else NOBODY,
            "user_id": "a-user" if ALL.index(version) >= 8 else NOBODY,
            "consumer_generation": 1,
            "consumer_type": "INSTANCE" if ALL.index(version) >= 38 else "unknown",
        }

    @pytest.mark.parametrize("version", ALL[13:])
    def test_what_is_posted_in_the_form_of_any_microversion_is_held(
        self, api: Api, host: Provider, version: str
    ) -> None:
        one, other = fresh_uuid(), fresh_uuid()
        body = body_of(version, host, {"VCPU": 2})
        api.at(version).post("/allocations", {one: body, other: body}).expect(204)
        assert api.held(one) == api.held(other) == {host.uuid: {"VCPU": 2}}
        assert api.generation(host) == 2

    def test_before_1_8_nobody_becomes_the_owner_even_of_what_had_one(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 1}), project="mine", user="me")
        put(api.at("1.7"), consumer, host, {"VCPU": 2}).expect(204)
        held = api.get(f"/allocations/{consumer}")
        assert (held.project_id, held.user_id, held.consumer_generation) == (NOBODY, NOBODY, 2)

    @pytest.mark.parametrize("version", ["1.13", "1.28", "1.38"])
    def test_a_post_changes_project_and_user(self, api: Api, host: Provider, version: str) -> None:
        consumer = api.claim((host, {"VCPU": 1}), project="mine", user="me")
        theirs = {"project_id": "theirs", "user_id": "they", "consumer_generation": 1}
        api.at(version).post("/allocations", {consumer: body_of(version, host, {"VCPU": 1}, **theirs)}).expect(204)
        held = api.get(f"/allocations/{consumer}")
        assert (held.project_id, held.user_id) == ("theirs", "they")

    def test_of_a_provider_that_is_listed_twice_the_last_entry_counts(self, api: Api, host: Provider) -> None:
        consumer = fresh_uuid()
        entries = [
            {"resource_provider": {"uuid": host.uuid}, "resources": resources}
            for resources in ({"VCPU": 1, "DISK_GB": 1}, {"VCPU": 5})
        ]
        api.at("1.11").put(
            f"/allocations/{consumer}", {"allocations": entries, "project_id": "p", "user_id": "u"}
        ).expect(204)
        assert api.held(consumer) == {host.uuid: {"VCPU": 5}}

    @pytest.mark.parametrize("version", ["1.0", "1.8", "1.12", "1.27"])
    def test_before_1_28_consumers_change_unguarded_and_still_count(
        self, api: Api, host: Provider, version: str
    ) -> None:
        consumer = fresh_uuid()
        for amount in (1, 2, 3):
            put(api.at(version), consumer, host, {"VCPU": amount}).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_generation == 3
        stale = put(api, consumer, host, {"VCPU": 4}, consumer_generation=2)
        text = "consumer generation conflict - expected 3 but got 2"
        assert stale.refused(409, text, code=CONCURRENT_UPDATE)

    @pytest.mark.parametrize("version", ["1.0", "1.8", "1.12", "1.28", "1.34", "1.38"])
    @pytest.mark.parametrize(
        ("resources", "status", "text"),
        [
            (
                {"VCPU": 9},
                409,
                "Unable to allocate inventory: Unable to create allocation for 'VCPU' on resource provider",
            ),
            ({"PCI_DEVICE": 1}, 409, "Inventory for 'PCI_DEVICE' on"),
            ({"VCPU": 1, "PCI_DEVICE": 1}, 409, "Inventory for 'PCI_DEVICE' on"),
            ({"CUSTOM_NOBODY_MADE_THIS": 1}, 400, "No such resource class CUSTOM_NOBODY_MADE_THIS"),
            ({"VCPU": 0}, 400, "JSON does not validate: 0 is less than the minimum of 1"),
            ({}, 400, "should be non-empty"),
        ],
    )
    def test_a_claim_in_any_form_is_refused_in_the_same_words(
        self, api: Api, host: Provider, version: str, resources: dict[str, int], status: int, text: str
    ) -> None:
        consumer = fresh_uuid()
        answer = put(api.at(version), consumer, host, resources)
        assert answer.expect(status).error.detail.count(text) == 1
        assert api.held(consumer) == {}

    @pytest.mark.parametrize("version", ["1.0", "1.8", "1.12", "1.28"])
    def test_an_unknown_provider_is_refused_in_any_form(self, api: Api, version: str) -> None:
        nowhere = Provider(fresh_uuid(), "nowhere")
        answer = put(api.at(version), fresh_uuid(), nowhere, {"VCPU": 1}).expect(400)
        assert f"Allocation for resource provider '{nowhere.uuid}' that does not exist" in answer.error.detail

    @pytest.mark.parametrize("version", ["1.12", "1.27", "1.28", "1.39"])
    @pytest.mark.parametrize("key", ["not-a-uuid", "d0d0d0d000004000800000000000dead"])
    def test_a_provider_key_is_a_uuid_with_hyphens(self, api: Api, version: str, key: str) -> None:
        answer = put(api.at(version), fresh_uuid(), Provider(key, "nobody"), {"VCPU": 1}).expect(400)
        assert "does not match any of the regexes" in answer.error.detail

    def test_what_a_candidate_and_a_get_say_may_be_sent_back(self, api: Api, host: Provider) -> None:
        consumer = api.claim((host, {"VCPU": 2}))
        for version in ("1.12", "1.28", "1.38"):
            shown = api.at(version).get(f"/allocations/{consumer}").json
            api.at(version).put(f"/allocations/{consumer}", shown).expect(204)
        assert api.get(f"/allocations/{consumer}").consumer_generation == 4


class TestReshaper:
    @pytest.fixture
    def moved(self, api: Api, host: Provider) -> Any:
        """A reshape of the host's inventory to a new child, with its consumer, in the form of a microversion."""
        consumer, child = api.claim((host, {"VCPU": 2})), api.create_provider(parent=host)

        def move(version: str) -> tuple[Answer, str, Provider]:
            body = body_of(version, child, {"VCPU": 2}, consumer_generation=1)
            inventories = {
                host.uuid: {"resource_provider_generation": 2, "inventories": {}},
                child.uuid: {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}},
            }
            answer = api.at(version).post("/reshaper", inventories=inventories, allocations={consumer: body})
            return answer, consumer, child

        return move

    @pytest.mark.parametrize("version", ALL[30:])
    def test_inventory_and_allocations_move_at_every_microversion_that_can(
        self, api: Api, host: Provider, moved: Any, version: str
    ) -> None:
        answer, consumer, child = moved(version)
        assert answer.status == 204
        assert api.held(consumer) == {child.uuid: {"VCPU": 2}}
        assert [api.generation(host), api.generation(child)] == [3, 3]

    @pytest.mark.parametrize("version", ["1.30", "1.34", "1.38"])
    def test_a_stale_generation_is_told_beside_the_present_one(self, api: Api, host: Provider, version: str) -> None:
        stale = {host.uuid: {"resource_provider_generation": 4, "inventories": {}}}
        answer = api.at(version).post("/reshaper", inventories=stale, allocations={})
        texts = ("resource provider generation conflict", "actual: 1, given: 4")
        assert answer.refused(409, *texts, code=CONCURRENT_UPDATE)


class TestUsages:
    def test_up_to_1_37_the_types_are_summed(self, api: Api, host: Provider) -> None:
        project = fresh_name("project")
        for consumer_type in ("INSTANCE", "VOLUME"):
            api.claim((host, {"VCPU": 1, "DISK_GB": 1}), project=project, consumer_type=consumer_type)
        assert api.at("1.37").get("/usages", {"project_id": project}).usages == {"VCPU": 2, "DISK_GB": 2}

    def test_the_user_narrows_it_from_the_start(self, api: Api, host: Provider) -> None:
        project = fresh_name("project")
        for user in ("ann", "bob"):
            api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1}), project=project, user=user)).expect(
                204
            )
        query = {"project_id": project, "user_id": "ann"}
        assert api.at("1.9").get("/usages", query).usages == {"VCPU": 1}
