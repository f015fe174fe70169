"""What a site does, over HTTP and in the process, synchronously and asynchronously: one suite for all four."""

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

import stead
from stead import Group, Inventory, Node, Request
from stead.client.calls import with_query

TWO_CORES = Request(Group(VCPU=2), order="pack")


@pytest.fixture
def hosts(site):
    """Two hosts with 8 cores each, and their uuids by name."""
    nodes = [Node(f"host{number}", VCPU=8, MEMORY_MB=1024, traits=["HW_CPU_X86_AVX"]) for number in range(2)]
    return site.apply(nodes).uuids


def test_candidates_are_up_to_the_limit(site, hosts):
    candidates = site.candidates(TWO_CORES)
    assert {tuple(candidate.allocations) for candidate in candidates} == {(host,) for host in hosts.values()}
    assert candidates.is_complete
    assert len(site.candidates(TWO_CORES, limit=1)) == 1
    summary = candidates.summaries[hosts["host0"]]
    assert (summary.rooms["VCPU"].free, summary.traits, summary.parent) == (8, {"HW_CPU_X86_AVX"}, None)


def test_a_claim_is_found_by_its_name_and_by_its_uuid(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    assert claim.consumer == stead.uuid_of("train-1")
    assert claim.project == claim.user == "lab"
    for consumer in ("train-1", claim.consumer, claim.consumer.upper(), uuid.UUID(claim.consumer)):
        holding = site.find(consumer)
        assert (holding.consumer, holding.allocations, holding.generation) == (claim.consumer, claim.allocations, 1)
    assert site.find("train-2") is None


def test_the_same_claim_again_is_the_same_claim(site, hosts):
    first, second = site.claim(TWO_CORES, "train-1"), site.claim(TWO_CORES, "train-1")
    assert (first.allocations, first.generation) == (second.allocations, second.generation)
    assert site.usages()["INSTANCE"].amounts == {"VCPU": 2}


def test_another_claim_of_the_same_consumer_is_stale(site, hosts):
    site.claim(TWO_CORES, "train-1")
    with pytest.raises(stead.Stale) as refused:
        site.claim(Request(Group(VCPU=5)), "train-1", wait=5)
    assert (refused.value.status, refused.value.code) == (409, "placement.concurrent_update")
    assert refused.value.request_id.startswith("req-")
    assert refused.value.advice
    name = {uuid: name for name, uuid in hosts.items()}[refused.value.holding.providers[0]]
    assert str(refused.value) == (
        f"train-1 has another claim: VCPU:2 of {name}. Repeat the request of that claim, move it with "
        "site.find('train-1').move(request), or release it with site.release('train-1')"
    )
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.consumer) == (str(refused.value), "train-1")
    (candidate, *_) = site.candidates(Request(Group(VCPU=3)))
    with pytest.raises(stead.Stale, match=f"train-1 has another claim: VCPU:2 of {name}"):
        site.allocate(candidate, "train-1")
    site.claim(TWO_CORES, "train-3-1")
    with pytest.raises(stead.Stale, match="train-3-1 has another claim"):
        site.claim_all([Request(Group(VCPU=1))] * 2, "train-3")


