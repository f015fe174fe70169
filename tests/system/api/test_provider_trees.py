"""GET ``/provider_trees``. Source: "GET /provider_trees", docs/stead-api.md."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.system.api.client import NEWEST, Api, Provider, fresh_name, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
PATH = "/provider_trees"
BAD_VALUE = "placement.query.bad_value"
FIELDS = ["name", "parent_provider_uuid", "generation", "inventories", "usages", "traits", "aggregates", "disabled"]

CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LAMP"]
PREFIXES = ["z", "a", "é", '"', "name:"]
TRAITS = ["HW_CPU_X86_SHA", "HW_CPU_X86_AVX", "CUSTOM_MAGIC"]


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


def trees(own: Api, **query: Any) -> list[Any]:
    found: list[Any] = own.get(PATH, query).expect(200).provider_trees
    return found


def names(own: Api, **query: Any) -> list[list[str]]:
    """The names of the providers of each tree."""
    return [[provider["name"] for provider in tree["providers"]] for tree in trees(own, **query)]


def pages(own: Api, **query: Any) -> Iterator[Any]:
    """The documents from the first page to the last."""
    target = list(query.items())
    while True:
        page = own.get(PATH, target).expect(200)
        yield page.json
        if not page.links:
            return
        [link] = page.links
        there = urlsplit(link["href"])
        assert (link["rel"], there.path) == ("next", PATH)
        target = parse_qsl(there.query)


class RandomSite:
    """Trees of random providers, made by plain requests."""

    def __init__(self, api: Api, seed: int) -> None:
        rng = Random(seed)
        self.api = api
        api.put("/resource_classes/CUSTOM_LAMP").expect(201, 204)
        api.put("/traits/CUSTOM_MAGIC").expect(201, 204)
        racks = [fresh_uuid() for _ in range(3)]
        self.providers: list[Provider] = []
        for number in range(rng.randint(6, 14)):
            parent = rng.choice(self.providers) if self.providers and rng.random() < 0.7 else None
            inventories = {
                name: {
                    "total": rng.randint(8, 100),
                    "reserved": rng.randint(0, 8),
                    "allocation_ratio": rng.choice([1.0, 1.5, 16.0, 3e38]),
                    "max_unit": rng.choice([8, 2147483647]),
                }
                for name in rng.sample(CLASSES, rng.randint(0, 3))
            }
            provider = api.create_provider(
                rng.choice(PREFIXES) + str(number),
                parent=parent,
                inventories=inventories,
                traits=rng.sample(TRAITS, rng.randint(0, 2)),
                aggregates=rng.sample(racks, rng.randint(0, 2)),
            )
            if inventories and rng.random() < 0.6:
                api.claim((provider, {rng.choice(list(inventories)): rng.randint(1, 8)}))
            self.providers.append(provider)

    def told_one_by_one(self) -> dict[str, Any]:
        """What plain requests tell of every provider, in the form of the document; its root is added."""
        return {provider.uuid: self._told(provider) for provider in self.providers}

    def _told(self, provider: Provider) -> dict[str, Any]:
        shown = self.api.get(provider.path).expect(200).json
        return {
            "uuid": shown["uuid"],
            "name": shown["name"],
            "parent_provider_uuid": shown["parent_provider_uuid"],
            "generation": shown["generation"],
            "inventories": self.api.get(provider.inventories).expect(200).inventories,
            "usages": self.api.get(provider.usages).expect(200).usages,
            "traits": self.api.get(provider.traits).expect(200).traits,
            "aggregates": self.api.get(provider.aggregates).expect(200).aggregates,
            "disabled": None,
            "root": shown["root_provider_uuid"],
        }


def added_up(providers: list[Any]) -> dict[str, dict[str, int]]:
    """The sums over the providers of a document."""
    sums: dict[str, dict[str, int]] = {}
    for provider in providers:
        for name, inventory in provider["inventories"].items():
            total = sums.setdefault(name, {"total": 0, "reserved": 0, "capacity": 0, "used": 0})
            total["total"] += inventory["total"]
            total["reserved"] += inventory["reserved"]
            total["capacity"] += int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])
            total["used"] += provider["usages"][name]
    return sums


class TestDocument:
    @pytest.mark.parametrize("seed", range(4))
    def test_it_tells_what_the_requests_for_one_provider_tell(self, empty_api: Api, seed: int) -> None:
        site = RandomSite(empty_api, seed)
        told = site.told_one_by_one()
        document = empty_api.at(OWN).get(PATH, {"totals": "true"}).expect(200).json
        shown = {
            provider["uuid"]: {**provider, "root": tree["root_provider_uuid"]}
            for tree in document["provider_trees"]
            for provider in tree["providers"]
        }
        assert {uuid: ordered(provider) for uuid, provider in shown.items()} == {
            uuid: ordered(provider) for uuid, provider in told.items()
        }
        assert list(shown[site.providers[0].uuid]) == ["uuid", *FIELDS, "root"]
        assert document["provider_count"] == len(site.providers)
        assert document["tree_count"] == len(document["provider_trees"])
        assert document["totals"] == added_up(list(shown.values()))
        for tree in document["provider_trees"]:
            assert tree["provider_count"] == len(tree["providers"])
            assert tree["totals"] == added_up(tree["providers"])
            assert tree["providers"][0]["uuid"] == tree["root_provider_uuid"]

    @pytest.mark.parametrize("seed", range(2))
    def test_pages_put_together_are_the_whole(self, empty_api: Api, seed: int) -> None:
        RandomSite(empty_api, seed)
        own = empty_api.at(OWN)
        for query in ({}, {"totals": "true"}, {"depth": "1", "fields": "name"}, {"required": "CUSTOM_MAGIC"}):
            whole = own.get(PATH, query).expect(200).json
            for limit in (1, 2, 3):
                parts = list(pages(own, limit=limit, **query))
                assert [tree for part in parts for tree in part["provider_trees"]] == whole["provider_trees"]
                assert all(len(part["provider_trees"]) == limit for part in parts[:-1])
                beside = [{key: of for key, of in part.items() if key not in ("provider_trees", "links")}
                          for part in parts]  # fmt: skip
                assert all({**some, "provider_trees": whole["provider_trees"], "links": []} == whole for some in beside)

    def test_parents_stand_before_children_level_by_level_in_the_order_of_names(self, own: Api) -> None:
        host = own.create_provider()
        late = own.create_provider("z" + fresh_name(), parent=host)
        below = own.create_provider("a" + fresh_name(), parent=late)
        early = own.create_provider("b" + fresh_name(), parent=host)
        assert names(own, in_tree=host.uuid) == [[host.name, early.name, late.name, below.name]]

    def test_trees_come_in_the_order_of_their_roots_uuids(self, own: Api) -> None:
        rack = fresh_uuid()
        hosts = sorted(own.create_provider(aggregates=[rack]).uuid for _ in range(5))
        assert [tree["root_provider_uuid"] for tree in trees(own, member_of=rack)] == hosts
        assert [tree["root_provider_uuid"] for tree in trees(own, member_of=rack, marker=hosts[2])] == hosts[3:]
        upper = trees(own, member_of=rack, marker=hosts[2].upper())
        assert [tree["root_provider_uuid"] for tree in upper] == hosts[3:]
        nobody = fresh_uuid()
        after = [tree["root_provider_uuid"] for tree in trees(own, member_of=rack, marker=nobody)]
        assert after == [uuid for uuid in hosts if uuid > nobody]


def ordered(provider: dict[str, Any]) -> dict[str, Any]:
    return {**provider, "traits": sorted(provider["traits"]), "aggregates": sorted(provider["aggregates"])}


class Rack:
    """Two trees in one aggregate: a host with a GPU that has a child, and a small host with a card."""

    def __init__(self, api: Api) -> None:
        self.trait, self.zone, self.prefix = api.create_trait(), fresh_uuid(), fresh_name("rack")
        self.host = api.create_provider(
            f"{self.prefix}-host", inventories={"VCPU": 16}, traits=["HW_CPU_X86_AVX"], aggregates=[self.zone]
        )
        self.gpu = api.create_provider(
            f"{self.prefix}-host-gpu", parent=self.host, inventories={"VGPU": 4}, traits=[self.trait]
        )
        self.part = api.create_provider(f"{self.prefix}-host-gpu-part", parent=self.gpu, inventories={"VGPU": 2})
        self.small = api.create_provider(
            f"{self.prefix}-small", inventories={"VCPU": 2}, traits=["HW_CPU_X86_SHA"], aggregates=[self.zone]
        )
        self.card = api.create_provider(f"{self.prefix}-small-card", parent=self.small)
        self.big_tree = [self.host.name, self.gpu.name, self.part.name]
        self.small_tree = [self.small.name, self.card.name]


@pytest.fixture
def rack(api: Api) -> Rack:
    return Rack(api)


@pytest.mark.one_database
class TestFilters:
    @pytest.mark.parametrize(
        ("key", "value", "matching"),
        [
            ("in_tree", "{rack.part.uuid}", "big"),
            ("in_tree", "name:{rack.part.name}", "big"),
            ("in_tree", "name:{rack.host.uuid}", ""),
            ("in_tree", "00000000-0000-4000-8000-000000000000", ""),
            ("name", "{rack.card.name}", "small"),
            ("name", "{rack.prefix}", ""),
            ("name", "{rack.prefix}*", "big small"),
            ("name", "{rack.prefix}-*-gpu", "big"),
            ("name", "*{rack.prefix}-small*", "small"),
            ("name", "{rack.prefix}-hos?", ""),
            ("required", "{rack.trait}", "big"),
            ("required", "in:{rack.trait},HW_CPU_X86_SHA", "big small"),
            ("required", "{rack.trait},HW_CPU_X86_AVX", ""),
            ("root_required", "{rack.trait}", ""),
            ("root_required", "HW_CPU_X86_AVX", "big"),
            ("root_required", "!HW_CPU_X86_AVX", "small"),
            ("resources", "VGPU:3", "big"),
            ("resources", "VGPU:5", ""),
            ("resources", "VGPU:1,VCPU:1", ""),
            ("member_of", "{rack.zone}", "big small"),
            ("member_of", "!{rack.zone}", "big small"),
        ],
    )
    def test_a_tree_matches_whole(self, own: Api, rack: Rack, key: str, value: str, matching: str) -> None:
        # The zone leaves the trees of other tests out.
        found = names(own, **{"root_member_of": rack.zone, key: value.format(rack=rack)})
        expected = [getattr(rack, f"{word}_tree") for word in matching.split()]
        assert sorted(found) == sorted(expected)

    def test_the_aggregates_of_a_root_are_those_of_its_tree(self, own: Api, rack: Rack) -> None:
        assert sorted(names(own, root_member_of=rack.zone)) == sorted([rack.big_tree, rack.small_tree])
        assert names(own, in_tree=rack.gpu.uuid, root_member_of=f"!{rack.zone}") == []

    def test_one_provider_passes_all_filters_by_itself(self, own: Api, rack: Rack) -> None:
        assert names(own, required=rack.trait, resources="VGPU:4") == [rack.big_tree]
        assert names(own, required=rack.trait, resources="VCPU:4") == []
        assert names(own, required=rack.trait, root_required="HW_CPU_X86_AVX") == [rack.big_tree]
        assert names(own, required=rack.trait, root_required="HW_CPU_X86_SHA") == []

    def test_resources_count_what_is_left(self, own: Api, rack: Rack) -> None:
        own.claim((rack.gpu, {"VGPU": 3}))
        assert names(own, root_member_of=rack.zone, resources="VGPU:2") == [rack.big_tree]  # of the part
        assert names(own, root_member_of=rack.zone, resources="VGPU:3") == []

    @pytest.mark.parametrize(
        ("depth", "shown"), [("0", 1), ("1", 2), ("2", 3), ("3", 3), ("9" * 50, 3), ("9" * 5000, 3)]
    )
    def test_depth_hides_what_is_lower_and_counts_it(self, own: Api, rack: Rack, depth: str, shown: int) -> None:
        [tree] = trees(own, in_tree=rack.gpu.uuid, depth=depth, totals="true")
        assert [provider["name"] for provider in tree["providers"]] == rack.big_tree[:shown]
        assert tree["provider_count"] == 3
        assert {name: sums["total"] for name, sums in tree["totals"].items()} == {"VCPU": 16, "VGPU": 6}

    @pytest.mark.parametrize("field", FIELDS)
    def test_fields_ask_for_less(self, own: Api, rack: Rack, field: str) -> None:
        [whole] = trees(own, in_tree=rack.gpu.uuid)
        [tree] = trees(own, in_tree=rack.gpu.uuid, fields=field)
        asked = [{key: provider[key] for key in ("uuid", field)} for provider in whole["providers"]]
        assert tree["providers"] == asked

    def test_fields_can_ask_for_uuids_alone(self, own: Api, rack: Rack) -> None:
        [tree] = trees(own, in_tree=rack.gpu.uuid, fields="uuid")
        assert tree["providers"] == [{"uuid": one.uuid} for one in (rack.host, rack.gpu, rack.part)]

    def test_totals_are_those_of_all_pages(self, own: Api, rack: Rack) -> None:
        own.claim((rack.gpu, {"VGPU": 3}))
        first = own.get(PATH, {"root_member_of": rack.zone, "totals": "true", "limit": 1}).expect(200)
        assert first.links
        assert (first.tree_count, first.provider_count) == (2, 5)
        assert first.totals == {
            "VCPU": {"total": 18, "reserved": 0, "capacity": 18, "used": 0},
            "VGPU": {"total": 6, "reserved": 0, "capacity": 6, "used": 3},
        }

    def test_a_site_of_nothing_is_a_document(self, empty_api: Api) -> None:
        answer = empty_api.at(OWN).get(PATH, {"totals": "true"}).expect(200)
        assert answer.json == {"tree_count": 0, "provider_count": 0, "totals": {}, "provider_trees": [], "links": []}


@pytest.mark.one_database
class TestRefusals:
    @pytest.mark.parametrize(
        ("query", "words", "code"),
        [
            ("limit=0", "'0' does not match", None),
            ("limit=1%0A", "is not a 'single line'", None),
            ("marker=x", "'x' is not a 'uuid'", None),
            ("depth=-1", "'-1' does not match", None),
            ("depth=01", "'01' does not match", None),
            ("totals=yes", "'yes' is not one of", None),
            ("in_tree=x", "'x' is not valid under any of the given schemas", None),
            ("in_tree=name:", "'name:' is not valid under any of the given schemas", None),
            ("name=", "'' should be non-empty", None),
            ("fields=", "Unknown field '' in 'fields'", BAD_VALUE),
            ("fields=name,color", "Unknown field 'color' in 'fields'. Known fields: uuid, name, ", BAD_VALUE),
            ("colour=red", "'colour' was unexpected", None),
            ("member_of=x", "Expected 'member_of' parameter to contain valid UUID(s)", None),
            ("root_member_of=x", "Expected 'root_member_of' parameter to contain valid UUID(s)", BAD_VALUE),
            ("resources=VCPU", "Badly formed resources parameter", None),
            ("resources=CUSTOM_UNHEARD_OF:1", "Invalid resource class in resources parameter", None),
            ("required=CUSTOM_UNHEARD_OF", "No such trait(s): CUSTOM_UNHEARD_OF", None),
            ("root_required=CUSTOM_UNHEARD_OF", "No such trait(s): CUSTOM_UNHEARD_OF", None),
            ("required=HW_CPU_X86_SHA,!HW_CPU_X86_SHA", "Conflicting required and forbidden traits", None),
            ("root_required=HW_CPU_X86_SHA,!HW_CPU_X86_SHA", "forbidden traits found in root_required", BAD_VALUE),
            ("name=a&name=b", "'name' may be specified only once", "placement.query.duplicate_key"),
        ],
    )
    def test_a_malformed_query_is_refused(self, own: Api, query: str, words: str, code: str | None) -> None:
        assert own.get(f"{PATH}?{query}").refused(400, words, code=code or "placement.undefined_code")

    def test_an_unknown_name_is_refused_whatever_else_excludes_every_tree(self, own: Api) -> None:
        assert own.get(f"{PATH}?in_tree={fresh_uuid()}&required=CUSTOM_UNHEARD_OF").refused(400, "No such trait(s)")

    @pytest.mark.parametrize("version", [NEWEST, f"{NEWEST}, stead 1.0"])
    def test_before_stead_1_1_there_is_no_such_path(self, api: Api, version: str) -> None:
        assert api.at(version).get(PATH).refused(404)

    @pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
    def test_other_methods_are_405(self, own: Api, method: str) -> None:
        answer = own.call(method, PATH)
        assert answer.refused(405)
        assert answer.header("allow") == "GET, PUT"

    def test_another_media_type_is_406(self, own: Api) -> None:
        assert own.get(PATH, headers={"Accept": "text/plain"}).status == 406

    def test_a_stranger_is_401_and_a_reader_is_403(self, own: Api) -> None:
        assert own.get(PATH, headers={"X-Auth-Token": None}).status == 401
        for roles in ("reader", "member"):
            reader = Api(own.door, token="someone:p", roles=roles, version=OWN)
            assert reader.get(PATH).refused(403, "stead:provider_trees:list")


@pytest.mark.one_database
class TestNames:
    """``name:`` where the uuid of a provider is asked for."""

    def test_a_list_takes_a_name(self, own: Api, rack: Rack) -> None:
        def listed(**query: str) -> list[str]:
            return sorted(one["name"] for one in own.get("/resource_providers", query).resource_providers)

        assert listed(in_tree=f"name:{rack.gpu.name}") == rack.big_tree
        assert listed(in_subtree=f"name:{rack.gpu.name}") == rack.big_tree[1:]
        assert listed(in_tree=f"name:{fresh_name()}") == []

    def test_candidates_explanations_and_claims_take_a_name(self, own: Api, rack: Rack) -> None:
        for key in ("in_tree", "in_subtree"):
            query = {"resources": "VGPU:1", key: f"name:{rack.part.name}"}
            found = own.get("/allocation_candidates", query).expect(200).allocation_requests
            expected = {rack.gpu.uuid, rack.part.uuid} if key == "in_tree" else {rack.part.uuid}
            assert {uuid for one in found for uuid in one["allocations"]} == expected
        query = {"resources": "VGPU:1", "in_tree": f"name:{fresh_name()}"}
        assert own.get("/allocation_candidates", query).expect(200).allocation_requests == []
        shown = own.get("/allocation_candidates/explain", query).expect(200).body.decode()
        assert query["in_tree"] in shown
        claim = {
            "consumer_uuid": fresh_uuid(),
            "consumer_generation": None,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "query": f"resources=VGPU:1&in_subtree=name:{rack.part.name}",
        }
        [granted] = own.post("/claims", {"claims": [claim]}).expect(200).claims
        assert list(granted["allocations"]) == [rack.part.uuid]

    @pytest.mark.parametrize("version", [NEWEST, f"{NEWEST}, stead 1.0"])
    @pytest.mark.parametrize("path", ["/resource_providers", "/allocation_candidates"])
    def test_before_stead_1_1_a_name_is_no_uuid(self, api: Api, version: str, path: str) -> None:
        query = {"resources": "VCPU:1", "in_tree": "name:x"}
        assert api.at(version).get(path, query).refused(400, "uuid")


class TestConditionalReads:
    PATHS = (PATH, f"{PATH}?limit=1&totals=true", "/resource_providers", "/resource_providers?limit=1")

    @pytest.mark.parametrize("path", PATHS)
    def test_who_has_the_answer_is_told_so_until_something_changes(self, own: Api, rack: Rack, path: str) -> None:
        tag = own.get(path).expect(200).header("etag")
        assert tag is not None
        unchanged = own.get(path, headers={"If-None-Match": tag})
        assert (unchanged.status, unchanged.body, unchanged.header("etag")) == (304, b"", tag)
        assert unchanged.header("content-type") is None
        own.claim((rack.host, {"VCPU": 1}))
        changed = own.get(path, headers={"If-None-Match": tag}).expect(200)
        assert changed.header("etag") != tag

    @pytest.mark.one_database
    @pytest.mark.parametrize(
        ("form", "status"),
        [
            ("{tag}", 304),
            ("{strong}", 304),
            ("*", 304),
            (' W/"other" , {tag}', 304),
            ('"a,b", {tag}, "c"', 304),
            ('{tag} ,W/"x"', 304),
            ("", 200),
            ('"other"', 200),
            ("{bare}", 200),
            ('"x{tag}', 200),
            ('W/"x" {tag}', 200),
        ],
    )
    def test_the_header_is_read_as_a_list_of_tags(self, own: Api, form: str, status: int) -> None:
        tag = own.get(PATH).header("etag") or ""
        assert tag.startswith('W/"')
        header = form.format(tag=tag, strong=tag[2:], bare=tag[3:-1])
        assert own.get(PATH, headers={"If-None-Match": header}).status == status

    @pytest.mark.one_database
    @pytest.mark.parametrize("version", [NEWEST, f"{NEWEST}, stead 1.0"])
    def test_before_stead_1_1_there_are_no_tags(self, own: Api, version: str) -> None:
        tag = own.get("/resource_providers").header("etag")
        answer = own.at(version).get("/resource_providers", headers={"If-None-Match": f"{tag}, *"}).expect(200)
        assert answer.header("etag") is None

    @pytest.mark.one_database
    def test_a_refusal_has_no_tag_and_is_not_304(self, own: Api) -> None:
        tag = own.get(PATH).header("etag")
        refused = own.get(f"{PATH}?colour=red", headers={"If-None-Match": tag})
        assert (refused.status, refused.header("etag")) == (400, None)
        assert own.get(PATH, headers={"If-None-Match": tag, "Accept": "text/plain"}).status == 406
