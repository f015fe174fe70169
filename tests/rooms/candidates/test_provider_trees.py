"""Provider trees beside brute force: which match, their pages, their order, their sums.

Source: "GET /provider_trees", docs/stead-api.md.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from stead.api.tree_text import FIELDS, totals_texts, tree_texts, whole_text
from stead.candidates.provider_trees import count_providers, matching_trees, page_of, tree_totals
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.names import NamePattern
from stead.domain.request import Page, Terms, TreeQuery
from tests.rooms.candidates.brute_force import fits, has_traits, in_aggregates, is_barred, is_in_tree_of, unknown_traits
from tests.rooms.candidates.forests import (
    UNKNOWN_UUID,
    aggregate_terms,
    amount_of,
    forests,
    once_in,
    pick,
    trait_terms,
    unusual_class,
)
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from tests.rooms.candidates.plain import Forest, PlainProvider

pytestmark = pytest.mark.timeout(240)  # hundreds of cases, each by brute force, and a fault is made smaller for a while

brisk = settings(max_examples=examples(300), deadline=None)


@st.composite
def forests_and_tree_queries(draw: st.DrawFn) -> tuple[Forest, TreeQuery]:
    """A query around one provider and its root, of which each filter may have another provider in mind."""
    forest = draw(forests())
    witness = pick(draw, forest.providers)

    def meant() -> PlainProvider:
        return pick(draw, forest.providers) if once_in(draw, 4) else witness

    root = forest.by_name[forest.root(meant().name)]
    asked = {name: amount_of(draw, held) for name, held in witness.inventories.items() if once_in(draw, 2)}
    name = meant().name
    patterns = (name, f"{name[:1]}*", f"*{name[1:]}", "*", "nobody*")
    references = (meant().uuid, f"name:{meant().name}", UNKNOWN_UUID, "name:nobody")
    query = TreeQuery(
        in_tree=pick(draw, references) if once_in(draw, 5) else None,
        name=NamePattern(pick(draw, patterns)) if once_in(draw, 4) else None,
        traits=trait_terms(draw, meant().traits) if once_in(draw, 3) else Terms(),
        aggregates=aggregate_terms(draw, meant().aggregate_uuids) if once_in(draw, 3) else Terms(),
        resources=(asked if once_in(draw, 2) else {}) | (unusual_class(draw, 5) or {}),
        root_traits=trait_terms(draw, root.traits) if once_in(draw, 4) else Terms(),
        root_aggregates=aggregate_terms(draw, root.aggregate_uuids) if once_in(draw, 4) else Terms(),
    )
    return forest, query


def is_member(provider: PlainProvider, terms: Terms) -> bool:
    return in_aggregates(provider, terms) and not is_barred(provider, terms)


def matches(forest: Forest, query: TreeQuery, root: PlainProvider) -> bool:
    tree = [provider for provider in forest.providers if forest.root(provider.name) == root.name]
    if query.in_tree is not None:
        name = query.in_tree.removeprefix("name:")
        uuid = query.in_tree if name == query.in_tree else getattr(forest.by_name.get(name), "uuid", UNKNOWN_UUID)
        if not is_in_tree_of(forest, root, uuid):
            return False
    if not (has_traits(root.traits, query.root_traits) and is_member(root, query.root_aggregates)):
        return False
    return any(
        (query.name is None or re.fullmatch(query.name.text.replace("*", ".*"), provider.name))
        and has_traits(provider.traits, query.traits)
        and is_member(provider, query.aggregates)
        and all(fits(provider.inventories.get(name), amount) for name, amount in query.resources.items())
        for provider in tree
    )


@brisk
@given(forests_and_tree_queries())
def test_the_trees_that_match_are_those_that_brute_force_finds(case: tuple[Forest, TreeQuery]) -> None:
    forest, query = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    if any(unknown_traits(forest, terms) for terms in (query.traits, query.root_traits)):
        with pytest.raises(UnknownTraits):
            matching_trees(snapshot, query)
    elif query.resources.keys() - forest.classes:
        with pytest.raises(UnknownResourceClass):
            matching_trees(snapshot, query)
    else:
        roots = matching_trees(snapshot, query).tolist()
        assert roots == sorted(set(roots))
        expected = {root.uuid for root in forest.roots if matches(forest, query, root)}
        assert {snapshot.uuid(root) for root in roots} == expected


@brisk
@given(forests(), st.integers(1, 4), st.integers(1, 6), st.sampled_from([None, 0, 1, 2]))
def test_pages_of_whole_trees_are_the_whole_in_its_order(
    forest: Forest, limit: int, most: int, depth: int | None
) -> None:
    note(str(forest))
    snapshot = snapshot_of(forest)
    roots = matching_trees(snapshot, TreeQuery())
    whole, goes_on = page_of(snapshot, roots, Page(), depth, 10**6)
    assert not goes_on
    shown = [[snapshot.provider(slot).name for slot in tree.slots] for tree in whole]
    assert shown == [
        sorted(
            (
                provider.name
                for provider in forest.providers
                if forest.root(provider.name) == root.name
                and (depth is None or len(forest.line(provider.name)) <= depth + 1)
            ),
            key=lambda name: (len(forest.line(name)), name),
        )
        for root in sorted(forest.roots, key=lambda root: root.uuid)
    ]
    assert sum(tree.size for tree in whole) == len(forest.providers) == count_providers(snapshot, roots)
    together, marker, goes_on = [], None, True
    while goes_on:
        page, goes_on = page_of(snapshot, roots, Page(limit, marker), depth, most)
        assert len(page) == 1 or (len(page) <= limit and sum(len(tree.slots) for tree in page) <= most)
        together += page
        assert len(together) <= len(whole)
        marker = snapshot.uuid(page[-1].root)
    assert together == whole


@brisk
@given(forests())
def test_sums_are_those_of_the_providers(forest: Forest) -> None:
    note(str(forest))
    snapshot = snapshot_of(forest)
    roots = np.array(matching_trees(snapshot, TreeQuery())[::2])
    totals = tree_totals(snapshot, roots)
    names = {snapshot.provider(root).name for root in roots.tolist()}
    expected: dict[str, dict[str, dict[str, int]]] = {name: {} for name in names}
    for provider in forest.providers:
        if (root := forest.root(provider.name)) not in names:
            continue
        for name, held in provider.inventories.items():
            sums = expected[root].setdefault(name, {"total": 0, "reserved": 0, "capacity": 0, "used": 0})
            sums["total"] += held.total
            sums["reserved"] += held.reserved
            sums["capacity"] += held.capacity
            sums["used"] += held.used
    texts = totals_texts(totals, list(range(len(roots))))
    found = {snapshot.provider(root).name: json.loads(text) for root, text in zip(roots.tolist(), texts, strict=True)}
    assert found == expected
    whole: dict[str, dict[str, int]] = {}
    for tree in expected.values():
        for name, sums in tree.items():
            known = whole.setdefault(name, dict.fromkeys(sums, 0))
            whole[name] = {key: known[key] + value for key, value in sums.items()}
    assert json.loads(whole_text(totals)) == whole


@brisk
@given(forests(), st.sets(st.sampled_from(FIELDS)))
def test_the_text_is_that_of_the_providers(forest: Forest, fields: set[str]) -> None:
    note(str(forest))
    snapshot = snapshot_of(forest)
    trees, _ = page_of(snapshot, matching_trees(snapshot, TreeQuery()), Page(), None, 10**6)
    shown = json.loads(f"[{','.join(tree_texts(snapshot, trees, fields, None))}]")
    assert [tree["provider_count"] for tree in shown] == [tree.size for tree in trees]
    for tree in shown:
        for provider in tree["providers"]:
            plain = forest.by_uuid[provider["uuid"]]
            assert tree["root_provider_uuid"] == forest.by_name[forest.root(plain.name)].uuid
            inventory_keys = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
            above = [forest.by_name[name] for name in forest.line(plain.name)]
            cause = next((one for one in above if one.is_disabled), None)
            state = {"reason": "a test", "since": "1970-01-01T00:00:00Z", "until": None}
            whole = {
                "disabled": None if cause is None else {**state, "provider_uuid": cause.uuid},
                "name": plain.name,
                "parent_provider_uuid": None if plain.parent is None else forest.by_name[plain.parent].uuid,
                "generation": 0,
                "inventories": {
                    name: {key: getattr(held, key) for key in inventory_keys}
                    for name, held in plain.inventories.items()
                },
                "usages": {name: held.used for name, held in plain.inventories.items()},
                "traits": sorted(plain.traits),
                "aggregates": sorted(plain.aggregate_uuids),
            }
            for key in ("traits", "aggregates"):
                if key in provider:
                    provider[key].sort()
            assert provider == {"uuid": plain.uuid, **{key: whole[key] for key in fields}}
            assert list(provider) == ["uuid", *(field for field in FIELDS if field in fields)]