def test_a_claim_moves_and_is_released(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    claim.move(Request(Group(VCPU=4, MEMORY_MB=512)))
    assert list(claim.allocations.values()) == [{"VCPU": 4, "MEMORY_MB": 512}]
    assert site.find("train-1").generation == claim.generation == 2
    claim.release()
    claim.release()
    assert (claim.allocations, claim.generation, site.find("train-1")) == ({}, None, None)


def test_a_chosen_candidate_is_claimed_exactly_and_moved_only_by_who_has_read_the_claim(site, hosts):
    first, second = site.candidates("resources=VCPU:8")
    claim = site.allocate(first, "train-1")
    assert (claim.allocations, claim.name, claim.type) == (first.allocations, "train-1", "INSTANCE")
    with pytest.raises(stead.Stale):
        site.allocate(second, "train-1")
    with pytest.raises(stead.Conflict):
        site.allocate(first, "train-2")
    assert site.allocate(second, claim).allocations == second.allocations
    assert site.usages()["INSTANCE"].amounts == {"VCPU": 8}


def test_an_allocation_whose_answer_was_lost_is_made_once(site, hosts):
    (candidate,) = site.candidates(TWO_CORES, limit=1)
    site.faults.lose_commit_answer()
    assert site.allocate(candidate, "train-1").allocations == candidate.allocations
    assert site.usages()["INSTANCE"].amounts == {"VCPU": 2}


def test_a_claim_for_a_claim_takes_its_place_in_one_step(site, hosts):
    claim = site.claim("resources=VCPU:8", "train-1", type="JOB")
    with pytest.raises(stead.NothingFits) as refused:
        site.claim("resources=VCPU:9", claim, explain=False)
    assert (refused.value.explanation.summary, refused.value.explanation.steps) == (refused.value.detail, [])
    larger = site.claim("resources=VCPU:8,MEMORY_MB:1024", claim)
    assert (larger.consumer, larger.type, larger.tries) == (claim.consumer, "JOB", 1)
    assert site.usages()["JOB"].amounts == {"VCPU": 8, "MEMORY_MB": 1024}
    site.release("train-1")
    with pytest.raises(stead.NotFound):
        site.release("train-1")


def test_changes_after_a_token_are_told_at_once(site, hosts):
    before = site.changes()
    assert before.changes == []
    claim = site.claim(TWO_CORES, "train-1")
    after = site.changes(before.token, wait=1)
    assert {(each.kind, each.uuid) for each in after.changes} == {
        ("provider", *claim.allocations),
        ("consumer", claim.consumer),
    }
    assert after.document["token"] == after.token != before.token


def test_a_provider_has_a_place_below_its_host(site):
    site.apply(Node("host", children=[Node("numa", VCPU=8)]))
    claim = site.claim(TWO_CORES)
    assert list(site.places(claim).values()) == [stead.Place("numa", "host")]
    assert site.allocations("numa") == {claim.consumer: {"VCPU": 2}}
    (tree,) = site.trees(depth=0, totals=True)
    assert (len(tree), tree.provider_count, tree.totals["VCPU"].used) == (1, 2, 2)


def test_a_consumer_without_a_type_has_none_after_a_move(site, hosts):
    consumer = stead.uuid_of("server")
    allocations = {hosts["host0"]: {"resources": {"VCPU": 1}}}
    body = {"allocations": allocations, "project_id": "lab", "user_id": "lab", "consumer_generation": None}
    site.request("PUT", f"/allocations/{consumer}", body, placement="1.37")
    claim = site.find("server")
    claim.move(TWO_CORES)
    assert (claim.type, site.find("server").type) == ("unknown", "unknown")
    assert site.usages()["unknown"].amounts == {"VCPU": 2}
    claim.release()
    assert site.find("server") is None


def test_a_claim_that_another_client_changed_is_stale(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    site.find("train-1").move(Request(Group(VCPU=4)))
    changed = (
        r"train-1 was changed by another client, and has VCPU:4 of host\d now; site.find\('train-1'\) reads it again"
    )
    with pytest.raises(stead.Stale, match=changed):
        claim.move(Request(Group(VCPU=1)))
    with pytest.raises(stead.Stale, match=changed):
        claim.release()
    with pytest.raises(stead.Stale, match=changed):
        site.claim(Request(Group(VCPU=1)), claim)
    assert site.usages()["INSTANCE"].amounts == {"VCPU": 4}
    site.release(claim)
    with pytest.raises(stead.Stale, match="train-1 was changed by another client, and has nothing now"):
        claim.move(TWO_CORES)


def test_a_gang_is_placed_on_distinct_hosts_or_not_at_all(site, hosts):
    gang = site.claim_all([TWO_CORES] * 2, "gang", distinct_hosts=True)
    assert [claim.name for claim in gang] == ["gang-0", "gang-1"]
    assert {claim.providers for claim in gang} == {(host,) for host in hosts.values()}
    with pytest.raises(stead.NothingFits) as refused:
        site.claim_all([TWO_CORES] * 3, distinct_hosts=True)
    assert refused.value.claim == 2
    assert site.usages()["INSTANCE"].consumers == 2


def test_a_gang_needs_a_consumer_for_each_claim(site, hosts):
    with pytest.raises(stead.InvalidRequest, match="2 claims need 2 different consumers"):
        site.claim_all([TWO_CORES] * 2, ["a", "a"])


def test_nothing_fits_with_its_explanation(site, hosts):
    with pytest.raises(stead.NothingFits) as refused:
        site.claim(Request(Group(VCPU=9)), "big")
    explanation = refused.value.explanation
    reason = "No provider has 9 VCPU free; the largest has 8. With 8, there are 2 candidates."
    assert (str(refused.value), explanation.summary) == (f"no place for big: {reason}", reason)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert explanation.candidates == 0
    assert "would help: with resources=VCPU:8 instead of VCPU:9: 2 candidates" in str(explanation)
    assert str(site.explain(Request(Group(VCPU=9)))) == str(explanation)


def test_headroom_is_the_number_of_claims_that_fit(site, hosts):
    headroom = site.headroom(TWO_CORES)
    assert (headroom.at_least, headroom.at_most, headroom.is_exact, headroom.is_complete) == (8, 8, True, True)
    assert {(tree.root, tree.at_least, tree.at_most) for tree in headroom.trees} == {
        (host, 4, 4) for host in hosts.values()
    }
    assert (headroom.limited_by, headroom.stranded) == ([("VCPU", 2)], {"VCPU": 0})
    assert (repr(headroom), headroom.explanation) == ("<Headroom: 8 in 2 trees>", None)
    site.claim(TWO_CORES, "one")
    assert site.headroom(TWO_CORES).at_least == 7
    assert site.headroom(Request(Group(VCPU=9))).explanation.candidates == 0


def test_flavors_are_stored_listed_counted_and_deleted(site, hosts):
    stored = site.put_flavor("m1.two", TWO_CORES, "two cores")
    assert (stored.name, stored.request, stored.description) == ("m1.two", TWO_CORES, "two cores")
    assert site.flavor("m1.two") == stored
    site.put_flavor("m1+big", Request(Group(VCPU=9)))
    assert [(flavor.name, flavor.headroom) for flavor in site.flavors()] == [("m1+big", None), ("m1.two", None)]
    big, two = site.flavors(headroom=True)
    assert (big.headroom.at_least, big.headroom.at_most, big.fault) == (0, 0, None)
    assert (two.headroom.at_least, two.headroom.is_exact, two.headroom.is_complete) == (8, True, True)
    assert two.headroom.limited_by == [("VCPU", 2)]
    assert site.put_flavor("m1.two", Request(Group(VCPU=1))).description == ""
    site.delete_flavor("m1.two")
    for call in (site.flavor, site.delete_flavor):
        with pytest.raises(stead.NotFound, match=r"No such flavor m1[.]two"):
            call("m1.two")


def test_weights_of_flavors_are_the_mix(site, hosts):
    assert site.put_flavor("m1.two", TWO_CORES, weight=3).weight == 3
    site.put_flavor("m1.one", Request(Group(VCPU=1)), weight=1)
    assert site.flavor("m1.two").weight is None  # also of servers that have none
    assert site.flavor("m1.two", weight=True).weight == 3
    assert [flavor.weight for flavor in site.flavors(weights=True)] == [1, 3]
    site.forget_mix()
    mix = site.mix()
    assert (mix.source, [(form.flavor, form.share) for form in mix.forms]) == (
        "weights",
        [("m1.two", 0.75), ("m1.one", 0.25)],
    )
    assert mix.forms[1].request == Request(Group(VCPU=1))


def test_all_flavors_are_read_in_pages(site, hosts):
    for number in range(3):
        site.put_flavor(f"m{number}", TWO_CORES)
    send, asked = site._calling.send, []

    def with_small_pages(call, *rest):
        asked.append(call.target)
        return send(replace(call, target=with_query(call.target, {"limit": 1})) if len(asked) == 1 else call, *rest)

    site._calling.send = with_small_pages
    assert [flavor.name for flavor in site.flavors()] == ["m0", "m1", "m2"]
    assert len(asked) == 3


def test_a_flavor_whose_class_is_gone_has_a_fault_instead_of_a_headroom(site, hosts):
    site.put_flavor("m1.gone", Request(Group(CUSTOM_GONE=1)))
    (flavor,) = site.flavors(headroom=True)
    assert (flavor.headroom, flavor.fault) == (None, "No such resource class CUSTOM_GONE.")


def test_a_flavor_stands_for_its_request_in_every_call(site, hosts):
    site.put_flavor("m1.two", Request(Group(VCPU=2), order="pack"))
    request = Request(flavor="m1.two")
    here = Request(Group(in_tree="host1"), flavor="m1.two")
    assert len(site.candidates(request)) == 2
    assert [set(each.allocations) for each in site.candidates(here)] == [{hosts["host1"]}]
    assert site.explain(here).candidates == 1
    assert (site.headroom(request).at_least, site.headroom(here).at_least) == (8, 4)
    claim = site.claim(here, "train-1")
    assert claim.allocations == {hosts["host1"]: {"VCPU": 2}}
    claim.move(Request(Group(in_tree="host0"), flavor="m1.two"))
    assert claim.allocations == {hosts["host0"]: {"VCPU": 2}}
    assert site.what_if(headroom=here).headroom.at_least == 4
    with pytest.raises(stead.Invalid, match=r"No such flavor m1[.]none"):
        site.headroom(Request(flavor="m1.none"))
    with pytest.raises(stead.Invalid, match=r"order_by is given in the query and in flavor m1[.]two"):
        site.headroom(Request(flavor="m1.two", order="spread"))


def test_planned_changes_answer_questions_and_change_nothing(site, hosts):
    request = Request(Group(VCPU=1))

    def fits(*changes):
        return site.what_if(*changes, headroom=request).headroom.at_least

    aggregate = str(uuid.uuid4())
    site.apply(Node("host0", aggregates=[aggregate]))
    assert fits() == 16
    assert fits(stead.Disable("host0")) == 8
    assert fits(stead.Disable(hosts["host0"]), stead.Disable(uuid.UUID(hosts["host1"]))) == 0
    assert fits(stead.Copy("host0", 3)) == 40
    assert fits(stead.SetInventory("host0", "VCPU", allocation_ratio=4.0, reserved=2)) == 32
    assert fits(stead.SetInventory("host0", "VCPU", total=9)) == 17
    assert fits(stead.RemoveInventory("host0", "VCPU")) == 8
    avx, rack = Request(Group(VCPU=1, required="HW_CPU_X86_AVX")), Request(Group(VCPU=1, member_of=aggregate))
    assert site.what_if(stead.RemoveTrait("host0", "HW_CPU_X86_AVX"), headroom=avx).headroom.at_least == 8
    assert site.what_if(stead.AddTrait("host0", "HW_CPU_X86_AVX2"), headroom=avx).headroom.at_least == 16
    assert site.what_if(headroom=rack).headroom.at_least == 8
    assert site.what_if(stead.DeleteAggregate(aggregate), headroom=rack).headroom.at_least == 0
    assert fits() == 16


def test_each_question_of_a_what_if_has_its_answer(site, hosts):
    request = Request(Group(VCPU=4))
    answer = site.what_if(stead.Disable("host1"), candidates=request, explain=request, totals=True)
    assert [set(each.allocations) for each in answer.candidates] == [{hosts["host0"]}]
    assert answer.explanation.candidates == 1
    assert answer.totals["VCPU"] == stead.Total(total=16, reserved=0, capacity=16, used=0)
    assert (answer.headroom, answer.moves, answer.without_place, answer.is_complete) == (None, [], [], True)
    assert [each.uuid for each in islice(site.watch(since=answer.generation, heartbeat=0.1), 1)] == [""]
    nothing = site.what_if()
    assert (nothing.candidates, nothing.explanation, nothing.headroom, nothing.totals) == (None, None, None, None)


def test_the_moves_of_a_drain_are_made_one_after_the_other(site, hosts):
    for number in range(3):
        site.claim(Request(Group(VCPU=2, in_tree="host0")), f"vm-{number}")
    plan = site.what_if(stead.Drain("host0"), headroom=Request(Group(VCPU=1)))
    assert (repr(plan), plan.headroom.at_least) == ("<WhatIf: 3 moves>", 2)
    assert {move.consumer for move in plan.moves} == {stead.uuid_of(f"vm-{number}") for number in range(3)}
    for move in plan.moves:
        assert move.before == {hosts["host0"]: {"VCPU": 2}}
        claim = site.move(move)
        assert (claim.consumer, claim.allocations) == (move.consumer, {hosts["host1"]: {"VCPU": 2}})
        assert (claim.project, claim.generation) == ("lab", 2)
    assert list(site.claims(in_tree="host0")) == []


def test_a_consumer_that_fits_nowhere_keeps_its_place_and_is_explained(site, hosts):
    big = site.claim(Request(Group(VCPU=6)), "big")
    other = site.claim(Request(Group(VCPU=6)), "other")
    assert big.providers != other.providers
    plan = site.what_if(stead.Drain(big.providers[0], same_traits=True, same_aggregates=True))
    (stuck,) = plan.without_place
    assert (stuck.consumer, stuck.allocations, stuck.gave_up) == (big.consumer, big.allocations, False)
    assert stuck.explanation.candidates == 0
    assert repr(plan) == "<WhatIf: 0 moves, 1 without a place>"


def test_a_move_whose_consumer_changed_is_stale_and_one_without_room_is_a_conflict(site, hosts):
    first, second = site.claim_all([Request(Group(VCPU=4, in_tree="host0"))] * 2, "vm")
    moves = {move.consumer: move for move in site.what_if(stead.Drain("host0")).moves}
    first.move(Request(Group(VCPU=1, in_tree="host0")))
    with pytest.raises(stead.Stale):
        site.move(moves[first.consumer])
    site.claim(Request(Group(VCPU=5, in_tree="host1")), "late")
    with pytest.raises(stead.Conflict) as refused:
        site.move(moves[second.consumer])
    assert not isinstance(refused.value, stead.Stale)
    assert site.find("vm-1").allocations == second.allocations


def test_a_move_whose_answer_was_lost_is_made_once(site, hosts):
    site.claim(Request(Group(VCPU=4, in_tree="host0")), "vm")
    (move,) = site.what_if(stead.Drain("host0")).moves
    site.faults.lose_commit_answer()
    assert site.move(move).allocations == move.allocations
    assert site.move(move).generation == 2


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (stead.Disable("nowhere"), stead.NotFound, r"changes\[0\].provider: no provider name:nowhere"),
        (stead.SetInventory("host0", "VGPU"), stead.Invalid, r"changes\[0\].total: "),
        (stead.AddTrait("host0", "CUSTOM_NONE"), stead.Invalid, r"changes\[0\].trait: no trait CUSTOM_NONE"),
    ],
)
def test_a_change_that_is_impossible_is_refused_with_its_place(site, hosts, change, error, words):
    with pytest.raises(error, match=words):
        site.what_if(change)


