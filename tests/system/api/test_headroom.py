"""GET ``/headroom``. Source: "GET /headroom", docs/stead-api.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.system.api.client import NEWEST, Api, fresh_custom, fresh_name, fresh_uuid

if TYPE_CHECKING:
    from tests.system.api.client import Provider

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
PATH = "/headroom"
BAD_VALUE = "placement.query.bad_value"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


class Rack:
    """Three hosts with lamps, 2, 4 and 7 of them, in one aggregate."""

    def __init__(self, own: Api) -> None:
        self.own = own
        self.lamp = fresh_custom("LAMP")
        self.aggregate = fresh_uuid()
        own.put(f"/resource_classes/{self.lamp}").expect(201)
        self.hosts = [self.host(total) for total in (2, 4, 7)]

    def host(self, total: int) -> Provider:
        host = self.own.create_provider(fresh_name())
        self.own.put(
            host.inventories,
            {"resource_provider_generation": 0, "inventories": {self.lamp: {"total": total, "max_unit": 3}}},
        ).expect(200)
        self.own.put(host.aggregates, {"resource_provider_generation": 1, "aggregates": [self.aggregate]}).expect(200)
        return host

    def query(self, amount: int = 1) -> str:
        return f"resources={self.lamp}:{amount}&member_of={self.aggregate}"

    def headroom(self, amount: int = 1, more: str = "") -> Any:
        return self.own.get(f"{PATH}?{self.query(amount)}{more}").expect(200).headroom


@pytest.fixture
def rack(own: Api) -> Rack:
    return Rack(own)


def test_it_says_how_many_fit_and_where(rack: Rack) -> None:
    found = rack.headroom(2)
    assert (found["at_least"], found["at_most"], found["exact"], found["tree_count"]) == (6, 6, True, 3)
    counts = {tree["root"]: (tree["at_least"], tree["at_most"]) for tree in found["trees"]}
    assert counts == {host.uuid: (number, number) for host, number in zip(rack.hosts, (1, 2, 3), strict=True)}
    assert found["limited_by"] == [{"suffix": "", "resource_class": rack.lamp, "trees": 3}]
    assert found["stranded"][rack.lamp] == 1
    assert "explanation" not in found


def test_it_is_what_claims_achieve_and_goes_down_with_each(rack: Rack) -> None:
    for left in (6, 5, 4, 3, 2, 1):
        assert rack.headroom(2)["at_least"] == left
        claim = {
            "consumer_uuid": fresh_uuid(),
            "query": rack.query(2),
            "consumer_generation": None,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
        }
        rack.own.post("/claims", {"claims": [claim]}).expect(200)
    assert rack.headroom(2)["at_most"] == 0
    assert rack.headroom(1)["at_least"] == 1


def test_where_nothing_fits_it_explains_why(rack: Rack) -> None:
    found = rack.headroom(4)
    assert (found["at_least"], found["at_most"], found["exact"], found["trees"]) == (0, 0, True, [])
    assert found["explanation"] == rack.own.get(f"/allocation_candidates/explain?{rack.query(4)}").expect(200).json


@pytest.mark.parametrize("order", ["pack", "spread", "random", "LAMP:asc", "LAMP:2"])
def test_an_order_of_no_trees_is_no_fault(rack: Rack, order: str) -> None:
    order = order.replace("LAMP", rack.lamp)
    for query in (f"resources={rack.lamp}:100", f"{rack.query()}&member_of={fresh_uuid()}"):
        found = rack.own.get(f"{PATH}?{query}&order_by={order}").expect(200).headroom
        assert (found["at_most"], found["trees"]) == (0, [])
        ask = {"headroom": f"{query}&order_by={order}", "candidates": f"{query}&order_by={order}"}
        planned = rack.own.post("/whatif", {"changes": [], "ask": ask}).expect(200)
        assert planned.headroom["trees"] == []


def test_a_disabled_host_does_not_count(rack: Rack) -> None:
    state = {"disabled": {"reason": "broken fan", "until": None}}
    rack.own.call("PATCH", f"/provider_trees/{rack.hosts[2].uuid}", state).expect(200)
    assert rack.headroom(2)["at_most"] == 3


def test_its_generation_is_a_token_of_changes(rack: Rack) -> None:
    token = rack.headroom()["generation"]
    rack.own.put(rack.hosts[0].aggregates, {"resource_provider_generation": 2, "aggregates": []}).expect(200)
    changed = rack.own.get(f"/changes?timeout=0&since={token}").expect(200).providers
    assert rack.hosts[0].uuid in [one["uuid"] for one in changed]


@pytest.mark.parametrize("order", ["", "&order_by=pack", "&order_by=spread", "&order_by=random"])
def test_pages_have_every_tree_once_and_in_order(rack: Rack, order: str) -> None:
    whole = [tree["root"] for tree in rack.headroom(2, order)["trees"]]
    seen, target = [], f"{rack.query(2)}{order}&limit=1"
    for _ in range(4):
        page = rack.own.get(f"{PATH}?{target}").expect(200)
        assert page.headroom["at_least"] == 6
        seen += [tree["root"] for tree in page.headroom["trees"]]
        if not page.links:
            break
        [link] = page.links
        there = urlsplit(link["href"])
        assert (link["rel"], there.path) == ("next", PATH)
        assert dict(parse_qsl(there.query))["marker"] == seen[-1]
        target = there.query
    assert seen == whole
    by_room = [host.uuid for host in rack.hosts]
    expected = {"&order_by=pack": by_room, "&order_by=spread": by_room[::-1]}
    assert whole == expected.get(order, sorted(by_room))


@pytest.mark.parametrize("order", ["", "&order_by=pack", "&order_by=random"])
def test_a_marker_may_be_in_upper_case(rack: Rack, order: str) -> None:
    whole = [tree["root"] for tree in rack.headroom(1, order)["trees"]]
    assert [tree["root"] for tree in rack.headroom(1, f"{order}&marker={whole[0].upper()}")["trees"]] == whole[1:]


def test_trees_into_which_nothing_can_fit_are_limited_by_nothing(rack: Rack) -> None:
    trait = fresh_custom("BRIGHT")
    rack.own.put(f"/traits/{trait}").expect(201)
    bright = rack.hosts[2]
    rack.own.put(bright.traits, {"resource_provider_generation": 2, "traits": [trait]}).expect(200)
    found = rack.headroom(1, f"&required={trait}")
    assert (found["tree_count"], found["at_least"]) == (1, 7)
    assert found["limited_by"] == [{"suffix": "", "resource_class": rack.lamp, "trees": 1}]


def test_sums_beyond_64_bits_are_shown(own: Api) -> None:
    lamp, rack = fresh_custom("LAMP"), fresh_uuid()
    own.put(f"/resource_classes/{lamp}").expect(201)
    for _ in range(3):
        host = own.create_provider(fresh_name(), aggregates=[rack])
        generation = own.get(host.path).expect(200).generation
        great = {lamp: {"total": 2**31 - 1, "allocation_ratio": 1e10}}
        own.put(host.inventories, {"resource_provider_generation": generation, "inventories": great}).expect(200)
    query = f"resources={lamp}:1&member_of={rack}"
    assert own.get(f"{PATH}?{query}").expect(200).headroom["at_least"] > 2**32
    ask = {"headroom": query, "totals": True}
    assert own.post("/whatif", {"changes": [], "ask": ask}).expect(200).totals[lamp]["capacity"] > 2**63


def test_a_marker_without_a_place_in_an_order_is_refused(rack: Rack) -> None:
    target = f"{PATH}?{rack.query()}&marker={fresh_uuid()}"
    rack.own.get(target).expect(200)
    assert rack.own.get(f"{target}&order_by=pack").refused(400, "'marker' names no tree", code=BAD_VALUE)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("resources=VCPU:1&marker=host-1", "marker"),
        ("resources=VCPU:1&limit=0", "limit"),
        ("resources=VCPU:1&mix=", "mix"),
        ("resources=CUSTOM_NOBODY_HAS:1", "CUSTOM_NOBODY_HAS"),
        ("resources=VCPU:1&order_by=CUSTOM_NOBODY_HAS:asc", "CUSTOM_NOBODY_HAS"),
        ("limit=1", "resources"),
    ],
)
def test_a_faulty_query_is_refused(own: Api, query: str, text: str) -> None:
    answer = own.get(f"{PATH}?{query}").expect(400)
    assert text in answer.error.detail


def test_an_enormous_amount_fits_nowhere(rack: Rack) -> None:
    assert rack.headroom(10**40)["at_most"] == 0


@pytest.mark.parametrize("versions", [NEWEST, f"{NEWEST}, stead 1.0"])
def test_it_requires_stead_1_1(api: Api, versions: str) -> None:
    api.at(versions).get(f"{PATH}?resources=VCPU:1").expect(404)


class TestMixes:
    @pytest.fixture
    def flavors(self, rack: Rack) -> tuple[str, str]:
        """Flavors of one lamp and of three."""
        names = (fresh_custom("SMALL"), fresh_custom("LARGE"))
        for name, amount in zip(names, (1, 3), strict=True):
            rack.own.put(f"/flavors/{name}", {"query": rack.query(amount)}).expect(201)
        return names

    def test_it_says_how_many_fit_together(self, rack: Rack, flavors: tuple[str, str]) -> None:
        """2, 4 and 7 lamps have room for three times three, and four single ones beside them."""
        small, large = flavors
        answer = rack.own.get(f"{PATH}?mix={small}:1,{large}:1").expect(200)
        found = answer.headroom
        assert (found["at_least"], found["at_most"], found["exact"]) == (3, 3, True)
        assert found["limited_by"] == [{"flavor": large}, {"resource_class": rack.lamp}]
        assert found["stranded"] == {rack.lamp: 1}
        assert [(part["flavor"], part["weight"], part["at_least"]) for part in found["mix"]] == [
            (small, 1, 13),
            (large, 1, 3),
        ]
        assert answer.json["links"] == []

    def test_other_parameters_restrict_every_part(self, rack: Rack, flavors: tuple[str, str]) -> None:
        small, large = flavors
        found = rack.own.get(f"{PATH}?mix={small}:2,{large}:1&in_tree={rack.hosts[2].uuid}").expect(200).headroom
        assert (found["at_least"], found["at_most"]) == (1, 1)

    def test_the_mixes_can_be_claimed(self, rack: Rack, flavors: tuple[str, str]) -> None:
        small, large = flavors
        number = rack.own.get(f"{PATH}?mix={small}:4,{large}:2").expect(200).headroom["at_least"]
        assert number == 1
        wishes = [{"query": f"flavor={name}&order_by=pack"} for name in (large, large, *[small] * 4)]
        claims = [
            {"consumer_uuid": fresh_uuid(), "consumer_generation": None, "project_id": "p", "user_id": "u",
             "consumer_type": "INSTANCE", **wish}
            for wish in wishes
        ]  # fmt: skip
        rack.own.post("/claims", {"claims": claims}).expect(200)

    @pytest.mark.parametrize(
        ("mix", "text"),
        [
            ("", "mix is a list like m1.small:3,m1.large:1"),
            ("a", "'a' is none"),
            ("a:", "'a:' is none"),
            ("a:x", "'a:x' is none"),
            ("a:-1", "'a:-1' is none"),
            ("a:0", "The weight of a in mix must be from 1 to 100."),
            ("a:101", "The weight of a in mix must be from 1 to 100."),
            ("a:" + "9" * 5000, "The weight of a in mix must be from 1 to 100."),
            ("a:60,b:41", "must not exceed 100 together"),
            ("a:1,a:2", "a occurs twice"),
            ("a:1,", "'' is none"),
            ("a:1&mix=b:1", "specified only once"),
            ("a:1&flavor=b", "mix and flavor cannot be used together."),
            ("a:1&limit=5", "mix and limit cannot be used together."),
            ("a:1&order_by=pack", "mix and order_by cannot be used together."),
            ("a:1&resources=VCPU:1", "flavor and resources cannot be used together."),
            ("no.such:1", "No such flavor no.such."),
        ],
    )
    def test_a_faulty_mix_is_refused(self, own: Api, mix: str, text: str) -> None:
        assert text in own.get(f"{PATH}?mix={mix}").expect(400).error.detail


class TestStranded:
    """GET ``/headroom`` without a query: what the flavors of the site cannot use. It requires stead 1.2."""

    @pytest.fixture
    def newest(self, api: Api) -> Api:
        return api.at(f"{NEWEST}, stead 1.2")

    def test_it_is_the_mean_of_what_the_flavors_leave_by_what_they_request(self, rack: Rack, newest: Api) -> None:
        names = {amount: f"lamps.{amount}.{rack.lamp}" for amount in (3, 1)}
        newest.put(f"/flavors/{names[3]}", {"query": f"resources={rack.lamp}:3", "weight": 2}).expect(201)
        found = newest.get(PATH).expect(200).headroom
        assert (found["free"][rack.lamp], found["stranded"][rack.lamp]) == (13, 4)
        newest.put(f"/flavors/{names[1]}", {"query": f"resources={rack.lamp}:1", "weight": 2}).expect(201)
        assert newest.get(PATH).expect(200).headroom["stranded"][rack.lamp] == 3
        newest.put(f"/flavors/{names[1]}", {"query": f"resources={rack.lamp}:1", "weight": 18}).expect(200)
        assert newest.get(PATH).expect(200).headroom["stranded"][rack.lamp] == 1
        newest.delete(f"/flavors/{names[1]}").expect(204)
        # Two lamps are free everywhere, so nothing fits and all of them are stranded.
        for host, amount in zip(rack.hosts[1:], ((2,), (3, 2)), strict=True):
            for each in amount:
                allocations = {host.uuid: {"resources": {rack.lamp: each}}}
                body = {"allocations": allocations, "consumer_generation": None, "project_id": "p", "user_id": "u"}
                newest.put(f"/allocations/{fresh_uuid()}", {**body, "consumer_type": "INSTANCE"}).expect(204)
        found = newest.get(PATH).expect(200)
        assert (found.headroom["free"][rack.lamp], found.headroom["stranded"][rack.lamp]) == (6, 6)
        assert found.headroom["counted"] <= found.headroom["forms"]
        newest.get(f"/changes?timeout=0&since={found.headroom['generation']}").expect(200)
        newest.delete(f"/flavors/{names[3]}").expect(204)
        assert rack.lamp not in newest.get(PATH).expect(200).headroom["stranded"]

    def test_a_flavor_of_a_class_that_does_not_exist_is_not_counted(self, empty_api: Api) -> None:
        newest = empty_api.at(f"{NEWEST}, stead 1.2")
        assert newest.get(PATH).expect(200).headroom["forms"] == 0
        newest.put("/flavors/none", {"query": "resources=CUSTOM_OF_NOTHING:1"}).expect(201)
        found = newest.get(PATH).expect(200).headroom
        assert (found["forms"], found["counted"], found["stranded"]) == (1, 0, {})

    def test_before_stead_1_2_a_request_is_required(self, own: Api) -> None:
        assert b"There must be at least one resources" in own.get(PATH).expect(400).body
