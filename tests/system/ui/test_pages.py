"""The web interface over WSGI: pages, sign-in, and what protects them. Browsers run in tests/system/browser."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from stead import application
from stead.auth import one_time_codes
from stead.auth.token_editing import create
from stead.config import load
from stead.observation import Observation
from stead.observe import metrics
from stead.observe.reports import Reports
from stead.ui.guard import is_known_host
from tests.system.api.client import Api, fresh_uuid, wsgi_door
from tests.system.ui.wsgi_browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.one_database

HOSTILE = ["<script>alert(1)</script>", "\u202eevil", "🚀" * 20, "n" * 200, '"><img src=x onerror=alert(1)>', "a&b=c"]
OTHER = {"HTTP_ORIGIN": "https://evil.example"}


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Browser]]:
    """Make a service with some options of ``[stead]``; by default tokens are checked by a file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    services = []

    def make(strategy: str = "noauth2", more: str = "", **options: str) -> Browser:
        file = tmp_path / "placement.conf"
        lines = [f"{name} = {value}" for name, value in options.items()]
        if strategy == "token":
            lines.append(f"token_file = {tmp_path / 'tokens.json'}")
        file.write_text(
            f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
            f"[api]\nauth_strategy = {strategy}\n[stead]\n" + "\n".join(lines) + f"\n{more}"
        )
        settings = load([file])
        observation = Observation(settings)
        service = application.build_service(settings, observation)
        services.append(service)
        return Browser(application.assemble(service, settings, observation))

    yield make
    for service in services:
        service.close()


@pytest.fixture
def browser(start: Callable[..., Browser]) -> Browser:
    made = start(ui_writes="true")
    made.sign_in("admin")
    return made


