"""Providers, their trees and their aggregates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import (
    DuplicateProvider,
    GenerationConflict,
    NamedProviderNotFound,
    ParentRefused,
    ProviderHasChildren,
    ProviderInUse,
    ProviderNotFound,
)
from stead.domain.provider import BY_NAME, Provider
from stead.store import usages
from stead.store.extensions import service_states
from stead.store.protocol.clock import Part
from stead.store.protocol.store import RaceLost
from stead.store.sql.statements import LISTED, Query, in_portions, seconds
from stead.store.tables import (
    allocations,
    inventories,
    provider_generation,
    provider_name,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction


_columns = resource_providers.c


class Keep(Enum):
    """The request did not name the parent: it does not change."""

    KEEP = "keep"


KEEP = Keep.KEEP


@dataclass(frozen=True, slots=True)
class StoredProvider:
    """A provider's row, as read by a transaction."""

    id: int
    uuid: str
    name: str
    generation: int
    parent: int | None
    root: int

    @property
    def place(self) -> tuple[str, int | None, int]:
        """Identity and position of the provider, which claims and renames do not change."""
        return self.uuid, self.parent, self.root


COLUMNS = (
    _columns.id,
    _columns.uuid,
    provider_name,
    provider_generation,
    _columns.parent_provider_id,
    _columns.root_provider_id,
)
"""The columns of a `StoredProvider`."""

HAS_ROOT = _columns.root_provider_id.is_not(None)
"""A provider that an old release left without a root is in no tree, and so in no answer."""

_BY_ID = Query(sa.select(*COLUMNS).where(_columns.id.in_([LISTED])))
_ID_BY_UUID = Query(sa.select(_columns.uuid, _columns.id).where(_columns.uuid.in_([LISTED]), HAS_ROOT))


def rows_by_id(connection: Connection, ids: Collection[int]) -> dict[int, StoredProvider]:
    """The rows of those of *ids* that exist."""
    return {row[0]: StoredProvider(*row) for row in _BY_ID.rows(connection, sorted(ids))}


def ids_by_uuid(connection: Connection, uuids: Collection[str]) -> dict[str, int]:
    """The ids of the *uuids* that exist with exactly this spelling; locks nothing."""
    stored: dict[str, int] = dict(map(tuple, _ID_BY_UUID.rows(connection, sorted(uuids))))
    return {uuid: stored[uuid] for uuid in uuids if uuid in stored}


def find_referenced(connection: Connection, reference: str) -> StoredProvider | None:
    """The provider with this uuid, or with the name that follows ``name:``, spelled exactly so; nothing is locked."""
    name = reference.removeprefix(BY_NAME)
    column, text = (_columns.uuid, reference) if name == reference else (_columns.name, name)
    query = sa.select(_columns.id, column).where(column == text, HAS_ROOT)
    ids = [row.id for row in connection.execute(query) if row[1] == text]
    return next(iter(rows_by_id(connection, ids).values()), None)


def lock(tx: Transaction, ids: Iterable[int]) -> dict[int, StoredProvider]:
    """Lock providers in id order and read their current rows; missing providers are left out."""
    unique_ids = set(ids)
    tx.lock(resource_providers, unique_ids)
    return rows_by_id(tx.connection, unique_ids)


def lock_one(tx: Transaction, uuid: str, *, purpose: str = "") -> StoredProvider:
    """Lock the provider with this uuid, and touch it.

    Raises:
        ProviderNotFound: it does not exist.
        RaceLost: the row under its id became another provider's meanwhile.
    """
    id_ = ids_by_uuid(tx.connection, [uuid]).get(uuid)
    if id_ is None:
        raise ProviderNotFound(uuid, purpose)
    row = lock(tx, [id_]).get(id_)
    if row is None or row.uuid != uuid:
        raise RaceLost("resource_providers")
    tx.touch([id_])
    return row


def require_generation(row: StoredProvider, expected: int) -> None:
    """Refuse a client with an outdated generation of the provider.

    Raises:
        GenerationConflict: it is at another generation.
    """
    if row.generation != expected:
        raise GenerationConflict(row.uuid, expected, row.generation)


