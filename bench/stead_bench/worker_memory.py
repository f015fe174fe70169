"""``stead-bench memory``: the memory of a worker for each thing, on a ladder of numbers of this thing.

Each rung has a number of things of one kind. What the same worker takes without them is subtracted. The ladder shows
whether memory is linear in what exists, or bounded.

Things of a snapshot are counted in this process without a database, consumers and flavors in this process with the
application, both as bytes in use. Watchers and sessions need connections, so theirs is the resident memory of a worker.
"""

from __future__ import annotations

import gc
import os
import resource
import tracemalloc
from base64 import urlsafe_b64encode
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from stead_bench import beside_streams, filling, in_process, processes, servers, tables
from stead_bench.errors import BenchError
from stead_bench.memory import LADDERS, MOST_CHANGES, Rung, rung
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from wsgiref.types import WSGIApplication

    from stead.store.protocol.store import Store
    from stead_bench.filling import Watcher

SITE = Site("flat", 1_000)
"""The hosts beside consumers, flavors, watchers and sessions."""

AT_ONCE = 10_000
"""Consumers or flavors of one transaction."""

PAGE = 1_000
"""Flavors of one page of the list."""

READ = 50
"""Consumers and hosts that are read one by one."""

READ_FLAVORS = 5_000
"""Flavors whose headroom is read: a worker keeps that of 1,000."""

OWNER = "bench"
CLASS = "MEMORY_MB"

MOST_NAMES = 100_000
"""Of classes and of traits, a site cannot have more."""

MOST_SENT = 100_000
"""More requests one after the other take long."""

MOST_WATCHERS = 9_000
"""Each is a connection, of which a worker accepts 10,000 by default."""

SPARE_FILES = 100
"""Open files of a process beside its connections."""


@dataclass(frozen=True)
class Thing:
    """A kind of things.

    Attributes:
        most: the largest number that is measured.
        rung: the memory of a number of them; the second argument is the number of hosts of sites in memory.
    """

    of: str
    most: int
    rung: Callable[[int, int], Rung]

    def within(self, numbers: Iterable[int]) -> list[int]:
        """The *numbers* in order, those beyond the largest as the largest."""
        return sorted({min(number, self.most) for number in numbers})


def rungs(names: Collection[str], numbers: Sequence[int], hosts: int, watcher: Watcher) -> Iterator[Rung]:
    """The rungs of the things in whose names one of *names* occurs, or of all things.

    A number that is larger than the limit of a thing becomes this limit.

    Raises:
        BenchError: a name occurs in no thing, or a server did not start.
    """
    unknown = next((name for name in names if not any(name in thing.of for thing in THINGS)), None)
    if unknown is not None:
        raise BenchError(f"there is no thing {unknown!r}; there are: {'; '.join(thing.of for thing in THINGS)}")
    things = [thing for thing in THINGS if not names or any(name in thing.of for name in names)]
    for thing in things:
        measured = thing.within(numbers)
        with watcher(thing.of, len(measured)) as done:
            for number in measured:
                yield thing.rung(number, hosts)
                done(1)


# Things of the database, with the application in this process.


def _uuid(number: int) -> str:
    return str(uuid5(UUID(int=0), f"consumer {number}"))


