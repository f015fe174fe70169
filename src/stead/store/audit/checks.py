"""The checks: each finds one kind of fault, in one snapshot, with statements that return only faulty rows.

Source: the rules of the tables, "The database", and of the clock and the maintained sums, "The write and refresh
protocol", docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.errors import SteadError
from stead.domain.provider import MAX_FLOAT, exact_capacity, has_room
from stead.store.extensions.leases import State
from stead.store.protocol.clock import SLOTS
from stead.store.tables import (
    allocations,
    consumer_types,
    consumers,
    inventories,
    placement_aggregates,
    projects,
    resource_classes,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    stead_clock,
    stead_lease,
    stead_provider_change,
    stead_usage,
    stead_usage_change,
    traits,
    users,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy.engine import Connection


# The faults that an audit can find, by name, and one finding of a fault.


@dataclass(eq=False)
class NoBooks(SteadError):
    """The database has none of the tables of a Placement service."""

    def __str__(self) -> str:
        return "The database has no tables of a Placement service."


@dataclass(frozen=True, slots=True)
class About:
    """The description of a fault: what it means, and what to do."""

    meaning: str
    help: str
    is_repaired: bool = False
    """A repair can fix it safely; otherwise *help* tells the operator what to do."""


_DROPPED = "A repair removes the row, which means nothing."
_CLOCK = "A repair writes the row again; all running services reload everything."
_OWNER = "A repair gives the consumer the project or user of [placement] incomplete_consumer_project_id or …_user_id."
_CLAIM_AGAIN = "Release the consumers (stead release), or let their owners claim again; both remove these rows."


class Fault(Enum):
    """A kind of fault; the member's name determines its name in JSON."""

    OVERCOMMITTED = About(
        "more is taken than the capacity",
        "Move or release consumers, or raise total or allocation_ratio, or lower reserved.",
    )
    ALLOCATION_WITHOUT_CONSUMER = About(
        "allocations of a consumer that does not exist",
        "A repair creates the consumers, with the project and user of [placement] incomplete_consumer_project_id and "
        "…_user_id. Then release those that are not used.",
        is_repaired=True,
    )
    ALLOCATION_WITHOUT_PROVIDER = About(
        "allocations of a provider that does not exist",
        _CLAIM_AGAIN,
    )
    ALLOCATION_WITHOUT_CLASS = About(
        "allocations of a resource class that does not exist",
        f"{_CLAIM_AGAIN} Or insert the missing row of resource_classes with this id.",
    )
    ALLOCATION_WITHOUT_INVENTORY = About(
        "allocations of a class of which the provider has no inventory",
        "Give the provider this inventory again, or move or release the consumers.",
    )
    ALLOCATION_AMOUNT = About("allocations of an amount below 1", _CLAIM_AGAIN)
    ALLOCATIONS_IN_PARTS = About(
        "several allocations of one consumer, provider and class",
        "A repair makes one row of them, with the sum.",
        is_repaired=True,
    )
    CONSUMER_WITHOUT_ALLOCATIONS = About(
        "a consumer without allocations", "A repair removes the consumer.", is_repaired=True
    )
    UNKNOWN_PROJECT = About("a consumer of a project that does not exist", _OWNER, is_repaired=True)
    UNKNOWN_USER = About("a consumer of a user that does not exist", _OWNER, is_repaired=True)
    UNKNOWN_CONSUMER_TYPE = About(
        "a consumer of a type that does not exist", "A repair leaves the consumer without a type.", is_repaired=True
    )
    NO_NAME = About("a provider without a name", "A repair gives it its uuid as its name.", is_repaired=True)
    NO_GENERATION = About("a provider without a generation", "A repair sets it to 0.", is_repaired=True)
    UNKNOWN_PARENT = About(
        "a provider whose parent does not exist",
        "Stop the writers, set its parent_provider_id by SQL to what it should be (NULL for a root), then repair.",
    )
    CYCLE = About(
        "providers that are their own ancestors",
        "Stop the writers, set parent_provider_id of the one that should be on top to NULL by SQL, then repair.",
    )
    NO_ROOT = About("a provider without a root", "A repair sets the root that its parents lead to.", is_repaired=True)
    WRONG_ROOT = About(
        "a provider whose root is not where its parents lead",
        "A repair sets the root that its parents lead to.",
        is_repaired=True,
    )
    INVENTORY_WITHOUT_PROVIDER = About("inventory of a provider that does not exist", _DROPPED, is_repaired=True)
    INVENTORY_WITHOUT_CLASS = About(
        "inventory of a resource class that does not exist",
        "Insert the missing row of resource_classes with this id, or delete these rows of inventories by SQL.",
    )
    INVENTORY_UNITS = About(
        "an inventory with a negative reserved, or a min_unit, max_unit or step_size below 1",
        "A repair sets these numbers to the least ones that the API accepts.",
        is_repaired=True,
    )
    INVENTORY_CAPACITY = About(
        "an inventory with a total or an allocation_ratio that the API does not accept",
        "Replace or delete the inventory over the API, or correct the site file and apply it (stead topology apply).",
    )
    DANGLING_TRAIT = About("a trait and a provider of which one does not exist", _DROPPED, is_repaired=True)
    DANGLING_AGGREGATE = About("an aggregate and a provider of which one does not exist", _DROPPED, is_repaired=True)
    AGGREGATE_WITHOUT_UUID = About("an aggregate without a uuid", "A repair gives it a new uuid.", is_repaired=True)
    CLOCK_SLOTS = About("a slot of the clock that is missing, too many, or below its floor", _CLOCK, is_repaired=True)
    CHANGE_OUT_OF_STEP = About(
        "a change row that its slot of the clock does not explain",
        "A repair records the change again with a new tick.",
        is_repaired=True,
    )
    KEPT_SUM = About(
        "kept sums that are not those of the allocations",
        "A repair drops the provider's kept sums; they are added up again with its next claim.",
        is_repaired=True,
    )

    LEASE_WITHOUT_CONSUMER = About(
        "a lease of a consumer that does not exist, as another service leaves it",
        "A repair removes the lease. Stead removes it at its end, too.",
        is_repaired=True,
    )
    LEASE_STATE = About(
        "a lease with an unknown state, which never ends",
        "Release the consumer (stead release), or let its owner claim again with a lease.",
    )

    @property
    def slug(self) -> str:
        """The name in JSON."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence of a fault."""

    fault: Fault
    subject: str
    """The affected row, in the operator's terms."""
    detail: str
    key: int | str | tuple[int, int]
    """The key by which a repair finds the row: an id, a uuid, or a pair of ids, as the fault's check selects it."""


