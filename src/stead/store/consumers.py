"""Consumers: who holds allocations. They come with their first allocation and go with their last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.claim import UNCHECKED
from stead.domain.errors import ConsumerConflict
from stead.store import names
from stead.store.tables import consumers
from stead.store.transaction import RaceLost, in_portions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from stead.domain.claim import Claim
    from stead.store.transaction import Store, Transaction

_columns = consumers.c


@dataclass(frozen=True, slots=True)
class Owners:
    """Ids of the projects, users and consumer types that claims name; made before the write that needs them."""

    projects: Mapping[str, int]
    users: Mapping[str, int]
    types: Mapping[str, int]

    @classmethod
    def of(cls, store: Store, claims: Sequence[Claim]) -> Owners:
        """Those of *claims*; unknown ones are made, whatever becomes of the claims."""
        return cls(
            names.project_ids(store, {claim.project for claim in claims}),
            names.user_ids(store, {claim.user for claim in claims}),
            names.consumer_type_ids(
                store, {claim.consumer_type for claim in claims if claim.consumer_type is not None}
            ),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A consumer's row, as a transaction read it."""

    id: int
    uuid: str
    generation: int
    project: int
    user: int
    type: int | None


def find(connection: Connection, uuids: Collection[str]) -> dict[str, Row]:
    """Those of *uuids* that exist, spelled exactly so."""
    query = sa.select(
        _columns.id,
        _columns.uuid,
        _columns.generation,
        _columns.project_id,
        _columns.user_id,
        _columns.consumer_type_id,
    )
    found = {
        row.uuid: Row(*row)
        for some in in_portions(sorted(uuids))
        for row in connection.execute(query.where(_columns.uuid.in_(some)))
    }
    return {uuid: found[uuid] for uuid in uuids if uuid in found}


def lock(tx: Transaction, uuids: Collection[str]) -> dict[str, Row]:
    """Lock consumers in id order and read them as they are now; those that do not exist are missing.

    Raises:
        RaceLost: one of them came or went meanwhile.
    """
    before = find(tx.connection, uuids)
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
    uuids = [claim.consumer for claim in claims]
    if tx.dialect.ignores_case:
        _require_one_spelling(tx.connection, uuids)
    return lock(tx, uuids)


def _require_one_spelling(connection: Connection, uuids: Collection[str]) -> None:
    spelling = {uuid.lower(): uuid for uuid in uuids}
    for uuid in uuids:
        if spelling[uuid.lower()] != uuid:
            raise ConsumerConflict(uuid, None, 0)
    for some in in_portions(sorted(uuids)):
        for row in connection.execute(sa.select(_columns.uuid, _columns.generation).where(_columns.uuid.in_(some))):
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
    new, changed, gone = [], [], []
    for claim in claims:
        row = present.get(claim.consumer)
        values = {
            "project_id": owners.projects[claim.project],
            "user_id": owners.users[claim.user],
            "consumer_type_id": _type_id(claim, row, owners),
        }
        if row is None and claim.allocations:
            new.append({**values, "uuid": claim.consumer, "generation": 1, "created_at": tx.now})
        elif row is not None and claim.allocations:
            changed.append(
                {**values, "generation": row.generation + 1, "updated_at": tx.now, **_expected(row)},
            )
        elif row is not None:
            gone.append(row)
    if new:  # in one order for all writers: whoever makes the same ones waits for the first of them
        tx.connection.execute(sa.insert(consumers), sorted(new, key=lambda values: str(values["uuid"])))
    if changed:
        tx.change(sa.update(consumers).where(_as_read()), changed)
    remove(tx, gone)


def _type_id(claim: Claim, row: Row | None, owners: Owners) -> int | None:
    if claim.consumer_type is not None:
        return owners.types[claim.consumer_type]
    return row.type if row else None


def remove(tx: Transaction, rows: Collection[Row]) -> None:
    """Remove locked consumers.

    Raises:
        RaceLost: a generation is not what was read.
    """
    if rows:
        tx.change(sa.delete(consumers).where(_as_read()), [_expected(row) for row in rows])


def _as_read() -> sa.ColumnElement[bool]:
    """A consumer's row, if it is what was read: compare-and-swap."""
    return sa.and_(_columns.id == sa.bindparam("p_id"), _columns.generation == sa.bindparam("p_generation"))


def _expected(row: Row) -> dict[str, int]:
    return {"p_id": row.id, "p_generation": row.generation}
