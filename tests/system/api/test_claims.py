"""POST ``/claims``: a place is found and claimed in one request, for several consumers all or none.

Source: "POST /claims", docs/stead-api.md.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from stead.catalog.catalog import Catalog
from stead.process import runtime
from stead.service import claims
from stead.service.claims import Claiming
from stead.store.protocol import clock
from stead.store.protocol.store import Store
from tests.conftest import open_door
from tests.system.api.client import CONCURRENT_UPDATE, NEWEST, Answer, Api, Provider, fresh_uuid, holding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.timeout(120)]  # claims of large sites

OWN = f"{NEWEST}, stead 1.0"
NOTHING_FITS = "stead.nothing_fits"
BAD_VALUE, MISSING_VALUE = "placement.query.bad_value", "placement.query.missing_value"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


class Rack:
    """Hosts of one aggregate, in which all queries of a test look."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.uuid = fresh_uuid()

    def host(self, **more: Any) -> Provider:
        return self.api.create_provider(
            **{"inventories": {"VCPU": 4, "MEMORY_MB": 100}, **more}, aggregates=[self.uuid]
        )

    def query(self, resources: str = "VCPU:1", **more: str) -> str:
        return "&".join([f"resources={resources}&member_of={self.uuid}", *(f"{key}={of}" for key, of in more.items())])


@pytest.fixture
def rack(own: Api) -> Rack:
    return Rack(own)


def wish(query: str, consumer: str | None = None, generation: int | None = None, **more: Any) -> dict[str, Any]:
    said = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": generation}
    return {"consumer_uuid": consumer or fresh_uuid(), "query": query, **said, **more}


def claim(api: Api, *wishes: dict[str, Any], **more: Any) -> Answer:
    return api.post("/claims", {"claims": list(wishes), **more})


def givers(answer: Answer) -> list[list[str]]:
    return [list(one["allocations"]) for one in answer.expect(200).claims]


@pytest.mark.one_database
def test_a_claim_never_gives_way_for_others_wait_until_it_has_its_place(own: Api, rack: Rack, in_process: None) -> None:
    rack.host()
    with patch.object(runtime, "give_way", side_effect=RuntimeError("a claim gave way")) as give_way:
        claim(own, wish(rack.query())).expect(200)
        claim(own, wish(rack.query("VCPU:5")), explain=False).expect(409)
        give_way.assert_not_called()
        give_way.side_effect = None
        own.get(f"/allocation_candidates?{rack.query()}").expect(200)
        give_way.assert_called()