_a, _c, _i, _p, _rc = allocations.c, consumers.c, inventories.c, resource_providers.c, resource_classes.c
_lease = stead_lease.c
_number = sa.func.count().label("number")


@dataclass(frozen=True, slots=True)
class Check:
    """One query; each row of its result is a finding.

    The subject and the detail are formatted with the row's columns; the columns named ``key…`` are the finding's key.
    """

    fault: Fault
    query: sa.Select[Any]
    subject: str
    detail: str
    needs: sa.Table = resource_providers
    """Skipped if the database lacks this table."""
    is_wrong: Callable[[sa.Row[Any]], bool] | None = None
    """Decides about rows that SQL can only narrow down."""

    def findings(self, connection: Connection) -> Iterator[Finding]:
        """The faults that the query finds."""
        for row in connection.execute(self.query):
            if self.is_wrong is None or self.is_wrong(row):
                values = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
                keys = tuple(value for name, value in values.items() if name.startswith("key"))
                yield Finding(
                    self.fault,
                    self.subject.format(**values),
                    self.detail.format(**values),
                    keys if len(keys) == 2 else keys[0],
                )


def audit(connection: Connection, watch: Callable[[int, int], None]) -> list[Finding]:
    """All faults in the snapshot of *connection*.

    Args:
        watch: called after each check with the number of completed checks and the number of all checks.

    Raises:
        NoBooks: the database lacks the tables of a Placement service.
    """
    present = set(sa.inspect(connection).get_table_names())
    if resource_providers.name not in present:
        raise NoBooks
    asked: list[Callable[[Connection], Iterator[Finding]]] = [
        check.findings for check in CHECKS if check.needs.name in present
    ]
    asked.append(misplaced)
    if stead_clock.name in present:
        asked.append(_slots)
    all_findings: list[Finding] = []
    for done, findings in enumerate(asked, start=1):
        all_findings += findings(connection)
        watch(done, len(asked))
    order = {fault: place for place, fault in enumerate(Fault)}
    return sorted(all_findings, key=lambda finding: order[finding.fault])