def test_a_claim_waits_until_another_one_is_released(site, hosts):
    full = site.claim_all([Request(Group(VCPU=8))] * 2, "full")
    full[0].release()
    waiting = site.claim(Request(Group(VCPU=8)), "patient", wait=30)
    assert waiting.providers == full[0].providers or waiting.allocations
    with pytest.raises(stead.NothingFits) as refused:
        site.claim(Request(Group(VCPU=8)), "impatient", wait=0.2)
    assert refused.value.explanation.steps


def test_waiting_for_room_needs_no_right_to_see_changes(site, hosts):
    gang = site.claim_all([Request(Group(VCPU=8))] * 2, "full")
    host = gang[0].providers
    application, asked = site.faults._application, []

    def without_changes(environ, start_response):
        if environ["PATH_INFO"] != "/changes":
            return application(environ, start_response)
        asked.append(environ["QUERY_STRING"])
        if len(asked) == 2:
            gang[0].release()
        start_response("403 Forbidden", [("content-type", "application/json")])
        return [b"{}"]

    site.faults._application = without_changes
    assert site.names(host)
    assert site.claim(Request(Group(VCPU=8)), "patient", wait=30).providers == host
    assert len(asked) >= 2


def test_an_unknown_trait_is_invalid_and_says_its_name(site, hosts):
    with pytest.raises(stead.Invalid, match="CUSTOM_NO_SUCH") as refused:
        site.candidates(Request(Group(VCPU=1, required="CUSTOM_NO_SUCH")))
    assert refused.value.status == 400


