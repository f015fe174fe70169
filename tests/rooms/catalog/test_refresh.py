"""Refreshing gives what reloading gives, and whoever holds an older snapshot does not notice."""

from __future__ import annotations

import itertools
import json
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from stead.api.answers import ProviderForm
from stead.candidates.engine import Enumeration, answer
from stead.candidates.render import Form
from stead.catalog import stored
from stead.catalog.catalog import _followed
from stead.catalog.refresh import refreshed
from stead.catalog.snapshot import Snapshot
from stead.catalog.stored import totals
from stead.domain.provider import Disabled
from stead.domain.request import CandidateRequest, RequestGroup
from tests.rooms.candidates.forests import AGGREGATES, INVENTORIES, TRAITS, UNKNOWN_UUID
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider, uuid_of
from tests.rooms.catalog.pictures import Picture
from tests.rooms.catalog.small_blocks import InSmallBlocks
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

pytestmark = pytest.mark.timeout(180)  # histories of thousands of refreshes, each compared with a reload

SHARES = "MISC_SHARES_VIA_AGGREGATE"
TRAIT_NAMES = (*TRAITS, SHARES, "CUSTOM_NEW")
CLASS_NAMES = ("VCPU", "MEMORY_MB", "CUSTOM_DISK", "CUSTOM_NEW")
UUIDS = tuple(uuid_of(f"provider {number}") for number in range(8))
MOST_HELD = 3
PROVIDER_FORM = ProviderForm(('["', '"]'), tells_tree=True)

choices = st.integers(0, 2**16 - 1)
"""Which of the things there are; taken modulo their number."""


def view(snapshot: Snapshot) -> dict[str, Any]:
    """Everything a reader can see of *snapshot*, by uuid and name: slots may differ between equal snapshots."""
    slots = {snapshot.uuid(slot): slot for slot in np.flatnonzero(snapshot.live).tolist()}
    uuids = {slot: uuid for uuid, slot in slots.items()}
    forest, sharing = snapshot.forest, snapshot.sharing
    roots = [slot for slot in slots.values() if forest.root[slot] == slot]

    def named(members: Collection[Any]) -> list[str]:
        return sorted(uuids[int(slot)] for slot in members)

    return {
        "traits": snapshot.trait_names.rows,
        "classes": snapshot.class_names.rows,
        "traits in use": snapshot.traits_in_use(),
        "found": {uuid: snapshot.find(uuid) == slots.get(uuid) for uuid in (*UUIDS, UNKNOWN_UUID)},
        "named": {
            snapshot.provider(slot).name: snapshot.find_named(snapshot.provider(slot).name) == slot for slot in uuids
        },
        "providers": {uuid: snapshot.provider(slot) for uuid, slot in slots.items()},
        "inventories": {uuid: list(snapshot.inventories(slot).items()) for uuid, slot in slots.items()},
        "traits of": {uuid: snapshot.traits(slot) for uuid, slot in slots.items()},
        "aggregates of": {uuid: snapshot.aggregates(slot) for uuid, slot in slots.items()},
        "nested": forest.has_nested,
        "roots": named(np.flatnonzero(snapshot.roots)),
        "trees": {uuids[root]: named(forest.members(root)) for root in roots},
        "parents first": all(is_parents_first(snapshot, root) for root in roots),
        "sizes": {uuids[root]: forest.shape_of(root).size for root in roots},
        "members of": {
            uuids[root]: named(forest.members_of(np.array([root]), forest.shape_of(root))[0]) for root in roots
        },
        "subtrees": {uuid: named(forest.subtree(slot)) for uuid, slot in slots.items()},
        "below": {(a, b) for a, slot in slots.items() for b, top in slots.items() if forest.is_below(slot, top)},
        "columns": columns(snapshot, uuids),
        "enabled": named(np.flatnonzero(snapshot.enabled)),
        "disabled by": {uuid: cause(snapshot, slot) for uuid, slot in slots.items()},
        "having trait": {
            row.name: named(np.flatnonzero(snapshot.with_traits([(row.id,)], ()) & snapshot.live))
            for row in snapshot.trait_names.rows
        },
        "lacking trait": {
            row.name: named(np.flatnonzero(snapshot.with_traits([], (row.id,)) & snapshot.live))
            for row in snapshot.trait_names.rows
        },
        "members": {
            uuid: named(np.flatnonzero(snapshot.in_aggregates([(id_,)], ()) & snapshot.live))
            for uuid, id_ in snapshot.aggregate_ids.items()
            if snapshot.in_aggregates([(id_,)], ()).any()
        },
        "sharing": named(sharing.providers),
        "anchors": {uuids[int(slot)]: named(sharing.anchors(slot)) for slot in sharing.providers},
        "served": named(np.flatnonzero(sharing.served(sharing.providers))),
        "reaching": {uuids[root]: named(sharing.reaching(root)) for root in roots},
        "candidates": {row.name: candidates(snapshot, row.name) for row in snapshot.class_names.rows},
        "shown": shown(snapshot, [slots[uuid] for uuid in sorted(slots)]),
    }


