"""Starts of several workers: ``python -m stead_bench.snapshot_starts [PROVIDERS] [WORKERS]`` (100,000, 4).

`stead serve` starts on SQLite without a snapshot file, then with a directory for it that is empty, and then with the
file. For each start: the seconds until all workers answer, the CPU time of all processes until then, and their memory.
Memory that processes share counts for each with its part, so the sum is what the machine needs.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from stead_bench import filling, processes, servers
from stead_bench.in_process import silent
from stead_bench.queries import host_in_zones
from stead_bench.sites import Site

SNAPSHOT_DIR = "OS_STEAD__SNAPSHOT_DIR"
LIMIT = 10


def main() -> None:
    """Measure and show."""
    providers, workers = (*map(int, sys.argv[1:]), *(100_000, 4)[len(sys.argv) - 1 :])
    site = Site("flat", providers)
    table = Table(title=f"{site}, {workers} workers")
    for heading in ("start", "s", "CPU s", "MiB, all processes", "first answer, ms", "file, MiB"):
        table.add_column(heading, justify="left" if heading == "start" else "right")
    with TemporaryDirectory() as directory:
        folder, files = Path(directory), Path(directory, "snapshots")
        files.mkdir()
        url = f"sqlite:///{folder / 'placement.db'}"
        filling.make(url, site, silent)
        for start, snapshots in (("no file", ""), ("no file yet", str(files)), ("with the file", str(files))):
            os.environ[SNAPSHOT_DIR] = snapshots
            began = time.monotonic()
            with servers.stead(folder, url, servers.Serving(workers)) as server:
                seconds, pids = time.monotonic() - began, server.processes()
                cpu, resident = processes.cpu_seconds(pids), processes.proportional_bytes(pids)
                reply = server.connect().get(host_in_zones(site).target(0, LIMIT))
                size = sum(file.stat().st_size for file in files.iterdir())
                numbers = seconds, cpu, resident / 2**20, reply.seconds * 1e3, size / 2**20
                table.add_row(start, *(f"{number:,.1f}" for number in numbers))
    Console().print(table)


if __name__ == "__main__":
    main()
