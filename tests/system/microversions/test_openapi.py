"""The OpenAPI document, who gets it, and that what it says of the newest microversion is so.

Source: "Microversion negotiation", docs/api.md; "GET /openapi.json", docs/stead-api.md.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from scripts.docs import DOCS, the_routes
from stead.api.answers import shorten
from stead.api.openapi import document
from stead.api.operations import OPERATIONS
from stead.api.request import Router
from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_custom, fresh_name, fresh_uuid, holding

pytestmark = pytest.mark.one_database

DOCUMENT = document(the_routes())
OWN = f"{NEWEST}, stead 1.2"
PROVIDER = "/resource_providers/{uuid}"

NOTHING = {"resource_provider_generation": 0, "inventories": {}}

own = pytest.mark.differs("it has nothing of Stead's own")


def version_header(answer: Answer) -> list[str]:
    """Its lines."""
    return [value for name, value in answer.headers if name.lower() == "openstack-api-version"]


class TestWhoAsks:
    @own
    @pytest.mark.parametrize("version", [OWN, f"{NEWEST},Stead latest", "latest, stead 1.2"])
    def test_is_told_both_versions(self, api: Api, version: str) -> None:
        answer = api.at(version).get("/traits").expect(200)
        assert version_header(answer) == [f"placement {NEWEST}", "stead 1.2"]

    @own
    def test_finds_stead_in_the_root(self, api: Api) -> None:
        (version,) = api.at(OWN).get("/").expect(200).versions
        assert version.pop("stead") == {"max_version": "1.2", "min_version": "1.0"}
        assert [version] == api.get("/").versions

    @own
    def test_gets_the_document(self, api: Api) -> None:
        served = api.at(OWN).get("/openapi.json").expect(200)
        assert served.header("content-type") == "application/json"
        assert served.json.items() >= json.loads((DOCS / "openapi.json").read_text()).items()

    @own
    def test_is_told_the_method_of_the_document(self, api: Api) -> None:
        answer = api.at(OWN).call("PUT", "/openapi.json")
        assert (answer.status, answer.header("allow")) == (405, "GET")

    @own
    @pytest.mark.parametrize("version", ["1.3", "0.9", "2.0"])
    def test_for_a_version_that_is_not_there_is_told_those_that_are(self, api: Api, version: str) -> None:
        answer = api.at(f"{NEWEST}, stead {version}").get("/traits").expect(406)
        assert f"Unacceptable version header: stead {version}" in answer.error.detail
        assert (answer.error.min_version, answer.error.max_version, answer.error.code) == ("1.0", "1.2", None)
        assert answer.header("openstack-api-version") is None

    @own
    @pytest.mark.parametrize("version", ["nonsense", "1", "LATEST", "1.0.0"])
    def test_for_what_is_no_version_is_refused(self, api: Api, version: str) -> None:
        answer = api.at(f"{NEWEST}, stead {version}").get("/traits").expect(400)
        assert f"invalid version string: stead {version}" in answer.error.detail
        assert answer.header("openstack-api-version") is None

    @own
    @pytest.mark.parametrize("header", ["placement 1.38, stead 1.0", "stead 1.0", "stead latest, compute 2.1"])
    def test_beside_an_old_microversion_is_refused(self, api: Api, header: str) -> None:
        answer = api.get("/traits", headers={"OpenStack-API-Version": header}).expect(400)
        assert "needs placement 1.39 or newer" in answer.error.detail

    @own
    def test_without_a_token_is_still_a_stranger(self, api: Api) -> None:
        statuses = [
            api.at(OWN).get(path, headers={"X-Auth-Token": None}).status for path in ("/openapi.json", "/nothing", "/")
        ]
        assert statuses == [200, 401, 200]  # [stead] public_docs is true by default
        assert "stead" in api.at(OWN).get("/", headers={"X-Auth-Token": None}).versions[0]


class TestWhoDoesNotAsk:
    @pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD"])
    @pytest.mark.parametrize("version", ["1.0", NEWEST, "latest"])
    def test_finds_what_is_at_any_unknown_path(self, api: Api, method: str, version: str) -> None:
        v = api.at(version)
        asked, unknown = v.call(method, "/openapi.json"), v.call(method, "/nothing")
        assert asked.status == unknown.status == 404
        assert [name for name, _ in asked.headers] == [name for name, _ in unknown.headers]
        assert "openapi" not in str(asked.headers)

    @pytest.mark.parametrize("version", ["1.0", NEWEST, "latest"])
    def test_sees_nothing_of_it(self, api: Api, version: str) -> None:
        answer = api.at(version).get("/")
        assert "stead" not in str(answer.headers) + answer.body.decode()
        assert version_header(answer) == [f"placement {NEWEST if version == 'latest' else version}"]

    @pytest.mark.parametrize("entry", ["stead", "1.0 stead", "steads 1.0"])
    def test_what_is_no_entry_for_stead_is_skipped(self, api: Api, entry: str) -> None:
        answer = api.at(f"{NEWEST}, {entry}").get("/traits").expect(200)
        assert version_header(answer) == [f"placement {NEWEST}"]


def _objects(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects in *value*, with their places."""
    if isinstance(value, dict):
        yield place, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from _objects(one, f"{place}/{key}")


