"""What a fleet of compute agents costs: ``python -m stead_bench.fleet [AGENTS] [DATABASE_URL...]`` (1,000 agents).

Each agent has a host of eight providers, and refreshes it once. Measured are requests, bytes of bodies in both
directions, and the server's processor time, when nothing has changed and when inventories of each host have changed.

By documents, an agent sends GET ``/provider_trees`` of its tree with the ETag of the last response, or PUT of the whole
tree. By the calls of 1.39, it does what a compute service does that keeps a provider tree: it reads the providers of
the tree, then inventories, traits and aggregates of each, and puts the inventories that differ.
"""

from __future__ import annotations

import http.client
import json
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from stead_bench import processes, servers, tables
from stead_bench.site_apply import SERVING, descriptions, host_of

if TYPE_CHECKING:
    from stead_bench.servers import Server


@dataclass
class Caller:
    """A connection that counts requests and the bytes of bodies."""

    server: Server
    version: str
    requests: int = 0
    size: int = 0
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.server.url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, tag: str = "") -> tuple[int, Any, str]:
        """Status, body and ETag of a request that succeeds."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {**self.server.headers(self.version), **({"If-None-Match": tag} if tag else {})}
        if sent is not None:
            headers["Content-Type"] = "application/json"
        self._connection.request(method, path, sent, headers)
        response = self._connection.getresponse()
        told = response.read()
        self.requests += 1
        self.size += len(told) + len(sent or b"")
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {told!r}")
        return response.status, json.loads(told) if told else None, response.getheader("etag", "")


def main() -> None:
    """Measure and show."""
    agents = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for url in [*sys.argv[2:]] or [""]:
        with TemporaryDirectory(prefix="stead-bench-") as name:
            Console().print(_measured(Path(name), agents, url))


def _measured(folder: Path, agents: int, url: str) -> Table:
    database = url or f"sqlite:///{folder}/stead.db"
    with ExitStack() as stack:
        with tables.opened(database) as store:
            tables.prepare(store)
            tables.clear(store)
            tables.make_names(store, descriptions(1))
            tables.load(store, descriptions(agents))
        server = stack.enter_context(servers.stead(folder, database, SERVING))
        kind = database.partition(":")[0].partition("+")[0]
        table = Table(
            "each agent refreshes once", "requests", "bytes", "server CPU, s", title=f"{agents:,} agents, {kind}"
        )
        by_documents, by_calls = Caller(server, "1.39, stead 1.1"), Caller(server, "1.39")
        tags = [_tree_of(by_documents, number)[2] for number in range(agents)]
        rounds = (
            ("documents, nothing changed", by_documents, lambda n: _tree_of(by_documents, n, tags[n])),
            ("1.39 calls, nothing changed", by_calls, lambda n: _refresh_by_calls(by_calls, n, 16)),
            ("documents without ETag, nothing changed", by_documents, lambda n: _put_tree(by_documents, n, 16)),
            ("documents, an inventory changed", by_documents, lambda n: _put_tree(by_documents, n, 20)),
            ("1.39 calls, an inventory changed", by_calls, lambda n: _refresh_by_calls(by_calls, n, 24)),
        )
        for name, caller, refresh in rounds:
            pids = server.processes()
            requests, size, before = caller.requests, caller.size, processes.cpu_seconds(pids)
            for number in range(agents):
                refresh(number)
            cpu = processes.cpu_seconds(pids) - before
            table.add_row(name, f"{caller.requests - requests:,}", f"{caller.size - size:,}", f"{cpu:.2f}")
        with tables.opened(database) as store:
            tables.clear(store)
        return table


def _tree_of(caller: Caller, number: int, tag: str = "") -> tuple[int, Any, str]:
    root = next(iter(host_of(number)))
    return caller.ask("GET", f"/provider_trees?in_tree={root.uuid}", tag=tag)


def _put_tree(caller: Caller, number: int, cores: int) -> None:
    """Send the whole tree, as an agent does that does not compare."""
    providers = [
        {
            "uuid": described.uuid,
            "name": described.name,
            "parent_provider_uuid": None if described.parent is None else f"name:{described.parent}",
            "inventories": {name: asdict(inventory) for name, inventory in described.inventories.items()},
            "traits": sorted(described.traits),
            "aggregates": sorted(described.aggregates),
        }
        for described in host_of(number, cores)
    ]
    caller.ask("PUT", "/provider_trees", {"provider_trees": [{"providers": providers}]})


def _refresh_by_calls(caller: Caller, number: int, cores: int) -> None:
    """Read all of a tree, provider by provider, and put the inventories that differ."""
    host = list(host_of(number, cores))
    caller.ask("GET", f"/resource_providers?in_tree={host[0].uuid}")
    for described in host:
        path = f"/resource_providers/{described.uuid}"
        _, told, _ = caller.ask("GET", f"{path}/inventories")
        caller.ask("GET", f"{path}/traits")
        caller.ask("GET", f"{path}/aggregates")
        inventories = {name: asdict(inventory) for name, inventory in described.inventories.items()}
        if told["inventories"] != inventories:
            generation = told["resource_provider_generation"]
            caller.ask(
                "PUT",
                f"{path}/inventories",
                {"resource_provider_generation": generation, "inventories": inventories},
            )


if __name__ == "__main__":
    main()
