"""Writes sites directly into the tables of a Placement database, as fast as it accepts rows. Only this module does so.

Running servers that read SQL find the rows at once. Stead finds them when the commit clock says that everything
changed, which is written last.

Source: "The write and refresh protocol", docs/protocol.md (rule 6).
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa

from stead.config.masking import complete_url
from stead.config.values import ConfigError
from stead.store import names, providers, resource_classes, traits
from stead.store.protocol.clock import EVERYTHING, SLOTS
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql import dialects as durability
from stead.store.sql.dialects import Database
from stead.store.sql.statements import Insert
from stead.store.tables import (
    allocations,
    consumers,
    inventories,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    stead_clock,
    stead_flavor,
    stead_usage,
    stead_usage_change,
)
from stead.store.tables import resource_classes as classes_table
from stead.store.tables import traits as traits_table
from stead_bench.errors import BenchError
from stead_bench.sites import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from stead.store.protocol.store import Transaction
    from stead.topology.site import Description

__all__ = [
    "SLOTS",
    "announce",
    "class_ids",
    "clear",
    "count_anew",
    "describe_flavors",
    "durable",
    "hold",
    "keep_sums",
    "load",
    "make_names",
    "missing",
    "opened",
    "owner_ids",
    "portions",
    "prepare",
    "present",
    "provider_ids",
    "providers_with_inventory",
    "require_ours",
    "reserve_one_more",
]

AT_ONCE = 5000
"""Approximate number of providers in one transaction."""

PAIRS_AT_ONCE = 5000
"""Number of pairs of ids in one statement."""


@contextmanager
def opened(url: str) -> Iterator[Store]:
    """The database at *url*. Data written to SQLite need not survive a power cut.

    Raises:
        BenchError: *url* is invalid, or there is no driver for it.
    """
    try:
        store = Store(Database(complete_url(url), sqlite_synchronous=False), write_timeout=60.0)
    except ConfigError as error:
        raise BenchError(str(error)) from error
    try:
        yield store
    finally:
        store.close()


@contextmanager
def durable(url: str, connections: int) -> Iterator[Store]:
    """The database with Stead's own settings.

    Raises:
        BenchError: *url* is invalid, or there is no driver for it.
        NotDurable: the database may lose commits.
    """
    try:
        store = Store(Database(complete_url(url), max_pool_size=connections))
    except ConfigError as error:
        raise BenchError(str(error)) from error
    try:
        durability.check(store.writer, required=True)
        yield store
    finally:
        store.close()


def prepare(store: Store) -> None:
    """Create missing tables and the standard names."""
    schema.prepare(store.writer, may_upgrade=True)
    store.write(names.sync_standard)


def make_names(store: Store, descriptions: Iterable[Description]) -> None:
    """Create the custom traits and resource classes of some *descriptions*."""
    wanted_traits: set[str] = set()
    wanted_classes: set[str] = set()
    for described in descriptions:
        wanted_traits |= described.traits
        wanted_classes.update(described.inventories)
    store.write(_make_names, wanted_traits, wanted_classes)


def _make_names(tx: Transaction, wanted_traits: Collection[str], wanted_classes: Collection[str]) -> None:
    existing = set(tx.connection.scalars(sa.select(traits_table.c.name)))
    for name in sorted(set(wanted_traits) - existing):
        traits.create(tx, name)
    existing = set(tx.connection.scalars(sa.select(classes_table.c.name)))
    for name in sorted(set(wanted_classes) - existing):
        resource_classes.create(tx, name)


def load(store: Store, descriptions: Iterable[Description], loaded: Callable[[int], None] = lambda _: None) -> None:
    """Insert *descriptions*, one tree after the other; their traits and classes must exist.

    Args:
        loaded: called for every portion with its number of providers.
    """
    ids_by_name = _Names(store)
    for portion in portions(descriptions):
        ids_by_name.learn_aggregates(portion)
        store.write(_insert, portion, ids_by_name)
        loaded(len(portion))


def count_anew(store: Store) -> None:
    """Update the database's statistics, on which its query plans rest, instead of waiting for it to do so."""
    with store.writer.begin() as connection:
        if connection.dialect.name in ("mysql", "mariadb"):
            connection.exec_driver_sql(f"ANALYZE TABLE {', '.join(table.name for table in _FILLED)}").all()
        else:
            connection.exec_driver_sql("ANALYZE")


