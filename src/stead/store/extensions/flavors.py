"""Flavors: candidate queries with a name, one row each.

The catalog does not have them. They are read from the database when a request names them, so every worker sees every
acknowledged write.

Source: "Flavors", docs/stead-api.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import FlavorNotFound
from stead.domain.request import Flavor
from stead.store.tables import stead_flavor

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = stead_flavor.c
_FLAVOR = sa.select(_columns.name, _columns.query, _columns.description, _columns.weight)


def find(connection: Connection, name: str) -> Flavor | None:
    """The flavor of this name; None if it does not exist."""
    # The column is ASCII on some databases, which refuse to compare it with other text.
    if not name.isascii():
        return None
    row = connection.execute(_FLAVOR.where(_columns.name == name)).first()
    return None if row is None else Flavor(*row)


def page_of(connection: Connection, after: str | None, limit: int) -> list[Flavor]:
    """Up to *limit* flavors in the order of their names, which is by bytes, after the name *after*."""
    page = _FLAVOR.order_by(_columns.name).limit(limit)
    if after is not None:
        page = page.where(_columns.name > after)
    return [Flavor(*row) for row in connection.execute(page)]


def names(connection: Connection, limit: int) -> list[str]:
    """Up to *limit* names, in their order. The queries, which may be long, are not read."""
    return list(connection.execute(sa.select(_columns.name).order_by(_columns.name).limit(limit)).scalars())


def heaviest(connection: Connection, limit: int) -> list[Flavor]:
    """Up to *limit* flavors with a weight above 0, the heaviest first; the first by name if no flavor has one."""
    weighted = _FLAVOR.where(_columns.weight > 0).order_by(_columns.weight.desc(), _columns.name).limit(limit)
    return [Flavor(*row) for row in connection.execute(weighted)] or page_of(connection, None, limit)


def put(tx: Transaction, flavor: Flavor, *, keeps_weight: bool) -> tuple[Flavor, bool]:
    """Store a flavor, or replace the one of its name; returns what is stored now, and whether it is new.

    Args:
        keeps_weight: a flavor that exists keeps its weight.
    """
    before = find(tx.connection, flavor.name)
    if keeps_weight and before is not None:
        flavor = replace(flavor, weight=before.weight)
    values = {"query": flavor.query, "description": flavor.description, "weight": flavor.weight}
    if before is not None:
        tx.connection.execute(sa.update(stead_flavor).where(_columns.name == flavor.name).values(values))
    else:
        tx.connection.execute(sa.insert(stead_flavor), {"name": flavor.name, **values})
    return flavor, before is None


def delete(tx: Transaction, name: str) -> None:
    """Delete a flavor.

    Raises:
        FlavorNotFound
    """
    if not name.isascii():
        raise FlavorNotFound(name)
    if not tx.connection.execute(sa.delete(stead_flavor).where(_columns.name == name)).rowcount:
        raise FlavorNotFound(name)
