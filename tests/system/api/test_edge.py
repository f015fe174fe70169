"""What all routes share: methods, media types, the form of errors, request ids, cache headers."""

import re

import pytest

from tests.system.api.client import NEWEST, Api, Provider, fresh_custom, fresh_name, fresh_uuid, holding

UUID = "d0d0d0d0-0000-4000-8000-00000000dead"

ROUTES = {
    "/": "GET",
    "/resource_providers": "GET, POST",
    f"/resource_providers/{UUID}": "GET, PUT, DELETE",
    f"/resource_providers/{UUID}/inventories": "GET, POST, PUT, DELETE",
    f"/resource_providers/{UUID}/inventories/VCPU": "GET, PUT, DELETE",
    f"/resource_providers/{UUID}/usages": "GET",
    f"/resource_providers/{UUID}/aggregates": "GET, PUT",
    f"/resource_providers/{UUID}/allocations": "GET",
    f"/resource_providers/{UUID}/traits": "GET, PUT, DELETE",
    "/resource_classes": "GET, POST",
    "/resource_classes/VCPU": "GET, PUT, DELETE",
    "/traits": "GET",
    "/traits/HW_CPU_X86_SHA": "GET, PUT, DELETE",
    "/allocations": "POST",
    f"/allocations/{UUID}": "GET, PUT, DELETE",
    "/allocation_candidates": "GET",
    "/usages": "GET",
    "/reshaper": "POST",
}

# The routes whose answer is JSON, with what makes them answer 200.
READS = [path for path, methods in ROUTES.items() if "GET" in methods and not path.startswith("/traits/")]
READS = [path for path in READS if path != "/"]
WRITES = {
    ("POST", "/resource_providers"),
    ("PUT", f"/resource_providers/{UUID}"),
    ("POST", f"/resource_providers/{UUID}/inventories"),
    ("PUT", f"/resource_providers/{UUID}/inventories"),
    ("PUT", f"/resource_providers/{UUID}/inventories/VCPU"),
    ("PUT", f"/resource_providers/{UUID}/aggregates"),
    ("PUT", f"/resource_providers/{UUID}/traits"),
    ("POST", "/resource_classes"),
    ("POST", "/allocations"),
    ("PUT", f"/allocations/{UUID}"),
    ("POST", "/reshaper"),
}


@pytest.mark.one_database
class TestMethods:
    @pytest.mark.parametrize(
        ("method", "path"),
        [
            (method, path)
            for path, allowed in ROUTES.items()
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")
            if method not in allowed.split(", ")
        ],
    )
    def test_another_method_is_405_and_tells_the_allowed_ones(self, api: Api, method: str, path: str) -> None:
        answer = api.call(method, path)
        assert answer.refused(405, f"The method {method} is not allowed for this resource.")
        assert set((answer.header("allow") or "").split(", ")) == set(ROUTES[path].split(", "))

    @pytest.mark.parametrize("path", ROUTES)
    def test_head_is_405_without_a_body(self, api: Api, path: str) -> None:
        answer = api.call("HEAD", path).expect(405)
        assert (answer.body, bool(answer.header("allow"))) == (b"", True)

    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    def test_an_unknown_path_is_404_for_every_method(self, api: Api, method: str) -> None:
        assert api.call(method, "/nothing/like/this").refused(404, "The resource could not be found")

    def test_without_cors_nothing_speaks_of_it(self, api: Api) -> None:
        answer = api.get("/resource_classes/VCPU", headers={"Origin": "http://example.com"})
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.one_database
class TestAccept:
    ACCEPTABLE = (
        None,
        "",
        "*/*",
        "application/json",
        "application/*",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "text/plain, application/json;q=0.1",
    )
    REFUSED = (
        "text/plain",
        "text/html",
        "application/xml",
        "text/html,application/xhtml+xml,application/xml;q=0.9",
        "application/json;q=0",
    )

    @pytest.mark.parametrize("accept", ACCEPTABLE)
    def test_a_read_is_served_to_who_takes_json(self, api: Api, accept: str | None) -> None:
        answer = api.get("/resource_classes", headers={"Accept": accept}).expect(200)
        assert answer.header("content-type") == "application/json"

    @pytest.mark.parametrize("accept", REFUSED)
    def test_a_read_is_406_for_who_does_not(self, api: Api, accept: str) -> None:
        answer = api.get("/resource_classes", headers={"Accept": accept}).expect(406)
        assert b"Only application/json is provided" in answer.body
        assert b"max_version" not in answer.body

    @pytest.mark.parametrize("path", READS)
    def test_every_read_asks(self, api: Api, path: str) -> None:
        answer = api.get(path, headers={"Accept": "text/plain"}).expect(406)
        assert answer.header("content-type") == "text/plain; charset=UTF-8"
        assert answer.header("openstack-api-version") == f"placement {NEWEST}"

    def test_a_write_does_not_ask(self, api: Api) -> None:
        host = api.create_provider()
        answer = api.call(
            "PUT",
            host.inventories,
            {"resource_provider_generation": 0, "inventories": {}},
            headers={"Accept": "text/plain"},
        ).expect(200)
        assert answer.header("content-type") == "application/json"


