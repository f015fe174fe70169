"""Selects the providers that a query reads. Each way to select them is compiled once and run for many values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.provider import MAX_INT
from stead.store.sql.statements import IDS, BulkQuery, value
from stead.store.tables import resource_providers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy.engine import Connection


class ProviderCondition(Enum):
    """A way to select providers: a condition on ``resource_providers`` with open values."""

    IDS = "ids"
    RANGE = "range"

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        """The condition."""
        # A provider that an old release left without a root is in no tree, and so in no answer.
        has_root = resource_providers.c.root_provider_id.is_not(None)
        return sa.and_(self._of(resource_providers.c.id), has_root)

    def _of(self, provider_id: sa.Column[int]) -> sa.ColumnElement[bool]:
        return provider_id.in_([IDS]) if self is ProviderCondition.IDS else _in_range(provider_id)

    def narrowed(self, query: sa.Select[*tuple[Any, ...]], provider_id: sa.Column[int]) -> sa.Select[*tuple[Any, ...]]:
        """*query*, restricted to rows whose *provider_id* is one of the providers, or of providers that do not exist.

        The ids are compared with the column itself. With a join of some hundred providers, a database without row
        statistics may read all rows.
        """
        return query.where(self._of(provider_id))


def _in_range(provider_id: sa.Column[int]) -> sa.ColumnElement[bool]:
    return provider_id.between(value("first"), value("last"))


@dataclass(frozen=True, slots=True)
class ProviderFilter:
    """A selection of providers: a condition, and the ids or other values for it."""

    by: ProviderCondition
    ids: Collection[int]
    values: Mapping[str, int]

    def rows(self, connection: Connection, query: BulkQuery) -> list[Any]:
        """All rows of *query*, which has the condition."""
        return query.rows(connection, self.ids, **self.values)

    def columns(self, connection: Connection, query: BulkQuery) -> list[list[Any]]:
        """The columns of *query*, which has the condition of a range."""
        return query.columns(connection, **self.values)


def with_ids(ids: Collection[int]) -> ProviderFilter:
    """The providers with these ids."""
    return ProviderFilter(ProviderCondition.IDS, sorted(ids), {})


_id = resource_providers.c.id
_ID_AHEAD = BulkQuery(sa.select(_id).where(_id >= value("first")).order_by(_id).limit(1).offset(value("skipped")))


def all_in_portions(connection: Connection, size: int) -> Iterator[ProviderFilter]:
    """All providers in ranges of ids, of *size* providers each."""
    first, last = 0, 0
    while last < MAX_INT:
        next_ids = _ID_AHEAD.rows(connection, first=first, skipped=size - 1)
        last = next_ids[0][0] if next_ids else MAX_INT
        yield ProviderFilter(ProviderCondition.RANGE, (), {"first": first, "last": last})
        first = last + 1