_sums = (
    sa.select(
        _a.resource_provider_id.label("provider_id"),
        _a.resource_class_id.label("class_id"),
        sa.func.sum(_a.used).label("used"),
        _number,
    )
    .group_by(_a.resource_provider_id, _a.resource_class_id)
    .subquery()
)

_NEARLY = 0.9999
"""Some databases store the ratio in single precision, so that the product differs; this factor is below both."""


# As big integers, since the difference of faulty numbers may exceed 32 bits.
_ROOM = (sa.cast(_i.total, sa.BigInteger) - sa.cast(_i.reserved, sa.BigInteger)) * _i.allocation_ratio


def _taken(provider_id: sa.Column[int], class_id: sa.Column[int]) -> sa.ColumnElement[int]:
    """The usage of a place, read through the index of allocations, which all databases use here."""
    taken = sa.select(sa.func.coalesce(sa.func.sum(_a.used), 0))
    return taken.where(_a.resource_provider_id == provider_id, _a.resource_class_id == class_id).scalar_subquery()


def _over_committed() -> Check:
    used = _taken(_i.resource_provider_id, _i.resource_class_id)
    query = (
        sa.select(
            _p.id.label("key"),
            _p.uuid,
            _rc.name,
            used.label("used"),
            _i.total,
            _i.reserved,
            _i.allocation_ratio.label("ratio"),
        )
        .select_from(inventories)
        .join(resource_providers, _p.id == _i.resource_provider_id)
        .outerjoin(resource_classes, _rc.id == _i.resource_class_id)
        .where(used > _ROOM * _NEARLY)
        .order_by(_p.id, _i.resource_class_id)
    )
    detail = "{name}: {used} used of ({total} - {reserved}) * {ratio}"
    return Check(Fault.OVERCOMMITTED, query, "provider {uuid}", detail, is_wrong=_exceeds)


def _exceeds(row: sa.Row[Any]) -> bool:
    return row.used > 0 and not has_room(0, int(row.used), exact_capacity(row.total, row.reserved, row.ratio))


def _without(fault: Fault, reference: sa.Column[Any], referred: sa.Column[Any], subject: str, detail: str) -> Check:
    """Groups rows whose column *reference* refers to a missing row, by that value, each with the number of rows."""
    query = (
        sa.select(reference.label("key"), _number)
        .select_from(reference.table.outerjoin(referred.table, referred == reference))
        .where(referred.is_(None))
        .group_by(reference)
        .order_by(reference)
    )
    return Check(fault, query, subject, detail)


def _without_inventory() -> Check:
    query = (
        sa.select(_p.id.label("key"), _p.uuid, _rc.name, _sums.c.used, _sums.c.number)
        .select_from(_sums)
        .join(resource_providers, _p.id == _sums.c.provider_id)
        .join(resource_classes, _rc.id == _sums.c.class_id)
        .outerjoin(
            inventories,
            sa.and_(
                _i.resource_provider_id == _sums.c.provider_id,
                _i.resource_class_id == _sums.c.class_id,
            ),
        )
        .where(_i.id.is_(None))
        .order_by(_p.id, _rc.id)
    )
    detail = "{name}: {used} used in {number} allocations"
    return Check(Fault.ALLOCATION_WITHOUT_INVENTORY, query, "provider {uuid}", detail)


def _amounts() -> Check:
    query = (
        sa.select(_a.id.label("key"), _a.consumer_id, _a.used, _a.resource_class_id, _a.resource_provider_id)
        .where(_a.used < 1)
        .order_by(_a.id)
    )
    detail = "{used} of class id {resource_class_id} from provider id {resource_provider_id}"
    return Check(Fault.ALLOCATION_AMOUNT, query, "consumer {consumer_id}", detail)


def _in_parts() -> Check:
    place = (_a.consumer_id, _a.resource_provider_id, _a.resource_class_id)
    query = (
        sa.select(sa.func.min(_a.id).label("key"), *place, sa.func.sum(_a.used).label("used"), _number)
        .group_by(*place)
        .having(sa.func.count() > 1)
        .order_by(sa.func.min(_a.id))
    )
    detail = "{used} in {number} rows, of class id {resource_class_id} from provider id {resource_provider_id}"
    return Check(Fault.ALLOCATIONS_IN_PARTS, query, "consumer {consumer_id}", detail)