PAGES = ["/ui/", "/ui/ask", "/ui/ask?resources=VCPU:1", "/ui/consumers", "/ui/activity"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_site_of_nothing_has_its_heading(browser: Browser, path: str) -> None:
    page = browser.get(path)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>" in page.text


@pytest.mark.parametrize("path", ["/", "/docs", "/ui/", "/ui/sign-in", "/ui/static/stead.css", "/ui/nothing"])
def test_every_answer_has_the_headers_that_protect_it(browser: Browser, path: str) -> None:
    headers = browser.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(browser: Browser, name: str) -> None:
    uuid = Api(wsgi_door(browser.app)).create_provider(name).uuid
    for path in ("/ui/", f"/ui/providers/{uuid}", "/ui/activity"):
        page = browser.get(path)
        assert page.status == 200
        assert name in unescape(page.text)
        assert "<script>alert" not in page.text
        assert "<img" not in page.text


@pytest.mark.parametrize("path", ["/ui/", "/ui/ask", "/ui/consumers"])
@pytest.mark.parametrize("value", [*HOSTILE, "%00", "'"])
def test_a_hostile_query_is_no_markup_and_no_fault(browser: Browser, path: str, value: str) -> None:
    query = urlencode(dict.fromkeys(("name", "resources", "required", "project_id", "sort", "page"), value))
    page = browser.get(f"{path}?{query}")
    assert page.status in (200, 400)
    assert "<script>alert" not in page.text
    assert "<img" not in page.text


def test_no_page_has_a_script_or_a_style_in_it(browser: Browser) -> None:
    for path in [*PAGES, "/docs", "/", "/ui/sign-in"]:
        text = browser.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=", text), path


def test_a_host_appears_and_can_be_claimed_and_released(browser: Browser) -> None:
    host = Api(wsgi_door(browser.app)).create_provider("srv17", inventories={"VCPU": 8})
    assert "srv17" in browser.get("/ui/?resources=VCPU:8").text
    assert "srv17" not in browser.get("/ui/?resources=VCPU:9").text
    page = browser.get("/ui/ask?resources=VCPU:2")
    found = re.search(r'name="allocations" value="([^"]+)"', page.text)
    assert found
    consumer = fresh_uuid()
    form = {"csrf": page.csrf, "consumer": consumer, "project": "p", "user": "u", "allocations": unescape(found[1])}
    claimed = browser.post("/ui/ask", form)
    assert (claimed.status, claimed.headers["location"]) == (303, f"/ui/consumers?consumer={consumer}")
    assert consumer in browser.get(f"/ui/providers/{host.uuid}").text
    released = browser.post("/ui/consumers", {"csrf": page.csrf, "consumer": consumer})
    assert released.status == 303
    assert consumer not in browser.get("/ui/consumers").text


def test_an_explanation_leads_to_a_request_that_has_candidates(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider("compute1", inventories={"VCPU": 8})
    page = browser.get("/ui/ask?resources=VCPU:12")
    assert "No candidates" in page.text
    found = re.search(r'<li><a href="(/ui/ask\?[^"]+)"', page.text)
    assert found
    assert "1 candidate<" in browser.get(unescape(found[1])).text


def test_ask_says_how_many_times_a_request_fits_and_what_runs_out(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    api.create_provider("a", inventories={"VCPU": 8, "MEMORY_MB": 100})
    api.create_provider("b", inventories={"VCPU": 9, "MEMORY_MB": 40})
    text = unescape(browser.get("/ui/ask?resources=VCPU:2,MEMORY_MB:20").text)
    assert "Room for this request: 6 times" in text
    assert "<code>VCPU</code> in 1 tree" in text
    assert "<code>MEMORY_MB</code> in 1 tree" in text
    assert "Room for" not in browser.get("/ui/ask?resources=VCPU:10").text
    limited = browser.get("/ui/ask?resources=VCPU:2&limit=1").text
    assert "Room for this request: 8 times" in limited  # the limit is that of candidates


def test_ask_shows_the_query_as_people_write_it(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider("a", inventories={"VCPU": 8})
    text = browser.get("/ui/ask?resources=VCPU%3A9%2CDISK_GB:1&required=!COMPUTE_NODE").text
    assert "resources=VCPU:9,DISK_GB:1&amp;required=!COMPUTE_NODE</code>" in text
    assert "Why the request has 0 candidates" in text


def test_activity_counts_claims_and_refusals_by_reason(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8})
    assert "<html" not in browser.get("/ui/activity?part=counts").text
    form = {"csrf": browser.get("/ui/").csrf, "consumer": fresh_uuid(), "project": "p", "user": "u"}
    form["allocations"] = json.dumps({host.uuid: {"VCPU": 5}})
    assert browser.post("/ui/ask", form).status == 303
    for _ in range(2):
        assert browser.post("/ui/ask", form | {"consumer": fresh_uuid()}).status == 409
    text = browser.get("/ui/activity").text
    assert re.search(r"Consumers written, this worker<dd>1\n", text)
    assert re.search(r"Not enough free: capacity_exceeded<td class=\"n\">2\n", text)
    assert "a worker knows only itself" in text


def test_activity_shows_the_lag_of_every_worker_that_reports(start: Callable[..., Browser], tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    browser = start(metrics="9", metrics_directory=str(tmp_path / "metrics"))
    browser.sign_in("admin")
    counted = [
        (metrics.CLAIMS.name, ("written",), [7.0]),
        (metrics.CONFLICTS.name, ("generation_conflict",), [3.0]),
        (metrics.REFUSED.name, ("queue_full",), [2.0]),
    ]
    Reports(tmp_path / "metrics").write(counted, [(metrics.LAG, ("4711",), 1.25)])
    written = next((tmp_path / "metrics").glob("*.json"))
    written.rename(tmp_path / "metrics/4711-1.json")
    text = browser.get("/ui/activity").text
    assert re.search(r"4711<td class=\"n\">1\.[23] s", text)
    assert re.search(r"Consumers written, all workers<dd>7\n", text)
    assert re.search(r"The provider changed first \(generation\): generation_conflict<td class=\"n\">3\n", text)
    assert re.search(r"queue_full<td class=\"n\">2\n", text)


def test_the_table_of_trees_has_numbers_that_scripts_find(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider('a"b', inventories={"VCPU": 8})
    text = browser.get("/ui/").text
    assert 'data-class="VCPU" data-tree="a&#34;b" data-of="free">8</span>' in text


@pytest.mark.parametrize(
    ("change", "environ"),
    [({"csrf": ""}, {}), ({"csrf": "0" * 64}, {}), ({}, OTHER), ({}, {"HTTP_SEC_FETCH_SITE": "cross-site"})],
)
def test_a_write_of_another_origin_changes_nothing(
    browser: Browser, change: dict[str, str], environ: dict[str, str]
) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider(inventories={"VCPU": 8})
    form = {"consumer": fresh_uuid(), "project": "p", "user": "u", "allocations": json.dumps({host.uuid: {"VCPU": 1}})}
    form["csrf"] = browser.get("/ui/").csrf
    assert browser.post("/ui/ask", form | change, **environ).status == 403
    assert api.get(f"/resource_providers/{host.uuid}/usages").usages == {"VCPU": 0}


def test_the_api_below_the_pages_needs_the_session_and_for_writes_the_token(browser: Browser) -> None:
    version = {"HTTP_OPENSTACK_API_VERSION": "placement 1.39", "HTTP_ACCEPT": "application/json"}
    path = "/ui/api/traits/CUSTOM_X"
    assert browser.get("/ui/api/resource_classes", **version).status == 200
    assert browser.call("PUT", path, **version).status == 403
    csrf = browser.get("/ui/").csrf
    assert browser.call("PUT", path, HTTP_X_STEAD_CSRF=csrf, **version, **OTHER).status == 403
    assert browser.call("PUT", path, HTTP_X_STEAD_CSRF=csrf, **version).status == 201
    browser.cookie = ""
    assert browser.get("/ui/api/resource_classes", **version).status == 401
    assert browser.get("/resource_classes", **version).status == 401


def test_the_api_does_not_accept_the_cookie(browser: Browser) -> None:
    assert browser.get("/resource_classes", HTTP_OPENSTACK_API_VERSION="placement 1.39").status == 401


def test_a_reading_interface_has_no_form_that_writes(start: Callable[..., Browser]) -> None:
    reader = start()
    reader.sign_in("admin")
    api = Api(wsgi_door(reader.app))
    host = api.create_provider(inventories={"VCPU": 8})
    page = reader.get("/ui/ask?resources=VCPU:1")
    assert 'name="allocations"' not in page.text
    form = {"csrf": page.csrf, "consumer": fresh_uuid(), "project": "p", "user": "u"}
    form["allocations"] = json.dumps({host.uuid: {"VCPU": 1}})
    assert reader.post("/ui/ask", form).status == 403
    assert reader.post("/ui/consumers", form).status == 403
    call = reader.call("PUT", "/ui/api/traits/CUSTOM_X", HTTP_X_STEAD_CSRF=page.csrf)
    assert call.status == 403
    assert api.get(f"/resource_providers/{host.uuid}/usages").usages == {"VCPU": 0}


@pytest.mark.parametrize("path", PAGES)
def test_a_user_without_a_role_sees_a_page_that_says_so(start: Callable[..., Browser], path: str) -> None:
    user = start()
    user.sign_in("somebody")
    page = user.get(path)
    assert page.status == 403
    assert "User somebody may not see this page" in page.text


def test_a_session_of_a_token_ends_with_the_token(start: Callable[..., Browser], tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"tokens": []}')
    file.chmod(0o600)
    token = create(file, "ann", user="ann", project="p", roles=["admin"])
    browser = start("token")
    page = browser.sign_in(token)
    assert "HttpOnly; SameSite=Strict" in page.headers["set-cookie"]
    assert token not in page.headers["set-cookie"]
    assert browser.get("/ui/").status == 200
    good, browser.cookie = browser.cookie, browser.cookie[:-6] + "AAAA=="
    assert browser.get("/ui/").status == 303
    browser.cookie = good
    file.write_text('{"tokens": []}')
    assert browser.get("/ui/").status == 303


def test_a_wrong_token_begins_no_session(start: Callable[..., Browser], tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"tokens": []}')
    file.chmod(0o600)
    page = start("token").sign_in("wrong")
    assert page.status == 401
    assert "set-cookie" not in page.headers


def test_the_cookie_is_secure_under_tls(browser: Browser) -> None:
    page = browser.post("/ui/sign-in", {"token": "admin"}, **{"wsgi.url_scheme": "https"})
    assert "; Secure" in page.headers["set-cookie"]


def test_signing_in_leads_nowhere_else(browser: Browser) -> None:
    for place in ("//evil.example", "https://evil.example", "/\\evil.example", "/other", "/ui\n/x"):
        page = browser.post("/ui/sign-in", {"token": "admin", "next": place})
        assert 'content="0; url=/ui/"' in page.text


def test_a_form_of_another_site_signs_nobody_in(browser: Browser) -> None:
    assert browser.post("/ui/sign-in", {"token": "admin"}, **OTHER).status == 403


def test_a_code_is_accepted_once(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    code = one_time_codes.new_code(data_dir)
    assert code not in "".join(path.name for path in data_dir.rglob("*"))
    assert not one_time_codes.accept(data_dir, "wrong")
    assert one_time_codes.accept(data_dir, code)
    assert not one_time_codes.accept(data_dir, code)


@pytest.mark.parametrize(
    "header", ["127.0.0.1:8778", "localhost", "[::1]:8778", "placement.example:443", "a.localhost"]
)
def test_a_known_host_is_accepted(header: str) -> None:
    assert is_known_host(header, frozenset({"placement.example"}))


@pytest.mark.parametrize(
    "header", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "x@127.0.0.1"]
)
def test_an_unknown_host_is_refused(start: Callable[..., Browser], header: str) -> None:
    browser = start(ui_hosts="placement.example")
    for path in ("/ui/", "/ui/sign-in", "/docs", "/ui/static/stead.js"):
        assert browser.get(path, HTTP_HOST=header).status == 403


LOOPBACK = {"REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": "127.0.0.1", "HTTP_HOST": "evil.example:8778"}


@pytest.mark.parametrize("path", ["/ui/", "/ui/sign-in", "/docs", "/ui/api/resource_classes"])
def test_a_name_that_is_rebound_to_loopback_is_refused(start: Callable[..., Browser], path: str) -> None:
    browser = start()
    assert browser.get(path, **LOOPBACK).status == 403
    assert browser.get(path, **LOOPBACK | {"HTTP_HOST": "localhost:8778"}).status != 403
    assert browser.get(path, **LOOPBACK | {"REMOTE_ADDR": "192.0.2.1", "SERVER_NAME": "192.0.2.2"}).status != 403


def test_a_proxy_over_loopback_may_pass_any_name(start: Callable[..., Browser]) -> None:
    browser = start(more="[oslo_middleware]\nenable_proxy_headers_parsing = true\n")
    assert browser.get("/ui/sign-in", **LOOPBACK).status == 200
    assert start(ui_hosts="evil.example").get("/ui/sign-in", **LOOPBACK).status == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/ui/sign-in", *PAGES])
def test_head_is_get_without_the_body(browser: Browser, path: str) -> None:
    changing = ("date", "content-length", "x-openstack-request-id")  # a page has times and new uuids in it
    got, head = browser.get(path), browser.call("HEAD", path)
    assert (head.status, head.text) == (got.status, "")
    assert {**got.headers, **dict.fromkeys(changing)} == {**head.headers, **dict.fromkeys(changing)}


def test_head_does_not_use_up_a_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir(mode=0o700)
    settings = load([])
    assert settings.embedded
    assert settings.data_dir is not None
    service = application.build_service(settings)
    try:
        browser = Browser(application.assemble(service, settings))
        path = f"/ui/sign-in?code={one_time_codes.new_code(settings.data_dir)}"
        assert browser.call("HEAD", path).status == 200
        assert "set-cookie" in browser.get(path).headers
        assert browser.get(path).status == 403
    finally:
        service.close()


@pytest.mark.parametrize("path", ["/ui/sign-in", "/prefix/ui/sign-in"])
def test_a_code_is_not_logged(browser: Browser, path: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "placement.requestlog"):
        browser.get(f"{path}?a=1&code=SECRET&b=2")
        browser.get(f"{path}?code=SECRET")
    assert "SECRET" not in caplog.text
    assert f"{path}?a=1&code=***&b=2" in caplog.text


@pytest.mark.parametrize(
    "path", ["/ui/static/../app.py", "/ui/static/..%2fapp.py", "/ui/static//etc/passwd", "/ui/static/"]
)
def test_no_file_but_the_static_ones_is_served(browser: Browser, path: str) -> None:
    assert browser.get(path).status == 404


def test_a_static_file_is_cached_by_its_version(browser: Browser) -> None:
    found = re.search(r'href="(/ui/static/v-[0-9a-f]+/stead\.css)"', browser.get("/ui/").text)
    assert found
    file = browser.get(found[1])
    assert "immutable" in file.headers["cache-control"]
    plain = browser.get("/ui/static/stead.css")
    assert plain.headers["cache-control"] == "no-cache"
    assert browser.get("/ui/static/stead.css", HTTP_IF_NONE_MATCH=plain.headers["etag"]).status == 304


@pytest.mark.parametrize(
    "fields",
    [
        {"HTTP_ACCEPT": "application/json"},
        {"HTTP_OPENSTACK_API_VERSION": "placement 1.39"},
        {"HTTP_X_AUTH_TOKEN": "admin"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_root_is_a_page_for_browsers_only(browser: Browser, fields: dict[str, str]) -> None:
    """A program may accept HTML too, but a browser sends neither a version nor a token."""
    assert 'href="/ui/"' in browser.get("/").text
    document = browser.get("/", **fields)
    assert json.loads(document.text)["versions"][0]["id"] == "v1.0"
    assert "content-security-policy" not in document.headers


def test_the_reference_has_every_operation_of_the_document(browser: Browser) -> None:
    page = browser.get("/docs").text
    document = json.loads(browser.get("/openapi.json").text)
    methods = {"get", "put", "post", "patch", "delete"}
    anchors = [entry[method]["operationId"] for entry in document["paths"].values() for method in methods & set(entry)]
    assert anchors
    assert all(f'id="{anchor}"' in page for anchor in anchors)


def test_private_docs_need_a_token(start: Callable[..., Browser]) -> None:
    browser = start(public_docs="false")
    assert browser.get("/docs").status == 401
    assert browser.get("/openapi.json").status == 401