@pytest.mark.one_database
class TestErrors:
    @pytest.mark.parametrize(
        ("accept", "content_type"),
        [
            (None, "application/json"),
            ("", "application/json"),
            ("*/*", "application/json"),
            ("application/json", "application/json"),
            ("application/json, text/plain", "application/json"),
            ("text/html", "text/html; charset=UTF-8"),
            ("text/*", "text/html; charset=UTF-8"),
            ("application/json, text/html", "text/html; charset=UTF-8"),
            ("application/json, text/html;q=0.9", "application/json"),
            ("text/plain", "text/plain; charset=UTF-8"),
            ("application/xml", "text/plain; charset=UTF-8"),
        ],
    )
    def test_the_form_follows_what_is_accepted(self, api: Api, accept: str | None, content_type: str) -> None:
        answer = api.get("/nothing", headers={"Accept": accept}).expect(404)
        assert answer.header("content-type") == content_type
        assert b"The resource could not be found" in answer.body

    def test_a_refused_body_is_400_in_plain_text_too(self, api: Api) -> None:
        answer = api.call("POST", "/resource_providers", {}, headers={"Accept": "text/plain"}).expect(400)
        assert answer.header("content-type") == "text/plain; charset=UTF-8"
        assert b"JSON does not validate" in answer.body

    def test_the_error_is_one_object_with_five_fields(self, api: Api) -> None:
        answer = api.get(f"/resource_providers/{UUID}").expect(404)
        (error,) = answer.json["errors"]
        assert error == {
            "status": 404,
            "title": "Not Found",
            "detail": error["detail"],
            "code": "placement.undefined_code",
            "request_id": answer.header("x-openstack-request-id"),
        }

    def test_the_message_is_the_last_line_of_the_detail(self, api: Api) -> None:
        detail = api.get(f"/resource_providers/{UUID}").error.detail
        generic, *_, message = detail.split("\n")
        assert generic == "The resource could not be found."
        assert message.strip().startswith(f"No resource provider with uuid {UUID} found")

    @pytest.mark.parametrize("value", ["<script>alert(1)</script>", "a&b", '"quoted"'])
    def test_what_was_sent_is_no_markup_in_a_page(self, api: Api, value: str) -> None:
        answer = api.call("POST", "/resource_providers", {"name": "n", value: 1}, headers={"Accept": "text/html"})
        assert answer.expect(400).header("content-type") == "text/html; charset=UTF-8"
        assert b"<script>" not in answer.body

    @pytest.mark.parametrize(("version", "has_code"), [("1.22", False), ("1.23", True)])
    def test_errors_have_codes_from_1_23_on(self, api: Api, version: str, has_code: bool) -> None:
        assert (api.at(version).get("/nothing").error.code is not None) == has_code