class TestDocument:
    def test_it_is_valid(self) -> None:
        OpenAPIV31SpecValidator(json.loads((DOCS / "openapi.json").read_text())).validate()

    def test_it_has_every_method_of_every_route_and_no_other(self) -> None:
        router = Router()
        for path, resource in the_routes().items():
            router.add_route(path, resource)
        routes = {(method, path) for path, handlers in router.routes.items() for method in handlers}
        assert set(OPERATIONS) == routes
        described = {
            (method.upper(), path)
            for path, item in DOCUMENT["paths"].items()
            for method in item
            if method not in ("description", "parameters")
        }
        assert described == routes

    def test_every_operation_has_a_name_of_its_own_and_a_summary(self) -> None:
        operations = [DOCUMENT["paths"][path][method.lower()] for method, path in OPERATIONS]
        assert len({operation["operationId"] for operation in operations}) == len(OPERATIONS)
        assert all(operation["summary"] for operation in operations)

    def test_every_array_says_what_it_has(self) -> None:
        for place, schema in _objects(DOCUMENT):
            if "array" in schema.get("type", ()):
                assert "items" in schema or "prefixItems" in schema, f"{place}: an array of anything"

    def test_every_parameter_of_a_path_says_which_values_it_takes(self) -> None:
        of_paths = [(place, found) for place, found in _objects(DOCUMENT) if found.get("in") == "path"]
        assert len(of_paths) > len(DOCUMENT["paths"]) / 3
        for place, parameter in of_paths:
            schema = parameter["schema"]
            assert schema.keys() & {"pattern", "format", "enum"}, f"{place}: any text"
            assert "pattern" not in schema or re.search(schema["pattern"], parameter["example"])

    def test_every_schema_that_has_a_name_is_referred_to(self) -> None:
        referred = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(DOCUMENT)))
        assert referred == set(DOCUMENT["components"]["schemas"])


def fits(schema: Any, value: Any) -> None:
    """Hold *value* against a schema of the document."""
    Draft202012Validator({"components": DOCUMENT["components"], **schema}).validate(value)


def described(method: str, path: str) -> Any:
    return DOCUMENT["paths"][path][method.lower()]


