"""After every kind of write, a service that has run for long answers what a service that starts then answers.

What a service keeps from one snapshot to the next, texts of answers among it, must follow every write.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import open_door
from tests.system.api.client import NEWEST, Api, Provider, fresh_uuid, holding

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.1"
# The texts of four forms are kept beside each other: two of these and two of the list of providers. With more of them,
# none would be kept until the next question.
CANDIDATE_VERSIONS = ("1.10", "1.27", NEWEST)
PROVIDER_VERSIONS = ("1.0", NEWEST)
TREE_QUERIES = ("totals=true", "depth=0&fields=name,generation", "resources=VCPU:4&limit=1")
CLASS, TRAIT = "CUSTOM_LAMP", "CUSTOM_MAGIC"


class Site:
    """Two hosts, one with a child, and a consumer on each host."""

    def __init__(self, api: Api) -> None:
        self.api = api
        api.put(f"/resource_classes/{CLASS}").expect(201)
        api.put("/resource_classes/CUSTOM_SPARE").expect(201)
        api.put(f"/traits/{TRAIT}").expect(201)
        stock = {"VCPU": 8, CLASS: {"total": 9, "min_unit": 3, "step_size": 2}}
        self.rack = fresh_uuid()
        self.host = api.create_provider("host", inventories=stock, traits=[TRAIT], aggregates=[self.rack])
        self.other = api.create_provider("other", inventories=stock)
        self.child = api.create_provider("child", parent=self.host, inventories={"VCPU": 4})
        self.idle = api.create_provider("idle")
        self.consumer = api.claim((self.host, {"VCPU": 1}))
        self.leaving = api.claim((self.other, {"VCPU": 2}))

    def write(self, method: str, path: str, body: Any = None, *, version: str = NEWEST) -> None:
        self.api.at(version).call(method, path, body).expect(200, 201, 204)

    def inventories_of(self, provider: Provider) -> dict[str, Any]:
        return dict(self.api.get(provider.inventories).expect(200).json)

    def create_provider(self) -> None:
        self.write("POST", "/resource_providers", {"name": "new", "parent_provider_uuid": self.other.uuid})

    def rename_provider(self) -> None:
        self.write("PUT", self.host.path, {"name": "renamed", "parent_provider_uuid": None})

    def move_provider(self) -> None:
        self.write("PUT", self.child.path, {"name": "child", "parent_provider_uuid": self.other.uuid})

    def make_a_child_a_root(self) -> None:
        self.write("PUT", self.child.path, {"name": "child", "parent_provider_uuid": None})

    def delete_the_only_child(self) -> None:
        self.write("DELETE", self.child.path)

    def delete_a_root(self) -> None:
        self.write("DELETE", self.idle.path)

    def add_an_inventory(self) -> None:
        self.write("POST", self.child.inventories, {"resource_class": "DISK_GB", "total": 5})

    def replace_inventories(self) -> None:
        body = self.inventories_of(self.host)
        body["inventories"]["VCPU"]["total"] = 16
        self.write("PUT", self.host.inventories, body)

    def replace_one_inventory(self) -> None:
        body = {"total": 2, "resource_provider_generation": self.api.generation(self.child)}
        self.write("PUT", self.child.inventory("VCPU"), body)

    def delete_one_inventory(self) -> None:
        self.write("DELETE", self.host.inventory(CLASS))

    def delete_inventories(self) -> None:
        self.write("DELETE", self.child.inventories)

    def replace_traits(self) -> None:
        body = {"traits": [TRAIT], "resource_provider_generation": self.api.generation(self.child)}
        self.write("PUT", self.child.traits, body)

    def delete_traits(self) -> None:
        self.write("DELETE", self.host.traits)

    def share(self) -> None:
        """A provider of the same aggregate begins to share with the host."""
        generation = self.api.generation(self.other)
        traits = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "resource_provider_generation": generation}
        self.write("PUT", self.other.traits, traits)
        aggregates = {"aggregates": [self.rack], "resource_provider_generation": self.api.generation(self.other)}
        self.write("PUT", self.other.aggregates, aggregates)

    def replace_aggregates(self) -> None:
        self.write("PUT", self.host.aggregates, [fresh_uuid()], version="1.1")

    def create_class(self) -> None:
        self.write("POST", "/resource_classes", {"name": "CUSTOM_NEW"})

    def rename_class(self) -> None:
        self.write("PUT", f"/resource_classes/{CLASS}", {"name": "CUSTOM_RENAMED"}, version="1.2")

    def delete_class(self) -> None:
        self.write("DELETE", "/resource_classes/CUSTOM_SPARE")

    def create_trait(self) -> None:
        self.write("PUT", "/traits/CUSTOM_NEW")

    def delete_trait(self) -> None:
        self.delete_traits()
        self.write("DELETE", f"/traits/{TRAIT}")

    def claim(self) -> None:
        self.write("PUT", f"/allocations/{fresh_uuid()}", holding((self.child, {"VCPU": 2})))

    def claim_again(self) -> None:
        self.write("PUT", f"/allocations/{self.consumer}", holding((self.other, {CLASS: 4}), generation=1))

    def claim_for_several(self) -> None:
        several = {fresh_uuid(): holding((self.host, {CLASS: 4})), fresh_uuid(): holding((self.child, {"VCPU": 1}))}
        self.write("POST", "/allocations", several)

    def release(self) -> None:
        self.write("DELETE", f"/allocations/{self.leaving}")

    def claim_by_query(self) -> None:
        claim = holding((self.host, {"VCPU": 1}))
        del claim["allocations"]
        one = {**claim, "consumer_uuid": fresh_uuid(), "query": "resources=VCPU:3"}
        self.write("POST", "/claims", {"claims": [one]}, version=OWN)

    def reshape(self) -> None:
        """The host's VCPU goes to its child."""
        host, child = self.inventories_of(self.host), self.inventories_of(self.child)
        del host["inventories"]["VCPU"]
        child["inventories"]["VCPU"]["total"] = 12
        moved = holding((self.child, {"VCPU": 1}), generation=1)
        body = {
            "inventories": {self.host.uuid: host, self.child.uuid: child},
            "allocations": {self.consumer: moved},
        }
        self.write("POST", "/reshaper", body)