def create(tx: Transaction, uuid: str, name: str, parent: str | None) -> Provider:
    """Create a provider, as a root or below *parent* (a uuid, spelled as stored).

    Raises:
        DuplicateProvider: the uuid or the name is taken.
        ParentRefused: the parent does not exist.
    """
    above = _lock_parent(tx, uuid, name, parent) if parent is not None else None
    _require_free(tx.connection, uuid, name)
    values = {
        "uuid": uuid,
        "name": name,
        "generation": 0,
        "created_at": tx.now,
        "parent_provider_id": above.id if above else None,
        "root_provider_id": above.root if above else None,
    }
    inserted = tx.connection.execute(sa.insert(resource_providers), values).inserted_primary_key
    id_: int = inserted[0] if inserted else 0
    if above is None:
        # A second statement: the id exists only after the INSERT.
        root_of_itself = {"root_provider_id": id_, "updated_at": tx.now}
        rooted = sa.update(resource_providers).where(_columns.id == id_).values(root_of_itself)
        tx.require_count(tx.connection.execute(rooted), 1)
    service_states.forget(tx, [id_])
    usages.forget(tx, id_)  # sums of a provider that another service deleted: some databases reuse ids
    tx.touch([id_])
    tx.note(Part.CREATED, [id_])
    return _provider(tx, id_)


def _require_free(connection: Connection, uuid: str, name: str) -> None:
    taken = connection.execute(sa.select(_columns.uuid).where((_columns.uuid == uuid) | (_columns.name == name))).all()
    if any(row.uuid == uuid for row in taken):
        raise DuplicateProvider(f"uuid: {uuid}")
    if taken:
        raise DuplicateProvider(f"name: {name}")


def _lock_parent(tx: Transaction, uuid: str, name: str, parent: str) -> StoredProvider:
    """Lock a future parent with its root, so that neither is deleted or moved while a child is added."""
    refusal = f'Unable to create resource provider "{name}", {uuid}: Object action create failed because: '
    if parent == uuid:
        raise ParentRefused(
            f"{refusal}parent provider UUID cannot be same as UUID. "
            "Please set parent provider UUID to None if there is no parent."
        )
    id_ = ids_by_uuid(tx.connection, [parent]).get(parent)
    if id_ is None:
        raise ParentRefused(refusal + "parent provider UUID does not exist.")
    before = rows_by_id(tx.connection, [id_]).get(id_)
    locked = lock(tx, [id_, before.root] if before else [id_])
    tx.touch(locked)
    above = locked.get(id_)
    if above is None or before is None or above.root != before.root or above.uuid != parent:
        raise RaceLost("resource_providers")
    if above.root not in locked:
        raise ParentRefused(f"{refusal}the root of the parent's tree does not exist. Run: stead audit --repair")
    return above


def update(tx: Transaction, uuid: str, name: str, parent: str | Keep | None, *, may_move: bool = True) -> Provider:
    """Rename a provider, and move it with its subtree below another parent, or make it a root.

    Args:
        may_move: a provider that has a parent may get another one, or become a root (since microversion 1.37).

    Raises:
        ProviderNotFound: it does not exist.
        ParentRefused: the parent is unknown, below the provider, or may not be changed.
        DuplicateProvider: another provider has the name.
    """
    id_ = ids_by_uuid(tx.connection, [uuid]).get(uuid)
    before = rows_by_id(tx.connection, [id_]).get(id_) if id_ is not None else None
    if before is None:
        raise ProviderNotFound(uuid)
    above = before.parent if isinstance(parent, Keep) else _parent_to_be(tx, before, parent, may_move=may_move)
    if above == before.parent:
        row = lock_one(tx, uuid)
        if row.parent != above:
            raise RaceLost("resource_providers")
    else:
        row = _move(tx, before, above)
    other = sa.select(_columns.id).where(_columns.name == name, _columns.id != before.id)
    if tx.connection.execute(other).first():
        raise DuplicateProvider(name)
    if row.name != name:  # not the name before the lock, which another write may have replaced
        tx.note(Part.NAME, [before.id])
    renamed = sa.update(resource_providers).where(_columns.id == before.id).values(name=name, updated_at=tx.now)
    tx.require_count(tx.connection.execute(renamed), 1)
    return _provider(tx, before.id)