class Site:
    """One of everything, so that every route has something to answer with."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.lamp, self.trait = api.create_class(), api.create_trait()
        inventories: dict[str, int | dict[str, Any]] = {self.lamp: 9, "VCPU": {"total": 8, "allocation_ratio": 1.5}}
        self.host = api.create_provider(inventories=inventories, traits=[self.trait], aggregates=[fresh_uuid()])
        self.project = fresh_name("project")
        self.consumer = api.claim((self.host, {self.lamp: 1}), project=self.project)

    def path(self, template: str) -> str:
        name = self.trait if template.startswith("/traits") else self.lamp
        values = {"uuid": self.host.uuid, "consumer_uuid": self.consumer, "resource_class": "VCPU", "name": name}
        if template.startswith("/flavors"):
            self.api.at(OWN).put("/flavors/lamp", {"query": f"resources={self.lamp}:1"}).expect(200, 201)
            values["name"] = "lamp"
        return template.format(**values)

    def empty(self) -> Provider:
        return self.api.create_provider()


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)


READS = {
    "/": "",
    "/resource_providers": "?uuid={uuid}",
    "/allocation_candidates": "?resources={lamp}:1&resources_A=VCPU:1",
    "/allocation_candidates/explain": "?resources={lamp}:1&resources_A=VCPU:100&required_A=!HW_CPU_X86_SHA",
    "/headroom": "?resources={lamp}:1&resources_A=VCPU:100&required_A=!HW_CPU_X86_SHA",
    "/advice": "?resources={lamp}:9&make_room_for=1",
    "/flavors": "?headroom=true",
    "/usages": "?project_id={project}",
}


class TestAnswers:
    """What is answered has the form that the document gives it."""

    @pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "GET" and "json" not in path])
    def test_of_reads(self, site: Site, path: str) -> None:
        query = READS.get(path, "").format(uuid=site.host.uuid, lamp=site.lamp, project=site.project)
        answer = site.api.at(OWN).get(site.path(path) + query).expect(200, 204)
        success = described("GET", path)["responses"][str(answer.status)]
        if answer.status == 204:
            assert "content" not in success
        else:
            assert answer.body
            fits(success["content"]["application/json"]["schema"], answer.json)

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/resource_providers", lambda site: {"name": fresh_name(), "parent_provider_uuid": None}),
            ("PUT", PROVIDER, lambda site: {"name": fresh_name()}),
            ("POST", f"{PROVIDER}/inventories", lambda site: {"resource_class": "PCPU", "total": 1}),
            (
                "PUT",
                f"{PROVIDER}/inventories",
                lambda site: {
                    "resource_provider_generation": site.api.generation(site.host),
                    "inventories": {site.lamp: {"total": 2, "reserved": 1}},
                },
            ),
            (
                "PUT",
                f"{PROVIDER}/inventories/{{resource_class}}",
                lambda site: {"total": 3, "resource_provider_generation": site.api.generation(site.host)},
            ),
            (
                "PUT",
                f"{PROVIDER}/aggregates",
                lambda site: {
                    "aggregates": [fresh_uuid()],
                    "resource_provider_generation": site.api.generation(site.host),
                },
            ),
            (
                "PUT",
                f"{PROVIDER}/traits",
                lambda site: {"traits": [], "resource_provider_generation": site.api.generation(site.host)},
            ),
            ("POST", "/resource_classes", lambda site: {"name": fresh_custom()}),
            ("PUT", "/resource_classes/{name}", lambda site: None),
            ("PUT", "/traits/{name}", lambda site: None),
            ("POST", "/allocations", lambda site: {fresh_uuid(): holding((site.host, {site.lamp: 1}))}),
            ("PUT", "/allocations/{consumer_uuid}", lambda site: holding((site.host, {site.lamp: 2}), generation=1)),
            (
                "POST",
                "/reshaper",
                lambda site: {
                    "inventories": {
                        site.empty().uuid: {
                            "resource_provider_generation": 0,
                            "inventories": {"VCPU": {"total": 1}},
                        }
                    },
                    "allocations": {site.consumer: holding(generation=1)},
                },
            ),
            ("PATCH", "/provider_trees/{uuid}", lambda site: {"disabled": {"reason": "r", "until": None}}),
            ("PATCH", "/provider_trees/{uuid}", lambda site: {"disabled": None}),
            ("PUT", "/flavors/{name}", lambda site: {"query": "resources=VCPU:1", "description": "one"}),
            ("DELETE", "/flavors/{name}", lambda site: None),
            ("DELETE", "/allocations/{consumer_uuid}", lambda site: None),
            ("DELETE", f"{PROVIDER}/traits", lambda site: None),
            ("DELETE", f"{PROVIDER}/inventories/{{resource_class}}", lambda site: None),
        ],
    )
    def test_of_writes_whose_bodies_it_allows(self, site: Site, method: str, path: str, body: Any) -> None:
        operation, sent = described(method, path), body(site)
        if sent is not None:
            fits(operation["requestBody"]["content"]["application/json"]["schema"], sent)
        answer = site.api.at(OWN).call(method, site.path(path), sent)
        success = operation["responses"][str(answer.status)]
        assert ("Location" in success["headers"]) == (answer.header("location") is not None)
        assert ("content" in success) == bool(answer.body)
        if answer.body:
            fits(success["content"]["application/json"]["schema"], answer.json)

    @pytest.mark.parametrize(
        ("method", "path", "sent", "status"),
        [
            ("GET", "/resource_providers/5ead0000-0000-4000-8000-00000000dead", None, 404),
            ("DELETE", PROVIDER, None, 409),
            ("POST", "/resource_providers", {}, 400),
            ("PUT", f"{PROVIDER}/inventories", {"resource_provider_generation": 99, "inventories": {}}, 409),
            ("DELETE", f"{PROVIDER}/inventories", None, 409),
            ("DELETE", "/resource_classes/{name}", None, 409),
            ("DELETE", "/traits/{name}", None, 409),
            ("PUT", f"{PROVIDER}/traits", {"traits": [], "resource_provider_generation": 99}, 409),
            ("GET", "/allocation_candidates", None, 400),
            ("POST", "/reshaper", {"inventories": {fresh_uuid(): NOTHING}, "allocations": {}}, 400),
        ],
    )
    def test_of_refusals_with_their_codes(self, site: Site, method: str, path: str, sent: Any, status: int) -> None:
        answer = site.api.call(method, site.path(path), sent).expect(status)
        template = path if (method, path) in OPERATIONS else PROVIDER
        refusal = described(method, template)["responses"][str(status)]
        fits(refusal["content"]["application/json"]["schema"], answer.json)
        assert f"`{answer.error.code}`" in refusal["description"]


@pytest.mark.differs("it says the same in schemas of another spelling", sometimes=True)
@pytest.mark.parametrize(("method", "path"), [key for key, operation in OPERATIONS.items() if operation.body])
def test_bodies_are_checked_with_the_schemas_of_the_document(site: Site, method: str, path: str) -> None:
    answer = site.api.at(OWN).call(method, site.path(path), raw=b"7").expect(400)
    body = OPERATIONS[method, path].body
    assert shorten(repr(body)) in answer.error.detail


@pytest.mark.differs("it says the same in schemas of another spelling", sometimes=True)
@pytest.mark.parametrize(("method", "path"), [key for key, operation in OPERATIONS.items() if operation.query])
def test_queries_are_checked_with_the_schemas_of_the_document(site: Site, method: str, path: str) -> None:
    query = {"colour": "red", **({"project_id": "p"} if path == "/usages" else {})}
    answer = site.api.at(OWN).get(site.path(path), query).expect(400)
    assert shorten(repr(OPERATIONS[method, path].query)) in answer.error.detail


def test_no_schema_has_the_name_of_a_constructor_in_go() -> None:
    """``NewX`` makes an ``X`` in a generated client, so that a schema of this name does not compile."""
    names = set(document(the_routes())["components"]["schemas"])
    assert not {name for name in names if name.startswith("New")}
