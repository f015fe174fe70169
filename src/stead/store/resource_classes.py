"""Resource classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import (
    ResourceClassExists,
    ResourceClassInUse,
    ResourceClassNotFound,
    StandardClass,
    TooManyNames,
    UnknownResourceClass,
)
from stead.domain.names import FIRST_CUSTOM_CLASS_ID, MOST_NAMES, is_standard_class
from stead.store.protocol.clock import class_change
from stead.store.protocol.store import RaceLost
from stead.store.sql.statements import Insert, Query, in_portions
from stead.store.tables import inventories, resource_classes, stead_counter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = resource_classes.c


def find(connection: Connection, name: str) -> int | None:
    """The id of the class with exactly this name."""
    rows = connection.execute(sa.select(_columns.name, _columns.id).where(_columns.name == name))
    return next((row.id for row in rows if row.name == name), None)


def all_ids(connection: Connection) -> dict[str, int]:
    """Ids of all classes by name."""
    return dict(_ALL.rows(connection))


_ALL = Query(sa.select(_columns.name, _columns.id))


def names_by_id(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Names of the classes with these ids."""
    rows = connection.execute(sa.select(_columns.id, _columns.name).where(_columns.id.in_(ids)))
    return {row.id: row.name for row in rows}


def resolve(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Ids of classes by name; locks nothing.

    Raises:
        UnknownResourceClass: names the first that does not exist.
    """
    unique_names = list(dict.fromkeys(names))
    ids = {name: id_ for portion in in_portions(unique_names) for name, id_ in _ids(connection, portion).items()}
    for name in unique_names:
        if name not in ids:
            raise UnknownResourceClass(name)
    return ids


def lock_names(tx: Transaction, names: Iterable[str]) -> dict[str, int]:
    """Ids of classes by name. They cannot be deleted or renamed before this transaction ends.

    Raises:
        UnknownResourceClass: names the first that does not exist.
    """
    ids = resolve(tx.connection, names)
    # Standard classes are never deleted or renamed, so they need no lock.
    custom = {id_: name for name, id_ in ids.items() if not is_standard_class(id_)}
    if custom:
        tx.lock(resource_classes, custom, shared=True)
        if names_by_id(tx.connection, custom) != custom:
            raise RaceLost("resource_classes")
        tx.touch(map(class_change, custom))
    return ids


def _ids(connection: Connection, names: Collection[str]) -> dict[str, int]:
    rows = connection.execute(sa.select(_columns.name, _columns.id).where(_columns.name.in_(names)))
    return {row.name: row.id for row in rows}


def create(tx: Transaction, name: str) -> None:
    """Create a custom class.

    Raises:
        ResourceClassExists: the name is taken.
    """
    if not ensure(tx, name):
        raise ResourceClassExists(name)


def ensure(tx: Transaction, name: str) -> bool:
    """Create a custom class unless it exists; returns whether it was created."""
    if tx.connection.execute(sa.select(_columns.id).where(_columns.name == name)).first():
        return False
    insert(tx, [name])
    return True


def insert(tx: Transaction, names: Sequence[str]) -> None:
    """Insert new custom classes.

    Raises:
        TooManyNames: the site would have more than `MOST_NAMES` classes.
    """
    if not names:
        return
    ids = _next_ids(tx, len(names))
    # After the ids, whose row is locked: so no other transaction adds classes meanwhile.
    count: int = tx.connection.execute(sa.select(sa.func.count()).select_from(resource_classes)).scalar_one()
    if count + len(names) > MOST_NAMES:
        raise TooManyNames("resource classes", MOST_NAMES)
    rows = [{"id": id_, "name": name, "created_at": tx.now} for id_, name in zip(ids, names, strict=True)]
    _INSERT.run(tx.connection, rows)
    tx.touch(map(class_change, ids))


_INSERT = Insert(resource_classes, "id", "name", "created_at")


def _next_ids(tx: Transaction, number: int) -> range:
    """Ids that no class ever had: a process with cached names must not confuse a new class with a deleted one."""
    counter = sa.update(stead_counter).where(stead_counter.c.name == "resource_class")
    # The write comes first: it locks the row, so two transactions cannot read the same value.
    tx.require_count(tx.connection.execute(counter.values(value=stead_counter.c.value + 1)), 1)
    counted = sa.select(stead_counter.c.value).where(stead_counter.c.name == "resource_class")
    ours: int = tx.connection.execute(counted).scalar_one() - 1
    highest: int = tx.connection.execute(sa.select(sa.func.max(_columns.id))).scalar_one() or 0
    # Another service on the same database creates classes without this counter.
    first = max(ours, highest + 1, FIRST_CUSTOM_CLASS_ID)
    tx.require_count(tx.connection.execute(counter.values(value=first + number)), 1)
    return range(first, first + number)


def rename(tx: Transaction, old: str, new: str) -> None:
    """Rename a custom class.

    Raises:
        ResourceClassNotFound, StandardClass
        ResourceClassExists: another class has that name.
    """
    id_ = _lock_custom(tx, old, verb="update")
    other = sa.select(_columns.id).where(_columns.name == new, _columns.id != id_)
    if tx.connection.execute(other).first():
        raise ResourceClassExists(new)
    named = sa.update(resource_classes).where(_columns.id == id_, _columns.name == old)
    tx.require_count(tx.connection.execute(named.values(name=new, updated_at=tx.now)), 1)


def delete(tx: Transaction, name: str) -> None:
    """Delete a custom class.

    Raises:
        ResourceClassNotFound, StandardClass
        ResourceClassInUse: some provider has inventory of it.
    """
    id_ = _lock_custom(tx, name, verb="delete")
    # Writers of inventories lock the class as shared, so none of them uses it after this check.
    used = sa.select(inventories.c.id).where(inventories.c.resource_class_id == id_).limit(1)
    if tx.connection.execute(used).first():
        raise ResourceClassInUse(name)
    tx.change(sa.delete(resource_classes).where(_columns.id == sa.bindparam("p_id")), [{"p_id": id_}])


def _lock_custom(tx: Transaction, name: str, *, verb: str) -> int:
    id_ = find(tx.connection, name)
    if id_ is None:
        raise ResourceClassNotFound(name)
    if is_standard_class(id_):
        raise StandardClass(name, verb)
    tx.lock(resource_classes, [id_])
    # Read again: the lock may have waited for a transaction that renamed or deleted the class.
    if names_by_id(tx.connection, [id_]).get(id_) != name:
        raise RaceLost("resource_classes")
    tx.touch([class_change(id_)])
    return id_
