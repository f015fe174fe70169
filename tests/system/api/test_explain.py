"""``/allocation_candidates/explain``. Source: "Explaining" of allocation candidates, docs/stead-api.md."""

import re
from urllib.parse import parse_qsl, urlencode

import pytest

from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_custom, fresh_uuid

PATH = "/allocation_candidates/explain"
OWN = f"{NEWEST}, stead 1.0"

pytestmark = pytest.mark.one_database

own = pytest.mark.differs("it has nothing of Stead's own")


class Host:
    """One host of two NUMA nodes: the first is old, the second is nearly full; a lamp of one's own keeps it apart."""

    def __init__(self, api: Api) -> None:
        self.lamp, self.old, self.nic = api.create_class(), api.create_trait(), api.create_trait()
        self.root = api.create_provider(inventories={"DISK_GB": 10})
        self.first = self._node(api, 8, [self.old])
        self.second = self._node(api, 8, [])
        self.port = api.create_provider(parent=self.second, traits=[self.nic], inventories={"VGPU": 1})
        api.claim((self.second, {self.lamp: 5}))

    def _node(self, api: Api, number: int, traits: list[str]) -> Provider:
        return api.create_provider(parent=self.root, inventories={self.lamp: number}, traits=traits)

    @property
    def names(self) -> dict[str, str]:
        return {provider.uuid: provider.name for provider in (self.root, self.first, self.second, self.port)}


@pytest.fixture
def host(api: Api) -> Host:
    return Host(api)


def explained(api: Api, query: str) -> Answer:
    return api.at(OWN).get(f"{PATH}?{query}").expect(200)


@own
def test_a_funnel_says_what_each_constraint_left_and_who_comes_near(api: Api, host: Host) -> None:
    told = explained(api, f"resources_A={host.lamp}:4&required_A=!{host.old}&in_tree_A={host.root.uuid}")
    assert (told.candidates, told.more, told.complete) == (0, False, True)
    ((group, choice),) = [(group["suffix"], choice) for group in told.groups for choice in group["choices"]]
    assert (group, choice["resource_class"]) == ("_A", None)
    words = {"parameter": "resources_A", "value": f"{host.lamp}:4"}
    # Providers of other tests may be disabled, which is the first step.
    everybody = choice["in_play"] - sum(step["removed"] for step in choice["steps"] if step["parameter"] == "disabled")
    assert [step for step in choice["steps"] if step["parameter"] != "disabled"] == [
        {**words, "check": "inventory", "left": 2, "removed": everybody - 2},
        {**words, "check": "units", "left": 2, "removed": 0},
        {**words, "check": "room", "left": 1, "removed": 1},
        {"parameter": "required_A", "value": f"!{host.old}", "left": 0, "removed": 1},
        {"parameter": "in_tree_A", "value": host.root.uuid, "left": 0, "removed": 0},
    ]
    assert {(miss["parameter"], miss["providers"]): miss["examples"] for miss in choice["nearest"]} == {
        ("resources_A", 1): [{"uuid": host.second.uuid, "name": host.second.name}],
        ("required_A", 1): [{"uuid": host.first.uuid, "name": host.first.name}],
    }
    assert [miss["lacking"] for miss in choice["nearest"]] == [[{"amount": 1, "providers": 1}], []]
    assert told.trees["steps"][0] | {"removed": 0} == {"suffix": "_A", "resource_class": None, "left": 0, "removed": 0}


def with_change(query: str, relaxation: dict) -> str:
    """*query* with what a relaxation says, one value of one parameter at a time."""
    pairs = parse_qsl(query)
    without, instead = relaxation["without"], relaxation["with"]
    changed, done = [], without is None
    for key, value in pairs:
        parts = value.split(",") if key.startswith(("resources", "required")) else [value]
        if not done and key == without["parameter"] and without["value"] in parts:
            done = True
            parts = [instead["value"] if part == without["value"] and instead else part for part in parts]
            parts = [part for part in parts if part != without["value"]]
        if parts:
            changed.append((key, ",".join(parts)))
    assert done
    if without is None:
        changed.append((instead["parameter"], instead["value"]))
    return urlencode(changed)


@own
@pytest.mark.parametrize(
    ("query", "helping"),
    [
        ("resources_A={lamp}:4&required_A=!{old}&in_tree_A={root}", ["{lamp}:3", "!{old}"]),
        ("resources_A={lamp}:4&resources_B={lamp}:4&isolate=_A,_B", ["{lamp}:3", "{lamp}:3", "_A,_B"]),
        ("resources={lamp}:11", ["can_split"]),
        ("resources={lamp}:9", ["{lamp}:8", "can_split"]),
        ("resources_A={lamp}:1&required_P={nic}&same_subtree=_A,_P&in_tree_A={root}&in_subtree_A={first}",
         ["{first}"]),
        ("resources_A={lamp}:8&resources_G=VGPU:1&same_subtree=_A,_G&in_tree_A={root}&in_tree_G={root}",
         ["{lamp}:3", "_A,_G"]),
        ("resources={lamp}:1&root_member_of={nobody}", ["{nobody}"]),
        ("resources={lamp}:1&root_required={nic}", ["{nic}"]),
    ],
)  # fmt: skip
def test_every_relaxation_does_give_candidates(api: Api, host: Host, query: str, helping: list[str]) -> None:
    words = {"root": host.root.uuid, "first": host.first.uuid, "nobody": fresh_uuid()}
    words |= {"lamp": host.lamp, "old": host.old, "nic": host.nic}
    query = query.format(**words)
    told = explained(api, query)
    assert told.candidates == 0
    for relaxation in told.relaxations:
        found = api.at(OWN).get(f"/allocation_candidates?{with_change(query, relaxation)}").expect(200)
        assert min(len(found.allocation_requests), 100) == relaxation["candidates"] > 0
    expected = [value.format(**words) for value in helping]
    shown = [
        (one["with"] or one["without"])["parameter" if one["without"] is None else "value"] for one in told.relaxations
    ]
    assert [value for value in shown if value in expected] == expected