def _store_consumers(store: Store, number: int) -> None:
    owner = tables.owner_ids(store, OWNER)
    hosts = [str(described.uuid) for described in SITE.descriptions()]
    of_each = -(-number // len(hosts))
    for place, host in enumerate(hosts):
        consumers = range(place * of_each, min((place + 1) * of_each, number))
        tables.hold(store, host, CLASS, [_uuid(consumer) for consumer in consumers], owner)


def _read_consumers(app: WSGIApplication, number: int) -> None:
    for consumer in range(min(number, READ)):
        in_process.get(app, f"/allocations/{_uuid(consumer)}")
    for host in list(SITE.descriptions())[:READ]:
        in_process.get(app, f"/resource_providers/{host.uuid}/allocations")
    in_process.get(app, f"/usages?project_id={OWNER}")


def _write_consumers(app: WSGIApplication, number: int) -> None:
    hosts = [str(described.uuid) for described in SITE.descriptions()]
    owner = {"project_id": OWNER, "user_id": OWNER, "consumer_type": "INSTANCE", "consumer_generation": None}
    for consumer in range(number):
        amounts = {hosts[consumer % len(hosts)]: {"resources": {CLASS: 1}}}
        in_process.put(app, f"/allocations/{_uuid(consumer)}", {"allocations": amounts, **owner})
    _read_consumers(app, number)


def _store_flavors(store: Store, number: int) -> None:
    for first in range(0, number, AT_ONCE):
        places = range(first, min(first + AT_ONCE, number))
        queries = {f"flavor-{place:07}": f"resources=VCPU:{1 + place % 8},DISK_GB:{1 + place}" for place in places}
        tables.describe_flavors(store, queries)


def _read_flavors(app: WSGIApplication, number: int) -> None:
    after = ""
    for first in range(0, number, PAGE):
        headroom = "&headroom=true" if first < READ_FLAVORS else ""
        in_process.get(app, f"/flavors?limit={PAGE}{headroom}{after}")
        after = f"&marker=flavor-{first + PAGE - 1:07}"


def _stored(
    of: str,
    store: Callable[[Store, int], None],
    read: Callable[[WSGIApplication, int], None],
    number: int,
    hosts: int,
) -> Rung:
    """The memory of a worker that starts on a database with these things, and reads them."""
    del hosts
    without = _without(store, read)
    in_use, most = _in_process(store, read, number)
    return Rung(of, number, in_use - without, most - without)


@cache
def _without(store: Callable[[Store, int], None], read: Callable[[WSGIApplication, int], None]) -> int:
    """Bytes that the same worker has in use without the things."""
    _in_process(store, read, READ)  # it also counts modules and tables of this process
    return _in_process(store, read, 0)[0]


def _in_process(
    store: Callable[[Store, int], None], read: Callable[[WSGIApplication, int], None], number: int
) -> tuple[int, int]:
    """Bytes in use after the reads, and at most since the start."""
    with in_process.configured(SITE) as (settings, url, _):
        with tables.opened(url) as opened:
            store(opened, number)
            tables.announce(opened)
        gc.collect()
        tracemalloc.start()
        try:
            with in_process.started(settings) as (_, app):
                in_process.get(app, "/allocation_candidates?resources=VCPU:1&limit=1")
                read(app, number)
                gc.collect()
                return tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()


def _nothing(store: Store, number: int) -> None:
    del store, number


# Things of a server.


@contextmanager
def _serving(connections: int) -> Iterator[servers.Server]:
    """A server with one worker that accepts this number of watchers."""
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most_files < connections + SPARE_FILES:
        raise BenchError(f"{connections:,} connections need a limit of open files of {connections + SPARE_FILES:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    with TemporaryDirectory() as directory, ExitStack() as stack:
        os.environ[MAX_WATCHERS] = str(connections)
        stack.callback(os.environ.pop, MAX_WATCHERS)
        url = f"sqlite:///{directory}/placement.db"
        filling.make(url, SITE, in_process.silent)
        yield stack.enter_context(servers.stead(Path(directory), url, servers.Serving(1), durable=False))


MAX_WATCHERS = "OS_STEAD__MAX_WATCHERS"
WARM_UP = 50
"""Watchers or sessions before the memory is measured first."""


def _watchers(number: int, hosts: int) -> Rung:
    """The resident memory of a worker for each stream of GET `/changes`, with its connection."""
    del hosts
    with _serving(number) as server:
        with beside_streams.streams(server.url, min(number, WARM_UP), "/changes"):
            pass
        before = _resident(server)
        with beside_streams.streams(server.url, number, "/changes"):
            resident = _resident(server)
    return Rung(WATCHER, number, resident - before, resident - before)


def _sessions(number: int, hosts: int) -> Rung:
    """The resident memory of a worker for each session of the web interface that has read a page and the API."""
    del hosts
    with _serving(1) as server, closing(server.connect()) as connection:

        def visit(project: str) -> None:
            # With noauth2, a session is the name of the user and of the project.
            cookie = f"{COOKIE}={urlsafe_b64encode(f'admin:{project}'.encode()).decode()}"
            for path in ("/ui/", f"/ui/api/usages?project_id={project}"):
                connection.get(path, {"Cookie": cookie, "OpenStack-API-Version": "placement 1.39"})

        for place in range(WARM_UP):
            visit(f"warm-up-{place}")
        before = _resident(server)
        for place in range(number):
            visit(f"project-{place}")
        resident = _resident(server)
    return Rung(SESSION, number, resident - before, resident - before)


COOKIE = "stead-session"


def _resident(server: servers.Server) -> int:
    servers.becomes_idle(server, servers.START_SECONDS)
    return processes.resident_bytes(set(server.processes()) - set(server.pids))


CONSUMER, CLAIM = "consumer in the database", "consumer whose claim the worker wrote"
FLAVOR, WATCHER, SESSION = "flavor with its headroom", "watcher with its connection", "session"


def _most(of: str) -> int:
    """The largest number of things of a snapshot."""
    if of.startswith("change"):
        return MOST_CHANGES
    return MOST_NAMES if of.startswith(("class", "trait")) else 1_000_000


THINGS = (
    *(Thing(ladder.of, _most(ladder.of), partial(rung, ladder)) for ladder in LADDERS),
    Thing(CONSUMER, 1_000_000, partial(_stored, CONSUMER, _store_consumers, _read_consumers)),
    Thing(CLAIM, MOST_SENT, partial(_stored, CLAIM, _nothing, _write_consumers)),
    Thing(FLAVOR, 1_000_000, partial(_stored, FLAVOR, _store_flavors, _read_flavors)),
    Thing(WATCHER, MOST_WATCHERS, _watchers),
    Thing(SESSION, MOST_SENT, _sessions),
)