_FILLED = (resource_providers, inventories, resource_provider_traits, resource_provider_aggregates)


def announce(store: Store) -> None:
    """Notify each running Stead on the database that everything changed. Without a clock, none runs."""
    if sa.inspect(store.reader).has_table(stead_clock.name):
        store.write(lambda tx: tx.touch([EVERYTHING]))


def present(store: Store) -> set[str]:
    """The uuids of all providers.

    Raises:
        BenchError: the database has providers that are not from a benchmark, so it is in use.
    """
    rows = store.read(lambda connection: connection.execute(sa.select(_providers.uuid, _providers.name)).all())
    require_ours(name for _, name in rows)
    return {uuid for uuid, _ in rows}


def require_ours(provider_names: Iterable[str]) -> None:
    """Refuse to continue if there are providers that no benchmark created.

    Raises:
        BenchError: names one of them.
    """
    foreign = next((name for name in provider_names if not name.startswith(PREFIX)), None)
    if foreign is not None:
        raise BenchError(f"there are other providers than those of a benchmark, for example {foreign}; left alone")


def clear(store: Store) -> None:
    """Delete all providers with all their data.

    Raises:
        BenchError: some providers are not from a benchmark; nothing was deleted.
    """
    present(store)
    store.write(_clear)


def _clear(tx: Transaction) -> None:
    for table in (allocations, consumers, resource_provider_traits, resource_provider_aggregates, inventories):
        tx.connection.execute(sa.delete(table))
    no_relatives = {"parent_provider_id": None, "root_provider_id": None}
    tx.connection.execute(sa.update(resource_providers).values(no_relatives))  # they refer to each other
    tx.connection.execute(sa.delete(resource_providers))


_providers = resource_providers.c


def portions(descriptions: Iterable[Description], size: int = AT_ONCE) -> Iterator[list[Description]]:
    """*descriptions* in portions of at least *size*, except the last; trees are not split."""
    portion: list[Description] = []
    for described in descriptions:
        if described.parent is None and len(portion) >= size:
            yield portion
            portion = []
        portion.append(described)
    if portion:
        yield portion