def test_all_claims_of_a_project_are_listed_and_released(site, hosts):
    for number in range(5):
        site.claim(Request(Group(VCPU=1)), f"job-{number}")
    site.claim(TWO_CORES, "other", project="else")
    assert {claim.consumer for claim in site.claims(project="lab")} == {
        stead.uuid_of(f"job-{number}") for number in range(5)
    }
    assert site.release_all(project="lab") == 5
    assert list(site.claims(project="lab")) == []
    assert site.find("other").allocations
    with pytest.raises(stead.InvalidRequest):
        site.release_all()


@pytest.mark.parametrize(("project", "number"), [("lab", 1), ("else", 0)])
def test_a_consumer_that_changed_meanwhile_is_released_if_it_still_is_the_projects(monkeypatch, project, number):
    release = stead.Claim.release

    def change_and_release(claim):
        monkeypatch.undo()
        record = {**site.request("GET", f"/allocations/{claim.consumer}"), "project_id": project}
        site.request("PUT", f"/allocations/{claim.consumer}", record)
        release(claim)

    with stead.testing.site(project="lab") as site:
        site.apply([Node("a", VCPU=4)])
        site.claim(TWO_CORES, "train-1")
        monkeypatch.setattr(stead.Claim, "release", change_and_release)
        assert site.release_all(project="lab") == number
        assert (site.find("train-1") is None) == (number == 1)


