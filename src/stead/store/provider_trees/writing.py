"""Makes provider trees match a document, in one transaction.

The number of statements grows with the number of portions of rows, not with each provider.

Source: "PUT /provider_trees", docs/api.md; "The write and refresh protocol", docs/protocol.md.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize

import sqlalchemy as sa

from stead.domain.errors import DuplicateProvider, UnknownResourceClass, UnknownTraits
from stead.domain.tree_planning import plan_trees
from stead.store import inventories, providers, resource_classes, traits, usages
from stead.store.extensions import service_states
from stead.store.protocol.clock import Part
from stead.store.protocol.transaction import RaceLost
from stead.store.provider_trees.reading import lock_trees
from stead.store.sql.statements import LISTED, Insert, Query, Swap, in_portions
from stead.store.tables import inventories as inventory_table
from stead.store.tables import resource_provider_aggregates, resource_provider_traits, resource_providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stead.domain.tree_document import CurrentProvider, TreeDocument
    from stead.domain.tree_plan import TreePlan
    from stead.store.inventories import Stored
    from stead.store.protocol.transaction import Transaction
    from stead.store.provider_trees.reading import LockedTrees

_columns = resource_providers.c


def write(tx: Transaction, document: TreeDocument, aggregate_ids: Mapping[str, int]) -> TreePlan:
    """Make the trees match *document*; returns the plan that was carried out.

    Args:
        aggregate_ids: of all aggregates that the document names, by uuid.

    Raises:
        DocumentFault, GenerationConflict, DescribedProviderGone, DuplicateProvider, RemovedInUse, CapacityBelowUse
    """
    trees = lock_trees(tx, document, {id_: uuid for uuid, id_ in aggregate_ids.items()})
    plan = plan_trees(document, trees.current)
    plan.require_allowed(document)
    if plan.is_empty:
        return plan
    _require_free(tx, plan)
    if any(planned.is_moved and not planned.is_created for planned in plan.providers):
        # Claims depend on the ancestors of their providers, see rule 5 of docs/protocol.md.
        tx.touch_usage(row.id for row in trees.rows.values())
    resource_classes.insert(tx, plan.new_classes)
    traits.insert(tx, plan.new_traits)
    ids = {uuid: row.id for uuid, row in trees.rows.items()}
    _free_names(tx, plan, ids)
    ids |= _create(tx, plan)
    _place(tx, plan, ids, trees)
    try:
        _change_inventories(tx, plan, ids, trees)
        _change_traits(tx, plan, ids, trees)
    except (UnknownResourceClass, UnknownTraits) as error:
        raise RaceLost("names that were deleted after the plan") from error
    _change_aggregates(tx, plan, ids, trees, aggregate_ids)
    # Only now: until `_place`, a deleted provider may be the parent of one that stays.
    _delete(tx, plan.deleted, ids)
    _tell(tx, plan, ids)
    rises = {ids[planned.uuid]: len(planned.replaced_parts) for planned in plan.providers if not planned.is_created}
    generations = {ids[planned.uuid]: planned.current.generation for planned in plan.providers}
    tx.bump_generations({id_: generations[id_] for id_, by in rises.items() if by}, by=rises)
    return plan


def _tell(tx: Transaction, plan: TreePlan, ids: Mapping[str, int]) -> None:
    """Note for clients that watch what changes of which provider."""
    for planned in plan.providers:
        for change in planned.changes:
            tx.tell(_PARTS[change], [ids[planned.uuid]])
    deleted = {provider.uuid for provider in plan.deleted}
    tx.tell(Part.TREE, (ids[uuid] for uuid in plan.replanted if uuid not in deleted))


_PARTS = {
    "created": Part.CREATED,
    "renamed": Part.NAME,
    "moved": Part.TREE,
    "inventories": Part.INVENTORIES,
    "traits": Part.TRAITS,
    "aggregates": Part.AGGREGATES,
}


def _require_free(tx: Transaction, plan: TreePlan) -> None:
    """Refuse uuids and names that the database treats as equal to those of providers outside the trees.

    Raises:
        DuplicateProvider
        RaceLost: another writer has just created a described provider. The next plan changes it instead.
    """
    there = {planned.uuid for planned in plan.providers} | {provider.uuid for provider in plan.deleted}
    # The locked trees would include providers with these references if they had existed when the trees were read.
    just_created = {planned.name for planned in plan.providers if planned.is_created and planned.is_uuid_chosen}
    taken = [planned.name for planned in plan.providers if planned.is_created or planned.is_renamed]
    if tx.dialect.ignores_case:
        _require_distinct(taken)
    for uuid, name in _BY_NAME.rows(tx.connection, taken):
        if uuid in there:
            continue
        if name in just_created:
            raise RaceLost("resource_providers")
        raise DuplicateProvider(f"name: {name}")
    created = [planned.uuid for planned in plan.providers if planned.is_created]
    for uuid, _ in _BY_UUID.rows(tx.connection, created):
        if uuid in created:
            raise RaceLost("resource_providers")
        raise DuplicateProvider(f"uuid: {uuid}")


def _require_distinct(names: Iterable[str]) -> None:
    """Refuse two names that a database that ignores case and accents would treat as equal.

    Otherwise the writer would mistake the database's error for a lost race, and retry in vain.
    """
    spellings: dict[str, str] = {}
    for name in names:
        plain = "".join(sign for sign in normalize("NFKD", name.rstrip().casefold()) if not combining(sign))
        if spellings.setdefault(plain, name) != name:
            raise DuplicateProvider(f"name: {name}")


_BY_NAME = Query(sa.select(_columns.uuid, _columns.name).where(_columns.name.in_([LISTED])))
_BY_UUID = Query(sa.select(_columns.uuid, _columns.name).where(_columns.uuid.in_([LISTED])))


def _free_names(tx: Transaction, plan: TreePlan, ids: Mapping[str, int]) -> None:
    """Temporarily rename providers whose names other providers get in the same transaction."""
    given_away = [planned.before for planned in plan.providers if planned.is_renamed and planned.before]
    names = {planned.name for planned in plan.providers if planned.is_created or planned.is_renamed}
    freed = [provider for provider in (*given_away, *plan.deleted) if provider.name in names]
    # Names are unique at every statement, so two providers can swap names only by way of a third name.
    nonce = secrets.token_hex(8)
    _RENAME.run(
        tx.connection,
        [
            {
                "id": ids[provider.uuid],
                "uuid": provider.uuid,
                "generation": provider.generation,
                "name": f"{nonce}-{ids[provider.uuid]}",
            }
            for provider in freed
        ],
    )


def _create(tx: Transaction, plan: TreePlan) -> dict[str, int]:
    """Insert the new providers, without parents yet; returns their ids by uuid."""
    created = [planned for planned in plan.providers if planned.is_created]
    rows = [
        {"uuid": planned.uuid, "name": planned.name, "generation": planned.generation, "created_at": tx.now}
        for planned in created
    ]
    _CREATE.run(tx.connection, rows)
    ids = providers.ids_by_uuid(tx.connection, [planned.uuid for planned in created])
    tx.require_count(len(ids), len(created))
    tx.touch(ids.values())
    service_states.forget(tx, ids.values())
    usages.forget_all(tx, ids.values())  # left from providers that another service deleted: databases may reuse ids
    return ids


def _place(tx: Transaction, plan: TreePlan, ids: Mapping[str, int], trees: LockedTrees) -> None:
    """Set parents, roots and names of new providers, and of those that are moved, renamed or below a moved one.

    The rows exist, and this transaction has locked or inserted them. So the upsert overwrites each of them.
    """
    rows: dict[str, dict[str, Any]] = {}
    deleted = {provider.uuid for provider in plan.deleted}
    for planned in plan.providers:
        if planned.is_created or planned.is_renamed or planned.is_moved or planned.uuid in plan.replanted:
            rows[planned.uuid] = _placed(tx, planned.current, planned.name, planned.parent, planned.root, ids)
            if planned.is_created:
                rows[planned.uuid]["generation"] = planned.generation
                rows[planned.uuid]["updated_at"] = tx.now if planned.parent is None else None  # like `create`
    described = {planned.uuid for planned in plan.providers}
    for uuid, root in plan.replanted.items():
        if uuid not in described and uuid not in deleted:
            provider = trees.current.providers[uuid]
            rows[uuid] = _placed(tx, provider, provider.name, provider.parent, root, ids)
    _PLACE.run(tx.connection, list(rows.values()))


def _placed(
    tx: Transaction, now: CurrentProvider, name: str, parent: str | None, root: str, ids: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "id": ids[now.uuid],
        "uuid": now.uuid,
        "name": name,
        "generation": now.generation,
        "parent_provider_id": None if parent is None else ids[parent],
        "root_provider_id": ids[root],
        "updated_at": tx.now,
    }


_CREATE = Insert(resource_providers, "uuid", "name", "generation", "created_at")
_RENAME = Insert(resource_providers, "id", "uuid", "name", "generation", changing=("name",))
_PLACED = ("name", "parent_provider_id", "root_provider_id", "updated_at")
_PLACE = Insert(resource_providers, "id", "uuid", "generation", *_PLACED, changing=_PLACED)


def _change_inventories(tx: Transaction, plan: TreePlan, ids: Mapping[str, int], trees: LockedTrees) -> None:
    """Write the inventories that differ, and delete those that the plan removes."""
    changing = [planned for planned in plan.providers if planned.current.inventories != planned.inventories]
    names = {name: None for planned in changing for name in planned.inventories}
    class_ids = resource_classes.lock_names(tx, names)
    new, changed = [], []
    removed: defaultdict[int, list[Stored]] = defaultdict(list)
    for planned in changing:
        id_ = ids[planned.uuid]
        before = planned.current.inventories
        for name, inventory in planned.inventories.items():
            if name not in before:
                new.append(inventories.as_row(id_, class_ids[name], inventory))
            elif before[name] != inventory:
                stored = trees.stored[id_, name]
                changed.append({"id": stored.id, **inventories.as_row(id_, class_ids[name], inventory)})
        removed[id_] += [trees.stored[id_, name] for name in before if name not in planned.inventories]
    inventories.overwrite(tx, changed)
    inventories.remove(tx, {row.id: row for row in trees.rows.values()}, removed)
    inventories.insert(tx, new)


def _change_traits(tx: Transaction, plan: TreePlan, ids: Mapping[str, int], trees: LockedTrees) -> None:
    sets = [(ids[planned.uuid], planned.current.traits, planned.traits) for planned in plan.providers]
    added, removed = _differences(sets)
    _TRAITS.add(tx, added, traits.lock_names(tx, {name for _, name in added}))
    _TRAITS.remove(tx, removed, trees.trait_ids)


def _change_aggregates(
    tx: Transaction, plan: TreePlan, ids: Mapping[str, int], trees: LockedTrees, aggregate_ids: Mapping[str, int]
) -> None:
    sets = [(ids[planned.uuid], planned.current.aggregates, planned.aggregates) for planned in plan.providers]
    added, removed = _differences(sets)
    _AGGREGATES.add(tx, added, aggregate_ids)
    _AGGREGATES.remove(tx, removed, trees.aggregate_ids)


Pairs = list[tuple[int, str]]
"""Ids of providers, and names."""


def _differences(sets: Iterable[tuple[int, frozenset[str], frozenset[str]]]) -> tuple[Pairs, Pairs]:
    """The added and the removed pairs, from the sets before and after of each provider id."""
    added: Pairs = []
    removed: Pairs = []
    for id_, before, after in sets:
        if before != after:
            added += [(id_, name) for name in after - before]
            removed += [(id_, name) for name in before - after]
    return added, removed


class _Members:
    """A table of pairs of providers and their traits or aggregates."""

    def __init__(self, member: sa.Column[int]) -> None:
        self._member = member.name
        self._insert = Insert(member.table, "resource_provider_id", member.name, "created_at")
        self._delete = Swap(sa.delete(member.table), "resource_provider_id", member.name)

    def add(self, tx: Transaction, pairs: Pairs, ids: Mapping[str, int]) -> None:
        """Insert new pairs of locked providers."""
        members = sorted((id_, ids[name]) for id_, name in pairs)
        rows = [{"resource_provider_id": id_, self._member: member, "created_at": tx.now} for id_, member in members]
        self._insert.run(tx.connection, rows)

    def remove(self, tx: Transaction, pairs: Pairs, ids: Mapping[str, int]) -> None:
        """Delete existing pairs of locked providers."""
        gone = [(id_, ids[name]) for id_, name in pairs]
        tx.require_count(self._delete.run_pairs(tx.connection, gone), len(gone))


_TRAITS = _Members(resource_provider_traits.c.trait_id)
_AGGREGATES = _Members(resource_provider_aggregates.c.aggregate_id)


def _delete(tx: Transaction, deleted: Sequence[CurrentProvider], ids: Mapping[str, int]) -> None:
    """Delete providers without allocations, with all their data."""
    if not deleted:
        return
    gone = {ids[provider.uuid]: provider.generation for provider in deleted}
    for portion in in_portions(sorted(gone)):
        for table in (inventory_table, resource_provider_traits, resource_provider_aggregates):
            tx.connection.execute(sa.delete(table).where(table.c.resource_provider_id.in_(portion)))
    service_states.forget(tx, gone)
    usages.forget_all(tx, gone)
    for portion in in_portions(sorted(gone)):
        # First clear the references: a database may check each deleted row against the rows that refer to it.
        apart = sa.update(resource_providers).where(_columns.id.in_(portion))
        tx.require_count(
            tx.connection.execute(apart.values(root_provider_id=None, parent_provider_id=None)), len(portion)
        )
    tx.swap(_DELETE, gone)
    for provider in deleted:
        tx.log_gone_provider(provider.uuid)


_DELETE = Swap(sa.delete(resource_providers))
