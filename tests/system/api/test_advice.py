"""GET ``/advice``. Source: "GET /advice", docs/stead-api.md."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.system.api.client import NEWEST, Api, fresh_uuid
from tests.system.api.test_what_if import OWN, OWNER, Rack

if TYPE_CHECKING:
    from tests.system.api.client import Provider

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

BAD_VALUE = "placement.query.bad_value"
DUPLICATE_KEY = "placement.query.duplicate_key"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


@pytest.fixture
def rack(own: Api) -> Rack:
    return Rack(own)


def advice(rack: Rack, amount: int, number: int, more: str = "") -> Any:
    query = f"resources={rack.lamp}:{amount}&member_of={rack.aggregate}"
    return rack.own.get(f"/advice?{query}&make_room_for={number}{more}").expect(200).advice


def claim_moves(own: Api, moves: list[dict[str, Any]]) -> None:
    """Make the moves, each by POST /claims."""
    for move in moves:
        claim = {key: move[key] for key in ("consumer_uuid", "query", "consumer_generation", *OWNER)}
        [granted] = own.post("/claims", {"claims": [claim]}).expect(200).claims
        assert granted["allocations"] == move["allocations"]


def test_the_smallest_set_of_consumers_makes_room(rack: Rack) -> None:
    first, second, third = rack.hosts
    rack.claim(first, 3)
    rack.claim(first, 3)
    small = rack.claim(second, 2)
    rack.claim(third, 5)
    found = advice(rack, 8, 1)
    [move] = found["moves"]
    assert (move["consumer_uuid"], move["from"]) == (small, {second.uuid: {"resources": {rack.lamp: 2}}})
    assert found["fewest_moves"] == {"at_least": 1, "at_most": 1, "exact": True}
    assert found["before"] == {"at_least": 0, "at_most": 0, "exact": True}
    assert found["after"] == {"at_least": 1, "at_most": 1, "exact": True}
    assert (found["make_room_for"], found["reason"]) == (1, None)
    rack.own.get(f"/changes?timeout=0&since={found['generation']}").expect(200)
    claim_moves(rack.own, found["moves"])
    rack.own.get(f"/headroom?resources={rack.lamp}:8&in_tree={second.uuid}").expect(200)
    assert rack.used(second) == 0


def test_a_consumer_makes_place_for_another_that_makes_room(rack: Rack) -> None:
    """The place for 5 lamps is free only after 1 lamp has moved to the third host."""
    first, second, third = rack.hosts
    large = rack.claim(first, 5)
    small = [rack.claim(second, amount) for amount in (1, 1, 2)]
    rack.claim(third, 7)
    found = advice(rack, 8, 1)
    helper, last = [move["consumer_uuid"] for move in found["moves"]]
    assert (helper in small[:2], last, found["fewest_moves"]["at_most"]) == (True, large, 2)
    claim_moves(rack.own, found["moves"])
    assert rack.used(first) == 0


def test_nothing_moves_if_there_is_room(rack: Rack) -> None:
    found = advice(rack, 8, 3)
    assert (found["moves"], found["before"]) == ([], found["after"])
    assert found["fewest_moves"] == {"at_least": 0, "at_most": 0, "exact": True}


def test_it_says_that_no_plan_exists(rack: Rack) -> None:
    rack.claim(rack.hosts[0], 3)
    found = advice(rack, 8, 4)
    assert (found["moves"], found["after"], found["reason"]) == (None, None, "impossible")
    assert found["fewest_moves"] == {"at_least": None, "at_most": None, "exact": True}


def test_it_says_that_none_was_found(rack: Rack) -> None:
    for host in rack.hosts:
        rack.claim(host, 5)
    found = advice(rack, 8, 1)
    assert (found["moves"], found["after"], found["reason"]) == (None, None, "not_found")
    assert found["fewest_moves"] == {"at_least": 1, "at_most": None, "exact": False}


def test_new_places_are_like_the_old_ones_if_requested(rack: Rack) -> None:
    """Only the first host has the trait, and only the last one is outside of the aggregate."""
    first, second, third = rack.hosts
    rack.claim(first, 1)
    for host in (second, third):
        rack.claim(host, 2)
    give_trait(rack, first)
    generation = rack.own.get(third.aggregates).expect(200).resource_provider_generation
    rack.own.put(third.aggregates, {"resource_provider_generation": generation, "aggregates": []}).expect(200)
    assert advice(rack, 8, 1)["fewest_moves"]["at_most"] == 1
    assert advice(rack, 8, 1, "&same_traits=false&same_aggregates=false")["fewest_moves"]["at_most"] == 1
    [move] = advice(rack, 8, 1, "&same_traits=true")["moves"]
    assert list(move["from"]) == [second.uuid]
    [move] = advice(rack, 8, 1, "&same_aggregates=true")["moves"]
    assert list(move["allocations"]) in ([first.uuid], [second.uuid])


def give_trait(rack: Rack, host: Provider) -> None:
    generation = rack.own.get(f"{host.path}/traits").expect(200).resource_provider_generation
    rack.own.put(f"{host.path}/traits", {"resource_provider_generation": generation, "traits": [rack.trait]}).expect(
        200
    )


def test_since_stead_1_2_new_places_are_the_best_of_the_order(rack: Rack) -> None:
    for host, amount in zip(rack.hosts, (1, 3, 5), strict=True):
        rack.claim(host, amount)
    query = f"/advice?resources={rack.lamp}:8&member_of={rack.aggregate}&make_room_for=1&order_by="
    newest = rack.own.at(f"{NEWEST}, stead 1.2")
    for api, order, chosen in ((newest, "spread", 1), (newest, "pack", 2), (rack.own, "spread", 2)):
        [move] = api.get(query + order).expect(200).advice["moves"]
        assert list(move["allocations"]) == [rack.hosts[chosen].uuid]
    assert b"order_by" in newest.get(f"{query}packed").expect(400).body


def test_a_flavor_stands_for_its_query(rack: Rack) -> None:
    name = f"lamps.{fresh_uuid()[:8]}"
    rack.own.put(f"/flavors/{name}", {"query": f"resources={rack.lamp}:8"}).expect(201)
    for host in rack.hosts:
        rack.claim(host, 1)
    found = rack.own.get(f"/advice?flavor={name}&member_of={rack.aggregate}&make_room_for=1").expect(200).advice
    assert found == advice(rack, 8, 1)
    assert rack.own.get("/advice?flavor=nobody.has.it&make_room_for=1").refused(400, "No such flavor nobody.has.it")


class TestImproving:
    """``improve=mix``: the moves that raise the value of the site for its flavors most. It requires stead 1.2."""

    @pytest.fixture
    def newest(self, rack: Rack) -> Api:
        """The API, with a flavor of seven lamps that outweighs all others."""
        newest = rack.own.at(f"{NEWEST}, stead 1.2")
        query = f"resources={rack.lamp}:7"
        newest.put(f"/flavors/lamps.{rack.lamp}", {"query": query, "weight": 1_000_000_000}).expect(201)
        return newest

    def test_the_moves_raise_the_value_and_can_be_made(self, rack: Rack, newest: Api) -> None:
        first, second, third = rack.hosts
        blocking = rack.claim(first, 2)
        for _ in range(2):
            rack.claim(second, 2)
        rack.claim(third, 1)
        found = newest.get("/advice?improve=mix&moves=1").expect(200).advice
        [move] = found["moves"]
        # Two lamps that leave the first host make room for seven. The second host has no such room to lose.
        assert move["consumer_uuid"] == blocking
        assert list(move["allocations"]) == [second.uuid]
        assert (found["improve"], found["reason"]) == ("mix", None)
        assert move["gain"] > 0
        assert found["after"]["value"] == pytest.approx(found["before"]["value"] + move["gain"], abs=1e-4)
        several = newest.get("/advice?improve=mix&moves=3").expect(200).advice["moves"]
        assert several[0] == move
        assert [list(each["allocations"]) for each in several] == [[second.uuid]] * 2
        claim_moves(rack.own, [{key: value for key, value in each.items() if key != "gain"} for each in several])
        query = f"/headroom?flavor=lamps.{rack.lamp}&member_of={rack.aggregate}"
        assert newest.get(query).expect(200).headroom["at_least"] == 2
        newest.delete(f"/flavors/lamps.{rack.lamp}").expect(204)

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ("improve=mix", "improve requires moves."),
            ("improve=mix&moves=0", "moves"),
            ("improve=mix&moves=1001", "moves is at most 1000."),
            ("improve=mix&moves=x", "moves"),
            ("improve=best&moves=1", "best"),
            ("improve=mix&moves=1&moves=2", "moves"),
            ("improve=mix&moves=1&resources=VCPU:1", "improve and resources cannot be used together."),
            ("improve=mix&moves=1&make_room_for=1", "improve and make_room_for cannot be used together."),
            ("moves=1&make_room_for=1&resources=VCPU:1", "moves requires improve=mix."),
            ("resources=VCPU:1", "'make_room_for' is a required property"),
            ("improve=mix&moves=1&same_traits=yes", "yes"),
        ],
    )
    def test_a_faulty_query_is_refused(self, own: Api, query: str, text: str) -> None:
        refused = own.at(f"{NEWEST}, stead 1.2").get(f"/advice?{query}").expect(400)
        assert text.encode() in refused.body

    def test_older_versions_do_not_know_it(self, own: Api) -> None:
        assert b"improve" in own.get("/advice?improve=mix&moves=1").expect(400).body


def test_without_flavors_there_is_nothing_to_improve(empty_api: Api) -> None:
    found = empty_api.at(f"{NEWEST}, stead 1.2").get("/advice?improve=mix&moves=1").expect(200).advice
    assert (found["moves"], found["reason"]) == (None, "no_mix")


def test_it_changes_nothing(rack: Rack) -> None:
    consumers = [rack.claim(host, 1) for host in rack.hosts]
    before = [rack.own.get(f"/allocations/{consumer}").expect(200).json for consumer in consumers]
    assert len(advice(rack, 8, 1)["moves"]) == 1
    assert [rack.own.get(f"/allocations/{consumer}").expect(200).json for consumer in consumers] == before


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("resources=VCPU:1", "'make_room_for' is a required property"),
        ("resources=VCPU:1&make_room_for=0", "make_room_for"),
        ("resources=VCPU:1&make_room_for=x", "make_room_for"),
        ("resources=VCPU:1&make_room_for=1%0A", "make_room_for"),
        ("resources=VCPU:1&make_room_for=1001", "make_room_for is at most 1000."),
        (f"resources=VCPU:1&make_room_for={'9' * 5000}", "make_room_for is at most 1000"),
        ("resources=VCPU:1&make_room_for=1&same_traits=yes", "same_traits"),
        ("resources=VCPU:1&make_room_for=1&same_aggregates=1", "same_aggregates"),
        ("resources=VCPU:1&make_room_for=1&colour=red", "colour"),
        ("make_room_for=1", "resources"),
        ("resources=VCPU&make_room_for=1", "VCPU"),
        ("resources=CUSTOM_NO_SUCH:1&make_room_for=1", "CUSTOM_NO_SUCH"),
        ("resources=VCPU:1&required=CUSTOM_NO_SUCH&make_room_for=1", "CUSTOM_NO_SUCH"),
    ],
)
def test_a_faulty_query_is_refused_with_its_place(own: Api, query: str, text: str) -> None:
    assert text in own.get(f"/advice?{query}").expect(400).error.detail


def test_a_parameter_is_given_once(own: Api) -> None:
    twice = own.get("/advice?resources=VCPU:1&make_room_for=1&make_room_for=2")
    assert twice.refused(400, "'make_room_for' may be specified only once", code=DUPLICATE_KEY)


@pytest.mark.parametrize("versions", [NEWEST, f"{NEWEST}, stead 1.0"])
def test_it_requires_stead_1_1(api: Api, versions: str) -> None:
    api.at(versions).get("/advice?resources=VCPU:1&make_room_for=1").expect(404)


@pytest.mark.parametrize(("roles", "status"), [("reader", 403), ("member", 403), ("service", 200), ("admin", 200)])
def test_it_needs_a_role(own: Api, roles: str, status: int) -> None:
    someone = replace(own, token="someone", roles=roles)
    someone.get("/advice?resources=VCPU:1&make_room_for=1").expect(status)
