"""Selects the providers that a query reads. Each way to select them is compiled once and run for many values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.inventory import MAX_INT
from stead.store.sql.statements import IDS, BulkQuery, value
from stead.store.tables import resource_providers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy.engine import Connection


class By(Enum):
    """A way to select providers: a condition on ``resource_providers`` with open values."""

    IDS = "ids"
    ROOTS = "roots"

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        """The condition."""
        if self is By.IDS:
            return resource_providers.c.id.in_([IDS])
        return resource_providers.c.root_provider_id.between(value("first"), value("last"))

    def narrowed(self, query: sa.Select[*tuple[Any, ...]], provider_id: sa.Column[int]) -> sa.Select[*tuple[Any, ...]]:
        """*query*, restricted to rows whose *provider_id* is one of the providers.

        The ids are compared with the column itself. With a join of some hundred providers, a database without row
        statistics may read all rows.
        """
        if self is By.IDS:
            return query.where(provider_id.in_([IDS]))
        return query.join(resource_providers, resource_providers.c.id == provider_id).where(self.condition)


@dataclass(frozen=True, slots=True)
class Among:
    """A selection of providers: a condition, and the ids or other values for it."""

    by: By
    ids: Collection[int]
    values: Mapping[str, int]

    def rows(self, connection: Connection, query: BulkQuery) -> list[Any]:
        """All rows of *query*, which has the condition."""
        return query.rows(connection, self.ids, **self.values)


def with_ids(ids: Collection[int]) -> Among:
    """The providers with these ids."""
    return Among(By.IDS, sorted(ids), {})


_root = resource_providers.c.root_provider_id
_ROOT_AHEAD = BulkQuery(
    sa.select(_root).where(_root >= value("first")).order_by(_root).limit(1).offset(value("skipped"))
)


def trees_in_portions(connection: Connection, size: int) -> Iterator[Among]:
    """All providers in portions of whole trees, of *size* providers plus the rest of the last tree."""
    first, last = 0, 0
    while last < MAX_INT:
        next_roots = _ROOT_AHEAD.rows(connection, first=first, skipped=size - 1)
        last = next_roots[0][0] if next_roots else MAX_INT
        yield Among(By.ROOTS, (), {"first": first, "last": last})
        first = last + 1
