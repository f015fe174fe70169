"""Loads a site into a server: creates what it lacks, and deletes what belongs to the previous site only."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from stead_bench import over_api, tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from stead_bench.asking import Connection
    from stead_bench.servers import Server
    from stead_bench.sites import Site


class Watcher(Protocol):
    """Receives the progress of the work."""

    def __call__(self, work: str, size: int) -> AbstractContextManager[Callable[[int], None]]:
        """Start work of *size* items. In the context, call the function with the number of further completed items."""
        ...


def make(url: str, site: Site, watcher: Watcher) -> int:
    """Create *site* in the empty database at *url*, including the tables; returns the number of providers.

    Raises:
        BenchError: the database has providers already.
    """
    with tables.opened(url) as store:
        tables.prepare(store)
        tables.clear(store)
        tables.make_names(store, site.descriptions())
        count = sum(1 for _ in site.descriptions())
        with watcher(f"loading {site}", count) as loaded:
            tables.load(store, site.descriptions(), loaded)
            tables.count_anew(store)
        tables.announce(store)
    return count


def fill(server: Server, site: Site, watcher: Watcher) -> None:
    """Make *site* the only content of *server*, which runs: through its database if that is known, else its API.

    Raises:
        BenchError: it has other providers than those of a benchmark.
    """
    with closing(server.connect()) as connection:
        over_api.make_names(connection, site.descriptions())
        if server.database is None:
            _fill_over_api(server, connection, site, watcher)
        else:
            _fill_straight(server.database, site, watcher)


def _fill_over_api(server: Server, connection: Connection, site: Site, watcher: Watcher) -> None:
    there = over_api.present(connection)
    described_uuids = {str(described.uuid) for described in site.descriptions()}
    leaving = there.keys() - described_uuids
    lacking = [described for described in site.descriptions() if described.uuid not in there]
    with closing(over_api.Crew(server.connect)) as crew:
        with watcher(f"clearing {server.name}", len(leaving)) as removed:
            for wave in over_api.waves(there, leaving):
                crew.remove(wave, removed)
        with watcher(f"loading {site} into {server.name}", len(lacking)) as loaded:
            crew.load(lacking, loaded)


def _fill_straight(url: str, site: Site, watcher: Watcher) -> None:
    with tables.opened(url) as store:
        there = tables.present(store)
        described_uuids = {str(described.uuid) for described in site.descriptions()}
        if not there <= described_uuids:
            tables.clear(store)
            there = set()
        with watcher(f"loading {site} into a database", len(described_uuids - there)) as loaded:
            tables.load(store, (described for described in site.descriptions() if described.uuid not in there), loaded)
            tables.count_anew(store)
        tables.announce(store)
