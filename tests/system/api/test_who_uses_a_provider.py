"""GET ``/consumers`` by provider, with sums; and providers by name. Source: "GET /consumers", docs/stead-api.md."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.system.api.client import NEWEST, Api, Provider, fresh_name, fresh_uuid, holding

if TYPE_CHECKING:
    from tests.system.api.client import Answer

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


class House:
    """A host with two nodes, another host, and consumers of two projects on all of them."""

    def __init__(self, api: Api) -> None:
        self.host = api.create_provider(inventories={"DISK_GB": 100})
        self.node, self.sibling = (api.create_provider(parent=self.host, inventories={"VCPU": 8}) for _ in range(2))
        self.other = api.create_provider(inventories={"VCPU": 8, "DISK_GB": 100})
        self.mine, self.yours = sorted(fresh_name("project") for _ in range(2))
        self.both = api.claim((self.node, {"VCPU": 1}), (self.host, {"DISK_GB": 10}), project=self.mine)
        self.twice = api.claim((self.node, {"VCPU": 2}), (self.sibling, {"VCPU": 3}), project=self.yours)
        self.spread = api.claim((self.sibling, {"VCPU": 1}), (self.other, {"VCPU": 4}), project=self.mine)
        self.elsewhere = api.claim((self.other, {"VCPU": 1}), project=self.yours)


@pytest.fixture
def house(api: Api) -> House:
    return House(api)


def listed(answer: Answer) -> list[str]:
    return [one["uuid"] for one in answer.expect(200).consumers]


@pytest.mark.parametrize("named", [False, True])
def test_consumers_are_listed_by_provider_and_tree(own: Api, house: House, named: bool) -> None:
    def reference(provider: Provider) -> str:
        return f"name:{provider.name}" if named else provider.uuid

    def consumers(**query: Provider | str) -> list[str]:
        texts = {key: reference(of) if isinstance(of, Provider) else of for key, of in query.items()}
        return listed(own.get("/consumers", texts))

    assert consumers(provider=house.node) == sorted([house.both, house.twice])
    assert consumers(provider=house.host) == [house.both]
    everyone = sorted([house.both, house.twice, house.spread])
    assert consumers(in_tree=house.host) == consumers(in_tree=house.sibling) == everyone
    assert consumers(in_tree=house.host, project_id=house.mine) == sorted([house.both, house.spread])
    assert consumers(in_tree=house.host, provider=house.sibling) == sorted([house.twice, house.spread])
    assert consumers(in_tree=house.host, provider=house.other) == []  # no allocation is of both
    assert consumers(in_tree=house.other, consumer_type="MIGRATION") == []


def test_a_consumer_is_shown_with_all_that_it_holds(own: Api, house: House) -> None:
    [_, spread] = sorted(
        own.get("/consumers", {"provider": house.sibling.uuid}).consumers, key=lambda one: one["uuid"] == house.spread
    )
    assert set(spread["allocations"]) == {house.sibling.uuid, house.other.uuid}


def test_a_provider_that_does_not_exist_is_used_by_nobody(own: Api) -> None:
    for query in ({"provider": fresh_uuid()}, {"in_tree": fresh_uuid()}, {"in_tree": "name:nobody has this name"}):
        answer = own.get("/consumers", {**query, "totals": "true"}).expect(200)
        assert (answer.consumers, answer.project_totals) == ([], {})


def test_sums_are_by_project_and_of_the_providers_of_the_query(own: Api, house: House) -> None:
    answer = own.get("/consumers", {"in_tree": house.host.uuid, "totals": "true", "limit": "1"}).expect(200)
    assert len(answer.consumers) == 1
    assert answer.project_totals == {
        house.mine: {"consumer_count": 2, "usages": {"VCPU": 2, "DISK_GB": 10}},
        house.yours: {"consumer_count": 1, "usages": {"VCPU": 5}},
    }
    whole = own.get("/consumers", {"project_id": house.mine, "totals": "true"}).expect(200)
    assert whole.project_totals == {house.mine: {"consumer_count": 2, "usages": {"VCPU": 6, "DISK_GB": 10}}}


def test_each_consumer_has_the_time_at_which_it_was_created(own: Api, house: House) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    consumer = own.claim((house.other, {"DISK_GB": 1}))

    def created() -> datetime:
        shown = own.get("/consumers", {"provider": house.other.uuid}).consumers
        return next(datetime.fromisoformat(one["created_at"]) for one in shown if one["uuid"] == consumer)

    first = created()
    assert before <= first <= datetime.now(UTC)
    own.put(f"/allocations/{consumer}", holding((house.other, {"DISK_GB": 2}), generation=1)).expect(204)
    assert created() == first


def test_before_stead_1_1_nothing_of_it_is_there(own: Api, house: House) -> None:
    old = own.at(f"{NEWEST}, stead 1.0")
    for key, value in (("provider", house.node.uuid), ("in_tree", house.node.uuid), ("totals", "true")):
        assert old.get("/consumers", {key: value}).refused(400, f"'{key}' was unexpected")
    answer = old.get("/consumers", {"project_id": house.mine}).expect(200)
    assert set(answer.json) == {"consumers", "links"}
    assert all("created_at" not in one for one in answer.consumers)


@pytest.mark.parametrize(
    "query", [{"provider": "x"}, {"provider": "name:"}, {"in_tree": ""}, {"totals": "yes"}, {"totals": ""}], ids=str
)
def test_a_malformed_value_is_refused(own: Api, query: dict[str, Any]) -> None:
    assert own.get("/consumers", query).refused(400, "Invalid query string parameters")


def test_a_claim_by_query_names_its_provider(own: Api, house: House) -> None:
    record = {
        "consumer_uuid": fresh_uuid(),
        "query": f"resources=VCPU:1&in_tree=name:{house.node.name}",
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }
    [claim] = own.post("/claims", {"claims": [record]}).expect(200).claims
    assert set(claim["allocations"]) <= {house.node.uuid, house.sibling.uuid}
