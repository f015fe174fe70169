"""Consumers: who holds allocations. They come with their first allocation and go with their last."""

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
    from stead.store.protocol.transaction import Store, Transaction

_columns = consumers.c


class OwnersUnknown(Exception):
    """A claim names a project, user or consumer type that was never made; nothing was written."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Ids of the projects, users and consumer types that claims name. They never go, so they are not locked."""

    projects: Mapping[str, int]
    users: Mapping[str, int]
    types: Mapping[str, int]

    @classmethod
    def of(cls, connection: Connection, claims: Sequence[Claim]) -> Owners:
        """Those of *claims*.

        Raises:
            OwnersUnknown: one of them is to be made first, by :func:`make_owners`.
        """
        named = [
            list(dict.fromkeys(claim.project for claim in claims)),
            list(dict.fromkeys(claim.user for claim in claims)),
            list(dict.fromkeys(claim.consumer_type for claim in claims if claim.consumer_type is not None)),
        ]
        columns = (names.PROJECT, names.USER, names.CONSUMER_TYPE)
        wanted = [(column, name) for column, some in zip(columns, named, strict=True) for name in some]
        found = iter(names.find(connection, wanted))
        ids = [{name: id_ for name, id_ in zip(some, found, strict=False) if id_ is not None} for some in named]
        if [len(one) for one in ids] != [len(some) for some in named]:
            raise OwnersUnknown
        return cls(*ids)


def make_owners(store: Store, claims: Sequence[Claim]) -> None:
    """Make the projects, users and consumer types of *claims* known, each kind in a transaction of its own.

    They stay, whatever becomes of the claims.
    """
    names.project_ids(store, {claim.project for claim in claims})
    names.user_ids(store, {claim.user for claim in claims})
    names.consumer_type_ids(store, {claim.consumer_type for claim in claims if claim.consumer_type is not None})


@dataclass(frozen=True, slots=True)
class Row:
    """A consumer's row, as a transaction read it."""

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
    """Those of *uuids* that exist, spelled exactly so."""
    return _spelled(uuids, _spelled_anyhow(connection, uuids))


def _spelled_anyhow(connection: Connection, uuids: Collection[str]) -> list[Row]:
    """Those that the database finds under *uuids*; where it ignores case they may be spelled in other ways."""
    return [Row(*row) for row in _BY_UUID.rows(connection, sorted(uuids))]


def _spelled(uuids: Collection[str], rows: Iterable[Row]) -> dict[str, Row]:
    found = {row.uuid: row for row in rows}
    return {uuid: found[uuid] for uuid in uuids if uuid in found}


def lock(tx: Transaction, uuids: Collection[str], *, in_one_spelling: bool = False) -> dict[str, Row]:
    """Lock consumers in id order and read them as they are now; those that do not exist are missing.

    Raises:
        ConsumerConflict: they are to have one spelling, and to the database another one is the same consumer.
        RaceLost: one of them came or went meanwhile.
    """
    rows = _spelled_anyhow(tx.connection, uuids)
    if in_one_spelling and tx.dialect.ignores_case:
        _require_one_spelling(uuids, rows)
    before = _spelled(uuids, rows)
    if not before:
        return {}
    tx.lock(consumers, (row.id for row in before.values()))
    now = find(tx.connection, uuids)
    if {uuid: row.id for uuid, row in now.items()} != {uuid: row.id for uuid, row in before.items()}:
        raise RaceLost("consumers")
    return now


def lock_claiming(tx: Transaction, claims: Sequence[Claim]) -> dict[str, Row]:
    """Lock the consumers of *claims* and read them as they are now; those that do not exist are missing.

    Raises:
        ConsumerConflict: to the database, another spelling of one of them is the same consumer.
        RaceLost: one of them came or went meanwhile.
    """
    return lock(tx, [claim.consumer for claim in claims], in_one_spelling=True)


def _require_one_spelling(uuids: Collection[str], rows: Iterable[Row]) -> None:
    spelling = {uuid.lower(): uuid for uuid in uuids}
    for uuid in uuids:
        if spelling[uuid.lower()] != uuid:
            raise ConsumerConflict(uuid, None, 0)
    for row in rows:
        if spelling.get(row.uuid.lower(), row.uuid) != row.uuid:
            raise ConsumerConflict(spelling[row.uuid.lower()], None, row.generation)


def require_expected(claims: Sequence[Claim], present: Mapping[str, Row]) -> None:
    """Refuse clients whose knowledge of a consumer is old, in the order of *claims*.

    Raises:
        ConsumerConflict: a consumer is at another generation, exists unexpectedly, or does not exist.
    """
    for claim in claims:
        row = present.get(claim.consumer)
        found = row.generation if row else None
        if claim.expected is not UNCHECKED and claim.expected != found:
            raise ConsumerConflict(claim.consumer, claim.expected, found)


def require_still_absent(tx: Transaction, claims: Sequence[Claim], present: Mapping[str, Row]) -> None:
    """Make sure that consumers which were not there to be locked have not come since.

    Raises:
        RaceLost: one has.
    """
    if find(tx.connection, {claim.consumer for claim in claims}.difference(present)):
        raise RaceLost("consumers")


def write(tx: Transaction, claims: Sequence[Claim], present: Mapping[str, Row], owners: Owners) -> None:
    """Make, change and remove consumers, as their claims leave them.

    Whoever holds something afterwards exists, one generation on, with the project, user and type of the claim; whoever
    does not is gone. *present* are the locked rows of the consumers.

    Raises:
        RaceLost: a generation is not what was read.
    """
    tx.log_consumers(claim.consumer for claim in claims if claim.allocations or claim.consumer in present)
    new, moved, kept, gone = [], [], {}, []
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
            kept[row.id] = row.generation
            if (row.project, row.user, row.type) != (owned["project_id"], owned["user_id"], type_id):
                moved.append({**owned, "id": row.id, "generation": row.generation + 1})
        elif row is not None:
            gone.append(row)
    # In one order for all writers: whoever makes the same ones waits for the first of them.
    _MAKE.run(tx.connection, sorted(new, key=lambda values: str(values["uuid"])))
    tx.swap(_RAISE, kept, updated_at=tx.now)
    _MOVE.run(tx.connection, moved)  # which are there, and ours: their generations were just raised
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
    return row.type if row else None


def remove(tx: Transaction, rows: Collection[Row]) -> None:
    """Remove locked consumers.

    Raises:
        RaceLost: a generation is not what was read.
    """
    tx.swap(_REMOVE, {row.id: row.generation for row in rows})