@pytest.mark.parametrize("change", [stead.Copy("a", 2**70), stead.SetInventory("a", "VCPU", total=2**64)])
def test_a_planned_number_that_no_request_can_carry_is_refused_before_it_is_sent(site, change):
    with pytest.raises(stead.InvalidRequest, match="64-bit"):
        site.what_if(change)


def test_the_claims_of_a_host_and_of_all_below_it_are_listed(site):
    site.apply([Node("a", VCPU=4, children=[Node("gpu", PGPU=1)]), Node("b", VCPU=4)])
    ours = {
        site.claim(Request(Group(PGPU=1)), "1").consumer,
        site.claim(Request(Group(VCPU=3, in_tree="a")), "2").consumer,
    }
    site.claim(Request(Group(VCPU=1, in_tree="b")), "3")
    assert {claim.consumer for claim in site.claims(in_tree="gpu")} == ours
    assert [claim.consumer for claim in site.claims(provider="gpu", project="lab")] == [stead.uuid_of("1")]
    assert list(site.claims(provider="gpu", project="else")) == []


def test_trees_are_applied_read_and_changed(site):
    host = Node("host", VCPU=4, children=[Node("gpu0", PGPU=1, traits=["CUSTOM_A100"]), Node("gpu1", PGPU=1)])
    assert site.apply(host, create_names=True, dry_run=True).changes.keys() == {"host", "gpu0", "gpu1"}
    assert list(site.providers()) == []
    uuids = site.apply(host, create_names=True).uuids
    tree = site.tree("gpu1")
    assert [provider.name for provider in tree] == ["host", "gpu0", "gpu1"]
    assert (tree.root.name, [child.name for child in tree.children(tree.root)]) == ("host", ["gpu0", "gpu1"])
    assert tree.find("gpu0").traits == {"CUSTOM_A100"}
    assert tree.find(uuids["host"]).inventories["VCPU"] == Inventory(4, max_unit=2147483647)
    assert site.apply(tree).changes == {}
    site.apply(Node("host", VCPU=Inventory(4, allocation_ratio=2.0)))
    with pytest.raises(stead.Stale):
        site.apply(tree)
    assert site.provider("host").rooms["VCPU"].capacity == 8
    assert site.apply(Node("host", VCPU=4), prune=True).changes == {
        "host": ["inventories"],
        "gpu0": ["deleted"],
        "gpu1": ["deleted"],
    }


