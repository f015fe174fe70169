"""Consumers: owners of allocations. They are created with their first allocation and deleted with their last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.claim import UNCHECKED
from stead.domain.errors import ConsumerConflict
from stead.store import names
from stead.store.protocol.transaction import RaceLost
from stead.store.sql.statements import LISTED, Insert, Query, Swap, value
from stead.store.tables import consumers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Claim
    from stead.store.protocol.store import Store
    from stead.store.protocol.transaction import Transaction

_columns = consumers.c


class OwnersUnknown(Exception):
    """A claim names a project, user or consumer type that has no row yet; nothing was written."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Ids of the projects, users and consumer types that claims name. They are never deleted, so they need no lock.

    ``absent`` are the consumers of the claims that do not exist in any spelling.
    """

    projects: Mapping[str, int]
    users: Mapping[str, int]
    types: Mapping[str, int]
    absent: frozenset[str]

    @classmethod
    def of(cls, connection: Connection, claims: Sequence[Claim]) -> Owners:
        """The owners of *claims*.

        Raises:
            OwnersUnknown: one of them must be created first, by :func:`make_owners`.
        """
        named = [
            list(dict.fromkeys(claim.project for claim in claims)),
            list(dict.fromkeys(claim.user for claim in claims)),
            list(dict.fromkeys(claim.consumer_type for claim in claims if claim.consumer_type is not None)),
        ]
        columns = (names.PROJECT, names.USER, names.CONSUMER_TYPE)
        column_names = [
            (column, name) for column, names_of_kind in zip(columns, named, strict=True) for name in names_of_kind
        ]
        ids, present = names.find_with_consumers(connection, column_names, [claim.consumer for claim in claims])
        remaining = iter(ids)
        projects, users, types = (
            {name: id_ for name, id_ in zip(names_of_kind, remaining, strict=False) if id_ is not None}
            for names_of_kind in named
        )
        if len(projects) + len(users) + len(types) != len(column_names):
            raise OwnersUnknown
        absent = frozenset(claim.consumer for claim in claims if claim.consumer not in present)
        return cls(projects, users, types, absent)


def make_owners(store: Store, claims: Sequence[Claim]) -> None:
    """Create the projects, users and consumer types of *claims*, each kind in its own transaction.

    They stay even if the claims fail.
    """
    names.project_ids(store, {claim.project for claim in claims})
    names.user_ids(store, {claim.user for claim in claims})
    names.consumer_type_ids(store, {claim.consumer_type for claim in claims if claim.consumer_type is not None})


@dataclass(frozen=True, slots=True)
class Row:
    """A consumer's row, as read by a transaction."""

    id: int
    uuid: str
    generation: int
    project: int
    user: int
    type: int | None


_BY_UUID = Query(
    sa.select(
        _columns.id,
        _columns.uuid,
        _columns.generation,
        _columns.project_id,
        _columns.user_id,
        _columns.consumer_type_id,
    ).where(_columns.uuid.in_([LISTED]))
)


def find(connection: Connection, uuids: Collection[str]) -> dict[str, Row]:
    """The rows of those of *uuids* that exist with exactly this spelling."""
    return _spelled(uuids, _spelled_anyhow(connection, uuids))


def _spelled_anyhow(connection: Connection, uuids: Collection[str]) -> list[Row]:
    """The rows that the database finds for *uuids*; a case-insensitive database also returns other spellings."""
    return [Row(*row) for row in _BY_UUID.rows(connection, sorted(uuids))]


def _spelled(uuids: Collection[str], rows: Iterable[Row]) -> dict[str, Row]:
    by_uuid = {row.uuid: row for row in rows}
    return {uuid: by_uuid[uuid] for uuid in uuids if uuid in by_uuid}


def lock(
    tx: Transaction, uuids: Collection[str], *, in_one_spelling: bool = False, absent: Collection[str] = ()
) -> dict[str, Row]:
    """Lock consumers in id order and read their current rows; missing consumers are left out.

    Args:
        absent: those of *uuids* that this transaction has not found; they are not searched again.

    Raises:
        ConsumerConflict: *in_one_spelling* is set, and the database treats another spelling as the same consumer.
        RaceLost: a consumer was created or deleted meanwhile.
    """
    rows = _spelled_anyhow(tx.connection, [uuid for uuid in uuids if uuid not in absent])
    if in_one_spelling and tx.dialect.ignores_case:
        _require_one_spelling(uuids, rows)
    before = _spelled(uuids, rows)
    # A consumer that another writer creates from now on collides with the INSERT of `write`, as a duplicate key.
    if not before:
        return {}
    tx.lock(consumers, (row.id for row in before.values()))
    now = find(tx.connection, uuids)
    if {uuid: row.id for uuid, row in now.items()} != {uuid: row.id for uuid, row in before.items()}:
        raise RaceLost("consumers")
    return now