@pytest.mark.one_database
class TestBodies:
    @pytest.mark.parametrize(("method", "path"), sorted(WRITES))
    @pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "application/json-patch+json"])
    def test_only_json_is_taken(self, api: Api, method: str, path: str, content_type: str) -> None:
        answer = api.call(method, path, raw=b"{}", headers={"Content-Type": content_type})
        assert answer.refused(415, f"The media type {content_type} is not supported, use application/json")

    @pytest.mark.parametrize(("method", "path"), sorted(WRITES))
    def test_no_body_and_no_type_is_415_naming_none(self, api: Api, method: str, path: str) -> None:
        answer = api.call(method, path, headers={"Content-Length": "0"})
        assert answer.refused(415, "The media type None is not supported, use application/json")

    def test_parameters_of_the_media_type_are_ignored(self, api: Api) -> None:
        body = {"name": fresh_name()}
        headers = {"Content-Type": "application/json; charset=utf-8"}
        api.call("POST", "/resource_providers", body, headers=headers).expect(200)

    @pytest.mark.parametrize("path", ["/resource_providers", "/nothing", "/traits/CUSTOM_X", "/"])
    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
    def test_a_body_without_a_type_is_400_everywhere(self, api: Api, method: str, path: str) -> None:
        answer = api.call(method, path, raw=b"{}", headers={"Content-Type": None})
        assert answer.refused(400, "content-type header required")

    @pytest.mark.parametrize(
        "raw", [b"", b"{", b"nonsense", b"{'name': 1}", b'{"name": "\xff\xfe"}', b"\xff", b'{"name": }']
    )
    @pytest.mark.parametrize("path", ["/resource_providers", "/allocations", "/reshaper", "/resource_classes"])
    def test_what_is_not_json_is_400(self, api: Api, path: str, raw: bytes) -> None:
        assert api.call("POST", path, raw=raw).refused(400, "Malformed JSON:")

    @pytest.mark.parametrize("raw", [b"[]", b"null", b"7", b'"text"', b"true"])
    @pytest.mark.parametrize("path", ["/resource_providers", "/allocations", "/reshaper", "/resource_classes"])
    def test_json_that_is_no_object_is_400(self, api: Api, path: str, raw: bytes) -> None:
        assert api.call("POST", path, raw=raw).refused(400, "JSON does not validate", "is not of type 'object'")

    def test_of_repeated_keys_the_last_counts(self, api: Api) -> None:
        name = fresh_name()
        raw = f'{{"name": "another", "name": "{name}"}}'.encode()
        assert api.call("POST", "/resource_providers", raw=raw).expect(200).name == name


@pytest.mark.one_database
class TestRequestIds:
    def test_each_request_has_its_own(self, api: Api) -> None:
        given = f"req-{fresh_uuid()}"
        ids = [
            api.get(path, headers=headers).header("x-openstack-request-id")
            for path in ("/", "/resource_classes", "/nothing")
            for headers in ({}, {"X-Openstack-Request-Id": given}, {"X-Auth-Token": None})
        ]
        assert len({given, *ids}) == 10


NOT_FOR_CACHES = r"\w+, \d+ \w+ \d{4} [\d:]+ GMT"


