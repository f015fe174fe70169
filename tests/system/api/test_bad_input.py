"""Whatever is sent, the answer has the contract's form, there is no 500, and nothing is written.

The form is checked by the client for every answer; here is what an attacker, a fuzzer or a broken client would send.
"""

import json
import random
from typing import Any
from urllib.parse import quote

import pytest

from tests.system.api.client import MAX_INT, NEWEST, Api, Provider, fresh_uuid, holding

WEIRD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, MAX_INT + 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, "", " ", "x",
    "\x00", "\ud800", "é", "🖥", "x" * 5000, "VCPU", "CUSTOM_", "in:", "!", [], [[]], [None], {}, {"": None}, {"x": {}},
    {"\x00": 1}, {"VCPU": None}, [{}], ["x", "x"],
]  # fmt: skip


class Site:
    """A host, a consumer on it, and all that may be seen of the two."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.trait, self.rack, self.lamp = api.create_trait(), fresh_uuid(), api.create_class()
        self.host = api.create_provider(
            inventories={"VCPU": 8, self.lamp: 8}, traits=[self.trait], aggregates=[self.rack]
        )
        self.child = api.create_provider(parent=self.host)
        self.consumer = api.claim((self.host, {"VCPU": 2}))

    def seen(self) -> list[Any]:
        host, child = self.host, self.child
        paths = [
            *(path for of in (host, child) for path in (of.path, of.inventories, of.traits, of.aggregates, of.usages)),
            *(host.allocations, f"/allocations/{self.consumer}", f"/resource_providers?in_tree={host.uuid}"),
        ]
        return [self.api.get(path).expect(200).json for path in paths]


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)


def good_bodies(site: Site) -> dict[tuple[str, str], Any]:
    """For every route that reads a body, one that it would accept."""
    host, generation = site.host, site.api.generation(site.host)
    record = {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 1.0}
    inventories = {"resource_provider_generation": generation, "inventories": {"VCPU": record, site.lamp: record}}
    claim = holding((host, {"VCPU": 2}), generation=1, mappings={"": [host.uuid]})
    return {
        ("POST", "/resource_providers"): {"name": "n", "uuid": fresh_uuid(), "parent_provider_uuid": host.uuid},
        ("PUT", host.path): {"name": host.name, "parent_provider_uuid": None},
        ("POST", site.child.inventories): {"resource_class": "VCPU", **record},
        ("PUT", host.inventories): inventories,
        ("PUT", host.inventory("VCPU")): {"resource_provider_generation": generation, **record},
        ("PUT", host.aggregates): {"resource_provider_generation": generation, "aggregates": [site.rack]},
        ("PUT", host.traits): {"resource_provider_generation": generation, "traits": [site.trait]},
        ("POST", "/resource_classes"): {"name": "CUSTOM_N"},
        ("PUT", f"/allocations/{site.consumer}"): claim,
        ("POST", "/allocations"): {site.consumer: claim},
        ("POST", "/reshaper"): {"inventories": {host.uuid: inventories}, "allocations": {site.consumer: claim}},
    }


ROUTES = [
    "POST /resource_providers", "PUT provider", "POST inventory", "PUT inventories", "PUT inventory", "PUT aggregates",
    "PUT traits", "POST /resource_classes", "PUT allocations", "POST /allocations", "POST /reshaper",
]  # fmt: skip


def spoiled(body: Any, rng: random.Random) -> Any:
    """*body* with one value, or one key, replaced by something weird."""
    if not isinstance(body, (dict, list)) or not body or rng.random() < 0.2:
        return rng.choice(WEIRD)
    if isinstance(body, list):
        return [*body[1:], spoiled(body[0], rng)]
    key = rng.choice(list(body))
    if rng.random() < 0.15:
        strange = rng.choice(
            ["", "x", "\x00", "é", "9" * 300, "colour", key.upper(), key.lower(), key.replace("-", "")]
        )
        return {(strange if name == key else name): value for name, value in body.items()}
    return {**body, key: spoiled(body[key], rng)}


@pytest.mark.differs("some of these it answers with 500", sometimes=True)
@pytest.mark.parametrize("route", range(len(ROUTES)), ids=ROUTES)
def test_one_weird_value_anywhere_in_a_body(site: Site, route: int) -> None:
    """What is refused changes nothing; the few that are accepted end one comparison and begin another."""
    before = site.seen()
    (method, path), good = list(good_bodies(site).items())[route]
    rng = random.Random(path.split("/")[1] + str(route))
    refused: list[Any] = []
    for _ in range(80):
        body = spoiled(good, rng)
        now = site.seen() if rng.random() < 0.1 else before
        assert now == before, refused[-20:]
        answer = site.api.call(method, path, raw=json.dumps(body).encode())
        if answer.status < 400:
            (method, path), good = list(good_bodies(site).items())[route]
            if method == "POST" and path.endswith("inventories"):
                site.api.delete(path).expect(204)
            before = site.seen()
        else:
            refused.append(body)
    assert site.seen() == before
    assert len(refused) >= 20


@pytest.mark.parametrize("route", range(len(ROUTES)), ids=ROUTES)
def test_a_body_that_is_something_else_altogether(site: Site, route: int) -> None:
    (method, path), _ = list(good_bodies(site).items())[route]
    before = site.seen()
    for body in WEIRD:
        site.api.call(method, path, raw=json.dumps(body).encode()).expect(400)
    assert site.seen() == before


class TestSizes:
    BIG = 10 * 2**20

    @pytest.mark.one_database
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    @pytest.mark.parametrize(
        "raw",
        [b"[" * BIG, b'{"x": "' + b"x" * BIG + b'"}', b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b" " * BIG,
         b'{"x": ' + b"9" * 100_000 + b"}"],
        ids=["10 MB of brackets", "a string of 10 MB", "100,000 deep", "10 MB of blanks", "100,000 digits"],
    )  # fmt: skip
    def test_a_huge_body(self, site: Site, raw: bytes) -> None:
        before = site.seen()
        for method, path in good_bodies(site):
            site.api.call(method, path, raw=raw).expect(400, 413)
        assert site.seen() == before

    def test_a_claim_on_5000_providers(self, site: Site) -> None:
        before = site.seen()
        body = holding((site.host, {"VCPU": 2}), *((fresh_uuid(), {"VCPU": 1}) for _ in range(5000)), generation=1)
        assert site.api.put(f"/allocations/{site.consumer}", body).refused(400, "that does not exist")
        assert site.seen() == before

    def test_a_claim_of_5000_unknown_classes(self, site: Site) -> None:
        before = site.seen()
        body = holding((site.host, {f"CUSTOM_NOBODY_{n}": 1 for n in range(5000)}), generation=1)
        assert site.api.put(f"/allocations/{site.consumer}", body).refused(400, "No such resource class")
        assert site.seen() == before

    @pytest.mark.parametrize("amount", [MAX_INT, MAX_INT + 1, 2**63 - 1, 2**63, 2**64, 10**30])
    def test_an_absurd_amount(self, site: Site, amount: int) -> None:
        before = site.seen()
        body = holding((site.host, {"VCPU": amount}), generation=1)
        site.api.put(f"/allocations/{site.consumer}", body).expect(400, 409)
        site.api.post(
            "/allocations", {site.consumer: body, fresh_uuid(): {**body, "consumer_generation": None}}
        ).expect(400, 409)
        assert site.seen() == before

    @pytest.mark.parametrize("generation", [2**31, 2**63, -(2**63), 10**30])
    def test_an_absurd_generation(self, site: Site, generation: int) -> None:
        before, host, api = site.seen(), site.host, site.api
        api.put(host.inventories, inventories={}, generation=generation).expect(400, 409)
        api.put(host.inventory("VCPU"), total=1, generation=generation).expect(400, 409)
        api.put(host.traits, traits=[], generation=generation).expect(400, 409)
        api.put(host.aggregates, aggregates=[], generation=generation).expect(400, 409)
        api.put(f"/allocations/{site.consumer}", holding(generation=generation)).expect(400, 409)
        shape = {"resource_provider_generation": generation, "inventories": {}}
        api.post("/reshaper", inventories={host.uuid: shape}, allocations={}).expect(400, 409)
        assert site.seen() == before

    @pytest.mark.parametrize("ratio", ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e39", "-1e39"])
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_an_absurd_ratio(self, site: Site, ratio: str) -> None:
        before, host = site.seen(), site.host
        generation = site.api.generation(host)
        record = f'{{"total": 8, "allocation_ratio": {ratio}}}'
        raw = f'{{"resource_provider_generation": {generation}, "inventories": {{"VCPU": {record}}}}}'
        site.api.call("PUT", host.inventories, raw=raw.encode()).expect(400)
        site.api.call(
            "POST", "/reshaper", raw=f'{{"inventories": {{"{host.uuid}": {raw}}}, "allocations": {{}}}}'.encode()
        ).expect(400)
        assert site.seen() == before


class TestTexts:
    """Texts that a database, or UTF-8, has no way to hold."""

    @pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "a\udfffb"], ids=ascii)
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_a_text_that_cannot_be_stored(self, site: Site, text: str) -> None:
        before, api, host = site.seen(), site.api, site.host
        generation = api.generation(host)
        api.put(host.traits, traits=[text], generation=generation).expect(400)
        api.put(host.aggregates, aggregates=[text], generation=generation).expect(400)
        api.post("/resource_classes", name=text).expect(400)
        api.put(f"/allocations/{site.consumer}", holding((host, {text: 1}), generation=1)).expect(400)
        api.put(host.inventories, inventories={text: {"total": 1}}, generation=generation).expect(400)
        assert site.seen() == before

    @pytest.mark.parametrize("text", ["\x00", "a\x00b", "\ud800", "a\udfffb"], ids=ascii)
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_a_name_that_may_be_stored_or_refused(self, site: Site, text: str) -> None:
        api, name = site.api, f"{text}{fresh_uuid()}"
        made = api.post("/resource_providers", name=name).expect(200, 400)
        if made.status == 200:
            assert api.get(f"/resource_providers/{made.uuid}").name == name
            api.delete(f"/resource_providers/{made.uuid}").expect(204)
        body = holding((site.host, {"VCPU": 1}), project=text, user=text)
        consumer = fresh_uuid()
        claimed = api.put(f"/allocations/{consumer}", body).expect(204, 400)
        assert bool(api.held(consumer)) == (claimed.status == 204)


class TestQueries:
    PATHS = ("/resource_providers", "/traits", "/usages", "/allocation_candidates")
    KEYS = (
        "name", "uuid", "in_tree", "member_of", "required", "resources", "associated", "project_id", "user_id",
        "consumer_type", "limit", "group_policy", "root_required", "same_subtree", "resources1", "required1",
        "member_of1", "in_tree1", "x",
    )  # fmt: skip
    VALUES = (
        "", "%", "%00", "%FF", "%C3", "%ED%A0%80", "%F0%9F%96%A5", "é", "VCPU:1", "VCPU:2147483648",
        "VCPU:9223372036854775808", "VCPU:" + "9" * 5000, "VCPU:1_0", "VCPU:%D9%A1", ":", ":1", ",", "in:", "!", "!in:",
        "in:!", "in:in:", "HW_CPU_X86_SHA", "!HW_CPU_X86_SHA", "HW_CPU_X86_SHA,,", "%00,%00", "none",
        "9" * 5000, "1,1", ",,,", "'", '"', "%27%3B--", "%25", "_", "startswith:%25", "startswith:", "in:%00", "true",
    )  # fmt: skip

    OWN_QUERIES = (
        ("/resource_providers", ""), ("/allocation_candidates", "resources=VCPU:1&limit=1&"), ("/provider_trees", ""),
        ("/headroom", "resources=VCPU:1&limit=1&"), ("/advice", "resources=VCPU:1&make_room_for=1&"),
    )  # fmt: skip

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_any_value_of_any_key(self, api: Api, path: str, key: str) -> None:
        base = {"/usages": "project_id=p&", "/allocation_candidates": "resources=VCPU:1&limit=1&"}.get(path, "")
        for value in self.VALUES:
            value = quote(value, safe="%:,!")
            api.get(f"{path}?{'' if base.startswith(key + '=') else base}{key}={value}").expect(200, 400)

    @pytest.mark.differs("it has nothing of Stead's own")
    @pytest.mark.parametrize(("path", "base"), OWN_QUERIES)
    @pytest.mark.parametrize(
        "key",
        ["root_member_of", "isolate", "can_split", "in_subtree", "in_subtree1", "in_tree", "name", "root_required",
         "fields", "depth", "totals", "columns"],
    )  # fmt: skip
    def test_any_value_of_any_key_of_stead_s_own(self, api: Api, path: str, base: str, key: str) -> None:
        own = api.at(f"{NEWEST}, stead 1.1")
        statuses = {own.get(f"{path}?{base}{key}={quote(value, safe='%:,!')}").status for value in self.VALUES}
        assert statuses in ({400}, {200, 400})

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        "query",
        ["%FF=1", "%FF", "=", "&&&", "==", "name", "%00=%00", ";", "?", "name=%FF%FE", "resources=VCPU:1;limit=1"],
    )
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_a_query_that_is_hardly_one(self, api: Api, path: str, query: str) -> None:
        answer = api.get(f"{path}?{query}").expect(200, 400)
        if "%FF" in query:
            assert answer.refused(400, "Invalid query string parameters")

    @pytest.mark.parametrize(
        "query",
        [
            "resources=" + ",".join(f"CUSTOM_NOBODY_{n}:1" for n in range(3000)),
            "resources=" + ",".join(["VCPU:1"] * 8000),
            "resources=VCPU:1&required=" + ",".join(["HW_CPU_X86_SHA"] * 4000),
            "resources=VCPU:1&required=in:" + ",".join(["HW_CPU_X86_SHA"] * 4000),
            "resources=VCPU:1&member_of=in:" + ",".join(["d0d0d0d0-0000-4000-8000-00000000dead"] * 1600),
            "&".join(["resources=VCPU:1"] * 3500),
            "resources=VCPU:1&" + "&".join(["required=HW_CPU_X86_SHA"] * 2500),
            "resources=VCPU:1&same_subtree=" + ",".join(["_A"] * 15000),
            "resources=VCPU:1&x" + "x" * 60000 + "=1",
        ],
        ids=[
            "classes",
            "one class",
            "traits",
            "any of traits",
            "aggregates",
            "keys",
            "required",
            "same_subtree",
            "key",
        ],
    )
    @pytest.mark.differs("some of these it answers with 500", sometimes=True)
    def test_60_kb_of_query(self, api: Api, query: str) -> None:
        assert 40_000 < len(query) < 65_000
        api.get(f"/allocation_candidates?{query}").expect(200, 400, 414)
        api.get(f"/resource_providers?{query}").expect(200, 400, 414)

    @pytest.mark.parametrize(
        ("policy", "statuses"), [("", {400}), ("&group_policy=none", {200, 414}), ("&group_policy=isolate", {200, 414})]
    )
    def test_2000_groups(self, api: Api, policy: str, statuses: set[int]) -> None:
        lamp = f"CUSTOM_{fresh_uuid()[:7].upper()}".replace("-", "_")
        api.put(f"/resource_classes/{lamp}").expect(201, 204)
        host = api.create_provider(inventories={lamp: 3000})
        groups = "&".join(f"resources{n}={lamp}:1" for n in range(1, 2001))
        answer = api.get(f"/allocation_candidates?{groups}{policy}").expect(*statuses)
        if answer.status == 200:
            everything = {host.uuid: {"resources": {lamp: 2000}}}
            found = [request["allocations"] for request in answer.allocation_requests]
            assert found == ([] if policy.endswith("isolate") else [everything])


class TestPaths:
    @pytest.mark.parametrize(
        "segment",
        [
            "%00",
            "%FF",
            "%C3%28",
            "%ED%A0%80",
            "..",
            "%2E%2E",
            "%20",
            "x" * 5000,
            "'",
            "%22",
            "%25",
            "*",
            "%F0%9F%96%A5",
        ],
    )
    @pytest.mark.parametrize(
        "path",
        [
            "/{}", "/resource_providers/{}", "/resource_providers/{}/inventories", "/resource_providers/{}/traits",
            "/resource_classes/{}", "/traits/{}", "/allocations/{}",
        ],
    )  # fmt: skip
    def test_an_odd_segment(self, api: Api, path: str, segment: str) -> None:
        path = path.format(segment)
        api.get(path).expect(404, *([200] if path.startswith("/allocations/") else []))
        api.call("DELETE", path).expect(404)
        api.call("PUT", path, {}).expect(400, 404)

    def test_an_odd_class_of_a_provider(self, api: Api) -> None:
        host: Provider = api.create_provider(inventories={"VCPU": 1})
        for segment in ("%00", "%FF", "x" * 5000, "'", "%22", "%F0%9F%96%A5"):
            api.get(host.inventory(segment)).expect(404)
            api.delete(host.inventory(segment)).expect(404)
            api.put(host.inventory(segment), total=1, generation=1).expect(404)


@pytest.mark.one_database
class TestHeaders:
    @pytest.mark.parametrize("length", ["many", "-", "1.5", "0x10"])
    def test_a_content_length_that_is_no_number(self, api: Api, length: str, in_process: None) -> None:
        answer = api.call(
            "POST", "/resource_providers", headers={"Content-Length": length, "Content-Type": "text/plain"}
        )
        assert answer.refused(400, "content-length header must be an integer")

    @pytest.mark.parametrize("name", ["OpenStack-API-Version", "Accept", "Content-Type", "X-Roles", "X-Auth-Token"])
    @pytest.mark.parametrize("value", ["é", "\u00ff\u00fe", ",", ";", "=;,", "x" * 4000, "a/b;c", "*", "*/*;q=9", '"'])
    def test_an_odd_value(self, api: Api, name: str, value: str) -> None:
        headers = {name: value, "Accept": value if name == "Accept" else "application/json"}
        unknown = "d0d0d0d0-0000-4000-8000-00000000dead"
        api.get("/resource_providers", {"uuid": unknown}, headers=headers).expect(200, 400, 401, 403, 406)