def shown(snapshot: Snapshot, slots: list[int]) -> Any:
    """The objects of the providers at *slots* in an answer."""
    texts = b"".join(PROVIDER_FORM.texts(snapshot, np.array(slots, np.int64)))
    return json.loads(b"[%b]" % texts[1:])


def cause(snapshot: Snapshot, slot: int) -> Any:
    """By which provider one is disabled, by uuid, and why."""
    disabled = snapshot.service_states.cause(slot)
    return disabled and (snapshot.uuid(disabled[0]), disabled[1])


def candidates(snapshot: Snapshot, resource_class: str) -> Any:
    """What clients are told that ask for one of a class: its texts are kept from one snapshot to the next."""
    request = CandidateRequest((RequestGroup("", {resource_class: 1}),))
    shown = json.loads(b"".join(answer(snapshot, request, Enumeration(), Form()).body))
    return sorted(shown["allocation_requests"], key=str), shown["provider_summaries"]


def is_parents_first(snapshot: Snapshot, root: int) -> bool:
    seen = {-1}
    for slot in snapshot.forest.members(root):
        if int(snapshot.forest.parent[slot]) not in seen:
            return False
        seen.add(int(slot))
    return True


def columns(snapshot: Snapshot, uuids: dict[int, str]) -> dict[str, dict[str, tuple[Any, ...]]]:
    """By class name and uuid what the columns say, asked one by one and as vectors."""
    rows: dict[str, dict[str, tuple[Any, ...]]] = {}
    for class_id, column in snapshot.inventory.items():
        having = np.flatnonzero(column.having(np.arange(snapshot.size)))
        capacity, used = column.amounts(having)
        vectors = zip(having.tolist(), column.left(having).tolist(), capacity, used, strict=True)
        rows[snapshot.class_names.by_id[class_id].name] = {
            uuids[slot]: (column.at(slot), *numbers) for slot, *numbers in vectors
        } | {
            f"serving {amount}": tuple(
                sorted(uuids[slot] for slot in np.flatnonzero(snapshot.serving(class_id, amount)))
            )
            for amount in range(1, 10)
        }
    return rows


