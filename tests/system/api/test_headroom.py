"""GET ``/headroom``. Source: "GET /headroom", docs/api.md."""

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
