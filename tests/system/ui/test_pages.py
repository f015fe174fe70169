"""The web interface over WSGI: pages, sign-in, and what protects them. Browsers run in tests/system/browser."""

from __future__ import annotations

import ast
import json
import re
import shlex
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from wsgiref.util import setup_testing_defaults

import pytest
import sqlalchemy as sa

from stead import application
from stead.auth import tokens
from stead.auth.tokens import create
from stead.config import load
from stead.observation import Observation
from stead.observe import metrics
from stead.observe.exporter import Reports
from stead.store.extensions import ended_sessions
from stead.ui.pages import reference
from stead.ui.sessions import csrf_token
from tests.system.api.client import NEWEST, Api, fresh_uuid, wsgi_door
from tests.system.ui.wsgi_browser import Browser
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stead.store.protocol.store import Transaction
    from tests.system.ui.wsgi_browser import Page

pytestmark = pytest.mark.one_database

HOSTILE = ["<script>alert(1)</script>", "\u202eevil", "🚀" * 20, "n" * 200, '"><img src=x onerror=alert(1)>', "a&b=c"]
STEAD = f"{NEWEST}, stead 1.1"
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
        made = Browser(application.assemble(service, settings, observation))
        made.service = service
        return made

    yield make
    for service in services:
        service.close()


@pytest.fixture
def browser(start: Callable[..., Browser]) -> Browser:
    made = start(ui_writes="true")
    made.sign_in("admin")
    return made


PAGES = ["/ui/", "/ui/ask", "/ui/ask?resources=VCPU:1", "/ui/consumers", "/ui/activity", "/ui/style"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_site_of_nothing_has_its_heading(browser: Browser, path: str) -> None:
    page = browser.get(path)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "<h1>" in page.text


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/ui/ask?resources=VCPU",
            "/ui/ask?query=m1.large",
            "/ui/ask?resources=VCPU:1&colour=red",
            "/ui/?required=",
            "/ui/?in_tree=x",
        ),
        *(
            "/ui/consumers?older_than=x",
            "/ui/consumers?consumer=x",
            "/ui/activity?since=x",
            "/ui/providers/x",
            "/ui/?limit=x",
        ),
    ],
)
def test_no_words_of_a_validator_are_on_a_page(browser: Browser, path: str) -> None:
    text = unescape(browser.get(path).text)
    assert not re.search(
        r"[Ff]ailed validating|does not validate|in schema|On instance|Additional properties|Value error", text
    )
    assert not re.search("required property|Invalid query string parameters", text)


def test_pages_show_the_names_of_aliases_beside_uuids(start: Callable[..., Browser], tmp_path: Path) -> None:
    aliases, consumer, aggregate = tmp_path / "aliases.json", fresh_uuid(), fresh_uuid()
    browser = start(ui_aliases=str(aliases))
    browser.sign_in("admin")
    host = Api(wsgi_door(browser.app)).create_provider("host", inventories={"VCPU": 4}, aggregates=[aggregate]).uuid
    hold(browser, consumer, {host: {"VCPU": 1}})
    of_host = f"/ui/providers/{host}"
    paths = ["/ui/consumers", f"/ui/consumers?consumer={consumer}", of_host, f"{of_host}/drain"]
    assert not [path for path in paths if "<b>web" in unescape(browser.get(path).text)]
    aliases.write_text(json.dumps({consumer: "<b>web-1", aggregate: "rack 7"}))
    assert [path for path in paths if '<bdi class="quiet">&lt;b&gt;web-1</bdi>' in browser.get(path).text] == paths
    assert "rack 7" in browser.get(of_host).text
    aliases.write_text("[")
    assert browser.get("/ui/consumers").status == 200


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


def store_flavor(browser: Browser, name: str, query: str, description: str = "") -> None:
    body = {"query": query, "description": description}
    Api(wsgi_door(browser.app)).at(STEAD).put(f"/flavors/{name}", body).expect(200, 201)


def test_ask_finds_candidates_of_a_flavor(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    api.create_provider("big", inventories={"VCPU": 8}, traits=["COMPUTE_NODE"])
    api.create_provider("other", inventories={"VCPU": 8})
    store_flavor(browser, "m1.large", "resources=VCPU%3A2", "<b>two</b>")
    text = browser.get("/ui/ask").text
    assert "<option>m1.large</select>" in text
    text = browser.get("/ui/ask?flavor=m1.large").text
    assert "<h1>2 candidates</h1>" in text
    assert "Room for this request: 8 times" in text
    assert "<option selected>m1.large</select>" in text
    assert "&lt;b&gt;two&lt;/b&gt;" in text
    assert 'href="/ui/ask?resources=VCPU%3A2">Change this query' in text
    assert 'name="allocations"' in text
    restricted = browser.get("/ui/ask?flavor=m1.large&required=COMPUTE_NODE&resources=").text
    assert "<h1>1 candidate</h1>" in restricted
    assert 'href="/ui/ask?resources=VCPU%3A2&amp;required=COMPUTE_NODE">Change this query' in restricted


def test_ask_explains_a_flavor_and_changes_its_query(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider("a", inventories={"VCPU": 8})
    store_flavor(browser, "huge", "resources=VCPU:12")
    page = browser.get("/ui/ask?flavor=huge")
    assert "Why the request has 0 candidates" in page.text
    found = re.search(r'<li><a href="(/ui/ask\?[^"]+)"', page.text)
    assert found
    assert "flavor" not in found[1]
    assert "1 candidate<" in browser.get(unescape(found[1])).text


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("flavor=none-such", "No such flavor none-such."),
        ("flavor=a&resources=VCPU:1", "flavor and resources cannot be used together."),
        ("flavor=a&flavor=a", "flavor"),
        ("flavor=%3Cb%3E", "flavor"),
        ("flavor=%C3%A4", "flavor"),
        ("flavor=%00", "flavor"),
    ],
)
def test_a_flavor_that_cannot_be_asked_is_a_problem_on_the_page(browser: Browser, query: str, problem: str) -> None:
    store_flavor(browser, "a", "resources=VCPU:2")
    page = browser.get(f"/ui/ask?{query}")
    assert page.status == 400
    alert = re.search(r'role="alert">(.*?)</p>', page.text, re.DOTALL)
    assert alert
    assert problem in unescape(alert[1])
    assert "<b>" not in page.text
    assert "Find candidates" in page.text