def test_a_disabled_provider_gives_nothing_until_it_is_enabled(site, hosts):
    state = site.disable("host0", "broken fan", until="2099-01-01T00:00:00Z")
    assert (state.reason, state.until, state.provider) == ("broken fan", "2099-01-01T00:00:00Z", hosts["host0"])
    assert site.provider("host0").disabled == state
    assert "disabled: broken fan" in repr(site.provider("host0"))
    assert {claim.providers for claim in site.claim_all([TWO_CORES] * 3)} == {(hosts["host1"],)}
    site.enable(hosts["host0"])
    assert site.provider("host0").disabled is None
    assert len(site.candidates(TWO_CORES)) == 2


def test_providers_come_in_pages(site, monkeypatch):
    monkeypatch.setattr("stead.client.calls.PAGE", 3)
    uuids = site.apply([Node(f"h{number}", VCPU=number + 1) for number in range(8)]).uuids
    assert [provider.uuid for provider in site.providers()] == sorted(uuids.values())
    assert [provider.name for provider in site.providers(resources="VCPU:8")] == ["h7"]
    assert [tree.root.name for tree in site.trees(name="h1*")] == ["h1"]


def test_a_provider_that_does_not_exist_is_not_found(site):
    with pytest.raises(stead.NotFound):
        site.provider("nobody")
    with pytest.raises(stead.NotFound):
        site.tree(uuid.UUID(int=1))


def test_names_are_cached_and_follow_changes(site, hosts, monkeypatch):
    claim = site.claim(TWO_CORES, "train-1")
    (host,) = claim.providers
    before = site.names(claim)[host]
    requests = len(site.faults.requests)
    assert site.names([host]) == {host: before}
    assert len(site.faults.requests) == requests
    monkeypatch.setattr("stead.client.aio.site.FRESH_SECONDS", 0)
    monkeypatch.setattr("stead.client.blocking.site.FRESH_SECONDS", 0)
    site.apply(Node("renamed", uuid=host))
    assert site.names([host, str(uuid.UUID(int=9))]) == {host: "renamed"}
    assert set(site.names(hosts.values()).values()) == {"renamed", *(hosts.keys() - {before})}


def test_watching_tells_each_change_and_resumes_at_a_token(site, hosts):
    since = site.request("GET", "/changes", stead="1.0")["token"]
    claim = site.claim(TWO_CORES, "train-1")
    with closing(site.watch(since=since)) as changes:
        seen = {(change.kind, change.uuid): change for change in islice(changes, 2)}
    assert set(seen) == {("provider", claim.providers[0]), ("consumer", claim.consumer)}
    last = seen["consumer", claim.consumer]
    claim.release()
    with closing(site.watch(since=last.token, project="lab")) as changes:
        change = next(changes)
    assert (change.uuid, change.is_deletion) == (claim.consumer, True)


