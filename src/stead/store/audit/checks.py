"""The checks: each finds one kind of fault, in one snapshot, with statements that return only faulty rows.

Source: the rules of the tables, "The database", and of the clock and the maintained sums, "The write and refresh
protocol", docs/protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from stead.domain.inventory import capacity, has_room
from stead.store.audit.findings import Fault, Finding, NoBooks
from stead.store.audit.trees import misplaced
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
    stead_provider_change,
    stead_usage,
    stead_usage_change,
    traits,
    users,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import Connection

_a, _c, _i, _p, _rc = allocations.c, consumers.c, inventories.c, resource_providers.c, resource_classes.c
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


def _taken(provider_id: sa.Column[int], class_id: sa.Column[int]) -> sa.ColumnElement[int]:
    """The usage of a place, read through the index of allocations, which all databases use here."""
    taken = sa.select(sa.func.coalesce(sa.func.sum(_a.used), 0))
    return taken.where(_a.resource_provider_id == provider_id, _a.resource_class_id == class_id).scalar_subquery()


def _over_committed() -> Check:
    room = (_i.total - _i.reserved) * _i.allocation_ratio
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
        .where(used > room * _NEARLY)
        .order_by(_p.id, _i.resource_class_id)
    )
    detail = "{name}: {used} used of ({total} - {reserved}) * {ratio}"
    return Check(Fault.OVERCOMMITTED, query, "provider {uuid}", detail, is_wrong=_exceeds)


def _exceeds(row: sa.Row[Any]) -> bool:
    return row.used > 0 and not has_room(0, int(row.used), capacity(row.total, row.reserved, row.ratio))


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
    stored_sum, beside = stead_usage.alias("kept"), stead_usage.alias("beside")
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


_ALLOCATIONS, _INVENTORIES = "{number} allocations", "{number} inventories"

CHECKS = (
    _over_committed(),
    _without(Fault.ALLOCATION_WITHOUT_CONSUMER, _a.consumer_id, _c.uuid, "consumer {key}", _ALLOCATIONS),
    _without(Fault.ALLOCATION_WITHOUT_PROVIDER, _a.resource_provider_id, _p.id, "provider id {key}", _ALLOCATIONS),
    _without(Fault.ALLOCATION_WITHOUT_CLASS, _a.resource_class_id, _rc.id, "class id {key}", _ALLOCATIONS),
    _without_inventory(),
    _consumers_without_allocations(),
    _owner(Fault.UNKNOWN_PROJECT, _c.project_id, projects.c.id, "project id"),
    _owner(Fault.UNKNOWN_USER, _c.user_id, users.c.id, "user id"),
    _owner(Fault.UNKNOWN_CONSUMER_TYPE, _c.consumer_type_id, consumer_types.c.id, "type id"),
    _without(Fault.INVENTORY_WITHOUT_PROVIDER, _i.resource_provider_id, _p.id, "provider id {key}", _INVENTORIES),
    _without(Fault.INVENTORY_WITHOUT_CLASS, _i.resource_class_id, _rc.id, "class id {key}", _INVENTORIES),
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
    _out_of_step(stead_provider_change),
    _out_of_step(stead_usage_change),
    _wrong_sums(),
    _missing_sums(),
)