class Refreshing(RuleBasedStateMachine):
    """The truth changes a little, now and then the catalog hears of it; some readers are slow."""

    def __init__(self) -> None:
        super().__init__()
        names = Forest((), classes=frozenset(CLASS_NAMES[:3]), traits=frozenset(TRAIT_NAMES[:4]))
        self.truth = Picture.of(names)
        self.snapshot = refreshed(Snapshot.empty(), self.truth.everything())
        self.touched: set[int] = set()
        self.claimed: set[int] = set()
        self.names_changed = False
        self.held: list[tuple[Snapshot, dict[str, Any]]] = []

    def one(self, choice: int) -> int:
        ids = sorted(self.truth.providers)
        return ids[choice % len(ids)]

    def has_providers(self) -> bool:
        return bool(self.truth.providers)

    @rule(choice=choices, uuid=st.sampled_from(UUIDS), below=st.booleans())
    def create(self, choice: int, uuid: str, below: bool) -> None:
        if uuid not in {row.uuid for row in self.truth.providers.values()}:
            parent = self.one(choice) if below and self.has_providers() else None
            self.touched.add(self.truth.add_provider(uuid, f"name {uuid[:4]}", parent))

    @precondition(has_providers)
    @rule(choice=choices)
    def delete(self, choice: int) -> None:
        id_ = self.one(choice)
        if not self.truth.has_children(id_):
            self.truth.remove_provider(id_)
            self.touched.add(id_)

    @precondition(has_providers)
    @rule(choice=choices, below=st.none() | choices)
    def move(self, choice: int, below: int | None) -> None:
        id_ = self.one(choice)
        parent = None if below is None else self.one(below)
        if parent not in self.truth.subtree(id_):
            self.touched |= self.truth.move(id_, parent)

    @precondition(has_providers)
    @rule(choice=choices, until=st.none() | st.integers(0, 9))
    def disable_or_enable(self, choice: int, until: int | None) -> None:
        id_ = self.one(choice)
        if self.truth.disabled.pop(id_, None) is None:
            self.truth.disabled[id_] = Disabled("a test", 0, until)
        self.touched |= self.truth.subtree(id_)

    @precondition(has_providers)
    @rule(choice=choices, name=st.text("abc", min_size=1, max_size=3))
    def rename(self, choice: int, name: str) -> None:
        id_ = self.one(choice)
        row = self.truth.providers[id_]
        if name not in {other.name for other in self.truth.providers.values()}:
            self.truth.providers[id_] = row._replace(
                name=name, generation=row.generation + 1, modified=row.modified + 7
            )
            self.touched.add(id_)

    @precondition(has_providers)
    @rule(choice=choices, which=choices, inventory=st.sampled_from(INVENTORIES))
    def give_inventory(self, choice: int, which: int, inventory: PlainInventory | None) -> None:
        id_, class_ids = self.one(choice), sorted(self.truth.class_names)
        class_id = class_ids[which % len(class_ids)]
        if inventory is None:
            self.truth.inventories[id_].pop(class_id, None)
        else:
            self.truth.set_inventory(id_, class_id, inventory)
        self.touched.add(id_)

    @precondition(has_providers)
    @rule(choice=choices, used=st.integers(0, 5))
    def use(self, choice: int, used: int) -> None:
        id_ = self.one(choice)
        row = self.truth.providers[id_]
        self.truth.providers[id_] = row._replace(generation=row.generation + 1, modified=row.modified + 3)
        for class_id in self.truth.inventories[id_]:
            self.truth.used[id_, class_id] = used
        self.claimed.add(id_)

    @precondition(has_providers)
    @rule(choice=choices, names=st.sets(st.sampled_from(TRAIT_NAMES), max_size=3))
    def give_traits(self, choice: int, names: set[str]) -> None:
        id_ = self.one(choice)
        self.truth.traits[id_] = {row.id for row in self.truth.trait_names.values() if row.name in names}
        self.touched.add(id_)

    @precondition(has_providers)
    @rule(choice=choices, letters=st.sets(st.sampled_from(AGGREGATES), max_size=2))
    def give_aggregates(self, choice: int, letters: set[str]) -> None:
        id_ = self.one(choice)
        self.truth.aggregates[id_] = {self.truth.aggregate_id(uuid_of(letter)) for letter in letters}
        self.touched.add(id_)

    @rule(name=st.sampled_from(TRAIT_NAMES))
    def make_or_delete_trait(self, name: str) -> None:
        there = [row.id for row in self.truth.trait_names.values() if row.name == name]
        if not there:
            self.truth.add_trait_name(name)
        elif not any(there[0] in traits for traits in self.truth.traits.values()):
            del self.truth.trait_names[there[0]]
        self.names_changed = True

    @rule(name=st.sampled_from(CLASS_NAMES))
    def make_rename_or_delete_class(self, name: str) -> None:
        rows = {row.name: row for row in self.truth.class_names.values()}
        if name not in rows:
            self.truth.add_class_name(name)
        elif any(rows[name].id in inventories for inventories in self.truth.inventories.values()):
            if name.startswith("CUSTOM_") and "CUSTOM_RENAMED" not in rows:
                self.truth.class_names[rows[name].id] = rows[name]._replace(name="CUSTOM_RENAMED")
        elif len(rows) > 1:
            del self.truth.class_names[rows[name].id]
        self.names_changed = True

    @rule(keep=st.booleans())
    def refresh(self, keep: bool) -> None:
        self.truth.moment += 1
        changes = self.truth.changes(self.touched, self.claimed - self.touched, names=self.names_changed)
        self.snapshot = refreshed(self.snapshot, changes)
        self.touched, self.claimed, self.names_changed = set(), set(), False
        expected = view(refreshed(Snapshot.empty(), self.truth.everything()))
        if keep:  # unread: what it works out later must be of its own moment too
            self.held = [*self.held[-MOST_HELD:], (self.snapshot, expected)]
        else:
            assert view(self.snapshot) == expected

    @rule(portion_of=st.lists(st.integers(0, 2), min_size=1, max_size=5))
    def reload(self, portion_of: list[int]) -> None:
        """In portions that do not respect trees, as the order of ids need not."""
        portions: list[list[int]] = [[], [], []]
        for id_, portion in zip(self.truth.providers, itertools.cycle(portion_of), strict=False):
            portions[portion].append(id_)
        self.snapshot = _followed(self.snapshot, None, self.truth.parts(portions)).snapshot
        self.touched, self.claimed, self.names_changed = set(), set(), False
        assert view(self.snapshot) == view(refreshed(Snapshot.empty(), self.truth.everything()))

    @rule()
    def store_and_read(self) -> None:
        """As a start with a snapshot file does."""
        expected, before = view(self.snapshot), totals(self.snapshot)
        with TemporaryDirectory() as directory:
            path = Path(directory) / "snapshot"
            with stored.replacing(path) as sections:
                sections.end(stored.write(self.snapshot, sections))
            self.snapshot = stored.read(stored.read_file(path))
        assert view(self.snapshot) == expected
        assert totals(self.snapshot) == before

    def teardown(self) -> None:
        self.refresh(keep=False)
        for snapshot, expected in self.held:
            assert view(snapshot) == expected


