"""PUT ``/provider_trees``. Source: "PUT /provider_trees", docs/stead-api.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.system.api.client import (
    CONCURRENT_UPDATE,
    DUPLICATE_NAME,
    NEWEST,
    Answer,
    Api,
    fresh_custom,
    fresh_name,
    fresh_uuid,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
PATH = "/provider_trees"
IN_USE = "stead.in_use"
BELOW_USE = "stead.capacity_below_use"
VCPU = {"VCPU": {"total": 8}}


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


def described(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def put(own: Api, *trees: list[dict[str, Any]], **options: Any) -> Answer:
    return own.put(PATH, {"provider_trees": [{"providers": providers} for providers in trees], **options})


def done(answer: Answer) -> dict[str, list[str]]:
    """The changes of each provider, by its name."""
    return {provider["name"]: provider["changes"] for provider in answer.expect(200).providers}


def read(own: Api, name: str) -> list[dict[str, Any]]:
    """The providers of the tree in which the provider *name* is."""
    trees = own.get(PATH, {"in_tree": f"name:{name}"}).expect(200).provider_trees
    return trees[0]["providers"] if trees else []


def names(own: Api, name: str) -> list[str]:
    return [provider["name"] for provider in read(own, name)]


def host(**fields: Any) -> list[dict[str, Any]]:
    """A host with two NUMA nodes, the first of which has 8 VCPU."""
    name = fresh_name()
    return [
        described(name, parent_provider_uuid=None, **fields),
        described(f"{name}_NUMA0", parent_provider_uuid=f"name:{name}", inventories=VCPU, traits=["HW_NUMA_ROOT"]),
        described(f"{name}_NUMA1", parent_provider_uuid=f"name:{name}", aggregates=[fresh_uuid()]),
    ]


def used_host(own: Api, used: int = 4) -> list[dict[str, Any]]:
    """A host on the server, of whose first NUMA node *used* VCPU are allocated."""
    providers = host()
    numa = put(own, providers).expect(200).providers[1]["uuid"]
    own.put(f"/allocations/{fresh_uuid()}", claim({numa: {"VCPU": used}})).expect(204)
    return providers


def claim(amounts: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    return {
        "allocations": {uuid: {"resources": resources} for uuid, resources in amounts.items()},
        "project_id": fresh_uuid(),
        "user_id": fresh_uuid(),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


def test_a_new_tree_is_created_as_described(own: Api) -> None:
    providers = host()
    answer = put(own, providers)
    assert list(done(answer).values()) == [
        ["created"],
        ["created", "inventories", "traits"],
        ["created", "aggregates"],
    ]
    root, first, second = read(own, providers[0]["name"])
    assert (root["parent_provider_uuid"], root["generation"], root["inventories"]) == (None, 0, {})
    assert first["parent_provider_uuid"] == root["uuid"]
    assert (first["generation"], first["traits"], first["usages"]) == (2, ["HW_NUMA_ROOT"], {"VCPU": 0})
    assert first["inventories"]["VCPU"]["total"] == 8
    assert second["aggregates"] == providers[2]["aggregates"]
    assert [provider["uuid"] for provider in answer.providers] == [root["uuid"], first["uuid"], second["uuid"]]
    assert [provider["generation"] for provider in answer.providers] == [0, 2, 1]


def test_what_get_returns_can_be_sent_back_and_changes_nothing(own: Api) -> None:
    providers = used_host(own)
    page = own.get(PATH, {"in_tree": f"name:{providers[0]['name']}", "totals": "true"}).expect(200)
    answer = own.put(PATH, {**page.json, "prune": True})
    assert set(map(tuple, done(answer).values())) == {()}
    assert (answer.deleted, answer.remaining) == ([], [])
    again = own.get(PATH, {"in_tree": f"name:{providers[0]['name']}", "totals": "true"}).expect(200)
    assert again.json == page.json
    assert again.header("etag") == page.header("etag")  # not even a tick of the clock


def test_parts_that_are_not_described_stay(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    before = read(own, providers[0]["name"])
    answer = put(own, [described(providers[1]["name"], inventories={"VCPU": {"total": 9}})])
    assert done(answer) == {providers[1]["name"]: ["inventories"]}
    after = read(own, providers[0]["name"])
    assert (after[0], after[2]) == (before[0], before[2])
    assert (after[1]["traits"], after[1]["parent_provider_uuid"]) == (["HW_NUMA_ROOT"], before[0]["uuid"])
    assert after[1]["generation"] == before[1]["generation"] + 1


def test_a_provider_with_its_subtree_moves_and_is_renamed(own: Api) -> None:
    one, other, name = host(), host(), fresh_name()
    put(own, one, other).expect(200)
    moving = read(own, one[0]["name"])[1]
    put(own, [described(fresh_name(), parent_provider_uuid=moving["uuid"])]).expect(200)
    answer = put(own, [{"uuid": moving["uuid"], "name": name, "parent_provider_uuid": f"name:{other[0]['name']}"}])
    assert done(answer) == {name: ["renamed", "moved"]}
    assert len(read(own, one[0]["name"])) == 2
    tree = read(own, other[0]["name"])
    assert (len(tree), {provider["uuid"] for provider in tree} >= {moving["uuid"]}) == (5, True)
    shown = own.get(f"/resource_providers/{tree[-1]['uuid']}").expect(200)
    assert shown.root_provider_uuid == tree[0]["uuid"]


def test_two_providers_exchange_their_names(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    _, first, second = read(own, providers[0]["name"])
    answer = put(
        own, [{"uuid": first["uuid"], "name": second["name"]}, {"uuid": second["uuid"], "name": first["name"]}]
    )
    assert done(answer) == {first["name"]: ["renamed"], second["name"]: ["renamed"]}
    _, now_first, now_second = read(own, providers[0]["name"])
    assert (now_first["uuid"], now_second["uuid"]) == (second["uuid"], first["uuid"])


def test_parent_and_child_exchange_their_places(own: Api) -> None:
    top, bottom = fresh_name(), fresh_name()
    put(own, [described(top), described(bottom, parent_provider_uuid=f"name:{top}")]).expect(200)
    answer = put(
        own, [described(top, parent_provider_uuid=f"name:{bottom}"), described(bottom, parent_provider_uuid=None)]
    )
    assert done(answer) == {top: ["moved"], bottom: ["moved"]}
    assert names(own, top) == [bottom, top]


def test_prune_deletes_what_the_trees_of_the_document_lack(own: Api) -> None:
    providers, other = host(), host()
    put(own, providers, other).expect(200)
    gone = read(own, providers[0]["name"])[2]
    assert put(own, providers[:2]).expect(200).deleted == []
    answer = put(own, providers[:2], prune=True)
    assert answer.deleted == [{"uuid": gone["uuid"], "name": gone["name"]}]
    assert (len(read(own, providers[0]["name"])), len(read(own, other[0]["name"]))) == (2, 3)
    own.get(f"/resource_providers/{gone['uuid']}").expect(404)


def test_prune_leaves_trees_whose_roots_are_not_described(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    assert put(own, providers[1:2], prune=True).expect(200).deleted == []
    assert len(read(own, providers[0]["name"])) == 3


def test_prune_deletes_a_tree_that_is_named_without_providers(own: Api) -> None:
    providers = host()
    root = put(own, providers).expect(200).providers[0]["uuid"]
    named = {"provider_trees": [{"root_provider_uuid": root, "providers": []}]}
    assert own.put(PATH, named).expect(200).deleted == []
    assert len(own.put(PATH, {**named, "prune": True}).expect(200).deleted) == 3
    assert read(own, providers[0]["name"]) == []
    assert own.put(PATH, {**named, "prune": True}).expect(200).deleted == []


def test_a_new_provider_gets_the_name_of_a_deleted_one(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    replaced = [providers[0], providers[1], {**providers[2], "uuid": fresh_uuid()}]
    before = read(own, providers[0]["name"])[2]["uuid"]
    answer = put(own, replaced, prune=True)
    assert [provider["uuid"] for provider in answer.expect(200).deleted] == [before]
    assert read(own, providers[0]["name"])[2]["uuid"] == replaced[2]["uuid"]


def test_a_deleted_parent_hands_its_described_children_on(own: Api) -> None:
    root, middle, leaf = fresh_name(), fresh_name(), fresh_name()
    put(
        own,
        [
            described(root),
            described(middle, parent_provider_uuid=f"name:{root}"),
            described(leaf, parent_provider_uuid=f"name:{middle}"),
        ],
    ).expect(200)
    answer = put(own, [described(root), described(leaf, parent_provider_uuid=f"name:{root}")], prune=True)
    assert [provider["name"] for provider in answer.expect(200).deleted] == [middle]
    assert names(own, root) == [root, leaf]


def test_providers_in_use_are_not_pruned(own: Api) -> None:
    providers = used_host(own)
    name = providers[1]["name"]
    answer = put(own, providers[:1], prune=True)
    assert answer.refused(409, f"'{name}': has allocations", "keep_used", code=IN_USE)
    assert [(stays["name"], stays["used"]) for stays in answer.error.in_use] == [(name, 4)]
    assert len(read(own, providers[0]["name"])) == 3
    answer = put(own, providers[:1], prune=True, keep_used=True)
    assert [provider["name"] for provider in answer.expect(200).deleted] == [providers[2]["name"]]
    assert [(stays["name"], stays["used"]) for stays in answer.remaining] == [(name, 4)]
    assert names(own, name) == [providers[0]["name"], name]


def test_the_ancestors_of_what_stays_are_not_pruned(own: Api) -> None:
    providers = used_host(own)
    root = read(own, providers[0]["name"])[0]["uuid"]
    emptied = {"provider_trees": [{"root_provider_uuid": root, "providers": []}], "prune": True, "keep_used": True}
    answer = own.put(PATH, emptied).expect(200)
    assert [(stays["name"], stays["needed_by"]) for stays in answer.remaining] == [
        (providers[1]["name"], None),
        (providers[0]["name"], providers[1]["name"]),
    ]


def test_an_inventory_in_use_is_not_removed(own: Api) -> None:
    providers = used_host(own)
    bare = [{**providers[1], "inventories": {"DISK_GB": {"total": 1}}}]
    answer = put(own, bare)
    assert answer.refused(409, "inventory of VCPU", "4 in use", code=IN_USE)
    answer = put(own, bare, keep_used=True)
    assert done(answer) == {providers[1]["name"]: ["inventories"]}
    assert [(stays["resource_class"], stays["used"]) for stays in answer.remaining] == [("VCPU", 4)]
    assert set(read(own, providers[0]["name"])[1]["inventories"]) == {"VCPU", "DISK_GB"}


def test_a_capacity_below_its_use_is_refused_unless_it_is_allowed(own: Api) -> None:
    providers = used_host(own, used=4)
    lowered = [{**providers[1], "inventories": {"VCPU": {"total": 8, "reserved": 5}}}]
    answer = put(own, lowered)
    assert answer.refused(409, "4 used, capacity 8 -> 3", "allow_overcommit", code=BELOW_USE)
    (over,) = answer.error.overcommitted
    assert (over["name"], over["used"], over["capacity_before"], over["capacity_after"]) == (
        providers[1]["name"],
        4,
        8,
        3,
    )
    assert read(own, providers[0]["name"])[1]["inventories"]["VCPU"]["reserved"] == 0
    answer = put(own, lowered, allow_overcommit=True)
    assert (done(answer), len(answer.overcommitted)) == ({providers[1]["name"]: ["inventories"]}, 1)
    raised = [{**providers[1], "inventories": {"VCPU": {"total": 8, "reserved": 4.0}}}]
    put(own, raised).expect(200)  # less over-committed than before


def test_merge_adds_to_what_a_provider_has(own: Api) -> None:
    providers = host(traits=["HW_CPU_X86_SHA"], inventories={"DISK_GB": {"total": 5}}, aggregates=[fresh_uuid()])
    put(own, providers).expect(200)
    more = fresh_uuid()
    put(
        own,
        [described(providers[0]["name"], traits=["HW_CPU_X86_AVX"], inventories=VCPU, aggregates=[more])],
        merge=True,
    ).expect(200)
    root = read(own, providers[0]["name"])[0]
    assert set(root["traits"]) == {"HW_CPU_X86_SHA", "HW_CPU_X86_AVX"}
    assert set(root["inventories"]) == {"VCPU", "DISK_GB"}
    assert set(root["aggregates"]) == {more, *providers[0]["aggregates"]}


def test_custom_names_are_created_if_the_document_says_so(own: Api) -> None:
    resource_class, trait = fresh_custom(), fresh_custom("MAGIC")
    providers = host(traits=[trait], inventories={resource_class: {"total": 1}})
    assert put(own, providers).refused(400, "provider_trees[0].providers[0].traits: unknown trait", trait)
    own.get(f"/traits/{trait}").expect(404)
    answer = put(own, providers, create_names=True).expect(200)
    assert answer.created_names == {"resource_classes": [resource_class], "traits": [trait]}
    assert put(own, providers, create_names=True).expect(200).created_names == {"resource_classes": [], "traits": []}
    assert read(own, providers[0]["name"])[0]["traits"] == [trait]
    own.get(f"/resource_classes/{resource_class}").expect(200)


def test_a_dry_run_shows_what_would_change_and_changes_nothing(own: Api) -> None:
    providers = used_host(own)
    name, trait = providers[1]["name"], fresh_custom()
    before = own.get(PATH)
    wanted = [
        {**providers[1], "inventories": {"VCPU": {"total": 2}}, "traits": [trait]},
        described(fresh_name(), parent_provider_uuid=f"name:{name}", aggregates=[fresh_uuid()]),
    ]
    answer = put(own, wanted, dry_run=True, create_names=True).expect(200)
    changed, created = answer.providers
    assert (answer.dry_run, changed["changes"]) == (True, ["inventories", "traits"])
    difference = changed["differences"]["inventories"]["VCPU"]
    assert (difference["before"]["total"], difference["after"]["total"], difference["used"]) == (8, 2, 4)
    assert changed["differences"]["traits"] == {"added": [trait], "removed": ["HW_NUMA_ROOT"]}
    assert (created["uuid"], created["changes"]) == (None, ["created", "aggregates"])
    assert [over["used"] for over in answer.overcommitted] == [4]
    assert answer.created_names["traits"] == [trait]
    assert own.get(PATH).header("etag") == before.header("etag")


def test_a_generation_is_checked_if_the_document_has_one(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    root, *_ = read(own, providers[0]["name"])
    stale = [{**providers[0], "generation": root["generation"] + 1, "traits": ["HW_CPU_X86_SHA"]}, providers[1]]
    assert put(own, stale).refused(409, "generation conflict", root["uuid"], code=CONCURRENT_UPDATE)
    current = [{**stale[0], "generation": root["generation"]}]
    assert put(own, current).expect(200).providers[0]["generation"] == root["generation"] + 1
    unknown = [described(fresh_name(), generation=0)]
    assert put(own, unknown).refused(409, "providers[0].generation", "does not exist", code=CONCURRENT_UPDATE)


def test_the_name_of_a_provider_that_the_document_lacks_is_taken(own: Api) -> None:
    one, other = host(), host()
    put(own, one, other).expect(200)
    root = read(own, one[0]["name"])[0]["uuid"]
    taken = [{"uuid": root, "name": other[1]["name"]}]
    assert put(own, taken).refused(409, other[1]["name"], code=DUPLICATE_NAME)
    another = [{"uuid": fresh_uuid(), "name": other[1]["name"]}]
    assert put(own, another).refused(409, other[1]["name"], code=DUPLICATE_NAME)


FAULTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an unknown field": ([described("a"), {"name": "b", "color": 1}], "provider_trees[0].providers[1]: "),
    "an unknown field of an inventory": (
        [described("a"), described("b", inventories={"VCPU": {"total": 1, "size": 2}})],
        "provider_trees[0].providers[1].inventories.VCPU: ",
    ),
    "a total of no amount": (
        [described("a", inventories={"VCPU": {"total": 0}})],
        "provider_trees[0].providers[0].inventories.VCPU.total: 0 is less than the minimum of 1",
    ),
    "a malformed uuid": ([{"uuid": "x", "name": "a"}], "provider_trees[0].providers[0].uuid: "),
    "a repeated trait": ([described("a", traits=["T", "T"])], "provider_trees[0].providers[0].traits: "),
    "neither uuid nor name": ([described("a"), {"traits": []}], "provider_trees[0].providers[1]: neither a uuid nor"),
    "an unknown uuid without a name": ([{"uuid": fresh_uuid()}], "provider_trees[0].providers[0]: resource provider"),
    "two providers with one name": (
        [described("a", uuid=fresh_uuid()), described("a", uuid=fresh_uuid())],
        "provider_trees[0].providers[1].name: 'a' is the name of provider_trees[0].providers[0]",
    ),
    "two providers with one uuid": (
        [described("a", uuid=fresh_uuid()), described("b", uuid="0c0ffee0-0000-4000-8000-00000000aaaa")] * 2,
        "provider_trees[0].providers[2]: the resource provider of provider_trees[0].providers[0]",
    ),
    "an unknown parent": (
        [described("a", parent_provider_uuid="name:nobody at all")],
        "provider_trees[0].providers[0].parent_provider_uuid: no resource provider name:nobody at all",
    ),
    "a parent that is itself": (
        [described("a", parent_provider_uuid="name:a")],
        "provider_trees[0].providers[0].parent_provider_uuid: the resource provider is its own ancestor",
    ),
    "a descendant as parent": (
        [described("b", parent_provider_uuid="name:a"), described("a", parent_provider_uuid="name:b")],
        "provider_trees[0].providers[0].parent_provider_uuid: the resource provider is its own ancestor",
    ),
    "an unknown class": (
        [described("a", inventories={"VCPUS": {"total": 1}})],
        "provider_trees[0].providers[0].inventories.VCPUS: unknown resource class VCPUS. Did you mean VCPU?",
    ),
    **{
        f"a new class named {name!r}": (
            [described("a", inventories={name: {"total": 1}})],
            "provider_trees[0].providers[0].inventories.CUSTOM_",
        )
        for name in ("CUSTOM_", "CUSTOM_A" + "B" * 248)
    },
    "a new class named by two lines": ([described("a", inventories={"CUSTOM_A\n": {"total": 1}})], "CUSTOM_A"),
    "a new trait in lower case": (
        [described("a", traits=["CUSTOM_lower"])],
        "provider_trees[0].providers[0].traits: unknown trait CUSTOM_lower",
    ),
    "an unknown standard trait": (
        [described("a", traits=["HW_CPU_X86_SHAA"])],
        "provider_trees[0].providers[0].traits: unknown trait HW_CPU_X86_SHAA. Did you mean HW_CPU_X86_SHA?",
    ),
    "a negative capacity": (
        [described("a", inventories={"VCPU": {"total": 1, "reserved": 2}})],
        "provider_trees[0].providers[0].inventories.VCPU.reserved: the capacity is negative",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_its_place_and_nothing_is_changed(own: Api, fault: str) -> None:
    providers, words = FAULTS[fault]
    before = own.get(PATH)
    for dry_run in (True, False):
        creates = fault.startswith(("an unknown standard", "a new"))
        assert put(own, providers, create_names=creates, dry_run=dry_run).refused(400, words)
    assert own.get(PATH).header("etag") == before.header("etag")


def test_the_root_of_an_emptied_tree_must_be_a_root(own: Api) -> None:
    providers = host()
    child = put(own, providers).expect(200).providers[1]["uuid"]
    body = {"provider_trees": [{"root_provider_uuid": child, "providers": []}], "prune": True}
    assert own.put(PATH, body).refused(400, "provider_trees[0].root_provider_uuid", "is not a root")


def test_providers_of_existing_trees_cannot_be_put_below_their_descendants(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    below = [described(providers[0]["name"], parent_provider_uuid=f"name:{providers[1]['name']}")]
    before = own.get(PATH).header("etag")
    place = "provider_trees[0].providers[0].parent_provider_uuid"
    assert put(own, below).refused(400, f"{place}: the resource provider is its own ancestor")
    assert own.get(PATH).header("etag") == before


def test_a_name_that_is_given_away_can_be_taken_by_a_new_provider(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    root = read(own, providers[0]["name"])[0]["uuid"]
    new = fresh_name()
    answer = put(own, [{"uuid": root, "name": new}, described(providers[0]["name"])])
    assert done(answer) == {new: ["renamed"], providers[0]["name"]: ["created"]}
    assert (len(read(own, new)), len(read(own, providers[0]["name"]))) == (3, 1)


def test_another_parts_of_a_document_are_undone_with_the_refused_one(own: Api) -> None:
    providers = used_host(own)
    new = fresh_name()
    answer = put(own, [described(new)], [{**providers[1], "inventories": {}}])
    assert answer.refused(409, code=IN_USE)
    assert read(own, new) == []


def test_watchers_hear_of_what_was_changed_and_deleted(own: Api) -> None:
    providers = host()
    put(own, providers).expect(200)
    uuids = [provider["uuid"] for provider in read(own, providers[0]["name"])]
    token = own.get("/changes").expect(200).token
    put(own, [{**providers[0], "traits": ["HW_CPU_X86_SHA"]}, providers[1]], prune=True).expect(200)
    moved = own.get("/changes", {"since": token}).expect(200).providers
    generations = {provider["uuid"]: provider["generation"] for provider in moved}
    assert (generations[uuids[0]], generations[uuids[2]]) == (1, None)
