"""Locks and reads the provider trees that a document names.

Source: "The write and refresh protocol", docs/protocol.md (rules 3 to 5).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.provider import BY_NAME
from stead.domain.tree_document import CurrentProvider, CurrentTrees
from stead.store import inventories, providers, resource_classes, traits, usages
from stead.store.protocol.transaction import RaceLost
from stead.store.sql.statements import IDS, LISTED, BulkQuery, Query
from stead.store.tables import (
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from stead.store.tables import traits as trait_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlalchemy.engine import Connection

    from stead.domain.inventory import Inventory
    from stead.domain.tree_document import TreeDocument
    from stead.store.inventories import Stored
    from stead.store.protocol.transaction import Transaction
    from stead.store.providers import Row

_columns = resource_providers.c


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
    rows: Mapping[str, Row]
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


def _members(connection: Connection, references: Collection[str]) -> dict[int, Row]:
    """The rows of all providers in the trees of some providers, by id."""
    names = [name.removeprefix(BY_NAME) for name in references if name.startswith(BY_NAME)]
    ids = set(providers.ids_by_uuid(connection, [name for name in references if not name.startswith(BY_NAME)]).values())
    exact_names = set(names)
    # Some databases compare names without case. Only the requested spelling counts (decision 7).
    ids.update(id_ for name, id_ in _ID_BY_NAME.rows(connection, sorted(exact_names)) if name in exact_names)
    roots = {row.root for row in providers.rows_by_id(connection, ids).values()}
    return {row.id: row for row in _MEMBERS.rows(connection, sorted(roots))}


_ID_BY_NAME = Query(sa.select(_columns.name, _columns.id).where(_columns.name.in_([LISTED])))
_MEMBERS = Query(
    sa.select(
        _columns.id,
        _columns.uuid,
        _columns.name,
        _columns.generation,
        _columns.parent_provider_id,
        _columns.root_provider_id,
    ).where(_columns.root_provider_id.in_([LISTED])),
    lambda row: providers.Row(*row),
)


def _read(
    connection: Connection, document: TreeDocument, rows: Mapping[int, Row], aggregate_names: Mapping[int, str]
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
    traits_of = _sets(_TRAITS.rows(connection, sorted(described)))
    memberships = [
        (provider_id, id_, aggregate_names.get(id_, uuid))
        for provider_id, id_, uuid in _AGGREGATES.rows(connection, sorted(described))
    ]
    aggregates_of = _sets((provider_id, uuid) for provider_id, _, uuid in memberships)
    current = {
        row.uuid: CurrentProvider(
            row.uuid,
            row.name,
            row.generation,
            None if row.parent is None else rows[row.parent].uuid,
            rows[row.root].uuid,
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
    rows: Mapping[int, Row],
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
_TRAITS = BulkQuery(
    sa.select(_has_trait.resource_provider_id, trait_table.c.name)
    .join(trait_table, trait_table.c.id == _has_trait.trait_id)
    .where(_has_trait.resource_provider_id.in_([IDS]))
)
_is_in = resource_provider_aggregates.c
_AGGREGATES = BulkQuery(
    sa.select(_is_in.resource_provider_id, placement_aggregates.c.id, placement_aggregates.c.uuid)
    .join(placement_aggregates, placement_aggregates.c.id == _is_in.aggregate_id)
    .where(_is_in.resource_provider_id.in_([IDS]))
)
