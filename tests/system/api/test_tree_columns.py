"""GET ``/provider_trees?columns=true``. Source: "GET /provider_trees", docs/stead-api.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.api.client import NEWEST, Api, fresh_uuid
from tests.system.api.test_provider_trees import RandomSite, ordered

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.one_database]

OWN = f"{NEWEST}, stead 1.1"
PATH = "/provider_trees"


def columns(api: Api, **query: Any) -> Any:
    return api.at(OWN).get(PATH, {"columns": "true", **query}).expect(200).json


def restored(document: Any) -> dict[str, dict[str, Any]]:
    """By uuid the providers in the form without columns."""
    columns = document["providers"]
    return {uuid: _provider(columns, row) for row, uuid in enumerate(columns["uuid"])}


def _provider(columns: Any, row: int) -> dict[str, Any]:
    parent, state = columns["parent_row"][row], columns["disabled"]["state"][row]
    kinds = {
        name: column["kinds"][kind]
        for name, column in columns["inventories"].items()
        if (kind := _value(column, "kind", row)) >= 0
    }
    inventories = {
        name: {key: value for key, value in kind.items() if key != "capacity"} for name, kind in kinds.items()
    }
    return {
        "uuid": columns["uuid"][row],
        "name": columns["name"][row],
        "parent_provider_uuid": columns["uuid"][parent] if parent >= 0 else None,
        "generation": columns["generation"][row],
        "inventories": inventories,
        "usages": {
            name: used for name, column in columns["usages"].items() if (used := _value(column, "used", row)) >= 0
        },
        "disabled": columns["disabled"]["states"][state] if state >= 0 else None,
        **{key: _members(columns[key], row) for key in ("traits", "aggregates")},
    }


def _value(column: Any, key: str, row: int) -> int:
    """The value of a row, also if the column has only some rows; -1 for none."""
    if "row" not in column:
        return int(column[key][row])
    return int(column[key][column["row"].index(row)]) if row in column["row"] else -1


def _members(sets: Any, row: int) -> list[str]:
    return [sets["names"][number] for number in sets["sets"][sets["set"][row]]]


@pytest.mark.parametrize("seed", range(3))
def test_columns_have_what_pages_have(empty_api: Api, seed: int) -> None:
    site = RandomSite(empty_api, seed)
    own = empty_api.at(OWN)
    own.call("PATCH", f"{PATH}/{site.providers[0].uuid}", {"disabled": {"reason": "broken fan"}}).expect(200)
    for depth in (None, 0, 1):
        require_same(own, empty_api, depth)


def require_same(own: Api, empty_api: Api, depth: int | None) -> None:
    """The columns of all trees have what pages of objects have."""
    query = {"totals": "true", **({} if depth is None else {"depth": depth})}
    pages, document = own.get(PATH, query).expect(200).json, columns(empty_api, **query)
    for key in ("tree_count", "provider_count", "totals"):
        assert document[key] == pages[key]
    shown = {provider["uuid"]: provider for tree in pages["provider_trees"] for provider in tree["providers"]}
    rows = restored(document)
    assert {uuid: ordered(provider) for uuid, provider in rows.items()} == {
        uuid: ordered(provider) for uuid, provider in shown.items()
    }
    trees = {tree["root_provider_uuid"]: tree for tree in pages["provider_trees"]}
    roots = [document["providers"]["uuid"][row] for row in document["trees"]["row"]]
    assert sorted(roots) == sorted(trees)
    for place, root in enumerate(roots):
        assert document["trees"]["provider_count"][place] == trees[root]["provider_count"]
        assert trees[root]["totals"] == {
            name: {key: sums[key][at] for key in ("total", "reserved", "capacity", "used")}
            for name, sums in document["trees"]["totals"].items()
            for at in [place if "tree" not in sums else sums["tree"].index(place) if place in sums["tree"] else -1]
            if at >= 0 and sums["provider_count"][at]
        }


def test_parents_come_first_and_trees_are_contiguous(empty_api: Api) -> None:
    RandomSite(empty_api, 1)
    document = columns(empty_api)
    parents, starts = document["providers"]["parent_row"], document["trees"]["row"]
    assert all(parent < row for row, parent in enumerate(parents))
    assert [row for row, parent in enumerate(parents) if parent < 0] == starts


def test_filters_and_fields_apply(empty_api: Api) -> None:
    host, _ = empty_api.create_provider("lamp-1"), empty_api.create_provider("other")
    document = columns(empty_api, name="lamp*", fields="name")
    assert document["providers"] == {"row_count": 1, "name": [host.name]}
    assert document["trees"] == {"row": [0], "provider_count": [1]}


def test_a_class_of_few_providers_has_values_for_these_alone(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    own.put("/resource_classes/CUSTOM_RARE").expect(201, 204)
    hosts = [own.create_provider(inventories={"VCPU": 8}) for _ in range(30)]
    rare = [own.create_provider(parent=hosts[4], inventories={"CUSTOM_RARE": 2 + child}) for child in range(2)]
    own.claim((rare[0], {"CUSTOM_RARE": 1}))
    require_same(own, empty_api, None)
    document = columns(empty_api, totals="true")
    names, roots = document["providers"]["name"], document["trees"]["row"]
    inventories, usages = (document["providers"][key]["CUSTOM_RARE"] for key in ("inventories", "usages"))
    assert [names[row] for row in inventories["row"]] == [names[row] for row in usages["row"]]
    assert {names[row] for row in usages["row"]} == {child.name for child in rare}
    assert len(inventories["kind"]) == len(usages["used"]) == 2
    assert sorted(usages["used"]) == [0, 1]
    sums = document["trees"]["totals"]["CUSTOM_RARE"]
    assert [names[roots[tree]] for tree in sums.pop("tree")] == [hosts[4].name]
    assert sums == {"provider_count": [2], "total": [5], "reserved": [0], "capacity": [5], "used": [1]}
    assert "row" not in document["providers"]["inventories"]["VCPU"]


def test_a_site_of_nothing(empty_api: Api) -> None:
    document = columns(empty_api, totals="true")
    assert (document["tree_count"], document["totals"], document["trees"]["row"]) == (0, {}, [])
    assert restored(document) == {}


def test_the_token_follows_the_answer_without_a_gap(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    host = own.create_provider(inventories={"VCPU": 8})
    document = columns(empty_api)
    own.claim((host, {"VCPU": 3}))
    merged = own.get("/changes", {"merged": "true", "since": document["token"]}).expect(200)
    assert merged.trees == {"name": [host.name], "used": {"VCPU": [3]}}


def test_an_unchanged_answer_is_304(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    host = own.create_provider(inventories={"VCPU": 8})
    first = own.get(PATH, {"columns": "true"}).expect(200)
    again = {"If-None-Match": dict(first.headers)["etag"]}
    assert own.get(PATH, {"columns": "true"}, headers=again).status == 304
    own.claim((host, {"VCPU": 3}))
    assert own.get(PATH, {"columns": "true"}, headers=again).status == 200


@pytest.mark.parametrize("query", [{"limit": "1"}, {"marker": fresh_uuid()}])
def test_columns_have_no_pages(api: Api, query: dict[str, str]) -> None:
    assert (
        api.at(OWN)
        .get(PATH, {"columns": "true", **query})
        .refused(400, "'columns=true' returns all trees", code="placement.query.bad_value")
    )