def test_watching_a_quiet_site_returns_heartbeats(site):
    with closing(site.watch(heartbeat=0.1)) as changes:
        assert [change.kind for change in islice(changes, 2)] == ["heartbeat", "heartbeat"]


def test_watching_tells_of_lost_changes(site, hosts):
    since = site.request("GET", "/changes", stead="1.0")["token"]
    site.faults.fail_next(410)
    with closing(site.watch(since=since, heartbeat=0.1)) as changes:
        assert next(changes).kind == "start over"
        assert next(changes).kind == "heartbeat"


def test_watching_goes_on_after_an_outage(site, hosts):
    since = site.request("GET", "/changes", stead="1.0")["token"]
    claim = site.claim(TWO_CORES, "train-1")
    site.faults.fail_next(503, times=2)
    site.faults.break_next(times=2)
    with closing(site.watch(since=since)) as changes:
        assert {change.uuid for change in islice(changes, 2)} == {claim.consumer, *claim.providers}


def test_a_call_is_repeated_after_503_and_after_a_broken_connection(site, hosts):
    site.faults.fail_next(503, times=2)
    site.faults.break_next()
    assert len(site.candidates(TWO_CORES)) == 2


def test_a_claim_whose_answer_was_lost_is_there_once(site, hosts):
    site.faults.lose_commit_answer(times=2)
    claim = site.claim(TWO_CORES, "train-1")
    assert (claim.generation, site.usages()["INSTANCE"].amounts) == (1, {"VCPU": 2})