def _null(fault: Fault, column: sa.Column[Any], subject: str) -> Check:
    """Rows without a value in *column*, by their ids."""
    table = column.table
    shown = table.c.uuid if column is not table.c.uuid else table.c.id
    query = sa.select(table.c.id.label("key"), shown.label("shown")).where(column.is_(None)).order_by(table.c.id)
    return Check(fault, query, f"{subject} {{shown}}", f"{column.name} is NULL")


def _numbers(fault: Fault, is_wrong: sa.ColumnElement[bool], *columns: sa.Column[Any]) -> Check:
    """Inventories with numbers that the API does not accept."""
    query = (
        sa.select(_i.id.label("key"), _p.uuid, sa.func.coalesce(_rc.name, "unknown class").label("name"), *columns)
        .select_from(inventories)
        .join(resource_providers, _p.id == _i.resource_provider_id)
        .outerjoin(resource_classes, _rc.id == _i.resource_class_id)
        .where(is_wrong)
        .order_by(_i.id)
    )
    numbers = ", ".join(f"{column.name} {{{column.name}}}" for column in columns)
    return Check(fault, query, "provider {uuid}", f"{{name}}: {numbers}")


def _consumers_without_allocations() -> Check:
    query = sa.select(_c.uuid.label("key")).outerjoin(allocations, _a.consumer_id == _c.uuid).where(_a.id.is_(None))
    return Check(Fault.CONSUMER_WITHOUT_ALLOCATIONS, query.order_by(_c.id), "consumer {key}", "holds nothing")


def _owner(fault: Fault, reference: sa.Column[int], referred: sa.Column[int], what: str) -> Check:
    query = (
        sa.select(_c.uuid.label("key"), reference.label("id"))
        .select_from(consumers.outerjoin(referred.table, referred == reference))
        .where(referred.is_(None), reference.is_not(None))
        .order_by(_c.id)
    )
    return Check(fault, query, "consumer {key}", f"{what} {{id}}", needs=referred.table)


def _dangling(fault: Fault, pairs: sa.Table, member: sa.Column[int], referred: sa.Column[int], what: str) -> Check:
    provider_id = pairs.c.resource_provider_id
    query = (
        sa.select(provider_id.label("key_provider"), member.label("key_member"))
        .select_from(
            pairs.outerjoin(resource_providers, _p.id == provider_id).outerjoin(referred.table, referred == member)
        )
        .where(_p.id.is_(None) | referred.is_(None))
        .order_by(provider_id, member)
    )
    return Check(fault, query, "provider id {key_provider}", f"{what} id {{key_member}}")


def _out_of_step(changes: sa.Table) -> Check:
    slot, tick = stead_clock.c, changes.c.tick
    query = (
        sa.select(
            changes.c.provider_id.label("key"), changes.c.slot, tick.label("tick"), slot.tick.label("now"), slot.floor
        )
        .select_from(changes.outerjoin(stead_clock, slot.slot == changes.c.slot))
        # Ticks begin at 1. A tick below the floor is no fault: pruning raises floors past rows of existing providers.
        .where(slot.slot.is_(None) | (tick > slot.tick) | (tick < 1))
        .order_by(changes.c.provider_id)
    )
    detail = "tick {tick} in slot {slot}, which is at {now} with floor {floor}"
    return Check(Fault.CHANGE_OUT_OF_STEP, query, f"{changes.name} {{key}}", detail, needs=changes)


def _wrong_sums() -> Check:
    sums = stead_usage.c
    added = _taken(sums.provider_id, sums.class_id)
    query = (
        sa.select(
            sums.provider_id.label("key"),
            sa.func.coalesce(_p.uuid, "unknown").label("uuid"),
            sums.class_id,
            sums.used,
            sums.generation,
            added.label("added"),
            _p.generation.label("now"),
        )
        .select_from(stead_usage)
        .outerjoin(resource_providers, _p.id == sums.provider_id)
        # A sum ahead of its provider's generation, or of a reused id, would become valid later.
        .where(
            _p.id.is_(None)
            | (sums.generation > _p.generation)
            | ((sums.generation == _p.generation) & (sums.used != added))
        )
        .order_by(sums.provider_id, sums.class_id)
    )
    detail = "class id {class_id}: {used} kept at generation {generation}, {added} taken at generation {now}"
    return Check(Fault.KEPT_SUM, query, "provider {uuid}", detail, needs=stead_usage)


