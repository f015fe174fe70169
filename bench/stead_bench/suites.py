"""Suites: combinations of sites, queries and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead_bench import queries
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from stead_bench.queries import Query

MOST_UNLIMITED = 10_000
"""Maximum number of hosts for queries without a limit."""


@dataclass(frozen=True)
class Case:
    """One query of one site; each limit is its own row, None is no limit."""

    site: Site
    query: Query
    limits: tuple[int | None, ...]


@dataclass(frozen=True)
class Suite:
    """Cases over growing sizes: the default sizes, or given ones."""

    help: str
    sizes: tuple[int, ...]
    cases: Callable[[Site], Iterator[Case]]
    kind: str


def _limits(site: Site) -> tuple[int | None, ...]:
    """No limit first: the limited answers are compared with its result."""
    return (None, 10, 1000) if site.size <= MOST_UNLIMITED else (10, 1000)


def _flat(site: Site) -> Iterator[Case]:
    yield Case(site, queries.host_in_zones(site), _limits(site))


def _nested(site: Site) -> Iterator[Case]:
    yield Case(site, queries.one_subtree(site), _limits(site))


def _numa(site: Site) -> Iterator[Case]:
    yield Case(site, queries.port_and_gpu(site), _limits(site))


def _shared(site: Site) -> Iterator[Case]:
    yield Case(site, queries.shared_disk(site), _limits(site))


def _machines(site: Site) -> Iterator[Case]:
    yield Case(site, queries.node_with_function(site), _limits(site))


def _wide(site: Site) -> Iterator[Case]:
    """Fewer groups than devices, and equally many."""
    if site.size > FEW_GROUPS:
        yield Case(site, queries.isolated(FEW_GROUPS), (1000,))
    yield Case(site, queries.isolated(site.size), (1000,))


FEW_GROUPS = 4


def _too_many(site: Site) -> Iterator[Case]:
    yield Case(site, queries.isolated(site.size + 1), (None,))


def _torn_apart(site: Site) -> Iterator[Case]:
    yield Case(site, queries.torn_apart(site), (None,))


def _list(site: Site) -> Iterator[Case]:
    yield Case(site, queries.providers_with_room(site), (None,))
    yield Case(site, queries.all_providers(site), (None,))


SUITES: Mapping[str, Suite] = {
    "flat": Suite("hosts without children, in zones", (10, 100, 1000, 10_000, 100_000), _flat, "flat"),
    "traits": Suite("the same with 90 traits each", (10_000,), _flat, "flat"),
    "nested": Suite("trees of seven, same_subtree over groups", (10, 100, 1000), _nested, "nested"),
    "numa": Suite("trees of fifteen, ports with bandwidth and GPUs", (10, 100, 1000), _numa, "numa"),
    "shared": Suite("hosts with shared storage", (100, 1000, 10_000), _shared, "shared"),
    "machines": Suite("real machines, from a folder of hwloc files", (10, 100, 1000), _machines, "machines"),
    "list": Suite("the list of providers", (10_000,), _list, "flat"),
    "torn-apart": Suite("each somewhere, never both in one NUMA node", (64,), _torn_apart, "split"),
    "too-many": Suite("one group more than there are devices", (8, 63), _too_many, "wide"),
    "wide": Suite("one host with many devices, isolated groups", (8, 64), _wide, "wide"),
}

TRAITS = {"traits": 90}
"""Traits of a host for suites that need more than the default."""


def cases(
    name: str,
    sizes: Sequence[int] = (),
    *,
    traits: int | None = None,
    seed: int = 1,
    folder: Path | None = None,
    limits: Collection[int] = (),
) -> list[Case]:
    """The cases of the suite *name*, the smallest site first; only with the limits in *limits*, 0 for none."""
    suite = SUITES[name]
    had = traits if traits is not None else TRAITS.get(name, Site.traits)
    all_cases = (
        case
        for size in sorted(set(sizes or suite.sizes))
        for case in suite.cases(Site(suite.kind, size, had, seed, folder))
    )
    if not limits:
        return list(all_cases)
    return [replace(case, limits=remaining) for case in all_cases if (remaining := _kept(case.limits, limits))]


def _kept(limits: tuple[int | None, ...], chosen: Collection[int]) -> tuple[int | None, ...]:
    return tuple(limit for limit in limits if (limit or 0) in chosen)
