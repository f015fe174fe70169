"""``python -m bench``: what a candidates query costs, beside a bare application that returns the same bytes."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.loading import load
from bench.measure import Side, in_turns
from bench.servers import Reply, Server, bare, free_port, running, stead
from bench.sites import LIMITS, SITES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDED_BY_THE_SERVER = {"date", "server", "connection", "transfer-encoding"}

WIDTH = 120
"""Columns the table takes where no terminal says how many there are."""

COLUMNS = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

console = Console(width=None if sys.stdout.isatty() else WIDTH)


@dataclass(frozen=True)
class Result:
    """One row: times in milliseconds. ``first_ms`` is the first time of all; a site's first row then loads the site."""

    site: str
    limit: int | None
    candidates: int
    bytes: int
    rounds: int
    first_ms: float
    stead_ms: float
    bare_ms: float
    ratio: float
    stead_cpu_ms: float
    bare_cpu_ms: float


@dataclass(frozen=True)
class Case:
    """One query of one site, and what Stead answers."""

    number: int
    limit: int | None
    target: str
    reply: Reply


def main(
    out: Annotated[Path, typer.Option(help="Where the JSON goes.")] = Path("bench/results/candidates.json"),
    seconds: Annotated[float, typer.Option(help="Time per row, both servers together.")] = 5.0,
    site: Annotated[str, typer.Option(help="Only the sites whose name contains this.")] = "",
) -> None:
    """Measure candidates over flat and nested sites."""
    results: list[Result] = []
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        for chosen in SITES:
            if site in chosen.name:
                results += measured(chosen, progress, seconds)
    console.print(table(results))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in results]}, indent=2) + "\n")
    console.print(f"written to {out}")


def measured(site: Site, progress: Progress, seconds: float) -> Iterator[Result]:
    """All rows of one site."""
    with tempfile.TemporaryDirectory(prefix="stead-bench-") as folder:
        data, bodies = Path(folder, "data"), Path(folder, "bodies")
        bodies.mkdir()
        port = free_port()
        with running(stead(data, port), {}, port, Path(folder, "stead.log")) as service:
            fill(site, data / "stead.db", progress)
            headers = {
                "X-Auth-Token": (data / "admin-token").read_text(encoding="ascii").strip(),
                "OpenStack-API-Version": "placement 1.39",
            }
            cases = [asked(service, headers, site, number, limit) for number, limit in enumerate(LIMITS)]
            for case in cases:
                keep(case, bodies)
            port = free_port()
            environment = {"BENCH_BODIES": str(bodies)}
            with running(bare(port), environment, port, Path(folder, "bare.log")) as idle:
                rows = progress.add_task(site.name, total=len(cases))
                for case in cases:
                    ours = Side(service, case.target, headers)
                    theirs = Side(idle, f"/{case.number}?{case.target.partition('?')[2]}", headers)
                    in_turns(ours, theirs, case.reply.body, seconds=seconds)
                    progress.advance(rows)
                    yield result(site, case, ours, theirs)


def fill(site: Site, database: Path, progress: Progress) -> None:
    plans = list(site.providers())
    task = progress.add_task(f"loading {site.name}", total=len(plans))
    load(plans, database, lambda number: progress.advance(task, number))
    progress.remove_task(task)


def asked(service: Server, headers: dict[str, str], site: Site, number: int, limit: int | None) -> Case:
    """The first time that a query is asked."""
    target = f"/allocation_candidates?{site.query}" + (f"&limit={limit}" if limit else "")
    return Case(number, limit, target, service.get(target, headers))


def keep(case: Case, bodies: Path) -> None:
    """Give the bare application what it shall return."""
    sent = [pair for pair in case.reply.headers if pair[0].lower() not in ADDED_BY_THE_SERVER]
    (bodies / f"{case.number}.json").write_text(json.dumps(sent), encoding="utf-8")
    (bodies / str(case.number)).write_bytes(case.reply.body)


def result(site: Site, case: Case, ours: Side, theirs: Side) -> Result:
    return Result(
        site=site.name,
        limit=case.limit,
        candidates=len(json.loads(case.reply.body)["allocation_requests"]),
        bytes=len(case.reply.body),
        rounds=len(ours.seconds),
        first_ms=round(case.reply.seconds * 1e3, 3),
        stead_ms=round(ours.median_ms, 3),
        bare_ms=round(theirs.median_ms, 3),
        ratio=round(ours.median_ms / theirs.median_ms, 2),
        stead_cpu_ms=round(ours.cpu_ms, 3),
        bare_cpu_ms=round(theirs.cpu_ms, 3),
    )


def table(results: list[Result]) -> Table:
    drawn = Table(title="GET /allocation_candidates, medians in ms (CPU: mean per request)", title_justify="left")
    drawn.add_column("site", no_wrap=True)
    for heading in ("limit", "candidates", "KiB", "first", "Stead", "bare", "Stead/bare", "Stead CPU", "bare CPU"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in results:
        numbers = (row.first_ms, row.stead_ms, row.bare_ms, row.ratio, row.stead_cpu_ms, row.bare_cpu_ms)
        drawn.add_row(
            row.site,
            f"{row.limit:,}" if row.limit else "none",
            f"{row.candidates:,}",
            f"{row.bytes / 1024:,.0f}",
            *(f"{number:,.2f}" for number in numbers),
            end_section=row.limit is None,
        )
    return drawn


def machine() -> dict[str, str | int | None]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load_average_1m": f"{os.getloadavg()[0]:.2f}",
        **{name: version(name) for name in ("granian", "falcon", "numpy", "orjson")},
    }


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    typer.run(main)