def _missing_sums() -> Check:
    """A class without a sum counts as unused if the provider has other valid sums."""
    stored_sum, beside = stead_usage.alias("kept"), stead_usage.alias("merged_with")
    stands = sa.exists().where(beside.c.provider_id == _p.id, beside.c.generation == _p.generation)
    mine = sa.and_(
        stored_sum.c.provider_id == _p.id,
        stored_sum.c.class_id == _sums.c.class_id,
        stored_sum.c.generation == _p.generation,
    )
    query = (
        sa.select(_p.id.label("key"), _p.uuid, _sums.c.class_id, _sums.c.used)
        .select_from(_sums)
        .join(resource_providers, _p.id == _sums.c.provider_id)
        .outerjoin(stored_sum, mine)
        .where(stored_sum.c.provider_id.is_(None), stands)
        .order_by(_p.id, _sums.c.class_id)
    )
    detail = "class id {class_id}: no sum kept beside those of other classes, {used} taken"
    return Check(Fault.KEPT_SUM, query, "provider {uuid}", detail, needs=stead_usage)


def lost_leases() -> sa.Select[tuple[int, str]]:
    """The ids and uuids of leases without a consumer with that id and uuid."""
    # As bytes: the columns may have different collations.
    is_other = sa.cast(_lease.uuid, sa.LargeBinary) != sa.cast(_c.uuid, sa.LargeBinary)
    return (
        sa.select(_lease.consumer_id.label("key"), _lease.uuid)
        .select_from(stead_lease.outerjoin(consumers, _c.id == _lease.consumer_id))
        .where(_c.id.is_(None) | is_other)
        .order_by(_lease.consumer_id)
    )


def _lease_states() -> Check:
    query = sa.select(_lease.consumer_id.label("key"), _lease.uuid, _lease.state).order_by(_lease.consumer_id)
    unknown = query.where(_lease.state.not_in([int(state) for state in State]))
    return Check(Fault.LEASE_STATE, unknown, "consumer {uuid}", "state {state}", needs=stead_lease)


def _slots(connection: Connection) -> Iterator[Finding]:
    """Slots of the clock that break a rule."""
    clock = stead_clock.c
    rows = {row.slot: row for row in connection.execute(sa.select(clock.slot, clock.tick, clock.floor))}
    for slot in sorted({*range(SLOTS), *rows}):
        row = rows.get(slot)
        if row is None:
            yield Finding(Fault.CLOCK_SLOTS, f"slot {slot}", "missing", slot)
        elif slot not in range(SLOTS):
            yield Finding(Fault.CLOCK_SLOTS, f"slot {slot}", f"there are {SLOTS} slots, from 0", slot)
        elif row.tick < row.floor:
            yield Finding(Fault.CLOCK_SLOTS, f"slot {slot}", f"tick {row.tick} is below the floor {row.floor}", slot)


_FAR = 1.01 * MAX_FLOAT  # some databases store the greatest ratio in single precision, rounded up

_ALLOCATIONS, _INVENTORIES = "{number} allocations", "{number} inventories"