@own
def test_trees_are_lost_to_what_binds_the_groups_together(api: Api, host: Host) -> None:
    told = explained(
        api,
        f"resources_A={host.lamp}:8&resources_G=VGPU:1&same_subtree=_A,_G&in_tree_A={host.root.uuid}"
        f"&in_tree_G={host.root.uuid}",
    )
    *choices, last = told.trees["steps"]
    assert [(step["suffix"], step["left"]) for step in choices] == [("_A", 1), ("_G", 1)]
    assert last == {"parameter": "same_subtree", "value": "_A,_G", "left": 0, "removed": 1}


@own
def test_what_fits_is_counted_and_needs_no_relaxation(api: Api, host: Host) -> None:
    told = explained(api, f"resources={host.lamp}:11&can_split={host.lamp}&limit=1")
    assert (told.candidates, told.more, told.relaxations) == (1, False, [])
    assert told.trees["steps"][-1] == {"parameter": "can_split", "value": host.lamp, "left": 1, "removed": 0}


@own
@pytest.mark.parametrize(
    "query",
    [
        "resources=VCPU:x", "resources=CUSTOM_NOBODY:1", "resources=VCPU:1&required=CUSTOM_NOBODY", "colour=red", "",
        "resources=VCPU:1&can_split=VGPU", "resources=VCPU:1&limit=x", "%FF", "resources=VCPU:1&isolate=_A",
    ],
)  # fmt: skip
def test_what_candidates_refuse_is_refused_in_the_same_words(api: Api, query: str) -> None:
    told, found = (api.at(OWN).get(f"{path}?{query}").expect(400).error for path in (PATH, "/allocation_candidates"))
    assert (told.detail, told.code) == (found.detail, found.code)


@own
@pytest.mark.parametrize("amount", ["2147483647", "2147483648", "9223372036854775808", "9" * 400])
def test_amounts_that_nothing_holds_are_explained(api: Api, host: Host, amount: str) -> None:
    for more in ("", f"&can_split={host.lamp}"):
        told = explained(api, f"resources={host.lamp}:{amount}{more}")
        assert told.candidates == 0


@own
def test_names_that_a_group_before_hides_are_no_fault(api: Api, host: Host) -> None:
    told = explained(api, f"resources_A={host.lamp}:9&resources_B={fresh_custom()}:1&required_B={fresh_custom()}")
    assert [group["choices"][0]["steps"][-1]["left"] for group in told.groups] == [0, 0]


@own
def test_a_split_amount_can_be_claimed_as_it_was_found(api: Api, host: Host) -> None:
    query = {"resources": f"{host.lamp}:11", "can_split": host.lamp}
    (found,) = api.at(OWN).get("/allocation_candidates", query).expect(200).allocation_requests
    assert found["allocations"] == {
        host.first.uuid: {"resources": {host.lamp: 8}},
        host.second.uuid: {"resources": {host.lamp: 3}},
    }
    assert set(found["mappings"][""]) == {host.first.uuid, host.second.uuid}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
    api.at(OWN).put(f"/allocations/{fresh_uuid()}", {**found, **owner}).expect(204)
    assert api.at(OWN).get("/allocation_candidates", query).allocation_requests == []


@own
def test_it_is_a_read_like_others(api: Api, host: Host) -> None:
    v, query = api.at(OWN), f"{PATH}?resources={host.lamp}:1"
    answer = v.get(query)
    assert answer.header("cache-control") == "no-cache"
    assert answer.header("last-modified")
    assert v.get(query, headers={"Accept": "text/plain"}).status == 406
    refused = v.call("POST", PATH)
    assert (refused.status, refused.header("allow")) == (405, "GET")
    assert v.get(f"{PATH}/").status == 404


@own
@pytest.mark.parametrize(("roles", "status"), [("admin", 200), ("service", 200), ("reader", 403), ("member", 403)])
def test_who_may(api: Api, host: Host, roles: str, status: int) -> None:
    answer = api.at(OWN).get(
        f"{PATH}?resources={host.lamp}:1", headers={"X-Auth-Token": "someone:project", "X-Roles": roles}
    )
    assert answer.status == status
    if status == 403:
        assert "stead:allocation_candidates:explain" in answer.error.detail


def the_same(answer: Answer) -> str:
    """What is alike in answers of different paths, of which one has a version that it requires."""
    hint = re.escape(f"; requires OpenStack-API-Version: placement {NEWEST}, stead 1.0")
    return re.sub(rf"req-[\w-]+|explain|nothing|{hint}", "", answer.body.decode())


@pytest.mark.parametrize("version", ["1.0", NEWEST, "latest"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_an_entry_for_stead_there_is_nothing(api: Api, version: str, method: str) -> None:
    asked, unknown = (api.at(version).call(method, path) for path in (PATH, "/allocation_candidates/nothing"))
    assert asked.status == unknown.status == 404
    assert the_same(asked) == the_same(unknown)