class TestCacheHeaders:
    @pytest.fixture
    def host(self, api: Api) -> Provider:
        return api.create_provider(inventories={"VCPU": 4}, traits=["HW_CPU_X86_SHA"], aggregates=[fresh_uuid()])

    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/resource_providers?uuid={uuid}",
            f"/resource_providers?uuid={UUID}",
            "/resource_providers/{uuid}",
            "/resource_providers/{uuid}/inventories",
            "/resource_providers/{uuid}/inventories/VCPU",
            "/resource_providers/{uuid}/usages",
            "/resource_providers/{uuid}/aggregates",
            "/resource_providers/{uuid}/allocations",
            "/resource_providers/{uuid}/traits",
            "/resource_classes",
            "/resource_classes/VCPU",
            "/traits",
            "/traits?name=in:CUSTOM_NOBODY_MADE_THIS",
            "/traits/HW_CPU_X86_SHA",
            f"/allocations/{UUID}",
            "/allocation_candidates?resources=VCPU:1&in_tree={uuid}",
            "/usages?project_id=p",
        ],
    )
    def test_every_read_tells_when_it_changed(self, api: Api, host: Provider, path: str) -> None:
        answer = api.get(path.format(uuid=host.uuid)).expect(200, 204)
        assert answer.header("cache-control") == "no-cache"
        assert re.fullmatch(NOT_FOR_CACHES, answer.header("last-modified") or "")

    def test_writes_that_answer_a_body_tell_it_too(self, api: Api) -> None:
        made = api.post("/resource_providers", name=fresh_name()).expect(200)
        path = f"/resource_providers/{made.uuid}"
        answers = [
            made,
            api.post(f"{path}/inventories", resource_class="VCPU", total=1).expect(201),
            api.put(f"{path}/inventories/VCPU", total=2, generation=1).expect(200),
            api.put(f"{path}/inventories", inventories={"VCPU": {"total": 3}}, generation=2).expect(200),
            api.put(f"{path}/aggregates", aggregates=[], generation=3).expect(200),
            api.put(f"{path}/traits", traits=[], generation=4).expect(200),
            api.put(f"/traits/{fresh_custom()}").expect(201),
        ]
        for answer in answers:
            assert answer.header("cache-control") == "no-cache", answer
            assert re.fullmatch(NOT_FOR_CACHES, answer.header("last-modified") or ""), answer

    def test_a_renamed_provider_tells_it(self, api: Api) -> None:
        host = api.create_provider()
        renamed = api.put(host.path, name=fresh_name()).expect(200)
        assert renamed.header("cache-control") == "no-cache"
        assert re.fullmatch(NOT_FOR_CACHES, renamed.header("last-modified") or "")

    def test_no_inventory_has_no_date(self, api: Api) -> None:
        host = api.create_provider()
        answers = [
            api.get(host.inventories),
            api.put(host.inventories, inventories={}, generation=0),
        ]
        for answer in answers:
            assert (answer.header("cache-control"), answer.header("last-modified")) == ("no-cache", None)

    def test_other_writes_and_errors_have_neither(self, api: Api, host: Provider) -> None:
        consumer, made = fresh_uuid(), f"/resource_classes/{fresh_custom()}"
        empty = {"resource_provider_generation": 5, "inventories": {}}
        answers = [
            api.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}))).expect(204),
            api.post("/allocations", {consumer: holding(generation=1)}).expect(204),
            api.post("/reshaper", inventories={host.uuid: empty}, allocations={}).expect(204),
            api.put(made).expect(201),
            api.put(made).expect(204),
            api.delete(made).expect(204),
            api.post("/resource_classes", name=fresh_custom()).expect(201),
            api.delete(host.traits).expect(204),
            api.delete(host.inventories).expect(204),
            api.delete(host.path).expect(204),
            api.get(host.path).expect(404),
        ]
        for answer in answers:
            assert (answer.header("cache-control"), answer.header("last-modified")) == (None, None), answer


@pytest.mark.one_database
class TestOrderOfChecks:
    """Which of several faults is answered, where a client can tell."""

    @pytest.mark.parametrize(
        ("version", "method", "path", "status"),
        [
            ("1.0", "GET", "/allocations", 405),
            ("1.4", "DELETE", f"/resource_providers/{UUID}/inventories", 405),
            ("1.1", "POST", "/resource_classes", 404),
            ("1.5", "PUT", f"/resource_providers/{UUID}/traits", 404),
            ("1.12", "POST", "/allocations", 404),
            ("1.29", "POST", "/reshaper", 404),
        ],
    )
    def test_a_version_before_a_route_beats_a_wrong_media_type(
        self, api: Api, version: str, method: str, path: str, status: int
    ) -> None:
        answer = api.at(version).call(method, path, raw=b"{", headers={"Content-Type": "text/plain"})
        assert answer.status == status

    @pytest.mark.parametrize(("method", "path"), sorted(WRITES))
    def test_a_wrong_media_type_beats_a_missing_role(self, api: Api, method: str, path: str) -> None:
        headers = {"X-Auth-Token": "nobody", "X-Roles": None}
        assert api.call(method, path, raw=b"{", headers={**headers, "Content-Type": "text/plain"}).refused(415)
        assert api.call(method, path, raw=b"{", headers=headers).refused(403)