CHECKS = (
    _over_committed(),
    _without(Fault.ALLOCATION_WITHOUT_CONSUMER, _a.consumer_id, _c.uuid, "consumer {key}", _ALLOCATIONS),
    _without(Fault.ALLOCATION_WITHOUT_PROVIDER, _a.resource_provider_id, _p.id, "provider id {key}", _ALLOCATIONS),
    _without(Fault.ALLOCATION_WITHOUT_CLASS, _a.resource_class_id, _rc.id, "class id {key}", _ALLOCATIONS),
    _without_inventory(),
    _amounts(),
    _in_parts(),
    _consumers_without_allocations(),
    _owner(Fault.UNKNOWN_PROJECT, _c.project_id, projects.c.id, "project id"),
    _owner(Fault.UNKNOWN_USER, _c.user_id, users.c.id, "user id"),
    _owner(Fault.UNKNOWN_CONSUMER_TYPE, _c.consumer_type_id, consumer_types.c.id, "type id"),
    _null(Fault.NO_NAME, _p.name, "provider"),
    _null(Fault.NO_GENERATION, _p.generation, "provider"),
    _without(Fault.INVENTORY_WITHOUT_PROVIDER, _i.resource_provider_id, _p.id, "provider id {key}", _INVENTORIES),
    _without(Fault.INVENTORY_WITHOUT_CLASS, _i.resource_class_id, _rc.id, "class id {key}", _INVENTORIES),
    _numbers(
        Fault.INVENTORY_UNITS,
        (_i.reserved < 0) | (_i.min_unit < 1) | (_i.max_unit < 1) | (_i.step_size < 1),
        *(_i.reserved, _i.min_unit, _i.max_unit, _i.step_size),
    ),
    _numbers(
        Fault.INVENTORY_CAPACITY,
        # Where a database has NaN, it is greater than every number. A reshape may reserve more than the total.
        (_i.total < 1) | (_i.allocation_ratio > _FAR) | (_i.allocation_ratio < -_FAR),
        *(_i.total, _i.reserved, _i.allocation_ratio),
    ),
    _dangling(
        Fault.DANGLING_TRAIT, resource_provider_traits, resource_provider_traits.c.trait_id, traits.c.id, "trait"
    ),
    _dangling(
        Fault.DANGLING_AGGREGATE,
        resource_provider_aggregates,
        resource_provider_aggregates.c.aggregate_id,
        placement_aggregates.c.id,
        "aggregate",
    ),
    _null(Fault.AGGREGATE_WITHOUT_UUID, placement_aggregates.c.uuid, "aggregate id"),
    _out_of_step(stead_provider_change),
    _out_of_step(stead_usage_change),
    _wrong_sums(),
    _missing_sums(),
    Check(Fault.LEASE_WITHOUT_CONSUMER, lost_leases(), "consumer {uuid}", "consumer id {key}", needs=stead_lease),
    _lease_states(),
)


# The provider forest: checks for missing parents, cycles, and roots that differ from where the parents lead.


_columns = resource_providers.c


def misplaced(connection: Connection) -> Iterator[Finding]:
    """Faults of parents and roots. If the parents of a provider lead to no root, its stored root is not checked."""
    rows = connection.execute(
        sa.select(_columns.id, _columns.uuid, _columns.parent_provider_id, _columns.root_provider_id)
    ).all()
    parents = {row.id: row.parent_provider_id for row in rows}
    roots = roots_of(parents)
    cyclic = cycles(parents, roots)
    for id_, uuid, parent, root in rows:
        subject = f"provider {uuid}"
        if parent is not None and parent not in parents:
            yield Finding(Fault.UNKNOWN_PARENT, subject, f"parent id {parent}", id_)
        elif id_ in cyclic:
            yield Finding(Fault.CYCLE, subject, f"parent id {parent}", id_)
        elif (right_root := roots[id_]) is None:
            continue
        elif root is None:
            yield Finding(Fault.NO_ROOT, subject, f"no root instead of id {right_root}", id_)
        elif root != right_root:
            yield Finding(Fault.WRONG_ROOT, subject, f"root id {root} instead of {right_root}", id_)


def roots_of(parents: Mapping[int, int | None]) -> dict[int, int | None]:
    """The root that each provider's parents lead to; None if they lead to a cycle or a missing parent."""
    roots: dict[int, int | None] = {}
    for start in parents:
        path: dict[int, None] = {}
        at = start
        while at not in roots and at not in path:
            path[at] = None
            above = parents[at]
            if above is None:
                roots[at] = at
            elif above not in parents:
                roots[at] = None
            else:
                at = above
        root = roots.get(at)  # also None if the path is a cycle
        roots.update(dict.fromkeys(path, root))
    return roots


def cycles(parents: Mapping[int, int | None], roots: Mapping[int, int | None]) -> set[int]:
    """Providers that are their own ancestors; their other descendants are not included."""
    lost = {id_: parent for id_, parent in parents.items() if roots[id_] is None and parent in parents}
    below = dict.fromkeys(lost, 0)
    for parent in lost.values():
        if parent in below:
            below[parent] += 1
    leaves = [id_ for id_, children in below.items() if not children]
    while leaves:
        parent = lost.pop(leaves.pop())
        if parent in lost:
            below[parent] -= 1
            if not below[parent]:
                leaves.append(parent)
    # Providers below a missing parent are on no cycle: the loop above removes them from the bottom up.
    return set(lost)