def lock_claiming(tx: Transaction, claims: Sequence[Claim], owners: Owners) -> dict[str, Row]:
    """Lock the consumers of *claims* and read their current rows; missing consumers are left out.

    Raises:
        ConsumerConflict: the database treats another spelling of one of them as the same consumer.
        RaceLost: a consumer was created or deleted meanwhile.
    """
    return lock(tx, [claim.consumer for claim in claims], in_one_spelling=True, absent=owners.absent)


def _require_one_spelling(uuids: Collection[str], rows: Iterable[Row]) -> None:
    spelling = {uuid.lower(): uuid for uuid in uuids}
    for uuid in uuids:
        if spelling[uuid.lower()] != uuid:
            raise ConsumerConflict(uuid, None, 0)
    for row in rows:
        if spelling.get(row.uuid.lower(), row.uuid) != row.uuid:
            raise ConsumerConflict(spelling[row.uuid.lower()], None, row.generation)


def require_expected(claims: Sequence[Claim], present: Mapping[str, Row]) -> None:
    """Refuse clients with an outdated generation of a consumer, in the order of *claims*.

    Raises:
        ConsumerConflict: a consumer is at another generation, exists unexpectedly, or does not exist.
    """
    for claim in claims:
        row = present.get(claim.consumer)
        generation = row.generation if row else None
        if claim.expected is not UNCHECKED and claim.expected != generation:
            raise ConsumerConflict(claim.consumer, claim.expected, generation)


def require_still_absent(tx: Transaction, claims: Sequence[Claim], present: Mapping[str, Row]) -> None:
    """Check that consumers that did not exist at the lock have not been created since.

    Raises:
        RaceLost: one was created.
    """
    if find(tx.connection, {claim.consumer for claim in claims}.difference(present)):
        raise RaceLost("consumers")


def write(tx: Transaction, claims: Sequence[Claim], present: Mapping[str, Row], owners: Owners) -> None:
    """Create, update and delete consumers according to their claims.

    A consumer with allocations exists afterwards, with a generation one higher, and with the project, user and type of
    the claim. A consumer without allocations is deleted. *present* are the locked rows of the consumers.

    Raises:
        RaceLost: a generation differs from the one that was read.
    """
    tx.log_consumers(claim.consumer for claim in claims if claim.allocations or claim.consumer in present)
    new, moved, generations, gone = [], [], {}, []
    for claim in claims:
        row = present.get(claim.consumer)
        type_id = _type_id(claim, row, owners)
        owned = {
            "uuid": claim.consumer,
            "project_id": owners.projects[claim.project],
            "user_id": owners.users[claim.user],
            "consumer_type_id": type_id,
        }
        if row is None and claim.allocations:
            new.append({**owned, "generation": 1, "created_at": tx.now})
        elif row is not None and claim.allocations:
            generations[row.id] = row.generation
            if (row.project, row.user, row.type) != (owned["project_id"], owned["user_id"], type_id):
                moved.append({**owned, "id": row.id, "generation": row.generation + 1})
        elif row is not None:
            gone.append(row)
    # One order for all writers prevents deadlocks: writers that create the same consumers wait for the first one.
    _MAKE.run(tx.connection, sorted(new, key=lambda values: str(values["uuid"])))
    tx.swap(_RAISE, generations, updated_at=tx.now)
    _MOVE.run(tx.connection, moved)  # safe: raising their generations has just verified and locked them
    remove(tx, gone)


_OWNED = ("uuid", "project_id", "user_id", "consumer_type_id", "generation")
_MAKE = Insert(consumers, *_OWNED, "created_at")
_RAISE = Swap(
    sa.update(consumers).values(generation=_columns.generation + sa.literal_column("1"), updated_at=value("updated_at"))
)
_MOVE = Insert(consumers, "id", *_OWNED, changing=("project_id", "user_id", "consumer_type_id"))
_REMOVE = Swap(sa.delete(consumers))


def _type_id(claim: Claim, row: Row | None, owners: Owners) -> int | None:
    if claim.consumer_type is not None:
        return owners.types[claim.consumer_type]
    # Requests before 1.38 have no type, so the consumer keeps its own.
    return row.type if row else None


def remove(tx: Transaction, rows: Collection[Row]) -> None:
    """Delete locked consumers.

    Raises:
        RaceLost: a generation differs from the one that was read.
    """
    tx.swap(_REMOVE, {row.id: row.generation for row in rows})