class RefreshingManyBlocks(InSmallBlocks, Refreshing):
    """The same where two providers fill a block."""


TestRefreshing = Refreshing.TestCase
TestRefreshing.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
TestRefreshingManyBlocks = RefreshingManyBlocks.TestCase
TestRefreshingManyBlocks.settings = TestRefreshing.settings


def test_a_claim_changes_what_is_left_and_shares_everything_else() -> None:
    hosts = [PlainProvider(name, inventories={"VCPU": PlainInventory(8)}) for name in ("a", "b")]
    truth = Picture.of(Forest(tuple(hosts), frozenset({"VCPU"}), frozenset()))
    before = refreshed(Snapshot.empty(), truth.everything())
    truth.set_inventory(1, truth.class_id("VCPU"), PlainInventory(8, used=3))
    after = refreshed(before, truth.changes((), {1}))
    changed = {each.name for each in fields(Snapshot) if getattr(before, each.name) is not getattr(after, each.name)}
    assert changed == {"inventory", "versions"}
    old, new = before.inventory[truth.class_id("VCPU")], after.inventory[truth.class_id("VCPU")]
    assert {each.name for each in fields(old) if getattr(old, each.name) is not getattr(new, each.name)} == {"room"}


def test_a_provider_that_takes_over_the_id_of_a_deleted_one_inherits_nothing() -> None:
    heir = PlainProvider("heir")
    old = PlainProvider("old", None, {"VCPU": PlainInventory(8)}, frozenset({SHARES}), frozenset({"a"}))
    truth = Picture.of(Forest((old,), frozenset({"VCPU"}), frozenset({SHARES})))
    before = refreshed(Snapshot.empty(), truth.everything())
    truth.remove_provider(1)
    assert truth.add_provider(heir.uuid, heir.name, None) == 1
    after = refreshed(before, truth.changes({1}))
    assert after.find(old.uuid) is None
    slot = after.find(heir.uuid)
    assert slot is not None
    assert (after.inventories(slot), after.traits(slot), after.aggregates(slot)) == ({}, [], [])
    assert after.sharing.providers.size == 0


def test_a_provider_may_come_while_another_goes() -> None:
    """Its place in the arrays may be the one that gets free."""
    names = {"classes": frozenset({"VCPU"}), "traits": frozenset({SHARES})}
    truth = Picture.of(Forest((PlainProvider("old"), PlainProvider("other")), **names))
    before = refreshed(Snapshot.empty(), truth.everything())
    new = truth.add_provider(uuid_of("new"), "new", None)
    truth.set_inventory(new, truth.class_id("VCPU"), PlainInventory(8))
    truth.remove_provider(1)
    assert view(refreshed(before, truth.changes({1, new}))) == view(refreshed(Snapshot.empty(), truth.everything()))


def trees_of(size: int) -> Iterator[tuple[int | None, ...]]:
    """Every forest of *size* providers: for each the number of its parent, which comes before it."""
    yield from itertools.product(*([None, *range(number)] for number in range(size)))


def planted(parents: Sequence[int | None]) -> tuple[Picture, list[int]]:
    """The truth about a forest, and the ids of its providers."""
    truth = Picture.of(Forest((), classes=frozenset({"VCPU"}), traits=frozenset()))
    ids: list[int] = []
    for number, parent in enumerate(parents):
        ids.append(truth.add_provider(UUIDS[number], f"name {number}", None if parent is None else ids[parent]))
        truth.set_inventory(ids[-1], truth.class_id("VCPU"), PlainInventory(8))
    return truth, ids