class TestOne:
    def test_the_answer_says_what_is_held_now(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        wanted = wish(rack.query("VCPU:2,MEMORY_MB:7"), project_id="p1", user_id="u1", consumer_type="VOLUME")
        answer = claim(own, wanted)
        consumer = wanted["consumer_uuid"]
        assert answer.json == {
            "claims": [
                {
                    "consumer_uuid": consumer,
                    "consumer_generation": 1,
                    "allocations": {host.uuid: {"resources": {"VCPU": 2, "MEMORY_MB": 7}}},
                    "mappings": {"": [host.uuid]},
                }
            ],
            "tries": 1,
        }
        held = own.get(f"/allocations/{consumer}").json
        assert held["allocations"] == {host.uuid: {"resources": {"VCPU": 2, "MEMORY_MB": 7}, "generation": 3}}
        assert (held["project_id"], held["user_id"], held["consumer_type"]) == ("p1", "u1", "VOLUME")

    def test_a_consumer_without_a_type_stays_without_one(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        consumer = fresh_uuid()
        untyped = {"allocations": {host.uuid: {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u"}
        own.at("1.37").put(f"/allocations/{consumer}", {**untyped, "consumer_generation": None}).expect(204)
        wanted = wish(rack.query("VCPU:2"), consumer, 1, consumer_type="unknown")
        new = wish(rack.query("VCPU:1"), consumer_type="unknown")
        first = claim(own, wanted, new).expect(200)
        assert [own.get(f"/allocations/{each}").consumer_type for each in (consumer, new["consumer_uuid"])] == [
            "unknown",
            "unknown",
        ]
        again = claim(own, wanted, new).expect(200)
        assert (again.claims, again.json["tries"]) == (first.claims, 0)

    def test_unknown_leaves_a_type_alone(self, own: Api, rack: Rack) -> None:
        rack.host()
        consumer = wish(rack.query())["consumer_uuid"]
        claim(own, wish(rack.query(), consumer, consumer_type="VOLUME")).expect(200)
        resized = wish(rack.query("VCPU:2"), consumer, 1, consumer_type="unknown")
        for tries in (1, 0):
            assert claim(own, resized).expect(200).json["tries"] == tries
        assert own.get(f"/allocations/{consumer}").consumer_type == "VOLUME"

    @pytest.mark.parametrize(("order", "place"), [("pack", 0), ("spread", 2), ("VCPU:asc", 0), ("MEMORY_MB:1", 2)])
    def test_the_best_is_claimed(self, own: Api, rack: Rack, order: str, place: int) -> None:
        hosts = [rack.host() for _ in range(3)]
        for host, taken in zip(hosts, (3, 2, 1), strict=True):
            own.claim((host, {"VCPU": taken, "MEMORY_MB": taken}))
        assert givers(claim(own, wish(rack.query(order_by=order)))) == [[hosts[place].uuid]]

    def test_groups_are_mapped(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        port = own.create_provider(parent=host, inventories={"SRIOV_NET_VF": 1})
        query = f"{rack.query()}&resources_NIC=SRIOV_NET_VF:1&group_policy=none"
        [granted] = claim(own, wish(query)).expect(200).claims
        assert granted["mappings"] == {"": [host.uuid], "_NIC": [port.uuid]}
        assert granted["allocations"].keys() == {host.uuid, port.uuid}

    def test_what_it_holds_counts_as_free(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        consumer = own.claim((host, {"VCPU": 3}))
        answer = claim(own, wish(rack.query("VCPU:4"), consumer, 1)).expect(200)
        assert answer.claims[0]["consumer_generation"] == 2
        assert own.held(consumer) == {host.uuid: {"VCPU": 4}}

    def test_nothing_fits(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        wanted = wish(rack.query("VCPU:5"))
        refused = claim(own, wanted)
        words = f"Nothing fits claims[0] (consumer {wanted['consumer_uuid']})."
        assert refused.refused(409, words, code=NOTHING_FITS)
        assert refused.error.claim == 0
        assert (own.held(wanted["consumer_uuid"]), own.used(host)["VCPU"]) == ({}, 0)

    def test_that_nothing_fits_is_explained(self, own: Api, rack: Rack) -> None:
        rack.host()
        refused = claim(own, wish(rack.query("VCPU:5")))
        explained = own.get(f"/allocation_candidates/explain?{rack.query('VCPU:5')}").expect(200)
        assert refused.error.explanation == explained.json
        assert explained.json["candidates"] == 0

    def test_of_a_gang_it_is_explained_beside_those_that_have_a_place(self, own: Api, rack: Rack) -> None:
        rack.host()
        refused = claim(own, wish(rack.query("VCPU:3")), wish(rack.query("VCPU:2")))
        nearest = refused.error.explanation["groups"][0]["choices"][0]["nearest"]
        assert [near["lacking"] for near in nearest if near.get("check") == "room"] == [[{"amount": 1, "providers": 1}]]

    def test_who_does_not_ask_why_is_not_told(self, own: Api, rack: Rack) -> None:
        assert claim(own, wish(rack.query("VCPU:5")), explain=False).error.explanation is None

    def test_limit_means_nothing(self, own: Api, rack: Rack) -> None:
        rack.host()
        claim(own, wish(rack.query(limit="1"))).expect(200)

    @pytest.mark.parametrize("spell", [str.upper, lambda uuid: uuid.replace("-", "")], ids=["upper", "hex"])
    def test_any_spelling_names_the_consumer(self, own: Api, rack: Rack, spell: Any) -> None:
        rack.host()
        consumer = fresh_uuid()
        assert claim(own, wish(rack.query(), spell(consumer))).claims[0]["consumer_uuid"] == consumer
        assert own.held(consumer)


class TestIdempotence:
    def test_the_same_request_again_is_answered_the_same_and_writes_nothing(self, own: Api, rack: Rack) -> None:
        hosts = [rack.host(inventories={"VCPU": 1}) for _ in range(3)]
        wanted = wish(rack.query())
        first = claim(own, wanted).expect(200)
        again = claim(own, wanted).expect(200)
        assert (again.claims, again.tries) == (first.claims, 0)
        assert sum(own.used(host)["VCPU"] for host in hosts) == 1
        assert own.get(f"/allocations/{wanted['consumer_uuid']}").consumer_generation == 1

    def test_even_if_nothing_else_would_fit(self, own: Api, rack: Rack) -> None:
        rack.host(inventories={"VCPU": 1})
        wanted = wish(rack.query())
        assert claim(own, wanted).claims == claim(own, wanted).expect(200).claims

    def test_of_a_gang(self, own: Api, rack: Rack) -> None:
        for _ in range(2):
            rack.host(inventories={"VCPU": 3})
        wanted = [wish(rack.query("VCPU:2")), wish(rack.query("VCPU:2")), wish(rack.query("VCPU:1"))]
        first = claim(own, *wanted).expect(200)
        again = claim(own, *wanted).expect(200)
        assert (again.claims, again.tries) == (first.claims, 0)

    def test_of_a_consumer_that_was_moved(self, own: Api, rack: Rack) -> None:
        host, other = rack.host(), rack.host()
        consumer = own.claim((host, {"VCPU": 3}))
        own.claim((host, {"VCPU": 1}))
        wanted = wish(rack.query("VCPU:4"), consumer, 1)
        first = claim(own, wanted).expect(200)
        assert givers(first) == [[other.uuid]]
        assert claim(own, wanted).expect(200).claims == first.claims

    @pytest.mark.parametrize(
        "change", [{"project_id": "else"}, {"user_id": "else"}, {"consumer_type": "ELSE"}, {"consumer_generation": 7}]
    )
    def test_another_request_is_refused(self, own: Api, rack: Rack, change: dict[str, Any]) -> None:
        rack.host()
        wanted = wish(rack.query())
        claim(own, wanted).expect(200)
        refused = claim(own, {**wanted, **change})
        assert refused.refused(409, "consumer generation conflict", code=CONCURRENT_UPDATE)

    def test_so_is_one_for_other_amounts(self, own: Api, rack: Rack) -> None:
        rack.host()
        wanted = wish(rack.query())
        claim(own, wanted).expect(200)
        refused = claim(own, {**wanted, "query": rack.query("VCPU:2")})
        assert refused.refused(409, "consumer generation conflict", code=CONCURRENT_UPDATE)

    def test_so_is_one_of_whose_gang_only_some_were_granted(self, own: Api, rack: Rack) -> None:
        rack.host()
        wanted = wish(rack.query())
        claim(own, wanted).expect(200)
        refused = claim(own, wanted, wish(rack.query()))
        assert refused.refused(409, "consumer generation conflict", code=CONCURRENT_UPDATE)

    def test_a_consumer_that_is_there_is_a_conflict_though_nothing_fits(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        consumer = own.claim((host, {"VCPU": 4}))
        refused = claim(own, wish(rack.query("VCPU:2"), consumer))
        assert refused.refused(409, "consumer generation conflict - expected 1 but got None", code=CONCURRENT_UPDATE)

    def test_it_is_found_again_among_many_that_are_alike(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        for _ in range(40):
            own.create_provider(parent=host, inventories={"SRIOV_NET_VF": 8})
        groups = "".join(f"&resources_{n}=SRIOV_NET_VF:1&in_tree_{n}={host.uuid}" for n in range(4))
        for _ in range(5):
            wanted = wish(rack.query("VCPU:1", group_policy="none") + groups)
            first = claim(own, wanted).expect(200)
            again = claim(own, wanted)
            assert (again.expect(200).tries, again.claims[0]["allocations"]) == (0, first.claims[0]["allocations"])
            own.delete(f"/allocations/{wanted['consumer_uuid']}").expect(204)

    def test_a_limit_in_the_query_means_nothing(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        for _ in range(4):
            own.create_provider(parent=host, inventories={"PCPU": 4})
        for _ in range(4):
            wanted = wish(f"resources1=PCPU:1&in_tree1={host.uuid}&limit=1")
            claim(own, wanted).expect(200)
            assert claim(own, wanted).expect(200).tries == 0

    def test_what_only_sharing_providers_give_is_found_again(self, own: Api, rack: Rack) -> None:
        """Under the root that the query asks for, which is not theirs."""
        trait = own.create_trait()
        rack.host(traits=[trait])
        pool = own.create_provider(
            inventories={"DISK_GB": 100}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[rack.uuid]
        )
        wanted = wish(rack.query("DISK_GB:5", root_required=trait))
        assert givers(claim(own, wanted)) == [[pool.uuid]]
        assert claim(own, wanted).expect(200).tries == 0

    def test_nor_does_it_matter_that_there_would_be_no_room_for_it_now(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        wanted = wish(rack.query("VCPU:3"))
        claim(own, wanted).expect(200)
        generation = own.get(host.inventories).generation
        less = {"VCPU": {"total": 2}, "MEMORY_MB": {"total": 100}}
        own.put(host.inventories, inventories=less, generation=generation).expect(200)
        assert claim(own, wanted).expect(200).tries == 0

    def test_a_consumer_that_holds_more_than_is_asked_for_is_a_conflict(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        consumer = own.claim((host, {"VCPU": 1, "MEMORY_MB": 7}))
        refused = claim(own, wish(rack.query("VCPU:1"), consumer, project_id="project", user_id="user"))
        assert refused.refused(409, "consumer generation conflict", code=CONCURRENT_UPDATE)


class TestGang:
    def test_later_ones_find_taken_what_earlier_ones_take(self, own: Api, rack: Rack) -> None:
        hosts = [rack.host() for _ in range(2)]
        answer = claim(own, *(wish(rack.query("VCPU:2", order_by="pack")) for _ in range(4)))
        assert Counter(giver for [giver] in givers(answer)) == {host.uuid: 2 for host in hosts}
        assert [own.used(host)["VCPU"] for host in hosts] == [4, 4]

    def test_all_or_none(self, own: Api, rack: Rack) -> None:
        hosts = [rack.host() for _ in range(2)]
        wanted = [wish(rack.query("VCPU:2")) for _ in range(5)]
        refused = claim(own, *wanted)
        assert refused.refused(409, "claims[4]", code=NOTHING_FITS)
        assert refused.error.claim == 4
        assert [own.used(host)["VCPU"] for host in hosts] == [0, 0]
        assert all(own.held(one["consumer_uuid"]) == {} for one in wanted)

    def test_earlier_ones_make_way(self, own: Api, rack: Rack) -> None:
        """The first prefers the only host that is large enough for the second."""
        small, large = rack.host(inventories={"VCPU": 2}), rack.host(inventories={"VCPU": 8})
        answer = claim(own, wish(rack.query("VCPU:2", order_by="spread")), wish(rack.query("VCPU:7")))
        assert givers(answer) == [[small.uuid], [large.uuid]]

    def test_on_distinct_roots(self, own: Api, rack: Rack) -> None:
        hosts = {rack.host().uuid for _ in range(3)}
        wanted = [wish(rack.query(order_by="pack")) for _ in range(3)]
        answer = claim(own, *wanted, distinct_roots=True)
        assert {giver for [giver] in givers(answer)} == hosts
        refused = claim(own, *(wish(rack.query()) for _ in range(4)), distinct_roots=True)
        assert refused.refused(409, "claims[3]", code=NOTHING_FITS)

    def test_distinct_roots_may_use_one_sharing_provider(self, own: Api, rack: Rack) -> None:
        hosts = {rack.host(inventories={"VCPU": 4}).uuid for _ in range(2)}
        pool = own.create_provider(
            inventories={"DISK_GB": 100}, traits=["MISC_SHARES_VIA_AGGREGATE"], aggregates=[rack.uuid]
        )
        answer = claim(own, *(wish(rack.query("VCPU:1,DISK_GB:9")) for _ in range(2)), distinct_roots=True)
        assert {*givers(answer)[0], *givers(answer)[1]} == {*hosts, pool.uuid}
        assert own.used(pool) == {"DISK_GB": 18}

    def test_consumers_may_change_places_on_full_hosts(self, own: Api, rack: Rack) -> None:
        one, other = rack.host(inventories={"VCPU": 4}), rack.host(inventories={"VCPU": 2})
        large, small = own.claim((other, {"VCPU": 2})), own.claim((one, {"VCPU": 4}))
        answer = claim(own, wish(rack.query("VCPU:4"), large, 1), wish(rack.query("VCPU:2"), small, 1))
        assert givers(answer) == [[one.uuid], [other.uuid]]

    @pytest.mark.one_database
    @pytest.mark.timeout(60)  # not a measure: whoever tries all ways never ends
    def test_a_gang_that_fits_only_in_ways_too_many_to_try_gives_up(self, own: Api, rack: Rack) -> None:
        for _ in range(12):
            rack.host(inventories={"VCPU": 5})
        wanted = [wish(rack.query(f"VCPU:{2 + n % 3}")) for n in range(24)]
        refused = claim(own, *wanted)
        assert refused.status == 409
        assert refused.error.code == NOTHING_FITS

    @pytest.mark.one_database
    def test_what_was_not_tried_is_not_said_to_fit_nowhere(self, own: Api, rack: Rack) -> None:
        """The first has 1,680 candidates, and only those at the end leave the second its place."""
        host = rack.host()
        children = sorted(
            (own.create_provider(parent=host, inventories={"PCPU": 1}) for _ in range(8)), key=lambda child: child.uuid
        )
        trait = own.create_trait()
        own.put(children[0].traits, traits=[trait], generation=1).expect(200)
        several = "&".join(f"resources{n}=PCPU:1&in_tree{n}={host.uuid}" for n in range(1, 5))
        last = f"resources1=PCPU:1&required1={trait}&in_tree1={host.uuid}"
        answer = claim(own, wish(f"{several}&order_by=pack&group_policy=none"), wish(last), explain=False)
        if answer.status != 200:
            assert answer.refused(409, "Nothing was found for claims[1]", code=NOTHING_FITS)

    def test_more_than_are_accepted(self, own: Api, rack: Rack) -> None:
        assert claim(own, *(wish(rack.query()) for _ in range(1001))).refused(413, "1001 claims; at most 1000")


@contextmanager
def meanwhile(act: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Between the moment that is looked at and the claim somebody does something, the first *times*."""
    seen, left, acting, here = Catalog.view, [act] * times, False, threading.get_ident()

    def view(catalog: Catalog) -> Any:
        nonlocal acting
        found = seen(catalog)
        if left and not acting and threading.get_ident() == here:  # not who looks in the background
            acting = True  # it looks itself
            left.pop()()
            acting = False
        return found

    with patch.object(Catalog, "view", view):
        yield


@contextmanager
def while_claiming(act: Callable[[], object]) -> Iterator[None]:
    """When a claim is about to be written, somebody does something first."""
    write, left = Store.write_within_claim_timeout, [act]

    def claim(store: Store, *args: Any, **kwargs: Any) -> Any:
        if left:
            left.pop()()
        return write(store, *args, **kwargs)

    with patch.object(Store, "write_within_claim_timeout", claim):
        yield


class TestRaces:
    @pytest.fixture(autouse=True)
    def _forgetting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A race that one test lost does not change the places of the next test."""
        monkeypatch.setattr(claims, "HALF_LIFE", 1e-6)

    @pytest.fixture
    def hosts(self, rack: Rack) -> list[Provider]:
        """The first of them is the first to be found."""
        return sorted((rack.host() for _ in range(2)), key=lambda host: host.uuid)

    def test_a_place_that_was_taken_meanwhile_is_not_the_end(self, own: Api, rack: Rack, hosts: list[Provider]) -> None:
        with meanwhile(lambda: own.claim((hosts[0], {"VCPU": 4}))):
            answer = claim(own, wish(rack.query(order_by="pack")))
        assert (givers(answer), answer.tries) == ([[hosts[1].uuid]], 2)

    def test_after_a_lost_race_the_next_claim_draws_from_as_many_places(
        self, own: Api, rack: Rack, hosts: list[Provider], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn: list[int] = []
        look = Claiming._look

        def recorded(claiming: Claiming, wishes: Any, distinct: bool, among_best: int, until: float) -> Any:
            if not drawn:  # the first claim begins at one place, and forgets races of other tests
                claiming._drawing = claims.CandidateDraw()
                monkeypatch.setattr(claims, "HALF_LIFE", 1e6)
            drawn.append(among_best)
            return look(claiming, wishes, distinct, among_best, until)

        with patch.object(Claiming, "_look", recorded):
            with meanwhile(lambda: own.claim((hosts[0], {"VCPU": 4}))):
                claim(own, wish(rack.query(order_by="pack"))).expect(200)
            claim(own, wish(rack.query(order_by="pack"))).expect(200)
        assert drawn == [1, 2, 2]

    def test_a_provider_that_was_forbidden_meanwhile_is_not_claimed(
        self, own: Api, rack: Rack, hosts: list[Provider]
    ) -> None:
        """It has room all the same: that it got a trait only the change rows tell."""
        trait = own.create_trait()
        with meanwhile(lambda: own.put(hosts[0].traits, traits=[trait], generation=2).expect(200)):
            answer = claim(own, wish(rack.query(required=f"!{trait}", order_by="pack")))
        assert (givers(answer), answer.tries) == ([[hosts[1].uuid]], 2)

    def test_nor_one_whose_root_was(self, own: Api, rack: Rack) -> None:
        trait = own.create_trait()
        hosts = sorted((rack.host(inventories={}) for _ in range(2)), key=lambda host: host.uuid)
        nodes = [own.create_provider(parent=host, inventories={"VCPU": 4}) for host in hosts]
        with meanwhile(lambda: own.put(hosts[0].traits, traits=[trait], generation=1).expect(200)):
            answer = claim(own, wish(rack.query(root_required=f"!{trait}", order_by="pack")))
        assert (givers(answer), answer.tries) == ([[nodes[1].uuid]], 2)

    def test_nor_one_that_changed_itself_below_a_root_that_did_not(self, own: Api, rack: Rack) -> None:
        trait = own.create_trait()
        hosts = sorted((rack.host(inventories={}) for _ in range(2)), key=lambda host: host.uuid)
        nodes = [own.create_provider(parent=host, inventories={"VCPU": 4}) for host in hosts]
        with meanwhile(lambda: own.put(nodes[0].traits, traits=[trait], generation=1).expect(200)):
            answer = claim(own, wish(rack.query(required=f"!{trait}", order_by="pack")))
        assert (givers(answer), answer.tries) == ([[nodes[1].uuid]], 2)

    def test_nor_one_that_a_write_of_too_many_to_list_changed(
        self, own: Api, rack: Rack, hosts: list[Provider], in_process: None
    ) -> None:
        trait = own.create_trait()

        def forbid() -> None:
            with patch.object(clock, "TOO_MANY", 0):
                own.put(hosts[0].traits, traits=[trait], generation=2).expect(200)

        with meanwhile(forbid):
            answer = claim(own, wish(rack.query(required=f"!{trait}", order_by="pack")))
        assert (givers(answer), answer.tries) == ([[hosts[1].uuid]], 2)

    def test_a_provider_that_went_meanwhile_is_not_the_end(self, own: Api, rack: Rack, hosts: list[Provider]) -> None:
        with meanwhile(lambda: own.delete(hosts[0].path).expect(204)):
            answer = claim(own, wish(rack.query(order_by="pack")))
        assert givers(answer) == [[hosts[1].uuid]]

    def test_where_somebody_is_about_to_claim_nobody_else_tries(
        self, own: Api, rack: Rack, hosts: list[Provider]
    ) -> None:
        answers: list[Answer] = []
        with while_claiming(lambda: answers.append(claim(own, wish(rack.query("VCPU:3", order_by="pack"))))):
            answers.append(claim(own, wish(rack.query("VCPU:3", order_by="pack"))))
        assert [(givers(answer), answer.tries) for answer in answers] == [
            ([[hosts[1].uuid]], 1),
            ([[hosts[0].uuid]], 1),
        ]

    def test_but_for_the_last_place(self, own: Api, rack: Rack) -> None:
        """Who is about to claim may fail yet, so it is no reason to say that nothing fits."""
        host = rack.host()
        answers: list[Answer] = []
        with while_claiming(lambda: answers.append(claim(own, wish(rack.query("VCPU:3"))))):
            answers.append(claim(own, wish(rack.query("VCPU:3"))))
        assert (givers(answers[0]), answers[0].tries) == ([[host.uuid]], 1)
        assert answers[1].refused(409, "claims[0]", code=NOTHING_FITS)

    def test_for_the_last_place_it_waits_for_who_came_first(self, own: Api, rack: Rack) -> None:
        host = rack.host()
        answers: list[Answer] = []
        second = threading.Thread(target=lambda: answers.append(claim(own, wish(rack.query("VCPU:3")))))

        def come_second() -> None:
            second.start()
            second.join(0.1)  # it would have claimed by then

        with while_claiming(come_second):
            first = claim(own, wish(rack.query("VCPU:3")))
        second.join()
        assert (givers(first), first.tries) == ([[host.uuid]], 1)
        assert answers[0].refused(409, "claims[0]", code=NOTHING_FITS)

    def test_nor_does_a_claim_that_is_over_keep_a_place(self, own: Api, rack: Rack, hosts: list[Provider]) -> None:
        taken = claim(own, wish(rack.query("VCPU:3", order_by="pack"))).expect(200).claims[0]
        own.delete(f"/allocations/{taken['consumer_uuid']}").expect(204)
        answer = claim(own, wish(rack.query("VCPU:3", order_by="pack")))
        assert givers(answer) == [[hosts[0].uuid]]

    def test_that_nothing_fits_is_not_said_of_a_consumer_that_changed_meanwhile(
        self, own: Api, rack: Rack, hosts: list[Provider]
    ) -> None:
        """It held all there was when memory was looked at, and is gone, as the client thinks, when it is asked for."""
        consumer = own.claim((hosts[0], {"VCPU": 4}), (hosts[1], {"VCPU": 4}))
        with meanwhile(lambda: own.delete(f"/allocations/{consumer}").expect(204)):
            answer = claim(own, wish(rack.query(), consumer))
        assert answer.expect(200).claims[0]["consumer_generation"] == 1

    def test_who_comes_together_is_served_together(self, own: Api, rack: Rack) -> None:
        """As many as there is room for, and no more."""
        hosts = [rack.host(inventories={"VCPU": 3}) for _ in range(3)]
        answers: list[Answer] = []

        def client(order: str) -> None:
            for _ in range(4):
                answers.append(claim(own, wish(rack.query(order_by=order))))  # noqa: PERF401 - one after the other

        clients = [threading.Thread(target=client, args=(order,)) for order in ("pack", "spread", "random")]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        assert Counter(answer.status for answer in answers) == {200: 9, 409: 3}
        assert all(answer.error.code == NOTHING_FITS for answer in answers if answer.status == 409)
        assert [own.used(host)["VCPU"] for host in hosts] == [3, 3, 3]

    def test_the_same_request_sent_twice_at_once_is_carried_out_once(self, own: Api, rack: Rack) -> None:
        hosts = [rack.host() for _ in range(3)]
        for _ in range(5):
            wanted = wish(rack.query())
            answers: list[Answer] = []
            clients = [
                threading.Thread(target=lambda: answers.append(claim(own, wanted)))  # noqa: B023 - joined in this round
                for _ in range(3)
            ]
            for one in clients:
                one.start()
            for one in clients:
                one.join()
            assert [answer.status for answer in answers] == [200] * 3
            assert len({str(answer.claims) for answer in answers}) == 1
        assert sum(own.used(host)["VCPU"] for host in hosts) == 5


@pytest.fixture
def impatient(ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setenv("OS_STEAD__CLAIM_TIMEOUT", "1.5")  # seconds, for the first search of a busy machine
    with open_door(tmp_path, ready_database_url) as opened:
        yield Api(opened, version=OWN)


def test_who_loses_every_race_is_told_so(impatient: Api) -> None:
    rack = Rack(impatient)
    host = rack.host()
    generations = itertools.count(2)

    def change() -> None:
        body = {"aggregates": [rack.uuid], "resource_provider_generation": next(generations)}
        impatient.put(host.aggregates, body).expect(200)

    with meanwhile(change, 100_000):
        refused = claim(impatient, wish(rack.query()))
    assert refused.refused(409, "Another thread concurrently updated", code=CONCURRENT_UPDATE)


@pytest.mark.one_database
class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "words"),
        [
            ({}, "'claims' is a required property"),
            ({"claims": []}, "[] should be non-empty"),
            ({"claims": [wish("resources=VCPU:1")], "order_by": "pack"}, "'order_by' was unexpected"),
            ({"claims": [wish("resources=VCPU:1")], "distinct_roots": 1}, "1 is not of type 'boolean'"),
            ({"claims": [wish("")]}, "'' should be non-empty"),
            ({"claims": [wish("resources=VCPU:1", "x")]}, "'x' is not a 'uuid'"),
            ({"claims": [wish("resources=VCPU:1", consumer_type="instance")]}, "'instance' does not match"),
            ({"claims": [{"query": "resources=VCPU:1"}]}, "'consumer_uuid' is a required property"),
            ({"claims": [wish("resources=VCPU:1", fresh) for fresh in [fresh_uuid()] * 2]}, "of the same consumer"),
        ],
    )
    def test_a_malformed_body(self, own: Api, body: dict[str, Any], words: str) -> None:
        assert own.post("/claims", body).refused(400, "JSON does not validate", words)

    @pytest.mark.parametrize(
        ("query", "code", "words"),
        [
            ("resources=VCPU", "placement.undefined_code", "Badly formed resources parameter."),
            ("colour=red", "placement.undefined_code", "'colour' does not match any of the regexes"),
            ("resources=VCPU:1&order_by=best", BAD_VALUE, "Expected 'order_by' parameter"),
            ("required=CUSTOM_RED", MISSING_VALUE, "at least one resources"),
            ("resources=VCPU:1&required=%FF", "placement.undefined_code", "utf-8"),
            ("resources=VCPU:1&required=\u2603", "placement.undefined_code", "Invalid query string parameters"),
        ],
    )
    def test_a_malformed_query(self, own: Api, query: str, code: str, words: str) -> None:
        refused = claim(own, wish("resources=VCPU:1"), wish(query))
        assert refused.refused(400, "claims[1]: ", words, code=code)

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ("resources=CUSTOM_NOTHING:1", "Invalid resource class in resources parameter: No such resource class"),
            ("resources=VCPU:1&required=CUSTOM_NOTHING", "No such trait(s): CUSTOM_NOTHING."),
            ("resources=VCPU:1&order_by=CUSTOM_NOTHING:1", "Invalid resource class in order_by parameter"),
        ],
    )
    def test_unknown_names(self, own: Api, rack: Rack, query: str, words: str) -> None:
        rack.host()
        assert claim(own, wish(f"{query}&member_of={rack.uuid}")).refused(400, words)

    def test_without_stead_there_is_no_such_path(self, api: Api) -> None:
        assert claim(api, wish("resources=VCPU:1")).refused(404)

    def test_a_reader_may_not(self, own: Api, rack: Rack) -> None:
        reader = Api(own.door, token="someone:p", roles="reader", version=OWN)
        assert claim(reader, wish(rack.query())).refused(403, "stead:claims:create")

    def test_a_refused_claim_leaves_no_consumer_behind(self, own: Api, rack: Rack) -> None:
        wanted = wish(rack.query("VCPU:5"))
        claim(own, wanted).expect(409)
        host = rack.host()
        own.put(f"/allocations/{wanted['consumer_uuid']}", holding((host, {"VCPU": 1}))).expect(204)
