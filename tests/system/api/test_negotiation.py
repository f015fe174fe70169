"""``OpenStack-API-Version``, and the root document in which a client finds the versions."""

import pytest

from tests.system.api.client import Api, fresh_uuid

pytestmark = pytest.mark.one_database

VERSION = "OpenStack-API-Version"

ROOT = {
    "versions": [
        {
            "id": "v1.0",
            "max_version": "1.39",
            "min_version": "1.0",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}


class TestRoot:
    def test_it_names_the_versions(self, api: Api) -> None:
        answer = api.get("/").expect(200)
        assert answer.json == ROOT
        assert answer.header("cache-control") == "no-cache"
        assert answer.header("last-modified")

    @pytest.mark.parametrize("token", [None, "admin", "nobody", ""])
    def test_it_needs_no_token(self, api: Api, token: str | None) -> None:
        headers = {"X-Auth-Token": token, "X-Roles": None}
        assert api.get("/", headers=headers).expect(200).json == ROOT

    @pytest.mark.parametrize("accept", ["text/html", "text/plain", "nonsense", None])
    def test_it_is_json_whatever_is_accepted(self, api: Api, accept: str | None) -> None:
        answer = api.get("/", headers={"Accept": accept}).expect(200)
        assert (answer.json, answer.header("content-type")) == (ROOT, "application/json")

    def test_before_1_15_it_has_no_cache_headers(self, api: Api) -> None:
        answer = api.at("1.14").get("/").expect(200)
        assert (answer.header("cache-control"), answer.header("last-modified")) == (None, None)
        assert api.at("1.15").get("/").header("cache-control") == "no-cache"

    @pytest.mark.parametrize("path", ["//", "/nothing", "/resource_providers/", "/Resource_providers", "/traits/A/B"])
    def test_no_other_path_is_the_root(self, api: Api, path: str) -> None:
        assert api.get(path).refused(404, "The resource could not be found")


@pytest.mark.parametrize(
    ("header", "used"),
    [
        (None, "1.0"),
        ("", "1.0"),
        ("placement 1.5", "1.5"),
        ("PLACEMENT 1.5", "1.5"),
        ("placement latest", "1.39"),
        ("placement 1.05", "1.5"),
        ("placement  1.5", "1.5"),
        ("placement 1.0", "1.0"),
        ("placement 1.39", "1.39"),
        ("1.5", "1.0"),
        ("placement", "1.0"),
        ("compute 2.5", "1.0"),
        ("compute 2.90, placement 1.7", "1.7"),
        ("placement 1.7,compute 2.90", "1.7"),
        ("placement 1.5,placement 1.9", "1.9"),
        ("placement 1.5,placement", "1.5"),
    ],
)
def test_the_version_that_is_used_is_told(api: Api, header: str | None, used: str) -> None:
    answer = api.get("/resource_providers", {"uuid": fresh_uuid()}, headers={VERSION: header}).expect(200)
    assert answer.header("openstack-api-version") == f"placement {used}"
    assert "openstack-api-version" in (answer.header("vary") or "").lower()


@pytest.mark.parametrize("name", ["OpenStack-Placement-API-Version", "X-OpenStack-Placement-API-Version"])
def test_no_other_header_is_regarded(api: Api, name: str) -> None:
    answer = api.get("/", headers={VERSION: None, name: "1.9"})
    assert answer.header("openstack-api-version") == "placement 1.0"


@pytest.mark.parametrize("path", ["/", "/resource_providers", "/nothing/like/this"])
@pytest.mark.parametrize("version", ["0.5", "0.9", "1.40", "2.0", "1.400"])
def test_an_unsupported_version_is_406_and_tells_the_supported_ones(api: Api, path: str, version: str) -> None:
    answer = api.get(path, headers={VERSION: f"placement {version}"}).expect(406)
    error = answer.error
    assert f"Unacceptable version header: {version}" in error.detail
    assert (error.min_version, error.max_version, error.code) == ("1.0", "1.39", None)
    assert (answer.header("openstack-api-version"), answer.header("vary")) == (None, None)


@pytest.mark.parametrize("path", ["/", "/resource_providers", "/nothing/like/this"])
@pytest.mark.parametrize("version", ["abc.def", "1.2.3", "1", "LATEST", "1.x", "one.two"])
def test_a_malformed_version_is_400(api: Api, path: str, version: str) -> None:
    answer = api.get(path, headers={VERSION: f"placement {version}"}).expect(400)
    assert f"invalid version string: {version}" in answer.error.detail
    assert (answer.error.code, answer.header("openstack-api-version"), answer.header("vary")) == (None, None, None)


@pytest.mark.parametrize("accept", [None, "", "*/*", "application/json"])
def test_the_406_is_json_unless_something_else_is_asked_for(api: Api, accept: str | None) -> None:
    answer = api.get("/resource_providers", headers={VERSION: "placement 0.5", "Accept": accept}).expect(406)
    assert answer.header("content-type") == "application/json"
    assert answer.error.max_version == "1.39"


def test_the_406_is_a_page_for_a_browser(api: Api) -> None:
    answer = api.get("/resource_providers", headers={VERSION: "placement 0.5", "Accept": "text/html"}).expect(406)
    assert (answer.header("content-type") or "").startswith("text/html")
    assert b"Unacceptable version header: 0.5" in answer.body


def test_a_stranger_is_refused_before_the_version_is_looked_at(api: Api) -> None:
    answer = api.get("/resource_providers", headers={VERSION: "placement 9.9", "X-Auth-Token": None})
    assert answer.status == 401