def test_a_tree_without_the_provider_that_left_it_is_that_of_a_reload() -> None:
    """Also if nothing else of the tree is named, as when another service deleted the provider."""
    for parents in itertools.chain(*map(trees_of, range(1, 5))):
        for leaf in set(range(len(parents))).difference(parents):
            truth, ids = planted(parents)
            before = refreshed(Snapshot.empty(), truth.everything())
            truth.remove_provider(ids[leaf])
            after = refreshed(before, truth.changes({ids[leaf]}))
            assert view(after) == view(refreshed(Snapshot.empty(), truth.everything())), (parents, leaf)


def test_trees_that_exchange_a_subtree_are_those_of_a_reload() -> None:
    """Named are the providers of the subtree alone."""
    for parents in itertools.chain(*map(trees_of, range(1, 5))):
        for moved, target in itertools.product(range(len(parents)), [None, *range(len(parents))]):
            truth, ids = planted(parents)
            if target is not None and ids[target] in truth.subtree(ids[moved]):
                continue
            before = refreshed(Snapshot.empty(), truth.everything())
            named = truth.move(ids[moved], None if target is None else ids[target])
            after = refreshed(before, truth.changes(named))
            assert view(after) == view(refreshed(Snapshot.empty(), truth.everything())), (parents, moved, target)


def test_what_was_shown_of_a_provider_before_a_name_changed_is_not_shown_again() -> None:
    custom = PlainProvider("host", None, {"CUSTOM_OLD": PlainInventory(8)}, frozenset({"CUSTOM_OLD_TRAIT"}))
    truth = Picture.of(Forest((custom,), frozenset({"CUSTOM_OLD"}), frozenset({"CUSTOM_OLD_TRAIT"})))
    snapshot = refreshed(Snapshot.empty(), truth.everything())
    for names, old in ((truth.class_names, "CUSTOM_OLD"), (truth.trait_names, "CUSTOM_OLD_TRAIT")):
        view(snapshot)  # its texts are kept
        [row] = [row for row in names.values() if row.name == old]
        names[row.id] = row._replace(name=f"{old}_NO_MORE")
        snapshot = refreshed(snapshot, truth.changes((), names=True))
        assert view(snapshot) == view(refreshed(Snapshot.empty(), truth.everything()))


def test_a_load_in_portions_is_a_load_at_once_and_leaves_older_snapshots_alone() -> None:
    for parents in itertools.chain(*map(trees_of, range(1, 5))):
        truth, ids = planted(parents)
        before = refreshed(Snapshot.empty(), truth.everything())
        expected = view(before)
        for size in range(1, len(ids) + 1):
            portions = [ids[start : start + size] for start in range(0, len(ids), size)]
            loaded = _followed(before, None, truth.parts(reversed(portions))).snapshot
            assert view(loaded) == expected, (parents, size)
        assert view(before) == expected, parents
        assert loaded.identities.slot_of_name.is_index, "a load makes an index of all"
        assert loaded.forest.trees.is_index


def trees_by_id(snapshot: Snapshot) -> dict[int, Any]:
    """By id the parent and the root of each provider, its position, and the members of its tree."""
    ids, forest = [*snapshot.identities.ids.whole.tolist(), None], snapshot.forest  # the last one for NO_SLOT
    return {
        ids[slot]: (
            ids[forest.parent[slot]],
            ids[forest.root[slot]],
            forest.position[slot],
            forest.shape_of(slot),
            [ids[member] for member in forest.members(slot)],
        )
        for slot in range(snapshot.size)
    }


def test_a_load_of_wrong_parents_and_roots_is_a_refresh_with_them() -> None:
    missing = 99
    of_one = list(itertools.product((None, 1, 2, missing), (1, 2, missing)))
    for rows in itertools.product(of_one, repeat=2):
        roots = {id_: root for id_, (_, root) in enumerate(rows, 1)}
        if any(roots.get(root, root) != root for root in roots.values()):
            continue  # the root of a root is another provider, so the trees overlap
        truth, ids = planted((None, None))
        for id_, (parent, root) in zip(ids, rows, strict=True):
            truth.providers[id_] = truth.providers[id_]._replace(parent_id=parent, root_id=root)
        loaded = _followed(Snapshot.empty(), None, truth.parts([[id_] for id_ in ids])).snapshot
        assert trees_by_id(loaded) == trees_by_id(refreshed(Snapshot.empty(), truth.everything())), rows
