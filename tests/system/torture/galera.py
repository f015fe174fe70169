"""``python -m tests.system.torture.galera MINUTES``: `stead serve` on each node of a Galera cluster, all written to.

Beside what is done to any site, nodes are killed and come back, and nodes stop for a while. After each round the
history must be explained, and every table must be the same on every node.
"""

from __future__ import annotations

import argparse
import itertools
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy as sa

from tests.rooms.store.books import FAULTS
from tests.servers.galera import HOST, PATIENCE_SECONDS, Cluster, NotSynced, cluster
from tests.servers.programs import Unavailable
from tests.system.torture.checker import Undecided, Unexplained
from tests.system.torture.proxy import Proxy
from tests.system.torture.run import play
from tests.system.torture.site import Site, Stead
from tests.system.torture.speech import Caller, World
from tests.waiting import TimedOut, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.galera import Node

ROUND_SECONDS = 30.0
SHORTEST_STOP, LONGEST_STOP = 0.5, 8.0  # seconds; from three on, the others go on without the node
LONGEST_DEATH = 4.0  # seconds
SCHEMA = "stead"

NOT_OURS = frozenset({"a place is over-committed", "an allocation has no inventory"})
"""What clients may do to their own inventories."""


class Differs(Exception):
    """The nodes do not hold the same, or hold what no order of requests leaves."""


