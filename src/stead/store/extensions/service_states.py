"""Service states: disabled providers, from which no new allocations can be made; nor from their descendants.

A row of ``stead_disabled_provider`` disables its provider while it exists. A writer of such a row touches the whole
subtree, so that every claim on the subtree is ordered before or after it.

Source: "PATCH /provider_trees/{uuid}", docs/stead-api.md; "The write and refresh protocol" (rule 19), docs/protocol.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from stead.domain.claim import DisabledProvider
from stead.domain.provider import Disabled
from stead.store.sql.statements import LISTED, Query, in_portions
from stead.store.tables import resource_providers, stead_disabled_provider

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction
    from stead.store.sql.dialects import Dialect

_columns = stead_disabled_provider.c
PRESENT = stead_disabled_provider.join(
    resource_providers,
    sa.and_(resource_providers.c.id == _columns.provider_id, resource_providers.c.uuid == _columns.uuid),
)
"""The rows whose provider exists."""


def disabled_among(connection: Connection, roots: Mapping[int, int]) -> dict[int, DisabledProvider]:
    """The disabled state that blocks new allocations from providers, by id; enabled providers are left out.

    Args:
        roots: the root's id by provider id. The providers are locked and touched, so that their ancestors are stable.
    """
    disabled = {row[0]: DisabledProvider(*row[1:]) for row in _OF_TREES.rows(connection, sorted(set(roots.values())))}
    if not disabled:
        return {}
    parents = dict(_PARENTS.rows(connection, sorted(set(roots.values()))))
    barrier_of = {}
    for id_ in roots:
        above: int | None = id_
        while above is not None:
            # The topmost one wins, so that a reshape may move amounts within the whole disabled subtree.
            if above in disabled:
                barrier_of[id_] = disabled[above]
            above = parents.get(above)
    return barrier_of


_tree = resource_providers.c.root_provider_id.in_([LISTED])
_OF_TREES = Query(sa.select(_columns.provider_id, _columns.uuid, _columns.reason).select_from(PRESENT).where(_tree))
_PARENTS = Query(sa.select(resource_providers.c.id, resource_providers.c.parent_provider_id).where(_tree))


def of_provider(connection: Connection, provider_id: int) -> State | None:
    """The state of one locked provider; None if it is not disabled itself."""
    row = connection.execute(
        sa.select(_columns.reason, _columns.disabled_at, _columns.enable_at, _columns.owns_trait)
        .select_from(PRESENT)
        .where(_columns.provider_id == provider_id)
    ).first()
    return None if row is None else State(Disabled(*row[:3]), bool(row[3]))


class State(NamedTuple):
    """Why a provider is disabled, and whether Stead gave it the trait of disabled providers."""

    disabled: Disabled
    owns_trait: bool


def write(tx: Transaction, provider_id: int, uuid: str, state: State) -> None:
    """Disable a provider whose subtree is locked and touched, replacing its row."""
    forget(tx, [provider_id])
    row = {
        "provider_id": provider_id,
        "uuid": uuid,
        "reason": state.disabled.reason,
        "disabled_at": state.disabled.since,
        "enable_at": state.disabled.until,
        "owns_trait": int(state.owns_trait),
    }
    tx.connection.execute(sa.insert(stead_disabled_provider), row)


def forget(tx: Transaction, provider_ids: Collection[int]) -> None:
    """Delete the rows of some ids: their providers are enabled or deleted, or the ids are reused."""
    for portion in in_portions(sorted(provider_ids)):
        tx.connection.execute(sa.delete(stead_disabled_provider).where(_columns.provider_id.in_(portion)))


def now(connection: Connection, dialect: Dialect) -> int:
    """The database's time, in seconds since 1970, which is the same for all processes."""
    seconds: int = connection.execute(sa.select(dialect.seconds(dialect.now()))).scalar_one()
    return seconds


def overdue(connection: Connection, dialect: Dialect) -> list[str]:
    """The uuids of disabled providers whose end has passed."""
    is_over = _columns.enable_at <= dialect.seconds(dialect.now())
    return list(connection.scalars(sa.select(_columns.uuid).select_from(PRESENT).where(is_over)))
