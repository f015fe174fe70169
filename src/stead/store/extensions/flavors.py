"""Flavors: candidate queries with a name, one row each.

The catalog does not have them. They are read from the database when a request names them, so every worker sees every
acknowledged write.

Source: "Flavors", docs/stead-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.domain.errors import FlavorNotFound
from stead.domain.request import Flavor
from stead.store.tables import stead_flavor

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from stead.store.protocol.store import Transaction

_columns = stead_flavor.c
_FLAVOR = sa.select(_columns.name, _columns.query, _columns.description)


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


def put(tx: Transaction, flavor: Flavor) -> bool:
    """Store a flavor, or replace the one of its name; returns whether it is new."""
    values = {"query": flavor.query, "description": flavor.description}
    is_there = tx.connection.execute(sa.select(_columns.name).where(_columns.name == flavor.name)).first() is not None
    if is_there:
        tx.connection.execute(sa.update(stead_flavor).where(_columns.name == flavor.name).values(values))
    else:
        tx.connection.execute(sa.insert(stead_flavor), {"name": flavor.name, **values})
    return not is_there


def delete(tx: Transaction, name: str) -> None:
    """Delete a flavor.

    Raises:
        FlavorNotFound
    """
    if not name.isascii():
        raise FlavorNotFound(name)
    if not tx.connection.execute(sa.delete(stead_flavor).where(_columns.name == name)).rowcount:
        raise FlavorNotFound(name)