class _Names:
    """Ids by name: traits and classes as of the start, aggregates created at first use."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.traits: dict[str, int] = store.read(_ids, traits_table)
        self.classes: dict[str, int] = store.read(_ids, classes_table)
        self.aggregates: dict[str, int] = {}

    def learn_aggregates(self, portion: Iterable[Description]) -> None:
        """Create the aggregates that do not exist yet."""
        uuids = {uuid for described in portion for uuid in described.aggregates}
        if unknown := uuids - self.aggregates.keys():
            self.aggregates |= names.aggregate_ids(self._store, unknown)


def _ids(connection: sa.Connection, table: sa.Table) -> dict[str, int]:
    return {row.name: row.id for row in connection.execute(sa.select(table.c.name, table.c.id))}


def _insert(tx: Transaction, portion: Sequence[Description], ids_by_name: _Names) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    ids = _insert_providers(tx.connection, portion, now)
    rows = [
        {
            "resource_provider_id": ids[described.name],
            "resource_class_id": ids_by_name.classes[resource_class],
            "total": inventory.total,
            "reserved": inventory.reserved,
            "min_unit": inventory.min_unit,
            "max_unit": inventory.max_unit,
            "step_size": inventory.step_size,
            "allocation_ratio": inventory.allocation_ratio,
            "created_at": now,
        }
        for described in portion
        for resource_class, inventory in described.inventories.items()
    ]
    if rows:
        tx.connection.execute(sa.insert(inventories), rows)
    pairs = ((ids_by_name.traits[name], ids[described.name]) for described in portion for name in described.traits)
    _insert_pairs(tx.connection, "resource_provider_traits (trait_id, resource_provider_id)", pairs)
    pairs = (
        (ids[described.name], ids_by_name.aggregates[uuid]) for described in portion for uuid in described.aggregates
    )
    _insert_pairs(tx.connection, "resource_provider_aggregates (resource_provider_id, aggregate_id)", pairs)


def _insert_providers(connection: sa.Connection, portion: Sequence[Description], now: datetime) -> dict[str, int]:
    """Insert level by level, since children refer to the ids of their parents; returns the ids by name.

    The database assigns the ids, so that its counters stay consistent.
    """
    before = connection.execute(sa.select(sa.func.coalesce(sa.func.max(_providers.id), 0))).scalar_one()
    outside = {described.parent for described in portion} - {described.name for described in portion}
    there = sa.select(_providers.name, _providers.id, _providers.root_provider_id).where(_providers.name.in_(outside))
    ids: dict[str, int] = {}
    roots: dict[str, int] = {}
    for name, id_, root in connection.execute(there):
        ids[name], roots[name] = id_, root
    for level in _levels(portion):
        rows = [
            {
                "uuid": described.uuid,
                "name": described.name,
                "generation": 1,
                "created_at": now,
                "parent_provider_id": None if described.parent is None else ids[described.parent],
                "root_provider_id": None if described.parent is None else roots[described.parent],
            }
            for described in level
        ]
        connection.execute(sa.insert(resource_providers), rows)
        is_root = _providers.root_provider_id.is_(None)
        connection.execute(sa.update(resource_providers).where(is_root).values(root_provider_id=_providers.id))
        query = sa.select(_providers.name, _providers.id, _providers.root_provider_id).where(_providers.id > before)
        for name, id_, root in connection.execute(query):
            ids[name], roots[name] = id_, root
    return ids


def _levels(portion: Iterable[Description]) -> list[list[Description]]:
    """Roots, their children, the children of these, …; providers whose parents exist already count as roots."""
    depths: dict[str, int] = {}
    levels: defaultdict[int, list[Description]] = defaultdict(list)
    for described in portion:
        depth = depths[described.name] = 0 if described.parent is None else depths.get(described.parent, -1) + 1
        levels[depth].append(described)
    return [levels[depth] for depth in sorted(levels)]


def _insert_pairs(connection: sa.Connection, where: str, pairs: Iterable[tuple[int, int]]) -> None:
    """Insert pairs of ids as text, which all drivers process several times faster than parameters."""
    texts: list[str] = []
    for first, second in pairs:
        texts.append(f"({first:d},{second:d})")
        if len(texts) == PAIRS_AT_ONCE:
            connection.exec_driver_sql(f"INSERT INTO {where} VALUES {','.join(texts)}")
            texts.clear()
    if texts:
        connection.exec_driver_sql(f"INSERT INTO {where} VALUES {','.join(texts)}")


def missing(
    descriptions: Iterable[Description], there: Mapping[str, object] | Collection[str]
) -> Iterator[Description]:
    """The *descriptions* whose uuid is not in *there*."""
    return (described for described in descriptions if described.uuid not in there)


Owner = tuple[int, int, int]
"""Ids of a project, a user and a consumer type."""


def owner_ids(store: Store, name: str) -> Owner:
    """The project, the user and, in capitals, the consumer type of this name; creates missing ones."""
    return (
        names.project_ids(store, {name})[name],
        names.user_ids(store, {name})[name],
        names.consumer_type_ids(store, {name.upper()})[name.upper()],
    )


def provider_ids(store: Store, uuids: Collection[str]) -> Mapping[str, int]:
    """The ids of providers, by uuid."""
    return store.read(providers.ids_by_uuid, uuids)


def class_ids(store: Store, class_names: Collection[str]) -> Mapping[str, int]:
    """The ids of resource classes, by name."""
    return store.read(resource_classes.resolve, sorted(class_names))


def hold(store: Store, provider: str, class_name: str, uuids: Sequence[str], owner: Owner) -> None:
    """Give each of these new consumers an allocation of one unit of a provider."""
    store.write(_hold, provider, class_name, uuids, owner)


def _hold(tx: Transaction, provider: str, class_name: str, uuids: Sequence[str], owner: Owner) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    provider_id = providers.ids_by_uuid(tx.connection, [provider])[provider]
    class_id = resource_classes.resolve(tx.connection, [class_name])[class_name]
    about = {"project_id": owner[0], "user_id": owner[1], "consumer_type_id": owner[2], "generation": 1}
    made = Insert(consumers, "uuid", *about, "created_at")
    made.run(tx.connection, [{"uuid": uuid, **about, "created_at": now} for uuid in uuids])
    allocation = {"resource_provider_id": provider_id, "resource_class_id": class_id, "used": 1, "created_at": now}
    taken = Insert(allocations, "consumer_id", *allocation)
    taken.run(tx.connection, [{"consumer_id": uuid, **allocation} for uuid in uuids])


def describe_flavors(store: Store, queries: Mapping[str, str]) -> None:
    """Store new flavors, given by name."""
    store.write(_describe_flavors, queries)


def _describe_flavors(tx: Transaction, queries: Mapping[str, str]) -> None:
    described = Insert(stead_flavor, "name", "query", "description")
    described.run(tx.connection, [{"name": name, "query": query, "description": ""} for name, query in queries.items()])


def keep_sums(store: Store, described: Sequence[Description], used: Mapping[str, int]) -> None:
    """Write the sums and change rows that exist after a first claim, so that no claim is measured as the first.

    Args:
        used: usage of each class of a provider, by the provider's name; 0 if missing.
    """
    store.write(_keep_sums, described, used)


def _keep_sums(tx: Transaction, described: Sequence[Description], used: Mapping[str, int]) -> None:
    ids = providers.ids_by_uuid(tx.connection, [str(provider.uuid) for provider in described])
    rows = providers.rows_by_id(tx.connection, ids.values())
    class_names = {name for provider in described for name in provider.inventories}
    classes = resource_classes.resolve(tx.connection, sorted(class_names))
    sums = [
        {
            "provider_id": ids[str(provider.uuid)],
            "class_id": classes[name],
            "used": used.get(provider.name, 0),
            "generation": rows[ids[str(provider.uuid)]].generation,
        }
        for provider in described
        for name in provider.inventories
    ]
    usages = Insert(stead_usage, "provider_id", "class_id", "used", "generation", changing=("used", "generation"))
    usages.run(tx.connection, sums)
    noted = Insert(stead_usage_change, "provider_id", "slot", "tick", changing=("slot",))
    noted.run(tx.connection, [{"provider_id": id_, "slot": 0, "tick": 0} for id_ in sorted(rows)])


def providers_with_inventory(connection: sa.Connection) -> list[int]:
    """The ids of all providers that have an inventory."""
    ids = inventories.c.resource_provider_id
    return list(connection.scalars(sa.select(ids).distinct().order_by(ids)))


def reserve_one_more(tx: Transaction, ids: Sequence[int]) -> None:
    """Change an amount of each of these providers."""
    statement = (
        sa.update(inventories)
        .where(inventories.c.resource_provider_id == sa.bindparam("p_id"))
        .values(reserved=inventories.c.reserved + 1)
    )
    tx.connection.execute(statement, [{"p_id": id_} for id_ in ids])
    tx.touch(ids)