def test_ask_has_no_list_of_flavors_without_a_flavor_or_the_right_to_list_them(
    start: Callable[..., Browser], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:flavors:list": "!"\n"stead:flavors:show": "!"\n')
    browser = start(more=f"[oslo_policy]\npolicy_file = {policy}\n")
    browser.sign_in("admin")
    assert 'name="flavor"' not in browser.get("/ui/ask").text
    store_flavor(browser, "secret", "resources=VCPU:2", "a secret text")
    Api(wsgi_door(browser.app)).create_provider(inventories={"VCPU": 8})
    assert "secret" not in browser.get("/ui/ask").text
    text = browser.get("/ui/ask?flavor=secret").text  # as GET /allocation_candidates, which the policy allows
    assert "<h1>1 candidate</h1>" in text
    assert '<input type="hidden" name="flavor" value="secret">' in text
    assert "a secret text" not in text
    assert "Change this query" not in text


def test_ask_has_a_field_for_the_name_where_flavors_are_many(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stead.ui.pages.ask._FLAVORS", 2)
    for name in ("a", "b", "c"):
        store_flavor(browser, name, "resources=VCPU:2")
    text = browser.get("/ui/ask?flavor=c").text
    assert re.search(r'<input name="flavor" value="c" list="flavors"', text)
    assert "<option>a<option>b" in text


def test_ask_shows_the_query_as_people_write_it(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider("a", inventories={"VCPU": 8})
    text = browser.get("/ui/ask?resources=VCPU%3A9%2CDISK_GB:1&required=!COMPUTE_NODE").text
    assert "resources=VCPU:9,DISK_GB:1&amp;required=!COMPUTE_NODE</code>" in text
    assert "Why the request has 0 candidates" in text


def hold(browser: Browser, holder: str, allocations: dict[str, dict[str, int]]) -> None:
    owner = {"consumer_generation": None, "project_id": "p<b>", "user_id": "u", "consumer_type": "INSTANCE"}
    body = {"allocations": {uuid: {"resources": amounts} for uuid, amounts in allocations.items()}, **owner}
    Api(wsgi_door(browser.app)).put(f"/allocations/{holder}", body).expect(204)


def test_consumers_show_the_ends_of_leases(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app)).at(f"{NEWEST}, stead 1.2")
    host, holder = api.create_provider("host", inventories={"VCPU": 8}), fresh_uuid()
    owner = {"consumer_generation": None, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    body = {"allocations": {host.uuid: {"resources": {"VCPU": 1}}}, "lease": 3600, "on_expiry": "mark", **owner}
    api.put(f"/allocations/{holder}", body).expect(204)
    end = api.get(f"/allocations/{holder}").expires_at
    for page in ("/ui/consumers", f"/ui/providers/{host.uuid}"):
        assert f'ends <time datetime="{end}" title="{end}">in ' in browser.get(page).text
    browser.service.write(aged, 7200)
    wait_until(lambda: "overdue, ended <time" in browser.get("/ui/consumers").text)


def test_a_search_of_consumers_takes_what_people_have(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = Api(wsgi_door(browser.app))
    hosts = [api.create_provider(name, inventories={"VCPU": 8}) for name in ("node-a", "node-b")]
    first = api.claim((hosts[0], {"VCPU": 2}), project="web", user="ann")
    second = api.claim((hosts[1], {"VCPU": 3}), project="webshop", user="bob")

    def leads_to(text: str) -> str:
        answered = browser.get(f"/ui/consumers?{urlencode({'q': text})}")
        assert answered.status == 303, answered.text
        return browser.get(answered.headers["location"]).text

    for text, there, absent in (
        (first, first, second),
        (first.upper(), first, second),
        (second[:13], second, first),
        ("webs", second, first),
        ("web", first, second),  # an exact name, although another begins with it
        ("ann", first, second),
        ("node-b", second, first),
        ("E-B", second, first),
    ):
        found = leads_to(text)
        assert (there in found, absent in found) == (True, False), text
    several = browser.get("/ui/consumers?q=node-").text
    assert ("node-a" in several, "node-b" in several) == (True, True)
    assert "No consumer, project, user or host has" in browser.get("/ui/consumers?q=%25").text  # no wildcard
    # The policy decides about the project of the query, so that a search within it finds nothing outside.
    assert second not in browser.get(f"/ui/consumers?project_id=web&q={second}").text.partition("<ul")[2]


def test_consumers_are_summed_by_project_and_warn_of_two_hosts(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    hosts = [api.create_provider(name, inventories={"VCPU": 8, "MEMORY_MB": 8192}) for name in ("a", "b")]
    pool = api.create_provider("pool", inventories={"DISK_GB": 5000}, traits=["MISC_SHARES_VIA_AGGREGATE"])
    api.claim((hosts[0], {"VCPU": 2, "MEMORY_MB": 3072}), (pool, {"DISK_GB": 2048}), project="one")
    text = browser.get("/ui/consumers").text
    assert "3\u202fGiB of memory</span> and" in text
    assert "2\u202fTiB of disk" in text
    assert "hosts</strong>" not in text  # a pool is no second host
    api.claim((hosts[0], {"VCPU": 1}), (hosts[1], {"VCPU": 1}), project="two")
    assert "on 2 hosts</strong>" in browser.get("/ui/consumers").text


def test_selected_consumers_are_released_together(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8})
    gone, held = [api.claim((host, {"VCPU": 1}), project="p") for _ in range(3)], api.claim((host, {"VCPU": 1}))
    page = browser.get("/ui/consumers?project_id=p")
    assert page.text.count('name="consumer" value=') == 4  # of the rows, and of the filter
    api.delete(f"/allocations/{gone[2]}").expect(204)  # by another client, meanwhile
    form = [("csrf", page.csrf), ("back", "project_id=p&q=x"), *(("consumer", uuid) for uuid in gone)]
    answered = browser.post("/ui/consumers", form)
    assert (answered.status, answered.headers["location"]) == (303, "/ui/consumers?project_id=p&released=2")
    text = browser.get("/ui/consumers").text
    assert (held in text, gone[0] in text, gone[1] in text) == (True, False, False)
    assert browser.post("/ui/consumers", {"csrf": page.csrf}).status == 404


def aged(tx: Transaction, seconds: int) -> None:
    tx.connection.execute(sa.text("UPDATE stead_lease SET expires_at = expires_at - :seconds"), {"seconds": seconds})


def drained(browser: Browser, host: str, query: str = "") -> Page:
    """The page of a drain; the same drain by the API has the same moves, in the same order, and the same rest."""
    page = browser.get(f"/ui/providers/{host}/drain{query}")
    change = {"change": "drain", "provider": host, **dict.fromkeys(re.findall(r"[?&](\w+)=", query), True)}
    answer = Api(wsgi_door(browser.app)).at(STEAD).post("/whatif", {"changes": [change]})
    if page.status == 200:
        expected = [move["consumer_uuid"] for move in (*answer.without_place, *answer.moves)]
        shown = re.findall(r'<th scope="row"><a href="/ui/consumers\?consumer=([^"]+)"', page.text)
        assert shown == expected
    else:
        assert page.status == answer.status
    return page


def test_a_drain_shows_where_each_consumer_goes_and_what_remains(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    old = api.create_provider("old", inventories={"VCPU": 8})
    new = api.create_provider("<b>new", inventories={"VCPU": 8})
    assert "What if this host is drained?" in browser.get(f"/ui/providers/{old.uuid}").text
    assert "The host is empty" in drained(browser, old.uuid).text
    small, large = fresh_uuid(), fresh_uuid()
    hold(browser, small, {old.uuid: {"VCPU": 1}})
    hold(browser, large, {old.uuid: {"VCPU": 5}})
    before = api.get(f"{old.path}/allocations").json
    text = drained(browser, old.uuid).text
    assert "All 2 consumers have a place on other hosts." in text
    assert text.index(large) < text.index(small)
    assert (
        len(re.findall(rf'<td data-label="To"><span>\s*<span class="share"><a href="/ui/providers/{new.uuid}">', text))
        == 2
    )
    assert re.search(
        r'now">8<td class="n" data-label="Free after">2<td class="n" data-label="Capacity">8\n', text
    )  # free now, free after, capacity
    assert "<code>stead plan drain old</code>" in text
    assert "<b>" not in text
    assert api.get(f"{old.path}/allocations").json == before


def test_a_drain_explains_the_consumers_that_fit_nowhere(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    old = api.create_provider("a host", inventories={"VCPU": 8})
    new = api.create_provider("new", inventories={"VCPU": 4})
    for amount in (5, 2):
        hold(browser, fresh_uuid(), {old.uuid: {"VCPU": amount}})
    text = unescape(drained(browser, old.uuid).text)
    assert "1 of 2 consumers has no place on another host.</strong> 1 can move." in text
    assert "has no place after all other moves" in text
    assert f'1 lack 3. For example <a href="/ui/providers/{new.uuid}">' in text
    assert f"<code>stead plan drain {old.uuid}</code>" in text  # a shell would split the name


def test_a_drain_has_the_conditions_of_the_command(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    old = api.create_provider("old", inventories={"VCPU": 8}, traits=["COMPUTE_NODE"], aggregates=[fresh_uuid()])
    api.create_provider("new", inventories={"VCPU": 8})
    hold(browser, fresh_uuid(), {old.uuid: {"VCPU": 1}})
    assert "Its consumer has a place on another host." in drained(browser, old.uuid).text
    for query, options in (
        ("?same_traits=true", "--same-traits"),
        ("?same_aggregates=true", "--same-aggregates"),
        ("?same_traits=true&same_aggregates=true", "--same-traits --same-aggregates"),
    ):
        text = drained(browser, old.uuid, query).text
        assert "1 of 1 consumer has no place on another host." in text
        assert f"<code>stead plan drain old {options}</code>" in text


def test_a_drain_of_a_device_is_that_of_its_host(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("host", inventories={"VCPU": 8})
    device = api.create_provider("device", parent=host, inventories={"VGPU": 2})
    other = api.create_provider("other", inventories={"VCPU": 8, "VGPU": 1})
    hold(browser, fresh_uuid(), {host.uuid: {"VCPU": 1}, device.uuid: {"VGPU": 1}})
    page = browser.get(f"/ui/providers/{device.uuid}/drain")
    assert (page.status, page.headers["location"]) == (303, f"/ui/providers/{host.uuid}/drain")
    assert "What if this host" not in browser.get(f"/ui/providers/{device.uuid}").text
    text = drained(browser, host.uuid).text
    assert "1 of 1 consumer has no place" in text  # two providers are replaced by two
    assert f'<a href="/ui/providers/{device.uuid}"><bdi>device</bdi></a>' in text
    api.create_provider("spare", parent=other, inventories={"VGPU": 2})
    assert "Its consumer has a place" in drained(browser, host.uuid).text


def test_a_drain_takes_the_places_that_an_order_prefers(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    old, *others = [api.create_provider(name, inventories={"VCPU": 8}) for name in ("old", "one", "two")]
    hold(browser, fresh_uuid(), {old.uuid: {"VCPU": 1}})
    hold(browser, fresh_uuid(), {others[1].uuid: {"VCPU": 4}})
    for order, host in (("pack", others[1]), ("spread", others[0])):
        text = browser.get(f"/ui/providers/{old.uuid}/drain?order_by={order}").text
        assert f'<span class="share"><a href="/ui/providers/{host.uuid}">' in text
        assert f'<option value="{order}" selected>' in text
        assert f"<code>stead plan drain old --order {order}</code>" in text
    assert browser.get(f"/ui/providers/{old.uuid}/drain?order_by=nonsense").status == 200


def test_a_drain_that_cannot_be_planned_says_why(start: Callable[..., Browser]) -> None:
    browser = start()
    browser.sign_in("admin")
    api = Api(wsgi_door(browser.app))
    pool = api.create_provider("pool", inventories={"DISK_GB": 8}, traits=["MISC_SHARES_VIA_AGGREGATE"])
    page = drained(browser, pool.uuid)
    assert page.status == 400
    assert 'role="alert">The host cannot be drained: its tree has a sharing provider' in page.text
    for path in (fresh_uuid(), "nothing", "%00"):
        assert browser.get(f"/ui/providers/{path}/drain").status == 404
    assert browser.post(f"/ui/providers/{pool.uuid}/drain", {}).status == 405


def test_a_drain_of_too_many_consumers_says_how_many_a_plan_may_have(start: Callable[..., Browser]) -> None:
    browser = start(max_claims="2")
    browser.sign_in("admin")
    host = Api(wsgi_door(browser.app)).create_provider("host", inventories={"VCPU": 8})
    for _ in range(3):
        hold(browser, fresh_uuid(), {host.uuid: {"VCPU": 1}})
    page = drained(browser, host.uuid)
    assert page.status == 413
    assert "The host has more than 2 consumers." in page.text


def test_a_long_plan_is_folded(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    old = api.create_provider("old", inventories={"VCPU": 80})
    api.create_provider("new", inventories={"VCPU": 80})
    for _ in range(53):
        hold(browser, fresh_uuid(), {old.uuid: {"VCPU": 1}})
    text = drained(browser, old.uuid).text
    assert "<summary>3 more moves</summary>" in text
    assert "<caption>Moves 51 to 53 of 53</caption>" in text


def test_only_users_who_may_ask_what_if_see_a_drain(start: Callable[..., Browser], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:whatif:show": "!"\n')
    browser = start(more=f"[oslo_policy]\npolicy_file = {policy}\n")
    browser.sign_in("admin")
    host = Api(wsgi_door(browser.app)).create_provider(inventories={"VCPU": 8})
    assert "What if this host" not in browser.get(f"/ui/providers/{host.uuid}").text
    assert browser.get(f"/ui/providers/{host.uuid}/drain").status == 403


def test_several_devices_asked_of_one_are_offered_as_groups_of_one(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("host", inventories={"VCPU": 8})
    for number in range(2):
        api.create_provider(f"card{number}", parent=host, inventories={"PGPU": 1})
    page = browser.get("/ui/ask?resources=VCPU:1,PGPU:2").text
    assert "With 2 groups of 1, there are 2 candidates." in unescape(page)
    query = "resources=VCPU%3A1&resources_1=PGPU%3A1&resources_2=PGPU%3A1&group_policy=none"
    assert f'href="/ui/ask?{query}"' in unescape(page)
    assert "2 candidates" in browser.get(f"/ui/ask?{query}").text


def parts_of(text: str) -> list[list[tuple[str, float, float, str]]]:
    """Of each bar of a drawing its parts: class, start and width in percent, and words."""
    part = r'<rect class="(\S+?(?: marked)?)" x="([\d.]+)%" width="([\d.]+)%" height="100%"><title>(.*?)</title>'
    drawing = text[text.index('<div class="machine">') : text.index("The same as a list")]
    bars = re.findall(r'<svg class="bar".*?</svg>', drawing, re.DOTALL)
    return [
        [(name, float(start), float(width), said) for name, start, width, said in re.findall(part, bar)] for bar in bars
    ]


def test_a_host_is_drawn_with_what_each_consumer_holds(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("host", inventories={"VCPU": 8})
    gpu = api.create_provider("host_gpu0", parent=host, inventories={"PGPU": 2})
    first, second = sorted((api.claim((host, {"VCPU": 2}), (gpu, {"PGPU": 1})), api.claim((host, {"VCPU": 4}))))
    is_first_small = len(api.held(first)) == 2
    page = browser.get(f"/ui/providers/{host.uuid}").text
    widths = [25.0, 50.0] if is_first_small else [50.0, 25.0]
    cores, devices = parts_of(page)
    assert [part[:3] for part in cores] == [("h0", 0.0, widths[0]), ("h1", widths[0], widths[1])]
    assert [f"consumer {consumer}" in part[3] for consumer, part in zip((first, second), cores, strict=True)] == [
        True
    ] * 2
    assert [part[:3] for part in devices] == [("h0" if is_first_small else "h1", 0.0, 50.0)]
    assert ">gpu0</bdi>" in page
    marked = browser.get(f"/ui/providers/{gpu.uuid}?holder={first if is_first_small else second}").text
    assert [[part[0].endswith(" marked") for part in bar] for bar in parts_of(marked)] == [
        [is_first_small, not is_first_small],
        [True],
    ]
    assert marked.count("box marked") + marked.count("box device marked") == 2


def test_a_host_is_disabled_and_enabled_where_the_policy_permits(
    browser: Browser, start: Callable[..., Browser], tmp_path: Path
) -> None:
    host = Api(wsgi_door(browser.app)).create_provider("a", inventories={"VCPU": 8})
    path = f"/ui/providers/{host.uuid}"
    csrf = browser.get(path).csrf
    for reason, status in (("", 400), ("x" * 256, 400), ("two\nlines", 400), ("<b>fan</b>", 303)):
        assert browser.post(path, {"csrf": csrf, "reason": reason}).status == status
    text = browser.get(path).text
    assert "&lt;b&gt;fan&lt;/b&gt;" in text
    assert "was disabled: &lt;b&gt;fan" in browser.get("/ui/activity?kind=host").text
    assert browser.post(path, {"csrf": csrf, "state": "enabled"}).headers["location"] == path
    assert "fan" not in browser.get(path).text
    assert browser.post(path, {"csrf": "", "reason": "x"}).status == 403
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:provider_trees:disable": "!"\n')
    reader = start(ui_writes="true", more=f"[oslo_policy]\npolicy_file = {policy}\n")
    reader.sign_in("admin")
    page = reader.get(path)
    assert "Disable" not in page.text
    assert reader.post(path, {"csrf": page.csrf, "reason": "x"}).status == 403


def test_more_used_than_there_is_fills_the_bar_and_no_more(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider(inventories={"VCPU": 8})
    api.claim((host, {"VCPU": 8}))
    api.put(host.inventories, inventories={"VCPU": {"total": 4}}, generation=2).expect(200)
    ((part,),) = parts_of(browser.get(f"/ui/providers/{host.uuid}").text)
    assert part[:3] == ("h0", 0.0, 100.0)


def test_a_candidate_is_drawn_with_what_it_takes_beside_what_is_in_use(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("host", inventories={"VCPU": 8, "MEMORY_MB": 1024})
    api.create_provider("host_gpu0", parent=host, inventories={"PGPU": 2})
    api.claim((host, {"VCPU": 4}))
    text = browser.get("/ui/ask?resources=VCPU:2&resources_G=PGPU:1").text
    cores, devices = parts_of(text[: text.index("</ol>")] + "The same as a list")
    assert [part[:3] for part in cores] == [("r", 0.0, 50.0), ("lit", 50.0, 25.0)]
    assert [part[:3] for part in devices] == [("lit", 0.0, 50.0)]
    assert '<span class="tag">_G</span>' in text


def test_the_same_question_is_there_for_other_tools(browser: Browser) -> None:
    """Whoever copies it asks the same, whatever characters the query has."""
    Api(wsgi_door(browser.app)).create_provider("host's", inventories={"VCPU": 8})
    query = {"resources": "VCPU:2", "in_tree": "name:host's"}
    text = unescape(browser.get(f"/ui/ask?{urlencode(query)}").text)
    command, curl, python = re.findall(r"<dd><code>(.*?)</code>", text)
    assert dict(parse_qsl(shlex.split(command)[-1])) == query
    assert dict(parse_qsl(urlsplit(shlex.split(curl)[-1]).query)) == query
    assert dict(parse_qsl(ast.literal_eval(python[python.index("candidates(") + len("candidates(") : -1]))) == query
    assert "same question" not in browser.get("/ui/ask").text


def test_who_may_not_list_consumers_sees_what_is_used_without_names(
    start: Callable[..., Browser], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:consumers:list": "!"\n')
    browser = start(more=f"[oslo_policy]\npolicy_file = {policy}\n")
    browser.sign_in("admin")
    api = Api(wsgi_door(browser.app))
    host = api.create_provider(inventories={"VCPU": 8})
    consumer = api.claim((host, {"VCPU": 2}))
    page = browser.get(f"/ui/providers/{host.uuid}?holder={consumer}").text
    assert [[part[:3] for part in bar] for bar in parts_of(page)] == [[("r", 0.0, 25.0)]]
    assert consumer not in page


def test_a_deep_tree_is_drawn(browser: Browser) -> None:
    """Each box stands in the box of its parent, and all are closed."""
    api = Api(wsgi_door(browser.app))
    providers = [api.create_provider("level0", inventories={"VCPU": 1})]
    for number in range(1, 60):
        providers.append(api.create_provider(f"level{number}", parent=providers[-1], inventories={"VCPU": 1}))
    page = browser.get(f"/ui/providers/{providers[30].uuid}").text
    drawing = page[page.index('<div class="machine">') : page.index("<details><summary>The same as a list")]
    assert drawing.count('<div class="box') == len(providers)
    assert drawing.count("<div") == drawing.count("</div>")


def flavors_of(page: Page) -> dict[str, list[str]]:
    """The texts of the cells of each flavor, in the order of the page."""
    found = {}
    for row in re.findall(r"<tr(?: data-flavor[^>]*)?><th scope=\"row\">(.*?)(?=<tr|</tbody>)", page.text, re.DOTALL):
        if "ui/ask?flavor=" in row:
            cells = [unescape(re.sub(r"<[^>]+>", "", cell)).split() for cell in re.split(r"<td[^>]*>", row)]
            name = re.search("<bdi>(.*?)</bdi>", row)
            assert name is not None
            found[unescape(name[1])] = [" ".join(cell) for cell in cells[1:]]
    return found


def test_the_site_shows_how_many_of_each_flavor_fit_the_scarcest_first(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    api.create_provider("a", inventories={"VCPU": 8, "MEMORY_MB": 9})
    assert "<h2>Flavors</h2>" not in browser.get("/ui/").text
    for name, query in (("two", "resources=VCPU:2"), ("ten", "resources=VCPU:10"), ("one", "resources=MEMORY_MB:1")):
        store_flavor(browser, name, query, "<b>")
    store_flavor(browser, "odd", "resources=VCPU:1&required=CUSTOM_NONE_SUCH")
    page = browser.get("/ui/")
    assert flavors_of(page) == {
        "ten": ["0", "", "nothing fits"],
        "two": ["4", "", "VCPU"],
        "one": ["9", "", "MEMORY_MB"],
        "odd": ["–", "", "No such trait(s): CUSTOM_NONE_SUCH."],
    }
    assert "<b>" not in page.text
    assert page.text.count('<small class="quiet"><bdi>&lt;b&gt;</bdi></small>') == 3  # the descriptions
    assert '<a href="/ui/ask?flavor=two"' in page.text
    assert "<h2>Flavors</h2>" not in browser.get("/ui/?name=a").text  # the numbers are of the whole site


def test_the_site_answers_first(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(wsgi_door(browser.app))
    hosts = [api.create_provider(name, inventories={"VCPU": 100, "MEMORY_MB": 1024}) for name in "abc"]
    api.create_provider("pool", inventories={"PGPU": 1})  # one host of four: not how full the site is
    hold(browser, fresh_uuid(), {hosts[0].uuid: {"VCPU": 60}})
    store_flavor(browser, "ten", "resources=VCPU:10")
    browser.service._use._course = ()  # the service has noted the use of a site of nothing
    text = browser.get("/ui/").text
    assert "<h1>vCPUs: 20\u202f% used on 4 hosts</h1>" in text
    assert "24 more <bdi>ten</bdi> fit." in text
    assert "Nothing is disabled or overdue." in text
    assert "not yet known" in text
    # After an hour in which 60 more are used, 180 of the 300 are left: three hours.
    now = time.time()
    monkeypatch.setattr(browser.service._use, "_now", lambda: now + 3600)
    hold(browser, fresh_uuid(), {hosts[1].uuid: {"VCPU": 60}})
    api.at(STEAD).call("PATCH", f"/provider_trees/{hosts[2].uuid}", {"disabled": {"reason": "fan"}}).expect(200)
    text = browser.get("/ui/").text
    assert "vCPUs run out first, in about 3 hours at the pace of the last hour." in text
    assert "1 host is disabled." in text
    monkeypatch.setattr("stead.ui.pages.site.OLDEST", 3600.0)
    part = browser.get("/ui/?part=answer")
    assert "<html" not in part.text
    assert "1 host is disabled." in part.text
    assert browser.get("/ui/?part=answer", HTTP_IF_NONE_MATCH=part.headers["etag"]).status == 304


@pytest.mark.parametrize(
    ("search", "matching"),
    [
        ("rack", {"rack-1", "RACK-2"}),
        ("rack 1", {"rack-1"}),
        ("trait:ssd", {"rack-1"}),
        ("trait:none-such", set()),
        ("aggregate:AGG", {"other"}),
        ("VCPU>=5", {"rack-1", "other"}),
        ("PGPU>=2", {"rack-1"}),  # one of each of its devices
        ("NO_SUCH>=1", set()),
        ("disabled", {"RACK-2"}),
        ("trait:ssd disabled", set()),
        ("%", set()),
    ],
)
def test_a_search_filters_without_scripts(browser: Browser, search: str, matching: set[str]) -> None:
    api = Api(wsgi_door(browser.app))
    aggregate = fresh_uuid()
    rack = api.create_provider("rack-1", inventories={"VCPU": 8}, traits=["STORAGE_DISK_SSD"])
    for number in range(2):
        api.create_provider(f"gpu{number}", parent=rack, inventories={"PGPU": 1})
    two = api.create_provider("RACK-2", inventories={"VCPU": 4})
    api.at(STEAD).call("PATCH", f"/provider_trees/{two.uuid}", {"disabled": {"reason": "fan"}}).expect(200)
    api.create_provider("other", inventories={"VCPU": 8}, aggregates=[aggregate])
    text = browser.get(f"/ui/?{urlencode({'search': search.replace('AGG', aggregate[:13])})}").text
    table = text.partition('<section id="trees">')[2]
    assert set(re.findall(r'class="name"><a href="[^"]*"><bdi>(.*?)</bdi>', table)) == matching
    assert f"<h1>{len(matching)} of 3 hosts match</h1>" in text


def test_each_condition_is_removed_alone(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider("rack-1", inventories={"VCPU": 8})
    text = browser.get("/ui/?search=rack+VCPU%3E%3D4&search=1&required=COMPUTE_NODE&sort=VCPU&page=2").text
    links = re.findall(r'<li><bdi>(.*?)</bdi> <a href="\?(.*?)"', text)
    conditions = [unescape(words) for words, _ in links]
    assert conditions == ["rack", "VCPU>=4", "1", "trait: COMPUTE_NODE"]
    pairs = [("search", "rack"), ("search", "VCPU>=4"), ("search", "1"), ("required", "COMPUTE_NODE")]
    for place, (_, query) in enumerate(links):
        rest = [pair for pair in parse_qsl(unescape(query)) if pair[0] != "sort"]
        assert rest == [pair for at, pair in enumerate(pairs) if at != place]


def test_a_host_is_beside_the_map_also_without_scripts(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("<host>", inventories={"VCPU": 8})
    api.create_provider("numa", parent=host, inventories={"PGPU": 1})
    for text in (browser.get("/ui/?host=%3Chost%3E").text, browser.get("/ui/?part=host&host=%3Chost%3E").text):
        drawer = text[text.index('id="drawer-name"') :]
        assert "<bdi>&lt;host&gt;</bdi>" in drawer
        assert f'href="/ui/providers/{host.uuid}"' in drawer
        assert "numa" in drawer
    assert browser.get("/ui/?part=host&host=none").status == 404
    assert 'id="drawer-name"' not in browser.get("/ui/?host=none").text


def test_the_last_writes_are_those_of_whole_trees(browser: Browser) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8})
    api.create_provider("b", parent=host, inventories={"VCPU": 8})
    api.create_provider("c")
    written = json.loads(browser.get("/ui/?part=written").text)["modified"]
    assert len(written) == 2
    assert all(abs(moment - time.time()) < 60 for moment in written)


def test_the_page_of_components_shows_every_token(browser: Browser) -> None:
    text = browser.get("/ui/style").text
    css = browser.get("/ui/static/stead.css").text
    for token in (*reference.COLOURS, *reference.SIZES, *reference.SPACES):
        assert f"<code>--{token}</code>" in text
        assert f"--{token}:" in css


def test_what_is_stranded_is_shown_with_its_course(browser: Browser) -> None:
    Api(wsgi_door(browser.app)).create_provider(inventories={"VCPU": 8})
    store_flavor(browser, "three", "resources=VCPU:3")
    text = browser.get("/ui/").text
    (row,) = re.findall(r'<tr data-flavor="stranded VCPU" data-least="2" data-most="2" data-course="(\d+) 2 ">', text)
    assert abs(int(row) - time.time()) < 60


def test_open_pages_share_the_headroom_of_flavors(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8})
    store_flavor(browser, "two", "resources=VCPU:2")
    monkeypatch.setattr("stead.ui.pages.site.OLDEST", 3600.0)
    part = browser.get("/ui/?part=flavors")
    assert "<html" not in part.text
    assert flavors_of(part)["two"][0] == "4"
    hold(browser, fresh_uuid(), {host.uuid: {"VCPU": 2}})
    known = {"HTTP_IF_NONE_MATCH": part.headers["etag"]}
    again = browser.get("/ui/?part=flavors", **known)
    assert (again.status, again.text) == (304, "")
    assert flavors_of(browser.get("/ui/"))["two"][0] == "3"  # a page that is opened sees all writes
    changed = browser.get("/ui/?part=flavors", **known)
    assert (changed.status, flavors_of(changed)["two"][0]) == (200, "3")
    monkeypatch.setattr("stead.ui.pages.site.OLDEST", 0.0)
    hold(browser, fresh_uuid(), {host.uuid: {"VCPU": 2}})
    assert flavors_of(browser.get("/ui/?part=flavors"))["two"][0] == "2"


def test_many_flavors_are_folded_and_bounded(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stead.ui.pages.site.MOST", 23)
    Api(wsgi_door(browser.app)).create_provider("a", inventories={"VCPU": 80})
    for number in range(24):
        store_flavor(browser, f"f{number:02}", f"resources=VCPU:{number + 1}")
    page = browser.get("/ui/")
    assert "<summary>3 more flavors</summary>" in page.text
    assert "These are the first 23 by name" in page.text
    assert list(flavors_of(page)) == [
        f"f{number:02}" for number in sorted(range(23), key=lambda number: 80 // (number + 1))
    ]


def test_only_users_who_may_list_flavors_see_them_on_the_site(start: Callable[..., Browser], tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:flavors:list": "!"\n')
    browser = start(more=f"[oslo_policy]\npolicy_file = {policy}\n")
    browser.sign_in("admin")
    store_flavor(browser, "secret", "resources=VCPU:2")
    page = browser.get("/ui/")
    assert page.status == 200
    assert "secret" not in page.text
    assert 'id="flavors"' not in page.text
    assert browser.get("/ui/?part=flavors").status == 403


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


def test_activity_says_what_happened_and_what_was_refused(browser: Browser) -> None:
    assert "<svg" not in browser.get("/ui/activity").text  # nothing happened, so nothing is drawn
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8, "MEMORY_MB": 4096})
    form = {"csrf": browser.get("/ui/").csrf, "consumer": fresh_uuid(), "project": "p1", "user": "u"}
    form["allocations"] = json.dumps({host.uuid: {"VCPU": 5, "MEMORY_MB": 2048}})
    assert browser.post("/ui/ask", form).status == 303
    for _ in range(2):
        assert browser.post("/ui/ask", form | {"consumer": fresh_uuid()}).status == 409
    text = browser.get("/ui/activity").text
    assert "5 vCPUs</span> and " in text
    assert "2\u202fGiB of memory</span> on" in text
    assert text.count("Not enough free") >= 2
    assert "2 times" in text
    assert 'href="/ui/ask?resources=VCPU:5,MEMORY_MB:2048"' in text
    refusals = browser.get("/ui/activity?kind=refusal").text
    assert ("5 vCPUs" in refusals, "Not enough free" in refusals) == (False, True)
    assert "5 vCPUs" in browser.get("/ui/activity?kind=claim&within=600&about=P1").text
    assert "matches" in browser.get("/ui/activity?about=no-such-thing").text
    assert browser.post("/ui/consumers", {"csrf": form["csrf"], "consumer": form["consumer"]}).status == 303
    assert "released 1 consumer" in browser.get("/ui/activity").text


def test_open_pages_of_activity_share_what_they_read(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    service = browser.service
    read = service.read
    monkeypatch.setattr(service, "read", lambda body, *given: reads.append(body) or read(body, *given))
    monkeypatch.setattr("stead.ui.pages.activity.SHARED_SECONDS", 60.0)
    first = browser.get("/ui/activity?part=shared").text
    number = len(reads)
    assert {browser.get("/ui/activity?part=shared").text for _ in range(5)} == {first}
    assert len(reads) - number <= 5  # of the session, not of the page
    Api(wsgi_door(browser.app)).create_provider("a-new-host", inventories={"VCPU": 8})
    assert "a-new-host" in browser.get("/ui/activity").text  # one that is opened shows all
    assert "a-new-host" not in browser.get("/ui/activity?part=shared").text
    monkeypatch.setattr("stead.ui.pages.activity.SHARED_SECONDS", 0.0)
    assert "a-new-host" in browser.get("/ui/activity?part=shared").text


def test_activity_names_no_consumers_to_callers_who_may_not_list_them(
    start: Callable[..., Browser], tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"stead:consumers:list": "!"\n')
    browser = start(more=f"[oslo_policy]\npolicy_file = {policy}\n")
    browser.sign_in("admin")
    api = Api(wsgi_door(browser.app))
    host = api.create_provider("a", inventories={"VCPU": 8})
    api.claim((host, {"VCPU": 5}), project_id="p")
    text = browser.get("/ui/activity").text
    assert "claimed" not in text
    assert "Consumers written, this worker<dd>1\n" in text


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
    assert re.search(r"4711<td class=\"n\" data-label=\"Lag\">1\.[23] s", text)
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
    version = {"HTTP_OPENSTACK_API_VERSION": f"placement {NEWEST}", "HTTP_ACCEPT": "application/json"}
    path = "/ui/api/traits/CUSTOM_X"
    assert browser.get("/ui/api/resource_classes", **version).status == 200
    assert browser.call("PUT", path, **version).status == 403
    csrf = browser.get("/ui/").csrf
    assert browser.call("PUT", path, HTTP_X_STEAD_CSRF=csrf, **version, **OTHER).status == 403
    assert browser.call("PUT", path, HTTP_X_STEAD_CSRF=csrf, **version).status == 201
    browser.cookie = ""
    assert browser.get("/ui/api/resource_classes", **version).status == 401
    assert browser.get("/resource_classes", **version).status == 401


@pytest.mark.parametrize("others", ['prefs={"theme":"dark"}', "a=b c", "a", "=b", "x=é", ""])
def test_cookies_of_other_programs_on_the_host_end_no_session(browser: Browser, others: str) -> None:
    session = browser.cookie
    for header in (f"{others}; {session}", f"{session}; {others}", f"{session};{others}"):
        assert browser.get("/ui/", HTTP_COOKIE=header).status == 200


def test_the_api_does_not_accept_the_cookie(browser: Browser) -> None:
    assert browser.get("/resource_classes", HTTP_OPENSTACK_API_VERSION=f"placement {NEWEST}").status == 401


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


@pytest.mark.parametrize("path", [path for path in PAGES if path != "/ui/style"])  # which shows nothing of the site
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


@pytest.mark.parametrize("expires", [None, timedelta(hours=1)])
def test_signing_out_ends_the_session_for_every_worker(
    start: Callable[..., Browser], tmp_path: Path, expires: timedelta | None
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"tokens": []}')
    file.chmod(0o600)
    until = expires and datetime.now(UTC) + expires
    token = create(file, "ann", user="ann", project="p", roles=["admin"], expires=until)
    browser, worker = start("token"), start("token")
    browser.sign_in(token)
    stolen = Browser(worker.app)
    stolen.cookie = browser.cookie
    other = Browser(worker.app)
    other.sign_in(token)
    assert stolen.get("/ui/").status == other.get("/ui/").status == 200

    assert browser.post("/ui/sign-out", {"csrf": "0" * 64}).status == 403
    assert stolen.get("/ui/").status == 200
    page = browser.post("/ui/sign-out", {"csrf": browser.get("/ui/").csrf})
    assert "Max-Age=0" in page.headers["set-cookie"]
    for client in (browser, stolen):
        assert client.get("/ui/").status == 303
        assert client.get("/ui/api/changes").status == 401
        assert client.get("/ui/api/resource_providers").status == 401
    assert other.get("/ui/").status == 200  # another session of the token
    browser.sign_in(token)
    assert browser.get("/ui/").status == 200


def test_an_ended_session_is_forgotten_when_it_would_have_ended(start: Callable[..., Browser], tmp_path: Path) -> None:
    browser = start(ui_writes="true")
    store = browser.service._store
    store.write(ended_sessions.end, "old", 1)
    assert store.read(ended_sessions.has_ended, "old")
    store.write(ended_sessions.end, "new", 2**40)
    assert not store.read(ended_sessions.has_ended, "old")
    assert store.read(ended_sessions.has_ended, "new")


def test_an_invented_session_is_not_stored(start: Callable[..., Browser], tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": []}')
    (tmp_path / "tokens.json").chmod(0o600)
    browser = start("token")
    session = "0" * 32 + f".{2**40}.{'0' * 16}.{'0' * 64}"
    browser.cookie = f"stead-session={urlsafe_b64encode(session.encode()).decode()}"
    assert browser.post("/ui/sign-out", {"csrf": csrf_token(session)}).status == 200
    assert not browser.service._store.read(ended_sessions.has_ended, session)


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
    code = tokens.new_code(data_dir)
    assert code not in "".join(path.name for path in data_dir.rglob("*"))
    assert not tokens.accept(data_dir, "wrong")
    assert tokens.accept(data_dir, code)
    assert not tokens.accept(data_dir, code)


@pytest.mark.parametrize(
    "header", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "x@127.0.0.1"]
)
def test_an_unknown_host_is_refused(start: Callable[..., Browser], header: str) -> None:
    browser = start(ui_hosts="placement.example")
    for path in ("/ui/", "/ui/sign-in", "/docs", "/ui/static/stead.js"):
        assert browser.get(path, HTTP_HOST=header).status == 403


LOOPBACK = {"REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": "127.0.0.1", "HTTP_HOST": "evil.example:8778"}


@pytest.mark.parametrize("path", ["/ui/", "/ui/sign-in", "/docs", "/ui/api/resource_classes", "/traits"])
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_name_that_is_rebound_to_loopback_is_refused(start: Callable[..., Browser], path: str, address: str) -> None:
    browser = start()
    loopback = LOOPBACK | {"REMOTE_ADDR": address, "SERVER_NAME": address}
    assert browser.get(path, **loopback).status == 403
    assert browser.get(path, **loopback | {"HTTP_HOST": "localhost:8778"}).status != 403
    assert browser.get(path, **LOOPBACK | {"REMOTE_ADDR": "192.0.2.1", "SERVER_NAME": "192.0.2.2"}).status != 403


def test_the_api_needs_no_known_name_where_it_needs_a_token(start: Callable[..., Browser], tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text('{"tokens": []}')
    (tmp_path / "tokens.json").chmod(0o600)
    assert start("token").get("/traits", **LOOPBACK).status == 401


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
        path = f"/ui/sign-in?code={tokens.new_code(settings.data_dir)}"
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
        {"HTTP_OPENSTACK_API_VERSION": f"placement {NEWEST}"},
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


@pytest.mark.parametrize("path", ["/docs", "/openapi.json"])
def test_what_every_client_may_read_is_made_once(browser: Browser, path: str) -> None:
    def body(**environ: str) -> Any:
        sent = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "127.0.0.1", **environ}
        setup_testing_defaults(sent)
        (part,) = browser.app(sent, lambda *_: None)
        return part

    first = body()
    assert body() is first
    below = body(SCRIPT_NAME="/placement")
    assert b"/placement" in below
    assert b"/placement/ui" not in first
    assert body() == first


@pytest.mark.parametrize("path", ["/docs", "/ui/sign-in", "/ui/static/stead.css", "/"])
def test_a_route_without_a_token_gives_an_invented_one_no_share_of_the_threads(browser: Browser, path: str) -> None:
    accepted: list[str] = []

    def get(path: str, **environ: str) -> int:
        sent: Any = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "127.0.0.1", "HTTP_ACCEPT": "text/html"}
        sent |= environ
        sent["wsgi_lanes.accept_credential"] = lambda: accepted.append(path)
        setup_testing_defaults(sent)
        statuses: list[str] = []
        list(browser.app(sent, lambda status, *_: statuses.append(status)))
        return int(statuses[-1][:3])

    assert get(path, HTTP_X_AUTH_TOKEN="invented", HTTP_COOKIE="stead-session=aW52ZW50ZWQ=") == 200
    assert accepted == []
    assert get("/ui/ask", HTTP_COOKIE=browser.cookie) == 200
    assert accepted == ["/ui/ask"]


def test_private_docs_need_a_token(start: Callable[..., Browser]) -> None:
    browser = start(public_docs="false")
    assert browser.get("/docs").status == 401
    assert browser.get("/openapi.json").status == 401