def _parent_to_be(tx: Transaction, row: StoredProvider, parent: str | None, *, may_move: bool) -> int | None:
    refusal = f"Unable to save resource provider {row.uuid}: "
    above = ids_by_uuid(tx.connection, [parent]).get(parent) if parent is not None else None
    if parent is not None and above is None:
        raise ParentRefused(f"{refusal}Object action create failed because: parent provider UUID does not exist.")
    if not may_move and row.parent is not None and above != row.parent:
        verb = "un-parenting" if above is None else "re-parenting"
        raise ParentRefused(
            f"{refusal}Object action update failed because: {verb} a provider is not currently allowed."
        )
    return above


def _move(tx: Transaction, before: StoredProvider, above: int | None) -> StoredProvider:
    """Move the subtree of a provider below *above*, or make it a tree of its own; its locked row of before."""
    subtree = _subtree(tx.connection, before)
    target = rows_by_id(tx.connection, [above]).get(above) if above is not None else None
    if above is not None and target is None:
        raise RaceLost("resource_providers")
    if target is not None and target.id in subtree:
        raise ParentRefused(
            f"Unable to save resource provider {before.uuid}: Object action update failed because: "
            "creating loop in the provider tree is not allowed."
        )
    around = {before.root, before.parent, above, target.root if target else None} - {None}
    involved = subtree | {id_ for id_ in around if id_ is not None}
    now = lock(tx, involved)
    tx.touch(involved)
    # Every writer that changes a tree locks its root, so both trees are stable now. Check whether they changed before.
    if len(now) != len(involved) or any(now[row.id].place != row.place for row in (before, target) if row):
        raise RaceLost("resource_providers")
    if _subtree(tx.connection, before) != subtree:
        raise RaceLost("resource_providers")
    tx.note(Part.TREE, subtree)
    root = target.root if target else before.id
    as_read = _columns.parent_provider_id.is_not_distinct_from(before.parent)
    parent = sa.update(resource_providers).where(_columns.id == before.id, as_read)
    tx.require_count(tx.connection.execute(parent.values(parent_provider_id=above)), 1)
    for portion in in_portions(sorted(subtree)):
        moved = sa.update(resource_providers).where(_columns.id.in_(portion), _columns.root_provider_id == before.root)
        values = moved.values(root_provider_id=root, updated_at=tx.now)
        tx.require_count(tx.connection.execute(values), len(portion))
    return now[before.id]


def lock_subtree(tx: Transaction, reference: str) -> tuple[StoredProvider, set[int]]:
    """Lock a provider and its whole subtree; returns its row and the ids of all of them, including its own.

    All of them are touched: other writers may depend on the ancestors of a provider, or on its usage.

    Args:
        reference: a uuid, or ``name:`` and a name.

    Raises:
        ProviderNotFound: it does not exist.
        RaceLost: the tree changed meanwhile, or the provider was renamed.
    """
    before = find_referenced(tx.connection, reference)
    if before is None:
        name = reference.removeprefix(BY_NAME)
        raise ProviderNotFound(reference) if name == reference else NamedProviderNotFound(name)
    subtree = _subtree(tx.connection, before)
    involved = subtree | {before.root}
    locked = lock(tx, involved)
    tx.touch(involved)
    tx.touch_usage(involved)  # also needed: claims touch nothing else, see rule 5 of docs/protocol.md
    # Every writer that changes a tree locks its root, so the tree is stable now. Check whether it changed before.
    row = locked.get(before.id)
    if row is None or (row.name, row.place) != (before.name, before.place) or _subtree(tx.connection, row) != subtree:
        raise RaceLost("resource_providers")
    return row, subtree


def _subtree(connection: Connection, top: StoredProvider) -> set[int]:
    """Ids of *top* and all its descendants."""
    tree = connection.execute(
        sa.select(_columns.id, _columns.parent_provider_id).where(_columns.root_provider_id == top.root)
    ).all()
    children: dict[int | None, list[int]] = defaultdict(list)
    for id_, parent in tree:
        children[parent].append(id_)
    subtree: set[int] = set()
    ahead = [top.id]
    while ahead:
        id_ = ahead.pop()
        subtree.add(id_)
        ahead += [child for child in children[id_] if child not in subtree]
    return subtree