class Member:
    """One node's database behind a proxy, as a service sees it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.proxy = Proxy((HOST, 0), (HOST, node.port))
        self.own_url = url_of(node, node.port)
        self.url = url_of(node, self.proxy.port)


def url_of(node: Node, port: int) -> str:
    return f"mysql+pymysql://root@{HOST}:{port}/{SCHEMA}?charset=utf8mb4"


class ClusteredDatabase:
    """All nodes, as faults and the end of a round see them; what a database of one server does is done to any node."""

    kind = "galera"

    def __init__(self, nodes: Cluster) -> None:
        self._cluster = nodes
        self.done: Counter[str] = Counter()
        nodes.nodes[0].rows(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        self.members = [Member(node) for node in nodes.nodes]
        self._next = itertools.cycle(self.members)
        self._chance = random.Random(0)
        self._one_at_a_time = threading.Lock()

    @property
    def proxy(self) -> ClusteredDatabase:
        return self

    def cut(self) -> None:
        """Reset all that is connected to some node."""
        self._chance.choice(self.members).proxy.cut()

    def kill(self) -> None:
        """Let a node stand still for long; who kills one in the middle of a round is `kill_and_rejoin`."""
        self.stand_still(self._chance.uniform(SHORTEST_STOP, LONGEST_STOP))

    def stand_still(self, seconds: float) -> None:
        """Let a node do nothing for so long."""
        with self._one_at_a_time:
            node = self._chance.choice(self._cluster.nodes)
            with node.stopped():
                time.sleep(seconds)
            self._cluster.wait_until_synced(node)
            self.done["node stopped for a while"] += 1

    def kill_and_rejoin(self, after: float) -> None:
        """Kill a node after so many seconds, and let it join again; two others are always there."""
        time.sleep(after)
        with self._one_at_a_time:
            node = self._chance.choice(self._cluster.nodes)
            self._cluster.kill(node)
            time.sleep(self._chance.uniform(0, LONGEST_DEATH))
            self._cluster.rejoin(node)
            self.done["node killed and joined again"] += 1

    def engine(self) -> sa.Engine:
        """One node after the other, when all are there; what it reads is as new as the last acknowledged write."""
        self._cluster.wait_until_synced()
        return engine_of(next(self._next))

    def require_same_books(self) -> None:
        """Compare every table on every node, and look whether it makes sense.

        Raises:
            Differs
        """
        self._cluster.wait_until_synced()
        first, *others = [_contents(member) for member in self.members]
        for number, other in enumerate(others, start=1):
            for table, rows in first.items():
                if other.get(table) != rows:
                    raise Differs(f"{table} on node 0: {rows}\n… on node {number}: {other.get(table)}")
        with engine_of(self.members[0]).connect() as connection:
            found = {fault: connection.execute(sa.text(query)).all() for fault, query in FAULTS.items()}
        if wrong := {fault: rows for fault, rows in found.items() if rows and fault not in NOT_OURS}:
            raise Differs(str(wrong))

    def close(self) -> None:
        for member in self.members:
            member.proxy.close()


def engine_of(member: Member) -> sa.Engine:
    """Past the proxy, and never behind."""
    engine = sa.create_engine(member.own_url, poolclass=sa.NullPool)

    @sa.event.listens_for(engine, "connect")
    def wait_for_the_others(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION wsrep_sync_wait = 1")

    return engine


def _contents(member: Member) -> dict[str, list[Any]]:
    with engine_of(member).connect() as connection:
        tables = sorted(sa.inspect(connection).get_table_names())
        return {
            table: sorted(map(tuple, connection.exec_driver_sql(f"SELECT * FROM {table}").all()), key=repr)
            for table in tables
        }


@contextmanager
def galera_site(*, bug: str | None = None) -> Iterator[Site]:
    """A site with one service on each of three nodes; nothing is left of it afterwards.

    Raises:
        Unavailable: there can be no cluster here.
    """
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="stead-torture-")))
        database = ClusteredDatabase(ends.enter_context(cluster(place / "apt.lock")))
        ends.callback(database.close)
        services = []
        for number, member in enumerate(database.members):  # the first makes the tables
            service = Stead(place, f"stead{number}", member, workers=1, bug=bug)  # type: ignore[arg-type]  # has a url
            ends.callback(service.close)
            services.append(service)
        yield Site(database, services)  # type: ignore[arg-type]  # it does what a database does


def wait_until_answered(tortured: Site) -> None:
    """Let every service find out that its old connections broke, in writing and in reading.

    Raises:
        NotSynced: one does not recover.
    """
    for url in tortured.urls:
        caller = Caller(World(), [url], random.Random(0))
        for method, path in (("PUT", "/traits/CUSTOM_{}"), ("GET", "/allocations/{}")):
            try:
                wait_until(partial(_succeeds, caller, method, path), seconds=PATIENCE_SECONDS)
            except TimedOut:
                raise NotSynced(f"{url} does not answer") from None
        caller.close()


def _succeeds(caller: Caller, method: str, path: str) -> bool:
    return (caller.call(method, path.format(uuid4().hex.upper()))[0] or 500) < 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="make torture-galera")
    parser.add_argument("minutes", type=float, nargs="?", default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="of the choices that are to be repeated")
    parser.add_argument("--bug", default=None, help="a planted bug, which is to be found")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends, too
    undecided = requests = 0
    with galera_site(bug=arguments.bug) as tortured:
        database: Any = tortured.database
        until = time.monotonic() + arguments.minutes * 60
        while time.monotonic() < until:
            say(f"SEED={seed} galera, {len(tortured.services)} × stead serve")
            try:
                wait_until_answered(tortured)
                with ThreadPoolExecutor(1) as beside:
                    killing = beside.submit(database.kill_and_rejoin, ROUND_SECONDS / 3)
                    played = play(tortured, seconds=ROUND_SECONDS, seed=seed)
                    killing.result()
                requests += len(played.operations)
                say(f"  {len(played.operations)} requests, {played.most_situations} situations, {played.told()}")
                database.require_same_books()
            except (Unexplained, Differs) as wrong:
                say(str(wrong))
                return 1
            except Undecided as too_many:
                undecided += 1
                say(f"  undecided: {too_many}")
            seed += 1
        faults = ", ".join(f"{number} × {what}" for what, number in sorted(database.done.items()))
    say(f"{requests} requests, every history is explained, but for {undecided} that could not be decided; {faults}")
    return 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unavailable, NotSynced) as unavailable:
        say(f"NOT TORTURED: {unavailable}")
        sys.exit(1)
