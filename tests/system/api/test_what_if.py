"""POST ``/whatif``. Source: "POST /whatif", docs/stead-api.md."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from tests.system.api.client import NEWEST, Api, fresh_custom, fresh_name, fresh_uuid

if TYPE_CHECKING:
    from tests.system.api.client import Provider

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


class Rack:
    """Three hosts with lamps, 8 of each, in one aggregate."""

    def __init__(self, own: Api) -> None:
        self.own = own
        self.lamp, self.trait = fresh_custom("LAMP"), fresh_custom("BRIGHT")
        self.aggregate = fresh_uuid()
        own.put(f"/resource_classes/{self.lamp}").expect(201)
        own.put(f"/traits/{self.trait}").expect(201)
        self.hosts = [self.host() for _ in range(3)]

    def host(self) -> Provider:
        host = self.own.create_provider(fresh_name())
        self.put_inventory(host, {"total": 8})
        generation = self.own.get(host.aggregates).expect(200).resource_provider_generation
        body = {"resource_provider_generation": generation, "aggregates": [self.aggregate]}
        self.own.put(host.aggregates, body).expect(200)
        return host

    def put_inventory(self, host: Provider, inventory: dict[str, Any]) -> None:
        generation = self.own.get(host.inventories).expect(200).resource_provider_generation
        body = {"resource_provider_generation": generation, "inventories": {self.lamp: inventory}}
        self.own.put(host.inventories, body).expect(200)

    def claim(self, host: Provider, amount: int) -> str:
        consumer = fresh_uuid()
        allocations = {host.uuid: {"resources": {self.lamp: amount}}}
        body = {"allocations": allocations, "consumer_generation": None, **OWNER}
        self.own.put(f"/allocations/{consumer}", body).expect(204)
        return consumer

    @property
    def query(self) -> str:
        return f"resources={self.lamp}:1&member_of={self.aggregate}"

    def ask(self, *changes: dict[str, Any], **ask: Any) -> Any:
        asked = ask or {"headroom": self.query}
        return self.own.post("/whatif", {"changes": list(changes), "ask": asked}).expect(200)

    def fits(self, *changes: dict[str, Any]) -> int:
        number: int = self.ask(*changes).headroom["at_least"]
        return number

    def headroom(self) -> int:
        number: int = self.own.get(f"/headroom?{self.query}").expect(200).headroom["at_least"]
        return number

    def used(self, host: Provider) -> int:
        return self.own.get(f"{host.path}/usages").expect(200).usages.get(self.lamp, 0)  # type: ignore[no-any-return]  # a member of a JSON document


@pytest.fixture
def rack(own: Api) -> Rack:
    return Rack(own)


def change(kind: str, **fields: Any) -> dict[str, Any]:
    return {"change": kind, **fields}


def test_each_change_changes_the_answer_and_not_the_site(rack: Rack) -> None:
    host = rack.hosts[0].uuid
    lamps = {"provider": host, "resource_class": rack.lamp}
    assert rack.fits() == 24
    assert rack.fits(change("disable", provider=host)) == 16
    assert rack.fits(change("copy", provider=host, count=5)) == 64
    assert rack.fits(change("set_inventory", **lamps, allocation_ratio=2.5)) == 36
    assert rack.fits(change("set_inventory", **lamps, reserved=3)) == 21
    assert rack.fits(change("set_inventory", **lamps, total=10)) == 26
    assert rack.fits(change("remove_inventory", **lamps)) == 16
    assert rack.fits(change("delete_aggregate", aggregate=rack.aggregate)) == 0
    bright = rack.ask(
        change("add_trait", provider=host, trait=rack.trait), headroom=f"{rack.query}&required={rack.trait}"
    )
    assert bright.headroom["at_least"] == 8
    assert rack.headroom() == 24


def test_a_disabled_provider_has_the_trait_that_says_so_and_its_copies_have_not(rack: Rack) -> None:
    host = rack.own.create_provider(fresh_name())
    rack.put_inventory(host, {"total": 8})
    rack.put_inventory(rack.own.create_provider(fresh_name(), parent=host), {"total": 8})
    top = change("disable", provider=host.uuid)
    query = f"resources={rack.lamp}:1&required=COMPUTE_STATUS_DISABLED"
    copied = change("copy", provider=host.uuid, count=2)
    for order in ([top, copied], [copied, top]):
        assert rack.ask(*order, headroom=query).headroom["tree_count"] == 0
    sparing = f"resources={rack.lamp}:1&required=!COMPUTE_STATUS_DISABLED&in_tree={host.uuid}"
    assert rack.ask(headroom=sparing).headroom["at_least"] == 16
    assert rack.ask(top, headroom=sparing).headroom["at_least"] == 0


def test_it_answers_candidates_explanations_and_totals(rack: Rack) -> None:
    found = rack.ask(
        change("disable", provider=rack.hosts[0].uuid), candidates=rack.query, explain=rack.query, totals=True
    )
    assert len(found.candidates["allocation_requests"]) == 2
    assert found.explanation["candidates"] == 2
    assert found.totals[rack.lamp] == {"total": 24, "reserved": 0, "capacity": 24, "used": 0}


def test_a_question_may_name_a_flavor(rack: Rack) -> None:
    name = f"lamps.{fresh_uuid()[:8]}"
    rack.own.put(f"/flavors/{name}", {"query": f"resources={rack.lamp}:1"}).expect(201)
    disable = change("disable", provider=rack.hosts[0].uuid)
    by_name, written_out = (
        rack.ask(disable, headroom=query, explain=query, candidates=query).json
        for query in (f"flavor={name}&member_of={rack.aggregate}", rack.query)
    )
    assert by_name == written_out
    assert by_name["headroom"]["at_least"] == 16


@pytest.mark.parametrize("question", ["headroom", "candidates", "explain"])
def test_a_question_with_a_flavor_that_cannot_be_used_is_refused(own: Api, question: str) -> None:
    unknown = own.post("/whatif", {"changes": [], "ask": {question: "flavor=nobody.has.it"}})
    assert unknown.refused(400, "No such flavor nobody.has.it")
    both = own.post("/whatif", {"changes": [], "ask": {question: "flavor=m1&resources=VCPU:1"}})
    text = f"ask.{question}: flavor and resources cannot be used together"
    assert both.refused(400, text, code="placement.query.bad_value")


def test_the_moves_of_a_drain_can_be_made_one_after_the_other(rack: Rack) -> None:
    first, *others = rack.hosts
    consumers = {rack.claim(first, amount) for amount in (3, 2, 2)}
    rack.claim(others[0], 6)
    found = rack.ask(change("drain", provider=first.uuid), headroom=rack.query, totals=True)
    assert {move["consumer_uuid"] for move in found.moves} == consumers
    assert (found.without_place, found.headroom["at_least"], found.totals[rack.lamp]["used"]) == ([], 3, 13)
    assert rack.used(first) == 7
    for move in found.moves:
        body = {key: move[key] for key in ("allocations", "consumer_generation", *OWNER)}
        rack.own.put(f"/allocations/{move['consumer_uuid']}", body).expect(204)
    assert (rack.used(first), sum(map(rack.used, others))) == (0, 13)


def test_a_consumer_without_a_place_stays_and_is_explained(rack: Rack) -> None:
    first, *others = rack.hosts
    large, small = rack.claim(first, 5), rack.claim(first, 2)
    for other in others:
        rack.claim(other, 5)
    found = rack.ask(change("drain", provider=first.uuid), totals=True)
    [stuck] = found.without_place
    assert (stuck["consumer_uuid"], stuck["gave_up"], stuck["explanation"]["candidates"]) == (large, False, 0)
    assert [move["consumer_uuid"] for move in found.moves] == [small]


def test_the_options_of_a_drain_restrict_the_new_places(rack: Rack) -> None:
    first = rack.hosts[0]
    rack.claim(first, 2)
    generation = rack.own.get(f"{first.path}/traits").expect(200).resource_provider_generation
    body = {"resource_provider_generation": generation, "traits": [rack.trait]}
    rack.own.put(f"{first.path}/traits", body).expect(200)
    drain = change("drain", provider=first.uuid)
    assert len(rack.ask(drain).moves) == 1
    assert len(rack.ask({**drain, "same_aggregates": True}).moves) == 1
    assert rack.ask({**drain, "same_traits": True}).moves == []


def in_newest(rack: Rack) -> Api:
    """The API with the orders of plans, and a flavor of seven lamps that outweighs all others."""
    newest = rack.own.at(f"{NEWEST}, stead 1.2")
    query = f"resources={rack.lamp}:7"
    newest.put(f"/flavors/lamps.{rack.lamp}", {"query": query, "weight": 1_000_000_000}).expect(201)
    return newest


def test_the_moves_of_a_drain_take_the_best_places_of_an_order(rack: Rack) -> None:
    first, second, third = rack.hosts
    for _ in range(2):
        rack.claim(first, 1)
    rack.claim(third, 4)
    newest = in_newest(rack)
    drain = change("drain", provider=first.uuid)
    for order, chosen in (("spread", second), ("pack", third), (f"{rack.lamp}:asc", third), ("headroom", third)):
        planned = newest.post("/whatif", {"changes": [{**drain, "order_by": order}]}).expect(200)
        assert [list(move["allocations"]) for move in planned.moves] == [[chosen.uuid]] * 2
    newest.delete(f"/flavors/lamps.{rack.lamp}").expect(204)


@pytest.mark.parametrize("order", ["packed", "", 7, "VCPU:0", "CUSTOM_OF_NOTHING:asc"])
def test_a_malformed_order_of_a_drain_is_refused_with_its_place(rack: Rack, order: Any) -> None:
    newest = rack.own.at(f"{NEWEST}, stead 1.2")
    rack.claim(rack.hosts[0], 1)
    drain = change("drain", provider=rack.hosts[0].uuid, order_by=order)
    refused = newest.post("/whatif", {"changes": [drain]}).expect(400)
    assert b"order_by" in refused.body


def test_only_drains_have_an_order_and_only_since_stead_1_2(rack: Rack) -> None:
    host = rack.hosts[0].uuid
    disable = {"changes": [change("disable", provider=host, order_by="pack")]}
    refused = rack.own.at(f"{NEWEST}, stead 1.2").post("/whatif", disable).expect(400)
    assert b"changes[0].order_by: disable does not accept it" in refused.body
    rack.own.post("/whatif", {"changes": [change("drain", provider=host, order_by="pack")]}).expect(400)


def test_it_equals_making_the_changes(rack: Rack) -> None:
    rng = random.Random(7)
    for _ in range(30):
        for host in rack.hosts:
            rack.put_inventory(host, {"total": 8})
        changes = []
        for host in rng.sample(rack.hosts, rng.randint(1, 3)):
            fields = {"total": rng.randint(1, 20), "allocation_ratio": rng.choice([0.5, 1.0, 3.0]), "max_unit": 9}
            changes.append((host, fields))
        planned = [
            change("set_inventory", provider=host.uuid, resource_class=rack.lamp, **fields) for host, fields in changes
        ]
        asked = rack.ask(*planned, headroom=rack.query, candidates=rack.query)
        for host, fields in changes:
            rack.put_inventory(host, fields)
        done = rack.own.get(f"/headroom?{rack.query}").expect(200).headroom
        assert {**asked.headroom, "generation": ""} == {**done, "generation": ""}
        candidates = rack.own.get(f"/allocation_candidates?{rack.query}&limit=1000").expect(200)
        assert asked.candidates["provider_summaries"] == candidates.provider_summaries


def test_bad_changes_are_refused_with_their_place(rack: Rack) -> None:
    host = rack.hosts[0].uuid
    lamps = change("set_inventory", provider=host, resource_class=rack.lamp, total=9)
    rack.claim(rack.hosts[0], 1)
    for status, place, *changes in (
        (404, "changes[0].provider", change("disable", provider=fresh_uuid())),
        (404, "changes[0].provider", change("drain", provider="name:nothing like this")),
        (404, "changes[0].aggregate", change("delete_aggregate", aggregate=fresh_uuid())),
        (400, "changes[1].resource_class", lamps, lamps),
        (400, "changes[1].provider", change("drain", provider=host), change("disable", provider=host)),
        (400, "changes[1].provider", change("drain", provider=host), change("drain", provider=host)),
        (400, "changes[0].count", change("copy", provider=host)),
        (400, "changes[0].count", {**lamps, "count": 3}),
        (400, "changes[0].trait", change("add_trait", provider=host, trait="CUSTOM_NO_SUCH_TRAIT")),
        (400, "changes[0].resource_class", change("remove_inventory", provider=host, resource_class=rack.lamp)),
        (400, "changes[0].reserved", {**lamps, "reserved": 10}),
        (400, "changes[0].total", {**lamps, "total": 0}),
        (413, "changes[0].count", change("copy", provider=host, count=10**6)),
        (413, "1001 changes", *[change("disable", provider="a")] * 1001),
    ):
        answer = rack.own.post("/whatif", {"changes": changes})
        assert answer.status == status, changes[:2]
        assert place in str(answer.body), changes[:2]
    bad = rack.own.post("/whatif", {"changes": [], "ask": {"headroom": "resources=VCPU"}})
    assert bad.status == 400
    assert "ask.headroom" in str(bad.body)


def test_it_writes_nothing(empty_api: Api, ready_database_url: str) -> None:
    rack = Rack(empty_api.at(OWN))
    first = rack.hosts[0]
    rack.claim(first, 3)
    before = hash_of_tables(ready_database_url)
    lamps = {"provider": rack.hosts[1].uuid, "resource_class": rack.lamp}
    found = rack.ask(
        change("drain", provider=first.uuid),
        change("copy", provider=first.uuid, count=3),
        change("set_inventory", **lamps, total=99),
        change("add_trait", provider=first.uuid, trait=rack.trait),
        change("delete_aggregate", aggregate=rack.aggregate),
        headroom=f"resources={rack.lamp}:1",
        candidates=f"resources={rack.lamp}:1",
        totals=True,
    )
    assert len(found.moves) == 1
    assert hash_of_tables(ready_database_url) == before
    rack.claim(first, 1)
    assert hash_of_tables(ready_database_url) != before


def hash_of_tables(ready_database_url: str) -> str:
    engine = sa.create_engine(ready_database_url)
    tables = sa.MetaData()
    tables.reflect(engine)
    digest = hashlib.sha256()
    with engine.connect() as connection:
        for table in tables.sorted_tables:
            rows = sorted(map(repr, connection.execute(sa.select(table))))
            digest.update(repr((table.name, rows)).encode())
    engine.dispose()
    return digest.hexdigest()
