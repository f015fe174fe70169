"""The providers that claims are measured on, and what each claim takes of them; one unit each time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid5

from stead.bench import straight
from stead.bench.sites import PREFIX, SHARES, SPACE, uuid_of
from stead.domain.inventory import Inventory
from stead.store import names, providers, resource_classes
from stead.store.sql.bulk import Insert
from stead.store.tables import allocations, consumers, stead_usage, stead_usage_change
from stead.topology.site import Description

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.bench.filling import Watcher
    from stead.store.protocol.transaction import Store, Transaction

Taken = dict[str, list[str]]
"""Classes by provider uuid; a unit of each."""

STRIDE = 7919
"""A prime: hosts that are claimed from one after the other are far from each other."""

PLENTY = Inventory(1_000_000_000)
COMPUTE = ("VCPU", "MEMORY_MB")
DISK = "DISK_GB"
OWNER = "bench"
AT_ONCE = 10_000


@dataclass(frozen=True)
class ClaimsSite:
    """Hosts with disks, as many without, and a storage pool that serves these and has consumers already."""

    hosts: int
    consumers: int

    def descriptions(self) -> Iterator[Description]:
        """The providers; no claim ever finds one of them full."""
        near = frozenset({uuid_of("claims")})
        for number in range(self.hosts):
            yield _provider(host(number), (*COMPUTE, DISK), frozenset(), frozenset())
            yield _provider(diskless(number), COMPUTE, frozenset(), near)
        yield _provider(POOL, (DISK,), SHARES, near)

    def every(self) -> list[Taken]:
        """All that any claim takes."""
        return [self.taken(work, number) for work in WORKS for number in range(self.hosts)]

    def taken(self, work: str, number: int) -> Taken:
        """What the claim of this number takes."""
        return WORKS[work](number * STRIDE % self.hosts)


def _provider(name: str, classes: Sequence[str], traits: frozenset[str], aggregates: frozenset[str]) -> Description:
    return Description(name, _uuid(name), None, dict.fromkeys(classes, PLENTY), traits, aggregates)


def _uuid(name: str) -> str:
    return str(uuid5(SPACE, name))


def host(number: int) -> str:
    """The name of a host with a disk."""
    return f"{PREFIX}claims-host-{number:05}"


def diskless(number: int) -> str:
    """The name of a host whose disks are in the pool."""
    return f"{PREFIX}claims-diskless-{number:05}"


POOL = f"{PREFIX}claims-pool"

WORKS: Mapping[str, Callable[[int], Taken]] = {
    "spread": lambda number: {_uuid(host(number)): [*COMPUTE, DISK]},
    "one provider": lambda _: {_uuid(host(0)): [*COMPUTE, DISK]},
    "pool": lambda number: {_uuid(diskless(number)): [*COMPUTE], _uuid(POOL): [DISK]},
}
"""What a claim takes, by where it is: of one host after the other, all of one, of hosts and all of the pool."""


def make(store: Store, site: ClaimsSite, watcher: Watcher) -> None:
    """Make *site* in an empty database.

    Raises:
        BenchError: there are providers of somebody else.
    """
    straight.prepare(store)
    straight.clear(store)
    described = list(site.descriptions())
    straight.make_names(store, described)
    with watcher("loading providers", len(described)) as loaded:
        straight.load(store, described, loaded)
    owner = (
        names.project_ids(store, {OWNER})[OWNER],
        names.user_ids(store, {OWNER})[OWNER],
        names.consumer_type_ids(store, {OWNER.upper()})[OWNER.upper()],
    )
    with watcher("loading consumers", site.consumers) as loaded:
        for first in range(0, site.consumers, AT_ONCE):
            some = range(first, min(first + AT_ONCE, site.consumers))
            store.write(_hold, some, owner)
            loaded(len(some))
    store.write(_keep, described, site.consumers)
    straight.count_anew(store)
    straight.tell(store)


def _hold(tx: Transaction, numbers: range, owner: tuple[int, int, int]) -> None:
    """A unit of the pool for each of these consumers."""
    now = datetime.now(UTC).replace(tzinfo=None)
    pool = providers.ids_by_uuid(tx.connection, [_uuid(POOL)])[_uuid(POOL)]
    disk = resource_classes.resolve(tx.connection, [DISK])[DISK]
    uuids = [_uuid(f"{PREFIX}claims-consumer-{number}") for number in numbers]
    about = {"project_id": owner[0], "user_id": owner[1], "consumer_type_id": owner[2], "generation": 1}
    made = Insert(consumers, "uuid", *about, "created_at")
    made.run(tx.connection, tx.dialect, [{"uuid": uuid, **about, "created_at": now} for uuid in uuids])
    held = {"resource_provider_id": pool, "resource_class_id": disk, "used": 1, "created_at": now}
    taken = Insert(allocations, "consumer_id", *held)
    taken.run(tx.connection, tx.dialect, [{"consumer_id": uuid, **held} for uuid in uuids])


def _keep(tx: Transaction, described: Sequence[Description], of_pool: int) -> None:
    """The sums and the change rows that every claim finds after the first, so that none is measured as the first."""
    ids = providers.ids_by_uuid(tx.connection, [str(one.uuid) for one in described])
    rows = providers.rows_by_id(tx.connection, ids.values())
    classes = resource_classes.resolve(tx.connection, (*COMPUTE, DISK))
    sums = [
        {
            "provider_id": ids[str(one.uuid)],
            "class_id": classes[name],
            "used": of_pool if one.name == POOL else 0,
            "generation": rows[ids[str(one.uuid)]].generation,
        }
        for one in described
        for name in one.inventories
    ]
    kept = Insert(stead_usage, "provider_id", "class_id", "used", "generation", changing=("used", "generation"))
    kept.run(tx.connection, tx.dialect, sums)
    noted = Insert(stead_usage_change, "provider_id", "slot", "tick", changing=("slot",))
    noted.run(tx.connection, tx.dialect, [{"provider_id": id_, "slot": 0, "tick": 0} for id_ in sorted(rows)])