def test_a_release_whose_answer_was_lost_is_done(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    site.faults.lose_commit_answer()
    claim.release()
    assert site.usages() == {}


def test_a_call_of_unknown_effect_is_not_repeated(site):
    site.faults.lose_commit_answer()
    with pytest.raises(stead.Unreachable):
        site.request("POST", "/resource_providers", {"name": "once"})
    assert [provider.name for provider in site.providers()] == ["once"]


def test_retries_end_at_the_deadline(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    site.faults.fail_next(503, times=1000)
    with pytest.raises(stead.Unavailable) as refused:
        claim.move(Request(Group(VCPU=3)), timeout=0.3)
    site.faults.clear()
    assert refused.value.status == 503
    assert site.find("train-1").generation == 1


def test_a_refusal_of_a_proxy_keeps_its_status(site):
    site.faults.fail_next(418)
    with pytest.raises(stead.Refused) as refused:
        site.usages()
    assert refused.value.status == 418


def test_a_claim_needs_a_project(site):
    site.__dict__.get("subject", site)._project = None
    with pytest.raises(stead.InvalidRequest, match="needs a project"):
        site.claim(TWO_CORES, "train-1")
    with pytest.raises(stead.InvalidRequest, match="needs a project"):
        site.usages()


@pytest.mark.parametrize("asked", [Group(VCPU=2), {"VCPU": 2}, "resources=VCPU:2", Request(Group(VCPU=2))])
def test_a_group_amounts_and_a_text_are_requests(site, hosts, asked):
    assert site.claim(asked, "train-1").amounts == {"VCPU": 2}
    assert len(site.candidates(asked)) == 2
    assert site.headroom(asked).at_least == 7
    assert site.explain(asked).candidates == 2
    assert site.what_if(headroom=asked).headroom.at_least == 7


def test_what_is_no_request_is_refused_before_it_is_sent(site):
    with pytest.raises(stead.InvalidRequest, match=r"'m1[.]large' is not a query .* Request\(flavor='m1[.]large'\)"):
        site.headroom("m1.large")
    with pytest.raises(stead.InvalidRequest, match="expected a Request, a Group, amounts by class"):
        site.candidates(4)
    assert site.faults.requests == []


def test_a_claim_is_released_at_the_end_of_its_block(site, hosts):
    with site.claim(TWO_CORES, "train-1") as claim:
        assert site.usages()["INSTANCE"].amounts == {"VCPU": 2}
    assert (site.usages(), claim.allocations) == ({}, {})
    with pytest.raises(ZeroDivisionError), site.claim(TWO_CORES, "train-1"):
        1 / 0  # noqa: B018
    assert site.usages() == {}
    with site.claim(TWO_CORES, "train-1") as claim:
        claim.release()


def test_a_claim_that_was_moved_is_released_at_the_end_and_a_new_one_of_the_name_is_not(site, hosts):
    with site.claim(TWO_CORES, "train-1"):
        site.find("train-1").move(Request(Group(VCPU=4)))
    assert site.usages() == {}

    def replaced():
        with site.claim(TWO_CORES, "train-1") as claim:
            claim.move(Request(Group(VCPU=4)))
            site.release("train-1")
            site.claim(Request(Group(VCPU=1)), "train-1")

    with pytest.raises(stead.Stale):
        replaced()
    assert site.usages()["INSTANCE"].amounts == {"VCPU": 1}


def test_a_claim_and_a_candidate_show_the_names_that_the_site_has_read(site, hosts):
    site.disable("host1", "repair")
    assert repr(site.claim(TWO_CORES, "train-1")) == "<Claim of train-1 (lab): VCPU:2 of host0>"
    (candidate,) = site.candidates(TWO_CORES)
    assert repr(candidate) == "<Candidate VCPU:2 of host0>"
    assert candidate == pickle.loads(pickle.dumps(candidate))


def test_a_pickled_claim_is_connected_again_by_find(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    stored = pickle.loads(pickle.dumps(getattr(claim, "subject", claim)))
    assert (repr(stored), stored.allocations, stored.generation) == (repr(claim), claim.allocations, 1)
    assert set(stored._names) == set(stored.providers)
    for call in (site.find, lambda stored: site.claim(TWO_CORES, stored)):
        call(stored).move(Request(Group(VCPU=4)))
        stored = getattr(found := site.find("train-1"), "subject", found)
        stored = pickle.loads(pickle.dumps(stored))
    site.release(stored)
    assert site.usages() == {}


def test_a_closed_site_raises_and_may_be_closed_again(site, hosts):
    claim = site.claim(TWO_CORES, "train-1")
    site.close()
    site.close()
    for call in (
        site.usages,
        claim.release,
        lambda: site.claim(TWO_CORES),
        lambda: list(site.trees()),
        lambda: next(site.watch()),
        lambda: site.wait_for_room(TWO_CORES),
    ):
        with pytest.raises(stead.SiteClosed, match=r"was closed, so (GET|POST|PUT|DELETE) /"):
            call()


def test_a_host_is_deleted_with_all_below_it_or_not_at_all(site):
    site.apply(
        Node("host", VCPU=4, children=[Node("numa", children=[Node("gpu", PGPU=1)]), Node("nic", SRIOV_NET_VF=4)])
    )
    with site.claim({"PGPU": 1}, "train-1"), pytest.raises(stead.InUse, match="gpu has allocations: PGPU:1"):
        site.delete("host")
    assert len(site.tree("host")) == 4
    site.delete("numa")
    assert [provider.name for provider in site.tree("host")] == ["host", "nic"]
    site.delete("name:host")
    assert list(site.providers()) == []
    with pytest.raises(stead.NotFound):
        site.delete("host")


def test_waiting_for_room_ends_when_a_claim_is_released(site, hosts):
    claims = site.claim_all([Request(Group(VCPU=8))] * 2, "all")
    with pytest.raises(stead.NothingFits) as refused:
        site.wait_for_room(TWO_CORES, timeout=0)
    assert str(refused.value) == refused.value.explanation.summary != ""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(site.wait_for_room, TWO_CORES)
        claims[0].release()
        (candidate,) = waiting.result(50)
    assert candidate.allocations.keys() == set(site.candidates(TWO_CORES)[0].allocations)
    assert list(site.claims(project="lab", provider=next(iter(candidate.allocations)))) == []


def test_a_span_or_a_time_ends_a_disabled_state(site, hosts):
    for until in (timedelta(hours=12), "12h"):
        state = site.disable("host0", "repair", until=until)
        assert timedelta(hours=11) < datetime.fromisoformat(state.until) - datetime.now(UTC) <= timedelta(hours=12)
    assert site.disable("host0", "repair", until=datetime(2099, 1, 1, tzinfo=UTC)).until == "2099-01-01T00:00:00Z"
    for until in ("tomorrow", "2099-01-01", datetime(2099, 1, 1)):
        with pytest.raises(
            stead.InvalidRequest, match=r"2099-01-01T00:00:00|'(tomorrow|2099-01-01)' is not a span such as"
        ):
            site.disable("host0", "repair", until=until)


def test_an_unknown_name_says_how_to_make_it(site, hosts):
    with pytest.raises(stead.Invalid, match=r"unknown trait CUSTOM_A100; apply\(…, create_names=True\) creates it"):
        site.apply(Node("host0", traits="CUSTOM_A100"))
    with pytest.raises(
        stead.Invalid, match=r"unknown resource class BOARDS[.] Names of your own begin with CUSTOM_, as CUSTOM_BOARDS"
    ):
        site.apply(Node("host0", BOARDS=1), create_names=True)
    with pytest.raises(stead.Invalid, match=r"No such resource class BOARDS[.] Names of your own begin with CUSTOM_"):
        site.claim({"BOARDS": 1})
