"""Makes provider trees match a document in one transaction, and disables or enables providers.

The number of statements grows with the number of portions of rows, not with each provider.

Source: "PUT /provider_trees", docs/stead-api.md; "The write and refresh protocol", docs/protocol.md.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unicodedata import combining, normalize

import sqlalchemy as sa

from stead.domain.errors import DuplicateProvider, UnknownResourceClass, UnknownTraits, UntilPassed
from stead.domain.moments import in_utc
from stead.domain.names import DISABLED_TRAIT
from stead.domain.provider import BY_NAME, Disabled
from stead.domain.provider_trees import CurrentProvider, CurrentTrees, plan_trees
from stead.store import inventories, providers, resource_classes, traits, usages
from stead.store.extensions import service_states
from stead.store.extensions.service_states import State
from stead.store.protocol.clock import Part
from stead.store.protocol.store import RaceLost
from stead.store.sql.statements import IDS, LISTED, BulkQuery, Insert, Query, Swap, in_portions
from stead.store.tables import inventories as inventory_table
from stead.store.tables import (
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from stead.store.tables import traits as trait_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.provider import Inventory
    from stead.domain.provider_trees import TreeDocument, TreePlan
    from stead.store.inventories import Stored
    from stead.store.protocol.store import Transaction
    from stead.store.providers import StoredProvider


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
            tx.note(_PARTS[change], [ids[planned.uuid]])
    deleted = {provider.uuid for provider in plan.deleted}
    tx.note(Part.TREE, (ids[uuid] for uuid in plan.replanted if uuid not in deleted))


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
    # Not by `providers.ids_by_uuid`, which leaves out providers without a root.
    ids: dict[str, int] = dict(map(tuple, _CREATED.rows(tx.connection, sorted(row["uuid"] for row in rows))))
    tx.require_count(len(ids), len(created))
    tx.touch(ids.values())
    service_states.forget(tx, ids.values())
    usages.forget_all(tx, ids.values())  # left from providers that another service deleted: databases may reuse ids
    return ids


_CREATED = Query(sa.select(_columns.uuid, _columns.id).where(_columns.uuid.in_([LISTED])))


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


_DELETE = Swap(sa.delete(resource_providers), beside="COALESCE(generation, 0)")


# Locks and reads the provider trees that a document names.
#
# Source: "The write and refresh protocol", docs/protocol.md (rules 3 to 5).


@dataclass(frozen=True, slots=True)
class LockedTrees:
    """The input of the plan of a transaction, and the ids with which it is written.

    Attributes:
        rows: of all providers of the trees, by uuid.
        stored: inventories of the described providers, by provider id and class name.
        trait_ids: of all existing traits, by name.
        aggregate_ids: of the described providers' aggregates, by uuid.
    """

    current: CurrentTrees
    rows: Mapping[str, StoredProvider]
    stored: Mapping[tuple[int, str], Stored]
    trait_ids: Mapping[str, int]
    aggregate_ids: Mapping[str, int]


def lock_trees(tx: Transaction, document: TreeDocument, aggregate_names: Mapping[int, str]) -> LockedTrees:
    """Lock and touch all providers of the trees that *document* refers to, and read them.

    Every writer that changes a tree locks its root. So the trees cannot change after this.

    Args:
        aggregate_names: the document's spelling of its aggregates, by id.

    Raises:
        RaceLost: a tree changed between the search for its providers and their locks.
    """
    references = set(document.references())
    before = _members(tx.connection, references)
    tx.lock(resource_providers, before)
    # Before the second reading, on which the plan depends: see `Transaction.touch`.
    tx.touch(before)
    rows = _members(tx.connection, references)
    if {id_: row.place for id_, row in rows.items()} != {id_: row.place for id_, row in before.items()}:
        raise RaceLost("resource_providers")
    return _read(tx.connection, document, rows, aggregate_names)


def _members(connection: Connection, references: Collection[str]) -> dict[int, StoredProvider]:
    """The rows of all providers in the trees of some providers, by id."""
    names = [name.removeprefix(BY_NAME) for name in references if name.startswith(BY_NAME)]
    ids = set(providers.ids_by_uuid(connection, [name for name in references if not name.startswith(BY_NAME)]).values())
    exact_names = set(names)
    # Some databases compare names without case. Only the requested spelling counts (decision 7).
    ids.update(id_ for name, id_ in _ID_BY_NAME.rows(connection, sorted(exact_names)) if name in exact_names)
    roots = {row.root for row in providers.rows_by_id(connection, ids).values()}
    return {row.id: row for row in _MEMBERS.rows(connection, sorted(roots))}


_ID_BY_NAME = Query(sa.select(_columns.name, _columns.id).where(_columns.name.in_([LISTED]), providers.HAS_ROOT))
_MEMBERS = Query(
    sa.select(*providers.COLUMNS).where(_columns.root_provider_id.in_([LISTED])),
    lambda row: providers.StoredProvider(*row),
)


def _read(
    connection: Connection,
    document: TreeDocument,
    rows: Mapping[int, StoredProvider],
    aggregate_names: Mapping[int, str],
) -> LockedTrees:
    by_uuid = {row.uuid: row for row in rows.values()}
    by_name = {row.name: row for row in rows.values()}
    described = {
        row.id
        for provider in document.providers
        if (row := by_uuid.get(provider.uuid) if provider.uuid else by_name.get(provider.name or "")) is not None
    }
    stored = inventories.by_class_name(connection, described)
    had: defaultdict[int, dict[str, Inventory]] = defaultdict(dict)
    for (provider_id, name), inventory in stored.items():
        had[provider_id][name] = inventory.inventory
    class_ids = resource_classes.all_ids(connection)
    used = _used(connection, document, rows, described, class_ids)
    traits_of = _sets(_READ_TRAITS.rows(connection, sorted(described)))
    memberships = [
        (provider_id, id_, aggregate_names.get(id_, uuid))
        for provider_id, id_, uuid in _READ_AGGREGATES.rows(connection, sorted(described))
    ]
    aggregates_of = _sets((provider_id, uuid) for provider_id, _, uuid in memberships)
    current = {
        row.uuid: CurrentProvider(
            row.uuid,
            row.name,
            row.generation,
            None if (parent := rows.get(row.parent or 0)) is None else parent.uuid,
            rows.get(row.root, row).uuid,
            had.get(id_, {}),
            frozenset(traits_of.get(id_, ())),
            frozenset(aggregates_of.get(id_, ())),
            used.get(id_, {}),
        )
        for id_, row in rows.items()
    }
    trait_ids = traits.all_ids(connection)
    names = {row.name: row.uuid for row in rows.values()}
    aggregate_ids = {uuid: id_ for _, id_, uuid in memberships}
    return LockedTrees(CurrentTrees(current, names, class_ids, trait_ids), by_uuid, stored, trait_ids, aggregate_ids)


def _used(
    connection: Connection,
    document: TreeDocument,
    rows: Mapping[int, StoredProvider],
    described: Collection[int],
    class_ids: Mapping[str, int],
) -> dict[int, dict[str, int]]:
    """The allocated amounts of described providers, and of those that may be deleted."""
    names = {id_: name for name, id_ in class_ids.items()}
    sums_of = usages.of_locked(connection, {id_: rows[id_].generation for id_ in described}, described)
    others = rows.keys() - set(described) if document.prune else ()
    used: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for id_, sums in sums_of.items():
        used[id_] = {names[class_id]: amount for class_id, amount in sums.items() if amount and class_id in names}
    # Add up the allocations of these: a provider with any allocation must not be deleted, whatever its sums say.
    for (id_, class_id), amount in usages.added_up(connection, others).items():
        used[id_][names.get(class_id, str(class_id))] = amount
    return used


def _sets(pairs: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    sets: defaultdict[int, list[str]] = defaultdict(list)
    for id_, name in pairs:
        sets[id_].append(name)
    return sets


_has_trait = resource_provider_traits.c
_READ_TRAITS = BulkQuery(
    sa.select(_has_trait.resource_provider_id, trait_table.c.name)
    .join(trait_table, trait_table.c.id == _has_trait.trait_id)
    .where(_has_trait.resource_provider_id.in_([IDS]))
)
_is_in = resource_provider_aggregates.c
_READ_AGGREGATES = BulkQuery(
    sa.select(_is_in.resource_provider_id, placement_aggregates.c.id, placement_aggregates.c.uuid)
    .join(placement_aggregates, placement_aggregates.c.id == _is_in.aggregate_id)
    .where(_is_in.resource_provider_id.in_([IDS]))
)


# Disabling and enabling providers.
#
# Source: "PATCH /provider_trees/{uuid}", docs/stead-api.md; "The write and refresh protocol" (rule 19),
# docs/protocol.md.


@dataclass(frozen=True, slots=True)
class ProviderState:
    """A provider, and why it is disabled; None: it is enabled."""

    uuid: str
    name: str
    generation: int
    disabled: Disabled | None


def disable(tx: Transaction, provider: str, reason: str, until: int | None) -> ProviderState:
    """Disable a provider, or change the reason and the end of its disabling; its generation rises.

    Args:
        until: seconds since 1970 (UTC), by the database's clock; None: until a client enables it.

    Raises:
        ProviderNotFound
        UntilPassed: nothing was changed.
    """
    row, subtree = providers.lock_subtree(tx, provider)
    # After the locks: *until* may pass while this transaction waits for them.
    now = service_states.now(tx.connection, tx.dialect)
    if until is not None and until <= now:
        raise UntilPassed(in_utc(until), in_utc(now))
    before = service_states.of_provider(tx.connection, row.id)
    is_given = traits.give(tx, row, DISABLED_TRAIT)
    disabled = Disabled(reason, now if before is None else before.disabled.since, until)
    # If another service has set the trait, it stays its own. If the trait was removed meanwhile, Stead owns it now.
    service_states.write(tx, row.id, row.uuid, State(disabled, is_given or (before is not None and before.owns_trait)))
    return _changed(tx, row, subtree, disabled)


def enable(tx: Transaction, provider: str) -> ProviderState:
    """Enable a provider; its generation rises if it was disabled.

    Raises:
        ProviderNotFound
    """
    row, subtree = providers.lock_subtree(tx, provider)
    before = service_states.of_provider(tx.connection, row.id)
    if before is None:
        return ProviderState(row.uuid, row.name, row.generation, None)
    return _enable(tx, row, subtree, before)


def enable_if_overdue(tx: Transaction, provider: str) -> None:
    """Enable a provider if its ``until`` has passed.

    Raises:
        ProviderNotFound
    """
    row, subtree = providers.lock_subtree(tx, provider)
    before = service_states.of_provider(tx.connection, row.id)
    # Checked under the locks: a client may have enabled the provider, or changed its end, since the caller found it.
    if before is None or before.disabled.until is None:
        return
    if before.disabled.until <= service_states.now(tx.connection, tx.dialect):
        _enable(tx, row, subtree, before)


def _enable(tx: Transaction, row: providers.StoredProvider, subtree: Collection[int], before: State) -> ProviderState:
    if before.owns_trait:
        traits.take(tx, row, DISABLED_TRAIT)
    service_states.forget(tx, [row.id])
    return _changed(tx, row, subtree, None)


def _changed(
    tx: Transaction, row: providers.StoredProvider, subtree: Collection[int], disabled: Disabled | None
) -> ProviderState:
    tx.note(Part.DISABLED, subtree)
    generation = tx.bump_generations({row.id: row.generation})[row.id]
    return ProviderState(row.uuid, row.name, generation, disabled)
