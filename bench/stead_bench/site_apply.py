"""What applying and dumping a site takes: ``python -m stead_bench.site_apply HOSTS [DATABASE_URL...]``.

Each host has eight providers. The commands are those that an operator runs, each a process of its own: apply on an
empty server, the same again, with a changed inventory on every host, a dump, and the tree, once to its first line. Then
the sums of all trees in one request. Beside them, the calls of microversion 1.39 for the first hosts, multiplied.

Without a URL, the database is a temporary SQLite file. Other databases must be empty, and their providers are removed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid5

from rich.console import Console
from rich.table import Table

from stead.domain.provider import Inventory
from stead.topology.document import dump
from stead.topology.site import Description, site_of
from stead_bench import over_api, processes, servers, tables
from stead_bench.errors import BenchError
from stead_bench.sites import PREFIX, SPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead_bench.servers import Server

CALLED_HOSTS = 50
"""Number of hosts to create with the calls of 1.39: their cost grows with the number of providers only."""

SERVING = servers.Serving(workers=1)
STEAD = (sys.executable, "-c", "from stead.cli import main; main()")
SUMS = "/provider_trees?totals=true&depth=0"


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    for url in [*sys.argv[2:]] or [""]:
        with TemporaryDirectory(prefix="stead-bench-") as name:
            Console().print(_measured(Path(name), hosts, url))


def host_of(number: int, cores: int = 16) -> Iterator[Description]:
    """A host with two NUMA nodes, four GPUs and a NIC."""
    name = f"{PREFIX}apply-{number:05}"

    def part(suffix: str, parent: str | None, traits: frozenset[str], **totals: int) -> Description:
        uuid = str(uuid5(SPACE, name + suffix))
        stock = {resource_class: Inventory(total) for resource_class, total in totals.items()}
        return Description(name + suffix, uuid, parent, stock, traits, frozenset())

    rack = frozenset({str(uuid5(SPACE, f"rack-{number // 40}"))})
    yield replace(part("", None, frozenset({"COMPUTE_NODE", "HW_ARCH_X86_64"}), DISK_GB=2000), aggregates=rack)
    for node in "01":
        numa = f"-numa{node}"
        yield part(numa, name, frozenset({"HW_NUMA_ROOT"}), PCPU=cores, VCPU=cores, MEMORY_MB=131072)
        for gpu in "01":
            yield part(f"{numa}-gpu{gpu}", name + numa, frozenset({"CUSTOM_GPU_BENCH"}), PGPU=1)
    yield part("-nic", name + "-numa0", frozenset({"HW_NIC_SRIOV", "CUSTOM_NIC_BENCH"}), SRIOV_NET_VF=64)


def descriptions(hosts: int, cores: int = 16) -> list[Description]:
    """The providers of *hosts* hosts."""
    return [described for number in range(hosts) for described in host_of(number, cores)]


def _measured(folder: Path, hosts: int, url: str) -> Table:
    database = url or f"sqlite:///{folder}/stead.db"
    with ExitStack() as stack:
        with tables.opened(database) as store:
            tables.prepare(store)
            tables.clear(store)
        server = stack.enter_context(servers.stead(folder, database, SERVING))
        site, changed = (folder / name for name in ("site.yaml", "changed.yaml"))
        site.write_text(dump(site_of(descriptions(hosts))))
        changed.write_text(dump(site_of(descriptions(hosts, cores=24))))
        kind = database.partition(":")[0].partition("+")[0]
        title = f"{hosts:,} hosts, {hosts * 8:,} providers, {kind}"
        table = Table("step", "seconds", "server CPU, s", "command CPU, s", title=title)
        for step, arguments in (
            ("apply, empty server", ["topology", "apply", str(site)]),
            ("apply again", ["topology", "apply", str(site)]),
            ("apply, inventories of 2 providers per host changed", ["topology", "apply", str(changed)]),
            ("apply again, dry run", ["topology", "apply", "--dry-run", str(changed)]),
            ("dump", ["topology", "dump"]),
            ("tree", ["tree"]),
        ):
            table.add_row(step, *_texts(*_command(server, folder, arguments)))
        table.add_row("tree --all, the first line", f"{_first_line(server):.2f}")
        table.add_row(f"GET {SUMS}", *_texts(*_asked(server)))
        seconds, cpu = _called(server, database)
        scale = hosts / CALLED_HOSTS
        table.add_row(f"1.39 calls, {CALLED_HOSTS} hosts multiplied", *_texts(seconds * scale, cpu * scale))
        with tables.opened(database) as store:
            tables.clear(store)
        return table


def _called(server: Server, database: str) -> tuple[float, float]:
    """Seconds and the server's processor seconds for some hosts by the calls of 1.39, of several clients at once."""
    with tables.opened(database) as store:
        tables.clear(store)
        tables.announce(store)
    pids = server.processes()
    described = descriptions(CALLED_HOSTS)
    with closing(over_api.Crew(server.connect)) as crew:
        before, began = processes.cpu_seconds(pids), time.perf_counter()
        crew.load(described, lambda _: None)
        return time.perf_counter() - began, processes.cpu_seconds(pids) - before


def _command(server: Server, folder: Path, arguments: list[str]) -> tuple[float, float, float]:
    """Seconds of a `stead` command, its start included; processor seconds of the server, and of the command."""
    pids = server.processes()
    before, began = processes.cpu_seconds(pids), time.perf_counter()
    own = _cpu_of_commands()
    with (folder / "output").open("w") as output:
        subprocess.run(
            [*STEAD, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=output, env=_environment(server)
        )
    return time.perf_counter() - began, processes.cpu_seconds(pids) - before, _cpu_of_commands() - own


def _cpu_of_commands() -> float:
    """Processor seconds of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _first_line(server: Server) -> float:
    """Seconds from the start of `stead tree --all` to its first line."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*STEAD, "tree", "--all"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=_environment(server)
    ) as command:
        if command.stdout is None or not command.stdout.readline():
            raise BenchError("stead tree printed nothing")
        seconds = time.perf_counter() - began
        command.communicate()
    return seconds


def _asked(server: Server) -> tuple[float, float]:
    """Seconds, and the server's processor seconds, of a request for the sums of all trees."""
    pids = server.processes()
    with closing(server.connect("1.39, stead 1.1")) as connection:
        before = processes.cpu_seconds(pids)
        seconds = connection.get(SUMS).seconds
    return seconds, processes.cpu_seconds(pids) - before


def _environment(server: Server) -> dict[str, str]:
    return {**os.environ, "STEAD_URL": server.url, "STEAD_TOKEN": server.token}


def _texts(*seconds: float) -> tuple[str, ...]:
    return tuple(f"{each:.2f}" for each in seconds)


if __name__ == "__main__":
    main()
