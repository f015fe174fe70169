"""``stead-bench load``: the cost of Stead's start beyond the driver's time to fetch the rows, and of a refresh."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from stead_bench import filling, servers
from stead_bench.errors import BenchError
from stead_bench.results import mib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead_bench.filling import Watcher
    from stead_bench.sites import Site


@dataclass(frozen=True)
class Refresh:
    """The refresh of the snapshot after some providers changed.

    Attributes:
        changed: number of changed providers.
        ms: duration until the snapshot was available.
        execute_ms: part of it in which the driver executed statements; some drivers do not count fetching here.
        driver_ms: the driver's time to read the same rows, measured afterwards.
        rest_ms: *ms* without *driver_ms*.
        rows: number of rows read; in SQLite all rows of a statement count as one.
        longest_pause_ms: the longest wait of a concurrent thread that needs only memory.
    """

    changed: int
    ms: float
    execute_ms: float
    driver_ms: float
    rest_ms: float
    rows: int
    longest_pause_ms: float


@dataclass(frozen=True)
class Start:
    """A start on a database that has a site.

    Attributes:
        driver_seconds: the driver's time to fetch all rows that a start reads.
        rows: number of these rows; in SQLite all rows of a statement count as one.
        seconds: of the start, without imports.
        beyond_driver_seconds: the difference.
        memory_mib: resident after the start; *memory_before_mib* before it, with all modules imported.
        idle_pause_ms: the longest pause without a refresh, for comparison with the pauses of refreshes.
    """

    site: str
    providers: int
    database: str
    driver_seconds: float
    rows: int
    seconds: float
    cpu_seconds: float
    beyond_driver_seconds: float
    memory_mib: float | None
    memory_before_mib: float | None
    idle_pause_ms: float
    refreshes: list[Refresh]


def measure(site: Site, database: str | None, changed: Sequence[int], watcher: Watcher) -> Start:
    """Create *site* in *database*, which must be empty (None: a temporary SQLite file), and start on it.

    Args:
        changed: numbers of changed providers; a refresh is measured for each.

    Raises:
        BenchError: the database has other providers, or a measurement failed.
    """
    with TemporaryDirectory(prefix="stead-bench-") as name:
        folder = Path(name)
        url = database or f"sqlite:///{folder}/stead.db"
        providers = filling.make(url, site, watcher)
        configuration = servers.configure(folder, url)
        statements = str(folder / "statements")
        with watcher("starting", 4) as done:
            recorded = _task(configuration, "record", statements)
            done(1)
            driver = _task(configuration, "driver", statements)
            done(1)
            start = _task(configuration, "start")
            done(1)
            refresh = _task(configuration, "refresh", *map(str, sorted({min(count, providers) for count in changed})))
            done(1)
    if not recorded["statements"]:
        raise BenchError("the statements of the start were not seen: it reads past SQLAlchemy's events")
    return Start(
        site=str(site),
        providers=providers,
        database=url.partition(":")[0].partition("+")[0],
        driver_seconds=round(driver["seconds"], 3),
        rows=driver["rows"],
        seconds=round(start["seconds"], 3),
        cpu_seconds=round(start["cpu_seconds"], 3),
        beyond_driver_seconds=round(start["seconds"] - driver["seconds"], 3),
        memory_mib=mib(start["resident_bytes"]),
        memory_before_mib=mib(start["resident_bytes_before"]),
        idle_pause_ms=round(refresh["idle_pause_ms"], 3),
        refreshes=[_refresh(timed) for timed in refresh["refreshes"]],
    )


def _task(configuration: Path, task: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "stead_bench.start_cost", task, str(configuration), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise BenchError(f"the measurement {task} failed: {said[-1] if said else 'it said nothing'}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _refresh(measured: dict[str, Any]) -> Refresh:
    return Refresh(
        changed=measured["providers"],
        ms=_ms(measured["seconds"]),
        execute_ms=_ms(measured["execute_seconds"]),
        driver_ms=_ms(measured["driver_seconds"]),
        rest_ms=_ms(measured["seconds"] - measured["driver_seconds"]),
        rows=measured["rows"],
        longest_pause_ms=round(measured["longest_pause_ms"], 3),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
