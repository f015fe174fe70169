"""``order_by`` of allocation candidates: its grammar, and that it reaches the engine. And ``[stead] default_order``.

Source: "Order", docs/stead-api.md. What the orders mean is the subject of tests/rooms/candidates/test_order.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from tests.configuration import write_configuration
from tests.system.api.client import NEWEST, Api, Provider, fresh_uuid, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.api.client import Answer

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.one_database]

OWN = f"{NEWEST}, stead 1.0"
BAD_VALUE, DUPLICATE_KEY = "placement.query.bad_value", "placement.query.duplicate_key"
FORM = "Expected 'order_by' parameter to be pack, spread, random, CLASS:asc,CLASS:desc or CLASS:WEIGHT,CLASS:WEIGHT."


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


@pytest.fixture
def rack(own: Api) -> tuple[str, list[Provider]]:
    """An aggregate, and its hosts, of which each has more left than the one before."""
    rack = fresh_uuid()
    hosts = [own.create_provider(inventories={"VCPU": 8, "DISK_GB": 100}, aggregates=[rack]) for _ in range(3)]
    for host, taken in zip(hosts, (6, 4, 2), strict=True):
        own.claim((host, {"VCPU": taken, "DISK_GB": 10 - taken}))
    return rack, hosts


def asked(own: Api, rack: str, order: str, **more: str) -> list[str]:
    query = {"resources": "VCPU:1", "member_of": rack, "order_by": order, **more}
    found = own.get("/allocation_candidates", query).expect(200).allocation_requests
    return [uuid for one in found for uuid in one["allocations"]]


@pytest.mark.parametrize(
    ("order", "places"),
    [
        ("pack", [0, 1, 2]),
        ("spread", [2, 1, 0]),
        ("VCPU:asc", [0, 1, 2]),
        ("VCPU:desc,DISK_GB:asc", [2, 1, 0]),
        ("DISK_GB:desc", [0, 1, 2]),
        (" VCPU:asc , DISK_GB:asc ", [0, 1, 2]),
        ("VCPU:1", [2, 1, 0]),
        ("VCPU:-1.5,DISK_GB:.25", [0, 1, 2]),
        ("VCPU:0.000001,DISK_GB:-1000000", [2, 1, 0]),
    ],
)
def test_the_best_come_first(own: Api, rack: tuple[str, list[Provider]], order: str, places: list[int]) -> None:
    aggregate, hosts = rack
    best = [hosts[place].uuid for place in places]
    assert asked(own, aggregate, order) == best
    assert asked(own, aggregate, order, limit="2") == best[:2]


def test_drawn_ones_are_all_of_them(own: Api, rack: tuple[str, list[Provider]]) -> None:
    aggregate, hosts = rack
    assert sorted(asked(own, aggregate, "random")) == sorted(host.uuid for host in hosts)


@pytest.mark.parametrize(
    "order",
    [
        "", "best", "PACK", "pack,spread", "VCPU", "VCPU:", "VCPU:up", ":asc", "vcpu:asc", "VCPU:asc,",
        "VCPU:asc,VCPU:desc", "VCPU:asc,DISK_GB:1", "VCPU:0", "VCPU:nan", "VCPU:inf", "VCPU:1e3", "VCPU:1000001",
        "VCPU:1_0", "VCPU:--1", "VCPU:٣",
    ],
)  # fmt: skip
def test_anything_else_is_refused(own: Api, order: str) -> None:
    answer = own.get("/allocation_candidates", {"resources": "VCPU:1", "order_by": order})
    assert answer.refused(400, FORM, code=BAD_VALUE)


def test_two_of_them_are_refused(own: Api) -> None:
    query = [("resources", "VCPU:1"), ("order_by", "pack"), ("order_by", "pack")]
    words = "Query parameter 'order_by' may be specified only once."
    assert own.get("/allocation_candidates", query).refused(400, words, code=DUPLICATE_KEY)


def test_a_class_that_does_not_exist_is_refused(own: Api, rack: tuple[str, list[Provider]]) -> None:
    query = {"resources": "VCPU:1", "member_of": rack[0], "order_by": "CUSTOM_NO_SUCH_CLASS:asc"}
    words = "Invalid resource class in order_by parameter: No such resource class CUSTOM_NO_SUCH_CLASS."
    assert own.get("/allocation_candidates", query).refused(400, words)


def test_without_stead_there_is_no_order(api: Api) -> None:
    answer = api.get("/allocation_candidates", {"resources": "VCPU:1", "order_by": "pack"})
    assert answer.refused(400, "'order_by' does not match any of the regexes")


@pytest.mark.parametrize("order", ["pack", "spread", "random", "VCPU:asc", "VCPU:-1.5"])
def test_an_amount_beyond_all_numbers_is_no_fault(own: Api, rack: tuple[str, list[Provider]], order: str) -> None:
    """Somebody could give a part of it, so trees are measured before it is found that all together is too little."""
    assert asked(own, rack[0], order, resources=f"VCPU:{'9' * 400}", can_split="VCPU") == []


def devices(answer: Answer) -> list[str]:
    """The provider of each candidate, at any microversion."""
    found = []
    for each in answer.expect(200).allocation_requests:
        given = each["allocations"]
        (only,) = given if isinstance(given, dict) else [part["resource_provider"]["uuid"] for part in given]
        found.append(only)
    return found


class TestDefaultOrder:
    """Two hosts with two devices of four parts each. The devices have 4, 3, 2 and 1 parts free."""

    PARTS = "VGPU"
    EVERY_VERSION = (*(f"1.{minor}" for minor in range(10, 40)), OWN, f"{NEWEST}, stead 1.2")

    @pytest.fixture(params=["off", "pack", "spread", "headroom"])
    def order(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def ordered(self, order: str, tmp_path: Path) -> Iterator[Api]:
        file = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db")
        with file.open("a") as more:
            # What the order replaces.
            more.write(f"[placement]\nrandomize_allocation_candidates = true\n[stead]\ndefault_order = {order}\n")
        settings = load([file])
        service = application.build_service(settings)
        yield Api(wsgi_door(application.assemble(service, settings)))
        service.close()

    @pytest.fixture
    def parts(self, ordered: Api) -> list[str]:
        """The devices, the fullest last. They are on two hosts."""
        made = []
        for used in ((0, 2), (1, 3)):
            host = ordered.create_provider(inventories={"VCPU": 8})
            for amount in used:
                device = ordered.create_provider(parent=host, inventories={self.PARTS: 4})
                if amount:
                    ordered.claim((device, {self.PARTS: amount}))
                made.append(device.uuid)
        return [made[0], made[2], made[1], made[3]]

    def test_candidates_come_in_it_at_every_microversion(self, ordered: Api, order: str, parts: list[str]) -> None:
        # A flavor of two parts: the device with one part left can serve none, so to use this part loses nothing. Only
        # there, and where three are left, does a claim of one part keep the number of times that the flavor fits.
        flavor = {"query": f"resources={self.PARTS}:2", "weight": 1}
        ordered.at(f"{NEWEST}, stead 1.2").put("/flavors/two", flavor).expect(201)
        whole, three, two, one = parts
        expected = {
            # All of the host that is the best, then all of the other.
            "pack": [one, three, two, whole],
            "spread": [whole, two, three, one],
            "headroom": [one, three, whole, two],
        }.get(order)
        for version in self.EVERY_VERSION:
            api = ordered.at(version)
            query = {"resources": f"{self.PARTS}:1"}
            found = devices(api.get("/allocation_candidates", query))
            assert sorted(found) == sorted(parts)
            if expected is None:
                continue
            assert found == expected, version
            # The same again, which is the answer of before.
            assert devices(api.get("/allocation_candidates", query)) == expected
            if version >= "1.16":
                limited = api.get("/allocation_candidates", {**query, "limit": "2"})
                assert devices(limited) == expected[:2], version

    def test_a_query_with_an_order_has_that_order(self, ordered: Api, parts: list[str]) -> None:
        query = {"resources": f"{self.PARTS}:1", "limit": "1"}
        own = ordered.at(OWN)
        assert devices(own.get("/allocation_candidates", {**query, "order_by": "spread"})) == parts[:1]
        assert devices(own.get("/allocation_candidates", {**query, "order_by": "pack"})) == parts[-1:]
        drawn = {devices(own.get("/allocation_candidates", {**query, "order_by": "random"}))[0] for _ in range(40)}
        assert len(drawn) > 1

    def test_claims_take_the_best(self, ordered: Api, order: str, parts: list[str]) -> None:
        best = {"pack": parts[-1], "spread": parts[0], "headroom": parts[0]}.get(order)  # without flavors, as `spread`
        consumers = [fresh_uuid() for _ in range(2)]
        claims = [
            {
                "consumer_uuid": consumer,
                "query": query,
                "project_id": "p",
                "user_id": "u",
                "consumer_type": "INSTANCE",
                "consumer_generation": None,
            }
            for consumer, query in zip(consumers, (f"resources={self.PARTS}:1", "resources=VCPU:1"), strict=True)
        ]
        granted = ordered.at(OWN).post("/claims", {"claims": claims}).expect(200).claims[0]["allocations"]
        if best is not None:
            assert granted.keys() == {best}

    @pytest.mark.parametrize("order", ["headroom"], indirect=True)
    def test_an_answer_follows_the_mix(self, ordered: Api, parts: list[str]) -> None:
        newest = ordered.at(f"{NEWEST}, stead 1.2")
        query = {"resources": f"{self.PARTS}:1"}

        def first() -> str:
            return devices(ordered.get("/allocation_candidates", query))[0]

        assert first() == first() == parts[0]
        newest.put("/flavors/two", {"query": f"resources={self.PARTS}:2"}).expect(201)
        assert first() == parts[3]
        newest.put("/flavors/four", {"query": f"resources={self.PARTS}:4", "weight": 1}).expect(201)
        newest.put("/flavors/two", {"query": f"resources={self.PARTS}:2", "weight": 0}).expect(200)
        assert first() != parts[0]
        newest.delete("/flavors/two").expect(204)
        newest.delete("/flavors/four").expect(204)
        assert first() == parts[0]
