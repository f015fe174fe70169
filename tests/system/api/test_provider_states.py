"""PATCH ``/provider_trees/{uuid}``: disabled providers. Source: "PATCH /provider_trees/{uuid}", docs/stead-api.md."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from stead.domain.names import DISABLED_TRAIT
from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_uuid, holding
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
DISABLED = "stead.provider_disabled"
REASON = "broken fan"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


def patch(own: Api, provider: Provider, disabled: Any) -> Answer:
    return own.call("PATCH", f"/provider_trees/{provider.uuid}", {"disabled": disabled})


def disable(own: Api, provider: Provider, reason: str = REASON, **more: Any) -> Answer:
    return patch(own, provider, {"reason": reason, **more}).expect(200)


def enable(own: Api, provider: Provider) -> Answer:
    return patch(own, provider, None).expect(200)


def state(own: Api, provider: Provider) -> Any:
    """The field ``disabled`` of a provider."""
    [tree] = own.get("/provider_trees", {"in_tree": provider.uuid}).expect(200).provider_trees
    return next(shown["disabled"] for shown in tree["providers"] if shown["uuid"] == provider.uuid)


def candidates(api: Api, **query: Any) -> set[str]:
    """The uuids of all providers in the allocations of all candidates."""
    requests = api.get("/allocation_candidates", query).expect(200).allocation_requests
    return {uuid for request in requests for uuid in request["allocations"]}


def host_with_nodes(api: Api) -> tuple[Provider, Provider, Provider]:
    """A host with DISK_GB, and two nodes with VCPU below it."""
    host = api.create_provider(inventories={"DISK_GB": 100})
    nodes = [api.create_provider(parent=host, inventories={"VCPU": 8}) for _ in range(2)]
    return host, nodes[0], nodes[1]


def replace(api: Api, consumer: str, amounts: Mapping[Provider, Mapping[str, int]], generation: int | None) -> Answer:
    body = holding(*amounts.items(), generation=generation)
    return api.put(f"/allocations/{consumer}", body)


def in_seconds(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class TestTheName:
    def test_stands_for_the_uuid(self, own: Api) -> None:
        host = own.create_provider()
        path = f"/provider_trees/name:{host.name}"
        answer = own.call("PATCH", path, {"disabled": {"reason": REASON}}).expect(200)
        assert (answer.json["uuid"], answer.json["disabled"]["provider_uuid"]) == (host.uuid, host.uuid)
        assert state(own, host)["reason"] == REASON
        own.call("PATCH", path, {"disabled": None}).expect(200)
        assert state(own, host) is None

    def test_may_have_characters_that_a_path_encodes(self, own: Api) -> None:
        host = own.create_provider(name="rack 7, höst:1")
        own.call("PATCH", "/provider_trees/name:rack%207,%20h%C3%B6st:1", {"disabled": {"reason": REASON}}).expect(200)
        assert state(own, host)["reason"] == REASON

    def test_is_spelled_exactly(self, own: Api) -> None:
        host = own.create_provider(name="host-of-a-name")
        for name in ("HOST-of-a-name", "host-of-a-name ", "nowhere"):
            answer = own.call("PATCH", f"/provider_trees/name:{quote(name)}", {"disabled": None})
            assert answer.refused(404, f"No resource provider with name {name} found")
        own.call("PATCH", f"/provider_trees/{host.name}", {"disabled": None}).expect(404)


class TestTheState:
    def test_is_answered_with_the_generation_that_it_raises(self, own: Api) -> None:
        host = own.create_provider()
        generation = own.generation(host)
        answer = disable(own, host)
        assert {**answer.json, "disabled": None} == {
            "uuid": host.uuid,
            "name": host.name,
            "generation": generation + 1,
            "disabled": None,
        }
        assert own.generation(host) == generation + 1
        assert enable(own, host).json == {
            "uuid": host.uuid,
            "name": host.name,
            "generation": generation + 2,
            "disabled": None,
        }

    def test_is_shown_with_reason_times_and_the_provider_that_it_is_of(self, own: Api) -> None:
        host = own.create_provider()
        disabled = disable(own, host, until="2124-02-29T12:00:00+02:00").disabled
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", disabled.pop("since"))
        assert disabled == {"reason": REASON, "until": "2124-02-29T10:00:00Z", "provider_uuid": host.uuid}
        assert {**disabled, "since": state(own, host)["since"]} == state(own, host)

    def test_of_a_provider_below_is_that_of_the_one_above(self, own: Api) -> None:
        host, node, other = host_with_nodes(own)
        disable(own, host)
        assert state(own, node) == state(own, host)
        disable(own, node, "its own")
        assert (state(own, node)["reason"], state(own, node)["provider_uuid"]) == ("its own", node.uuid)
        enable(own, host)
        assert (state(own, host), state(own, other)) == (None, None)
        assert state(own, node)["reason"] == "its own"

    def test_can_be_changed_while_since_stays(self, own: Api) -> None:
        host = own.create_provider()
        first = disable(own, host, until="2124-02-29T12:00:00Z").disabled
        second = disable(own, host, "broken disk").disabled
        assert second == {**first, "reason": "broken disk", "until": None}

    def test_enabling_an_enabled_provider_changes_nothing(self, own: Api) -> None:
        host = own.create_provider(traits=[DISABLED_TRAIT])
        generation = own.generation(host)
        assert enable(own, host).generation == generation == own.generation(host)
        assert own.get(host.traits).traits == [DISABLED_TRAIT]

    def test_ends_with_the_provider(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        disable(own, host)
        own.delete(host.path).expect(204)
        again = own.post("/resource_providers", {"name": host.name, "uuid": host.uuid}).expect(200)
        assert state(own, Provider(again.uuid, again.name)) is None

    def test_changes_the_etag_of_the_trees(self, own: Api) -> None:
        host = own.create_provider()
        tag = own.get("/provider_trees").header("etag")
        disable(own, host)
        own.get("/provider_trees", headers={"If-None-Match": tag}).expect(200)


class TestRejections:
    def test_of_a_provider_that_does_not_exist(self, own: Api) -> None:
        nobody = Provider(fresh_uuid(), "nobody")
        assert patch(own, nobody, {"reason": REASON}).refused(404, f"No resource provider with uuid {nobody.uuid}")
        assert patch(own, nobody, None).refused(404)

    @pytest.mark.parametrize(
        "disabled",
        [
            {},
            {"reason": ""},
            {"reason": "two\nlines"},
            {"reason": "ends\n"},
            {"reason": "nul\0"},
            {"reason": "x" * 256},
            {"reason": 7},
            {"reason": REASON, "until": 7},
            {"reason": REASON, "until": "tomorrow"},
            {"reason": REASON, "until": "2124-02-29T12:00:00"},
            {"reason": REASON, "until": "2123-02-29T12:00:00Z"},
            {"reason": REASON, "until": "9999-12-31T23:59:59-12:00"},
            {"reason": REASON, "until": "0001-01-01T00:00:00+23:00"},
            {"reason": REASON, "color": "red"},
            True,
            [],
        ],
        ids=str,
    )
    def test_of_a_state_of_another_form(self, own: Api, disabled: Any) -> None:
        host = own.create_provider()
        assert patch(own, host, disabled).refused(400, "JSON does not validate")
        assert state(own, host) is None

    @pytest.mark.parametrize("body", [{}, {"disabled": None, "name": "other"}], ids=str)
    def test_of_a_body_of_another_form(self, own: Api, body: Any) -> None:
        host = own.create_provider()
        answer = own.call("PATCH", f"/provider_trees/{host.uuid}", body)
        assert answer.refused(400, "JSON does not validate")

    def test_of_an_end_in_the_past_which_changes_nothing(self, own: Api) -> None:
        host = own.create_provider()
        generation = own.generation(host)
        answer = patch(own, host, {"reason": REASON, "until": "2020-01-01T00:00:00Z"})
        assert answer.refused(400, "disabled.until is in the past: 2020-01-01T00:00:00Z.")
        assert (state(own, host), own.generation(host)) == (None, generation)

    def test_before_stead_1_1(self, own: Api) -> None:
        host = own.create_provider()
        for version in (NEWEST, f"{NEWEST}, stead 1.0"):
            assert patch(own.at(version), host, None).status == 404


class TestCandidates:
    def test_have_no_disabled_provider(self, own: Api) -> None:
        host, other = (own.create_provider(inventories={"VCPU": 8}) for _ in range(2))
        disable(own, host)
        assert candidates(own, resources="VCPU:1") >= {other.uuid}
        assert host.uuid not in candidates(own, resources="VCPU:1")
        enable(own, host)
        assert candidates(own, resources="VCPU:1") >= {host.uuid, other.uuid}

    @pytest.mark.parametrize("version", ["1.10", "1.29", NEWEST])
    def test_have_none_for_upstream_clients_either(self, own: Api, version: str) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        disable(own, host)
        assert host.uuid not in str(own.at(version).get("/allocation_candidates", {"resources": "VCPU:1"}).json)

    def test_have_no_provider_below_a_disabled_one(self, own: Api) -> None:
        host, node, other = host_with_nodes(own)
        disable(own, node)
        assert candidates(own, resources="VCPU:1", in_tree=host.uuid) == {other.uuid}
        assert candidates(
            own, resources1="VCPU:1", resources2="DISK_GB:1", group_policy="none", in_tree1=host.uuid
        ) >= {
            other.uuid,
            host.uuid,
        }
        disable(own, host)
        assert candidates(own, resources="VCPU:1", in_tree=host.uuid) == set()

    def test_follow_a_provider_that_moves(self, own: Api) -> None:
        host, other = (own.create_provider() for _ in range(2))
        node = own.create_provider(parent=other, inventories={"VCPU": 8})
        leaf = own.create_provider(parent=node, inventories={"VCPU": 8})
        disable(own, host)
        for parent, there in ((host, set()), (other, {node.uuid, leaf.uuid}), (None, {node.uuid, leaf.uuid})):
            uuid = None if parent is None else parent.uuid
            own.put(node.path, {"name": node.name, "parent_provider_uuid": uuid}).expect(200)
            assert candidates(own, resources="VCPU:1", in_tree=node.uuid) == there

    def test_have_no_disabled_sharing_provider(self, own: Api) -> None:
        rack = fresh_uuid()
        host = own.create_provider(inventories={"VCPU": 8}, aggregates=[rack])
        store = own.create_provider(
            inventories={"DISK_GB": 100}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[rack]
        )
        assert candidates(own, resources="VCPU:1,DISK_GB:1", member_of=rack) == {host.uuid, store.uuid}
        disable(own, store)
        assert candidates(own, resources="VCPU:1,DISK_GB:1", member_of=rack) == set()
        enable(own, store)
        disable(own, host)
        assert candidates(own, resources="DISK_GB:1", member_of=rack) == {store.uuid}

    def test_explain_counts_disabled_providers_as_a_step(self, own: Api) -> None:
        lamp = own.create_class()
        host = own.create_provider(inventories={lamp: 4})
        disable(own, host)
        told = own.get("/allocation_candidates/explain", {"resources": f"{lamp}:1"}).expect(200)
        [group] = told.groups
        [choice] = group["choices"]
        step = choice["steps"][0]
        assert (step["parameter"], step["value"]) == ("disabled", "false")
        assert step["removed"] >= 1
        [miss] = choice["nearest"]
        assert (miss["parameter"], miss["providers"]) == ("disabled", 1)
        assert miss["examples"] == [{"uuid": host.uuid, "name": host.name}]


class TestAllocations:
    def test_that_take_from_a_disabled_provider_are_refused_with_the_reason(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        disable(own, host)
        for version in (NEWEST, OWN):
            answer = replace(own.at(version), fresh_uuid(), {host: {"VCPU": 1}}, None)
            assert answer.refused(
                409, "Unable to allocate inventory: ", host.uuid, f"is disabled: {REASON}", code=DISABLED
            )
        enable(own, host)
        replace(own, fresh_uuid(), {host: {"VCPU": 1}}, None).expect(204)

    def test_that_take_from_a_provider_below_it_are_refused(self, own: Api) -> None:
        host, node, _ = host_with_nodes(own)
        disable(own, host)
        answer = replace(own, fresh_uuid(), {node: {"VCPU": 1}}, None)
        assert answer.refused(409, node.uuid, f"below disabled provider '{host.uuid}': {REASON}", code=DISABLED)

    def test_of_a_disabled_provider_stay_can_shrink_and_go(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8, "DISK_GB": 8})
        consumer = own.claim((host, {"VCPU": 4}))
        disable(own, host)
        replace(own, consumer, {host: {"VCPU": 4}}, 1).expect(204)
        assert replace(own, consumer, {host: {"VCPU": 5}}, 2).refused(409, code=DISABLED)
        assert replace(own, consumer, {host: {"VCPU": 4, "DISK_GB": 1}}, 2).refused(409, "DISK_GB", code=DISABLED)
        replace(own, consumer, {host: {"VCPU": 2}}, 2).expect(204)
        assert replace(own, consumer, {host: {"VCPU": 3}}, 3).refused(409, code=DISABLED)
        assert own.held(consumer) == {host.uuid: {"VCPU": 2}}
        own.delete(f"/allocations/{consumer}").expect(204)

    def test_of_a_disabled_provider_move_away_but_not_back(self, own: Api) -> None:
        host, other = (own.create_provider(inventories={"VCPU": 8}) for _ in range(2))
        consumer = own.claim((host, {"VCPU": 4}))
        disable(own, host)
        replace(own, consumer, {other: {"VCPU": 4}}, 1).expect(204)
        assert replace(own, consumer, {host: {"VCPU": 4}}, 2).refused(409, code=DISABLED)

    def test_of_a_disabled_provider_change_hands(self, own: Api) -> None:
        """A migration gives the allocations of an instance to a consumer of its own, in one request."""
        host, other = (own.create_provider(inventories={"VCPU": 8}) for _ in range(2))
        instance, migration = own.claim((host, {"VCPU": 4})), fresh_uuid()
        disable(own, host)

        def move(amount: int) -> Answer:
            return own.post(
                "/allocations",
                {
                    instance: holding((other, {"VCPU": 4}), generation=1),
                    migration: holding((host, {"VCPU": amount})),
                },
            )

        assert move(5).refused(409, code=DISABLED)
        move(4).expect(204)
        assert own.held(migration) == {host.uuid: {"VCPU": 4}}

    def test_of_claims_by_query_are_elsewhere(self, own: Api) -> None:
        lamp = own.create_class()
        host, other = (own.create_provider(inventories={lamp: 1}) for _ in range(2))
        disable(own, host)

        def claim() -> Answer:
            record = {"consumer_uuid": fresh_uuid(), "query": f"resources={lamp}:1", **OWNER}
            return own.post("/claims", {"claims": [record]})

        assert list(claim().expect(200).claims[0]["allocations"]) == [other.uuid]
        answer = claim()
        assert answer.refused(409, code="stead.nothing_fits")
        assert answer.error.explanation["groups"][0]["choices"][0]["steps"][0]["parameter"] == "disabled"
        enable(own, host)
        assert list(claim().expect(200).claims[0]["allocations"]) == [host.uuid]

    def test_of_a_claim_by_query_that_is_repeated_are_told_again(self, own: Api) -> None:
        lamp = own.create_class()
        host = own.create_provider(inventories={lamp: 1})
        record = {"consumer_uuid": fresh_uuid(), "query": f"resources={lamp}:1", **OWNER}
        first = own.post("/claims", {"claims": [record]}).expect(200)
        disable(own, host)
        again = own.post("/claims", {"claims": [record]}).expect(200)
        assert again.claims == first.claims

    def test_move_within_a_disabled_tree_by_a_reshape_only(self, own: Api) -> None:
        host, node, _ = host_with_nodes(own)
        consumer = own.claim((host, {"DISK_GB": 10}))
        disable(own, host)

        def reshape(amount: int) -> Answer:
            inventories = {
                host.uuid: {"inventories": {}, "resource_provider_generation": own.generation(host)},
                node.uuid: {
                    "inventories": {"VCPU": {"total": 8}, "DISK_GB": {"total": 100}},
                    "resource_provider_generation": own.generation(node),
                },
            }
            allocations = {consumer: holding((node, {"DISK_GB": amount}), generation=1)}
            return own.post("/reshaper", {"inventories": inventories, "allocations": allocations})

        assert reshape(11).refused(409, code=DISABLED)
        reshape(10).expect(204)
        assert own.held(consumer) == {node.uuid: {"DISK_GB": 10}}


OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}


class TestTheTrait:
    def test_is_set_and_removed(self, own: Api) -> None:
        host = own.create_provider(traits=["HW_CPU_X86_AVX"])
        disable(own, host)
        assert set(own.get(host.traits).traits) == {"HW_CPU_X86_AVX", DISABLED_TRAIT}
        enable(own, host)
        assert own.get(host.traits).traits == ["HW_CPU_X86_AVX"]

    def test_is_not_set_below_the_provider(self, own: Api) -> None:
        host, node, _ = host_with_nodes(own)
        disable(own, host)
        assert own.get(node.traits).traits == []

    def test_of_another_service_stays(self, own: Api) -> None:
        host = own.create_provider(traits=[DISABLED_TRAIT])
        disable(own, host)
        enable(own, host)
        assert own.get(host.traits).traits == [DISABLED_TRAIT]

    def test_alone_disables_nothing(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8}, traits=[DISABLED_TRAIT])
        assert host.uuid in candidates(own, resources="VCPU:1")
        assert state(own, host) is None
        own.claim((host, {"VCPU": 1}))

    def test_can_be_removed_without_enabling(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        disable(own, host)
        own.put(host.traits, traits=[], generation=own.generation(host)).expect(200)
        assert replace(own, fresh_uuid(), {host: {"VCPU": 1}}, None).refused(409, code=DISABLED)
        disable(own, host, "still broken")
        assert own.get(host.traits).traits == [DISABLED_TRAIT]
        enable(own, host)
        assert own.get(host.traits).traits == []


class TestUntil:
    def test_a_provider_is_enabled_when_its_time_is_over(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        disable(own, host, until=in_seconds(2))
        wait_until(lambda: state(own, host) is None)
        assert own.get(host.traits).traits == []
        own.claim((host, {"VCPU": 1}))

    def test_a_time_may_have_any_zone(self, own: Api) -> None:
        host = own.create_provider()
        there = datetime.fromtimestamp(int(time.time()) + 3600, timezone(timedelta(hours=-3, minutes=-30)))
        until = disable(own, host, until=there.isoformat()).disabled["until"]
        assert datetime.fromisoformat(until) == there


def test_a_name_with_a_slash_in_the_path_is_404_that_asks_for_the_uuid(own: Api) -> None:
    for name in ("rack%2Fhost", "rack/host"):
        answer = own.call("PATCH", f"/provider_trees/name:{name}", {"disabled": None})
        assert answer.refused(404, "No such path: /provider_trees/name:rack/host", "use the uuid of the provider")
    assert not own.call("PATCH", "/provider_trees/rack/host", {"disabled": None}).refused(404, "use the uuid")