WRITES = [name for name, member in vars(Site).items() if callable(member) and not name.startswith("_")]
WRITES = [name for name in WRITES if name not in ("write", "inventories_of")]


def answers(api: Api) -> dict[str, Any]:
    """What *api* answers to every question about providers; lists whose order is free are sorted."""
    seen: dict[str, Any] = {}

    def ask(path: str, version: str) -> Any:
        answer = api.at(version).get(path)
        seen[f"{version} {path}"] = shown = in_order(answer.json) if answer.status == 200 else answer.error.detail
        return shown

    for version in CANDIDATE_VERSIONS:
        for name in ("VCPU", CLASS, "CUSTOM_RENAMED"):
            ask(f"/allocation_candidates?resources={name}:4", version)
    ask("/allocation_candidates?resources=VCPU:9&can_split=VCPU", OWN)
    ask("/allocation_candidates?resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate&same_subtree=_A,_B", NEWEST)
    for path in ("/resource_classes", "/traits", f"/resource_providers?resources={CLASS}:4"):
        ask(path, NEWEST)
    for version in PROVIDER_VERSIONS:
        ask("/resource_providers", version)
    for query in TREE_QUERIES:
        seen[f"{query} byte by byte"] = api.at(OWN).get(f"/provider_trees?{query}").expect(200).body
    for provider in api.get("/resource_providers").resource_providers:
        for link in provider["links"]:
            ask(link["href"], NEWEST)
    return seen


def in_order(shown: Any) -> Any:
    """*shown* with each list in the order of its elements' texts."""
    if isinstance(shown, dict):
        return {key: in_order(value) for key, value in shown.items()}
    if isinstance(shown, list):
        return sorted(map(in_order, shown), key=lambda element: json.dumps(element, sort_keys=True))
    return shown


@pytest.fixture
def fresh(ready_database_url: str, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """What a service answers that starts on the same database when this is called."""

    def asked() -> dict[str, Any]:
        with open_door(tmp_path, ready_database_url) as door:
            return answers(Api(door))

    return asked


@pytest.mark.parametrize("write", WRITES)
def test_after_a_write_it_answers_what_a_fresh_service_answers(
    empty_api: Api, fresh: Callable[[], dict[str, Any]], write: str
) -> None:
    site = Site(empty_api)
    before = answers(empty_api)  # so that there is something to keep
    getattr(site, write)()
    after = answers(empty_api)
    assert after == fresh()
    assert after != before


def test_after_all_writes_one_after_the_other_it_answers_what_a_fresh_service_answers(
    empty_api: Api, fresh: Callable[[], dict[str, Any]]
) -> None:
    site = Site(empty_api)
    for write in ("rename_class", "share", "reshape", "claim_by_query", "delete_traits", "rename_provider", "release"):
        answers(empty_api)
        getattr(site, write)()
    assert answers(empty_api) == fresh()


CONDITIONAL = ("/resource_providers", *(f"/provider_trees?{query}" for query in TREE_QUERIES))


@pytest.mark.parametrize("write", WRITES)
def test_after_a_write_only_an_answer_with_the_same_bytes_is_not_modified(
    empty_api: Api, write: str, ready_database_url: str, tmp_path: Path
) -> None:
    own, site = empty_api.at(OWN), Site(empty_api)
    before = {path: own.get(path).expect(200) for path in CONDITIONAL}
    for path, answer in before.items():
        assert own.get(path, headers={"If-None-Match": answer.header("etag")}).status == 304
    getattr(site, write)()
    for path, answer in before.items():
        after = own.get(path, headers={"If-None-Match": answer.header("etag")})
        if after.status == 304:
            assert own.get(path).expect(200).body == answer.body
        else:
            assert after.expect(200).header("etag") != answer.header("etag")
    with open_door(tmp_path, ready_database_url) as door:
        for path in CONDITIONAL:
            assert Api(door).at(OWN).get(path).header("etag") == own.get(path).header("etag")
