"""Among which providers something is read: statements are made once for each way to say it, and run for many values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.inventory import MAX_INT
from stead.store.protocol.transaction import in_portions
from stead.store.sql.prepared import IDS, Prepared
from stead.store.tables import resource_providers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection


class By(Enum):
    """A way to say which providers are meant: a condition on ``resource_providers`` with values left open."""

    IDS = "ids"
    ROOTS = "roots"

    @property
    def condition(self) -> sa.ColumnElement[bool]:
        """The condition."""
        if self is By.IDS:
            return resource_providers.c.id.in_([IDS])
        return resource_providers.c.root_provider_id.between(sa.bindparam("first", 0), sa.bindparam("last", 0))

    def narrowed(self, query: sa.Select[*tuple[Any, ...]], provider_id: sa.Column[int]) -> sa.Select[*tuple[Any, ...]]:
        """*query*, about those rows only whose *provider_id* is one of the providers.

        Ids are looked for in the column itself: a join with some hundred providers tempts a database that does not know
        how many rows there are to read all of them.
        """
        if self is By.IDS:
            return query.where(provider_id.in_([IDS]))
        return query.join(resource_providers, resource_providers.c.id == provider_id).where(self.condition)


@dataclass(frozen=True, slots=True)
class Among:
    """Some providers: a condition, and portions of ids or of other values for it, each to be asked by itself."""

    by: By
    portions: Sequence[tuple[Collection[int], Mapping[str, int]]]

    def rows(self, connection: Connection, query: Prepared) -> list[Any]:
        """All rows of *query*, which has the condition."""
        return [row for ids, values in self.portions for row in query.rows(connection, ids, values)]


def with_ids(ids: Collection[int]) -> Among:
    """The providers with these ids."""
    return Among(By.IDS, [(some, {}) for some in in_portions(sorted(ids))])


_root = resource_providers.c.root_provider_id
_ROOT_AHEAD = Prepared(
    sa.select(_root)
    .where(_root >= sa.bindparam("first", 0))
    .order_by(_root)
    .limit(1)
    .offset(sa.bindparam("skipped", 0))
)


def trees_in_portions(connection: Connection, size: int) -> Iterator[Among]:
    """All providers in portions of whole trees, of *size* providers and the rest of the last tree."""
    first, last = 0, 0
    while last < MAX_INT:
        found = _ROOT_AHEAD.rows(connection, values={"first": first, "skipped": size - 1})
        last = found[0][0] if found else MAX_INT
        yield Among(By.ROOTS, [((), {"first": first, "last": last})])
        first = last + 1
