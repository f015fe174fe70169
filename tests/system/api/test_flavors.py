"""``/flavors``, and ``flavor=`` in candidate queries. Source: "Flavors", docs/stead-api.md."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.system.api.client import NEWEST, Api, fresh_custom, fresh_uuid

if TYPE_CHECKING:
    from tests.system.api.client import Provider

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
BAD_VALUE = "placement.query.bad_value"
DUPLICATE_KEY = "placement.query.duplicate_key"
CLAIM = {"consumer_generation": None, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


class Rack:
    """Two hosts with 4 and 7 lamps, each in an aggregate of its own, and a flavor of two lamps."""

    def __init__(self, own: Api) -> None:
        self.own = own
        self.lamp = own.create_class()
        self.zones = [fresh_uuid(), fresh_uuid()]
        self.hosts: list[Provider] = [
            own.create_provider(inventories={self.lamp: total}, aggregates=[zone])
            for total, zone in zip((4, 7), self.zones, strict=True)
        ]
        self.name = f"lamps.{fresh_uuid()[:8]}"
        self.query = f"resources={self.lamp}:2"
        self.put().expect(201)

    def put(self, **more: Any) -> Any:
        return self.own.put(f"/flavors/{self.name}", {"query": self.query, **more})

    def get(self, path: str, more: str = "") -> Any:
        return self.own.get(f"{path}?flavor={self.name}{more}")


@pytest.fixture
def rack(own: Api) -> Rack:
    return Rack(own)


class TestFlavors:
    def test_it_is_stored_replaced_shown_and_deleted(self, rack: Rack) -> None:
        path = f"/flavors/{rack.name}"
        assert rack.own.get(path).expect(200).json == {"name": rack.name, "query": rack.query, "description": ""}
        changed = {"name": rack.name, "query": rack.query, "description": "zwei Lämpchen"}
        assert rack.put(description="zwei Lämpchen").expect(200).json == changed
        assert rack.own.get(path).expect(200).json == changed
        rack.own.delete(path).expect(204)
        assert rack.own.get(path).refused(404, rack.name)
        assert rack.own.delete(path).refused(404, rack.name)

    def test_names_that_differ_in_case_are_different(self, rack: Rack) -> None:
        upper = {"query": f"resources={rack.lamp}:3"}
        rack.own.put(f"/flavors/{rack.name.upper()}", upper).expect(201)
        assert rack.own.get(f"/flavors/{rack.name}").expect(200).query == rack.query

    @pytest.mark.parametrize("name", ["%C3%A9", "a%20b", "%00", "-a", "a" * 256, "%1B[31m", "a%0A", "..%2F"])
    def test_a_name_that_is_not_a_name_is_refused(self, own: Api, name: str) -> None:
        own.put(f"/flavors/{name}", {"query": "resources=VCPU:1"}).expect(400, 404)
        own.get(f"/flavors/{name}").expect(404)
        own.delete(f"/flavors/{name}").expect(404)
        assert "flavor" in own.get(f"/headroom?flavor={name}").expect(400).error.detail

    @pytest.mark.parametrize(
        ("body", "text"),
        [
            ({}, "query"),
            ({"query": ""}, "query"),
            ({"query": 1}, "query"),
            ({"query": "resources=VCPU:1\n"}, "query"),
            ({"query": "resources=VCPU:1&x=é"}, "query"),
            ({"query": "resources=VCPU:1", "description": "a\x1b[31m"}, "description"),
            ({"query": "resources=VCPU:1", "description": "a\n"}, "description"),
            ({"query": "resources=VCPU:1", "description": "a" * 256}, "description"),
            ({"query": "resources=VCPU:1", "more": 1}, "more"),
            ({"query": "resources=VCPU"}, "VCPU"),
            ({"query": "resources=VCPU:1&colour=red"}, "colour"),
            ({"query": "flavor=m1"}, "flavor cannot be part of a flavor"),
            ({"query": "resources=VCPU:1&limit=3"}, "limit cannot be part of a flavor"),
            ({"query": "resources=VCPU:1&" + "required=A&" * 1600}, "query"),
        ],
    )
    def test_a_faulty_body_is_refused_and_stores_nothing(self, own: Api, body: Any, text: str) -> None:
        name = f"f{fresh_uuid()}"
        assert text in own.put(f"/flavors/{name}", body).expect(400).error.detail
        own.get(f"/flavors/{name}").expect(404)

    def test_a_million_groups_are_refused(self, own: Api) -> None:
        query = "&".join(f"resources{number}=VCPU:1" for number in range(100_000))
        own.put("/flavors/many", {"query": query}).expect(400, 413)
        own.get("/flavors/many").expect(404)

    def test_pages_have_every_flavor_once_in_the_order_of_bytes(self, rack: Rack) -> None:
        for end in ("a", "B", "-", "_"):
            rack.own.put(f"/flavors/{rack.name}{end}", {"query": rack.query}).expect(201)
        seen: list[str] = []
        target = "/flavors?limit=2"
        while True:
            page = rack.own.get(target).expect(200)
            assert len(page.flavors) <= 2
            seen += [flavor["name"] for flavor in page.flavors]
            if not page.links:
                break
            target = page.links[0]["href"]
        assert seen == sorted(set(seen))
        assert [name for name in seen if name.startswith(rack.name)] == sorted(
            [rack.name, *(f"{rack.name}{end}" for end in ("a", "B", "-", "_"))]
        )

    @pytest.mark.parametrize("query", ["limit=0", "limit=x", "headroom=1", "marker=%C3%A9", "name=m1"])
    def test_a_faulty_query_of_the_list_is_refused(self, own: Api, query: str) -> None:
        assert query.partition("=")[0] in own.get(f"/flavors?{query}").expect(400).error.detail

    def listed(self, rack: Rack, more: str = "") -> Any:
        everything = rack.own.get(f"/flavors?headroom=true{more}").expect(200)
        return {flavor["name"]: flavor["headroom"] for flavor in everything.flavors}, everything

    def test_the_list_with_headroom_follows_each_claim(self, rack: Rack) -> None:
        for remaining in (5, 4, 3, 2, 1, 0):
            found, answer = self.listed(rack)
            headroom = found[rack.name]
            assert (headroom["at_least"], headroom["at_most"], headroom["exact"]) == (remaining, remaining, True)
            if remaining:
                assert headroom["limited_by"][0]["resource_class"] == rack.lamp
            rack.own.get(f"/changes?timeout=0&since={answer.json['generation']}").expect(200)
            claim = {**CLAIM, "consumer_uuid": fresh_uuid(), "query": f"flavor={rack.name}"}
            rack.own.post("/claims", {"claims": [claim]}).expect(200 if remaining else 409)

    def test_a_replaced_flavor_is_counted_again(self, rack: Rack) -> None:
        assert self.listed(rack)[0][rack.name]["at_most"] == 5
        rack.query = f"resources={rack.lamp}:4"
        rack.put().expect(200)
        assert self.listed(rack)[0][rack.name]["at_most"] == 2

    def test_a_flavor_of_a_class_that_is_gone_has_the_reason(self, rack: Rack) -> None:
        gone = fresh_custom()
        rack.query = f"resources={gone}:1"
        rack.put().expect(200)
        assert gone in self.listed(rack)[0][rack.name]["error"]

    @pytest.mark.parametrize("versions", [NEWEST, f"{NEWEST}, stead 1.0"])
    def test_it_requires_stead_1_1(self, api: Api, rack: Rack, versions: str) -> None:
        older = api.at(versions)
        older.get("/flavors").expect(404)
        older.get(f"/flavors/{rack.name}").expect(404)
        assert "flavor" in older.get(f"/allocation_candidates?flavor={rack.name}").expect(400).error.detail

    @pytest.mark.parametrize(("roles", "status"), [("reader", 403), ("member", 403), ("service", 200), ("admin", 200)])
    def test_it_needs_a_role(self, rack: Rack, roles: str, status: int) -> None:
        someone = replace(rack.own, token="someone", roles=roles)
        someone.get("/flavors").expect(status)
        someone.get(f"/flavors/{rack.name}").expect(status)
        someone.put(f"/flavors/{rack.name}", {"query": rack.query}).expect(status)
        someone.delete(f"/flavors/{rack.name}").expect(204 if status == 200 else status)


class TestInQueries:
    PATHS = ("/allocation_candidates", "/allocation_candidates/explain", "/headroom")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("more", ["", "&member_of={zone}", "&root_member_of={zone}", "&in_tree={host}"])
    def test_it_is_the_query_of_its_name(self, rack: Rack, path: str, more: str) -> None:
        more = more.format(zone=rack.zones[0], host=rack.hosts[0].uuid)
        by_name = rack.get(path, more).expect(200).json
        written_out = rack.own.get(f"{path}?{rack.query}{more}").expect(200).json
        assert by_name == written_out

    def test_a_zone_restricts_it(self, rack: Rack) -> None:
        assert rack.get("/headroom").expect(200).headroom["at_least"] == 5
        assert rack.get("/headroom", f"&root_member_of={rack.zones[0]}").expect(200).headroom["at_least"] == 2

    def test_its_pages_go_on(self, rack: Rack) -> None:
        page = rack.get("/headroom", "&limit=1").expect(200)
        [link] = page.links
        rest = rack.own.get(link["href"]).expect(200)
        roots = [tree["root"] for tree in (*page.headroom["trees"], *rest.headroom["trees"])]
        assert sorted(roots) == sorted(host.uuid for host in rack.hosts)

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize(
        "more", ["resources=VCPU:1", "resources_A=VCPU:1", "required_A=!HW_CPU_X86_SHA", "group_policy=none",
                 "same_subtree=_A", "isolate=_A", "can_split=VCPU"],
    )  # fmt: skip
    def test_what_describes_the_request_is_not_combined_with_it(self, rack: Rack, path: str, more: str) -> None:
        key = more.partition("=")[0]
        text = f"flavor and {key} cannot be used together"
        assert rack.get(path, f"&{more}").refused(400, text, code=BAD_VALUE)

    def test_a_parameter_of_one_value_is_not_given_twice(self, rack: Rack) -> None:
        rack.query += "&order_by=pack"
        rack.put().expect(200)
        text = f"order_by is given in the query and in flavor {rack.name}"
        assert rack.get("/headroom", "&order_by=spread").refused(400, text, code=BAD_VALUE)

    @pytest.mark.parametrize("path", PATHS)
    def test_an_unknown_flavor_is_400_with_its_name(self, own: Api, path: str) -> None:
        assert own.get(f"{path}?flavor=nobody.has.it").refused(400, "No such flavor nobody.has.it")

    def test_a_claim_of_an_unknown_flavor_claims_nothing(self, rack: Rack) -> None:
        good = {**CLAIM, "consumer_uuid": fresh_uuid(), "query": f"flavor={rack.name}"}
        bad = {**CLAIM, "consumer_uuid": fresh_uuid(), "query": "flavor=nobody.has.it"}
        assert rack.own.post("/claims", {"claims": [good, bad]}).refused(400, "nobody.has.it")
        assert rack.own.get(f"/allocations/{good['consumer_uuid']}").expect(200).allocations == {}


class TestWeights:
    """``weight`` of flavors, and ``order_by=headroom``, which uses it. Both require stead 1.2."""

    @pytest.fixture
    def newest(self, api: Api) -> Api:
        return api.at(f"{NEWEST}, stead 1.2")

    def test_a_weight_is_stored_shown_and_kept_by_requests_that_do_not_say_one(self, rack: Rack, newest: Api) -> None:
        path, body = f"/flavors/{rack.name}", {"query": rack.query}
        assert newest.get(path).expect(200).json["weight"] is None
        assert newest.put(path, {**body, "weight": 2.5}).expect(200).json["weight"] == 2.5
        assert "weight" not in rack.put(description="kept").expect(200).json
        assert newest.put(path, body).expect(200).json["weight"] == 2.5
        assert rack.own.get(path).json.keys() == {"name", "query", "description"}
        listed = {flavor["name"]: flavor for flavor in newest.get("/flavors").expect(200).json["flavors"]}
        assert listed[rack.name]["weight"] == 2.5
        assert newest.put(path, {**body, "weight": None}).expect(200).json["weight"] is None
        newest.put(path, {**body, "weight": 0}).expect(200)

    @pytest.mark.parametrize("weight", [-1, -0.001, 1_000_000_001, "2", True, [1]])
    def test_other_weights_are_refused_and_nothing_is_stored(self, rack: Rack, newest: Api, weight: Any) -> None:
        path = f"/flavors/{rack.name}"
        newest.put(path, {"query": rack.query, "weight": 3}).expect(200)
        refused = newest.put(path, {"query": rack.query, "weight": weight}).expect(400)
        assert b"weight" in refused.body
        assert newest.get(path).json["weight"] == 3

    @pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999", b"9" * 400])
    def test_numbers_that_are_not_finite_are_refused(self, rack: Rack, newest: Api, number: bytes) -> None:
        body = b'{"query": "' + rack.query.encode() + b'", "weight": ' + number + b"}"
        newest.call("PUT", f"/flavors/{rack.name}", raw=body).expect(400)
        assert newest.get(f"/flavors/{rack.name}").json["weight"] is None

    def test_older_versions_know_neither_the_weight_nor_the_order(self, rack: Rack) -> None:
        rack.put(weight=1).expect(400)
        refused = rack.own.get(f"/allocation_candidates?resources={rack.lamp}:1&order_by=headroom").expect(400)
        assert b"to be pack, spread, random, CLASS:asc" in refused.body

    def test_claims_and_candidates_leave_room_for_the_flavor_with_the_weight(self, rack: Rack, newest: Api) -> None:
        # A flavor of all seven lamps of the second host: a small claim must go to the first one, which `spread` avoids.
        newest.put(f"/flavors/{rack.name}", {"query": f"resources={rack.lamp}:7", "weight": 1_000_000_000}).expect(200)
        first, second = (host.uuid for host in rack.hosts)
        query = f"resources={rack.lamp}:1&order_by=headroom"
        found = newest.get(f"/allocation_candidates?{query}").expect(200).json["allocation_requests"]
        assert [next(iter(each["allocations"])) for each in found] == [first, second]
        for _ in range(4):
            claim = {**CLAIM, "consumer_uuid": fresh_uuid(), "query": query}
            granted = newest.post("/claims", {"claims": [claim]}).expect(200).json["claims"]
            assert granted[0]["allocations"].keys() == {first}
        trees = newest.get(f"/headroom?{query}").expect(200).json["headroom"]["trees"]
        assert [tree["root"] for tree in trees] == [second]
        newest.delete(f"/flavors/{rack.name}").expect(204)