def delete(tx: Transaction, uuid: str) -> None:
    """Delete a provider with its inventories and its associations.

    Raises:
        ProviderNotFound: it does not exist.
        ProviderHasChildren: it is a parent.
        ProviderInUse: it has allocations.
    """
    id_ = ids_by_uuid(tx.connection, [uuid]).get(uuid)
    before = rows_by_id(tx.connection, [id_]).get(id_) if id_ is not None else None
    if before is None:
        raise ProviderNotFound(uuid, " for delete")
    row = lock(tx, {before.id, before.root, before.parent or before.id}).get(before.id)
    if row is None or row.place != before.place:
        raise RaceLost("resource_providers")
    tx.touch({row.id, row.root, row.parent or row.id})
    # A writer that adds a child locks the parent, so none is added after this check.
    if tx.connection.execute(sa.select(_columns.id).where(_columns.parent_provider_id == row.id).limit(1)).first():
        raise ProviderHasChildren(uuid)
    holds = sa.select(allocations.c.id).where(allocations.c.resource_provider_id == row.id).limit(1)
    if tx.connection.execute(holds).first():
        raise ProviderInUse(uuid)
    for table in (inventories, resource_provider_traits, resource_provider_aggregates):
        tx.connection.execute(sa.delete(table).where(table.c.resource_provider_id == row.id))
    service_states.forget(tx, [row.id])
    usages.forget(tx, row.id)
    # A root refers to itself, which in some databases prevents its deletion.
    unrooted = sa.update(resource_providers).where(_columns.id == row.id).values(root_provider_id=None)
    tx.require_count(tx.connection.execute(unrooted), 1)
    as_read = provider_generation.element == row.generation  # any new allocation would have raised it
    gone = tx.connection.execute(sa.delete(resource_providers).where(_columns.id == row.id, as_read))
    tx.require_count(gone, 1)
    tx.log_gone_provider(uuid)


def _provider(tx: Transaction, id_: int) -> Provider:
    parent, root = resource_providers.alias("parent"), resource_providers.alias("root")
    query = (
        sa.select(
            _columns.uuid,
            provider_name,
            provider_generation,
            parent.c.uuid.label("parent"),
            root.c.uuid.label("root"),
            _columns.created_at,
            _columns.updated_at,
        )
        .select_from(resource_providers)
        .outerjoin(parent, parent.c.id == _columns.parent_provider_id)
        .outerjoin(root, root.c.id == _columns.root_provider_id)
        .where(_columns.id == id_)
    )
    row = tx.connection.execute(query).one()
    modified = seconds(row.updated_at or row.created_at)
    return Provider(row.uuid, row.name, row.generation, row.parent, row.root, modified)


def replace_members(tx: Transaction, row: StoredProvider, member: sa.Column[int], new: Collection[int]) -> bool:
    """Replace all traits, or all aggregates, of a locked provider; returns whether the set changed.

    Args:
        member: the column with their ids, of a table of pairs.
    """
    table = member.table
    mine = table.c.resource_provider_id == row.id
    present = set(tx.connection.scalars(sa.select(member).where(mine)))
    for portion in in_portions(sorted(present.difference(new))):
        removed = tx.connection.execute(sa.delete(table).where(mine, member.in_(portion)))
        tx.require_count(removed, len(portion))
    added = sorted(set(new) - present)
    if added:
        rows = [{"resource_provider_id": row.id, member.name: id_, "created_at": tx.now} for id_ in added]
        tx.connection.execute(sa.insert(table), rows)
    return present != set(new)


# Aggregates: UUIDs that group providers.


def require(connection: Connection, provider: str, expected: int | None) -> None:
    """Refuse what :func:`replace` would refuse, before the caller inserts rows for new aggregates.

    Raises:
        ProviderNotFound, GenerationConflict
    """
    rows = rows_by_id(connection, ids_by_uuid(connection, [provider]).values())
    if not rows:
        raise ProviderNotFound(provider)
    if expected is not None:
        (row,) = rows.values()
        require_generation(row, expected)


def replace(tx: Transaction, provider: str, aggregates: Collection[int], expected: int | None) -> int:
    """Replace all aggregates (by id) of a provider; returns its generation.

    Args:
        expected: the generation that the client knows, which then rises by one. None neither checks nor raises it (the
            meaning before microversion 1.19).

    Raises:
        ProviderNotFound, GenerationConflict
    """
    row = lock_one(tx, provider)
    if expected is not None:
        require_generation(row, expected)
    if replace_members(tx, row, resource_provider_aggregates.c.aggregate_id, set(aggregates)):
        tx.note(Part.AGGREGATES, [row.id])
    return row.generation if expected is None else tx.bump_generations({row.id: row.generation})[row.id]
