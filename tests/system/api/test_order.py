"""``order_by`` of allocation candidates: its grammar, and that it reaches the engine.

Source: "Order", docs/stead-api.md. What the orders mean is the subject of tests/rooms/candidates/test_order.py.
"""

import pytest

from tests.system.api.client import NEWEST, Api, Provider, fresh_uuid

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
