"""The providers for measurements of claims, and the places of each claim; one unit per place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid5

from stead.domain.provider import Inventory
from stead.topology.site import Description
from stead_bench import tables
from stead_bench.sites import PREFIX, SHARES, SPACE, uuid_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stead.store.protocol.store import Store
    from stead_bench.filling import Watcher

Taken = dict[str, list[str]]
"""Classes by provider uuid; one unit of each."""

STRIDE = 7919
"""A prime: successive claims use hosts that are far apart."""

PLENTY = Inventory(1_000_000_000)
COMPUTE = ("VCPU", "MEMORY_MB")
DISK = "DISK_GB"
OWNER = "bench"
AT_ONCE = 10_000


@dataclass(frozen=True)
class ClaimsSite:
    """Hosts with disks, equally many without, and a storage pool that serves the latter and already has consumers."""

    hosts: int
    consumers: int

    def descriptions(self) -> Iterator[Description]:
        """The providers, with enough capacity for all claims of a measurement."""
        near = frozenset({uuid_of("claims")})
        for number in range(self.hosts):
            yield _provider(host(number), (*COMPUTE, DISK), frozenset(), frozenset())
            yield _provider(diskless(number), COMPUTE, frozenset(), near)
        yield _provider(POOL, (DISK,), SHARES, near)

    def every(self) -> list[Taken]:
        """The places of all claims."""
        return [self.taken(work, number) for work in WORKS for number in range(self.hosts)]

    def taken(self, work: str, number: int) -> Taken:
        """The places of claim *number*."""
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
"""The places of a claim, by kind of work: different hosts, the same host, or different hosts and the same pool."""


def make(store: Store, site: ClaimsSite, watcher: Watcher) -> None:
    """Create *site* in an empty database.

    Raises:
        BenchError: the database has other providers.
    """
    tables.prepare(store)
    tables.clear(store)
    described = list(site.descriptions())
    tables.make_names(store, described)
    with watcher("loading providers", len(described)) as loaded:
        tables.load(store, described, loaded)
    owner = tables.owner_ids(store, OWNER)
    with watcher("loading consumers", site.consumers) as loaded:
        for first in range(0, site.consumers, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, site.consumers))
            uuids = [_uuid(f"{PREFIX}claims-consumer-{number}") for number in numbers]
            tables.hold(store, _uuid(POOL), DISK, uuids, owner)
            loaded(len(uuids))
    tables.keep_sums(store, described, {POOL: site.consumers})
    tables.count_anew(store)
    tables.announce(store)
