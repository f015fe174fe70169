"""The web interface over WSGI: pages, sign-in, and what protects them. Browsers run in tests/system/browser."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults

import pytest

from stead import application
from stead.auth import one_time_codes
from stead.auth.token_editing import create
from stead.config import load
from stead.ui.guard import is_known_host
from tests.system.api.client import Api, fresh_uuid, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.one_database

HOSTILE = ["<script>alert(1)</script>", "\u202eevil", "🚀" * 20, "n" * 200, '"><img src=x onerror=alert(1)>', "a&b=c"]
OTHER = {"HTTP_ORIGIN": "https://evil.example"}


@dataclass
class Page:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def csrf(self) -> str:
        found = re.search(r'data-csrf="([0-9a-f]+)"', self.text)
        assert found
        return found[1]


class Browser:
    """A WSGI client with one cookie."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.cookie = ""

    def call(self, method: str, path: str, body: bytes = b"", **environ: str) -> Page:
        path, _, query = path.partition("?")
        from io import BytesIO

        sent: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        sent |= {"HTTP_ACCEPT": "text/html", "HTTP_HOST": "127.0.0.1:8778", "wsgi.input": BytesIO(body)}
        if body:
            sent |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/x-www-form-urlencoded"}
        if self.cookie:
            sent["HTTP_COOKIE"] = self.cookie
        sent |= environ
        setup_testing_defaults(sent)
        started: list[Any] = []
        parts = self.app(sent, lambda status, headers, *_: started.append((status, headers)))
        text = b"".join(parts).decode()
        status, headers = started[-1]
        return Page(int(status[:3]), {name.lower(): value for name, value in headers}, text)

    def get(self, path: str, **environ: str) -> Page:
        return self.call("GET", path, **environ)

    def post(self, path: str, form: dict[str, str], **environ: str) -> Page:
        return self.call("POST", path, urlencode(form).encode(), **environ)

    def sign_in(self, token: str) -> Page:
        page = self.post("/ui/sign-in", {"token": token})
        self.cookie = page.headers.get("set-cookie", "").partition(";")[0]
        return page


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Browser]]:
    """Make a service with some options of ``[stead]``; by default tokens are checked by a file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    services = []

    def make(strategy: str = "noauth2", **options: str) -> Browser:
        file = tmp_path / "placement.conf"
        lines = [f"{name} = {value}" for name, value in options.items()]
        if strategy == "token":
            lines.append(f"token_file = {tmp_path / 'tokens.json'}")
        file.write_text(
            f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
            f"[api]\nauth_strategy = {strategy}\n[stead]\n" + "\n".join(lines)
        )
        settings = load([file])
        service = application.build_service(settings)
        services.append(service)
        return Browser(application.assemble(service, settings))

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
