"""Prints the results as tables on the terminal."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stead_bench import door
    from stead_bench.claims_rate import ClaimRate
    from stead_bench.leases import Leases
    from stead_bench.loading import Start
    from stead_bench.memory import Rung
    from stead_bench.results import Cost, Row
    from stead_bench.site_fill import Fill
    from stead_bench.throughput import Throughput
    from stead_bench.trace import Fill as TraceFill

WIDTH = 400
"""Wider than the widest table: a narrower terminal wraps lines, but no number is truncated."""


def show(table: Table, *, markdown: bool) -> None:
    """Draw *table* on standard output."""
    if markdown:
        table.box = box.MARKDOWN
    Console(highlight=False, width=WIDTH).print(table)


def print_json(data: Any) -> None:
    """Write *data* to standard output, indented."""
    print(json.dumps(data, indent=2))


def complaints() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def progress(work: str, size: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, if it is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    terminal = Console(file=sys.stderr)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(work, total=size)
        yield lambda done: bar.advance(task, done)


def candidates_table(rows: Sequence[Row]) -> Table:
    """A line per row: times in ms, processor time in ms per request."""
    has_peer = any(row.peer or row.peer_note for row in rows)
    drawn = Table(title="medians and p99 in ms; cpu: processor ms per request; kept: repeated, no claim between")
    drawn.title_justify = "left"
    for heading in ("site", "query"):
        drawn.add_column(heading, no_wrap=True)
    headings = ["limit", "answers", "KiB", "first", "Stead", "p99", "req/s", "cpu", "kept", "MiB"]
    headings += ["bare", "cpu", "Stead/bare"]
    headings += ["peer", "p99", "req/s", "cpu", "kept", "MiB", "peer/Stead", "cpu"] if has_peer else []
    for heading in headings:
        drawn.add_column(heading, justify="right", no_wrap=True)
    if has_peer:
        drawn.add_column("answers", no_wrap=True)
    for row in rows:
        drawn.add_row(*candidates_line(row, has_peer=has_peer))
    return drawn


def candidates_line(row: Row, *, has_peer: bool) -> list[str]:
    """The cells of one row."""
    bare = [_number(row.bare.median_ms), _number(row.bare.cpu_ms)] if row.bare else ["", ""]
    line = [
        row.site,
        row.query,
        f"{row.limit:,}" if row.limit else "none",
        "" if row.answers is None else f"{row.answers:,}",
        "" if row.bytes is None else f"{row.bytes / 1024:,.0f}",
        _number(row.first_ms),
        *_server(row.stead, row.stead_memory_mib, None if row.stead else "failed"),
        *bare,
        _number(row.stead_to_bare),
    ]
    if has_peer:
        line += [
            *_server(row.peer, row.peer_memory_mib, row.peer_note),
            _number(row.peer_to_stead),
            _number(row.peer_to_stead_cpu),
            row.compared or ("DIFFERENT" if row.differences else "not compared"),
        ]
    return line


def _server(cost: Cost | None, memory: float | None, note: str | None) -> list[str]:
    if cost is None:
        return [note or "", "", "", "", "", _number(memory, digits=0)]
    return [
        _number(cost.median_ms),
        _number(cost.p99_ms),
        _number(cost.requests_per_second, digits=0),
        _number(cost.cpu_ms),
        _number(cost.kept_ms),
        _number(memory, digits=0),
    ]


def _number(value: float | None, *, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def differences(rows: Iterable[Row]) -> list[str]:
    """The differences between answers, one per line."""
    return [
        f"{row.site}, {row.query}, limit {row.limit or 'none'}: {difference}"
        for row in rows
        for difference in row.differences
    ]


def throughput_table(measured: Iterable[Throughput]) -> Table:
    """A line per server."""
    drawn = Table(title="p50 and p99 in ms; cpu: processor ms per request")
    drawn.title_justify = "left"
    drawn.add_column("server", no_wrap=True)
    headings = ("requests/s", "reads", "p50", "p99", "claims", "p50", "p99", "conflicts", "nothing fits", "errors")
    for heading in (*headings, "cpu", "database cpu", "MiB"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for throughput in measured:
        drawn.add_row(
            throughput.server,
            _number(throughput.requests_per_second, digits=0),
            f"{throughput.reads:,}",
            _number(throughput.read_p50_ms),
            _number(throughput.read_p99_ms),
            f"{throughput.claims:,}",
            _number(throughput.claim_p50_ms),
            _number(throughput.claim_p99_ms),
            f"{throughput.conflicts:,}",
            f"{throughput.empty:,}",
            f"{throughput.errors:,}",
            _number(throughput.cpu_ms),
            _number(throughput.database_cpu_ms),
            _number(throughput.memory_mib, digits=0),
        )
    return drawn


def claims_table(rates: Iterable[ClaimRate]) -> Table:
    """A line for each way to claim."""
    drawn = Table(title="claims per second, p50 and p99 in ms; cpu: processor ms of the service per claim")
    drawn.title_justify = "left"
    for heading in ("database", "claims"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("clients", "Stead/s", "p50", "p99", "cpu", "bare/s", "p50", "p99", "bare/Stead"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for rate in rates:
        stead = (rate.per_second, rate.p50_ms, rate.p99_ms, rate.cpu_ms)
        bare = (rate.bare_per_second, rate.bare_p50_ms, rate.bare_p99_ms)
        numbers = map(_number, (*stead, *bare, rate.ratio))
        drawn.add_row(rate.database, rate.work, str(rate.clients), *numbers)
    return drawn


def leases_table(measured: Iterable[Leases]) -> Table:
    """A line for each database."""
    drawn = Table(title="renewals in one request, in seconds; percent of a core without and with the leases")
    drawn.title_justify = "left"
    drawn.add_column("database", no_wrap=True)
    for heading in ("leases", "renewals", "median", "longest", "cpu", "without %", "with %"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for each in measured:
        seconds = map(_number, (each.renewal_seconds, each.longest_seconds, each.renewal_cpu_seconds))
        percents = map(_number, (each.idle_percent, each.alive_percent))
        drawn.add_row(each.database, f"{each.leases:,}", f"{each.renewals:,}", *seconds, *percents)
    return drawn


def fills_table(fills: Iterable[Fill]) -> Table:
    """A line for each way to fill a site."""
    drawn = Table(title="claims per second until nothing fitted, p50 and p99 in ms; cpu: processor ms of the service")
    drawn.title_justify = "left"
    for heading in ("database", "way", "order"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("clients", "services", "claims", "per second", "p50", "p99", "cpu", "conflicts"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for fill in fills:
        numbers = map(_number, (fill.per_second, fill.p50_ms, fill.p99_ms, fill.cpu_ms))
        those = map(str, (fill.clients, fill.services))
        drawn.add_row(fill.database, fill.way, fill.order, *those, f"{fill.claims:,}", *numbers, f"{fill.conflicts:,}")
    return drawn


def trace_table(fills: Iterable[TraceFill]) -> Table:
    """A line for each order and each file of tasks; published policies have no seeds."""
    drawn = Table(
        title="percent of all GPUs given out when 100 % and 130 % were asked for; repeated: places lost to others; "
        "cpu: processor ms per arrival"
    )
    drawn.title_justify = "left"
    for heading in ("tasks", "order"):
        drawn.add_column(heading, no_wrap=True)
    for heading in ("at 100 %", "at 130 %", "seeds", "clients", "refused", "repeated", "cpu"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for fill in fills:
        is_ours = bool(fill.seeds)
        counts = str(fill.seeds), str(fill.clients), f"{fill.refused:,.0f}", f"{fill.repeated:,.0f}"
        numbers = (*counts, f"{fill.claim_ms:.2f}") if is_ours else ("published", "", "", "", "")
        drawn.add_row(fill.tasks, fill.order, f"{fill.at_100:.2f}", f"{fill.at_130:.2f}", *numbers)
    return drawn


def door_table(rows: Sequence[door.DoorRow]) -> Table:
    """A line per question and number of connections."""
    has_peer = any(row.peer for row in rows)
    drawn = Table(title="requests per second, p50 and p99 in ms; cpu: processor µs per request; ratios: Stead/peer")
    drawn.title_justify = "left"
    drawn.add_column("answer", no_wrap=True)
    headings = ["KiB", "connections", "Stead/s", "p50", "p99", "cpu"]
    headings += ["peer/s", "p50", "p99", "cpu", "requests", "p99", "cpu"] if has_peer else []
    for heading in headings:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        cells = [row.question, _number(row.bytes / 1024, digits=1), str(row.connections), *_door_side(row.stead)]
        if row.peer is not None:
            cells += [*_door_side(row.peer), *map(_number, (row.rate_ratio, row.p99_ratio, row.cpu_ratio))]
        drawn.add_row(*cells)
    return drawn


def _door_side(cost: door.Cost) -> list[str]:
    rate, cpu = _number(cost.requests_per_second, digits=0), _number(cost.cpu_us, digits=1)
    return [rate, _number(cost.p50_ms), _number(cost.p99_ms), cpu]


def start_table(start: Start) -> Table:
    """The cost of a start and of the refreshes after it."""
    drawn = Table(title=f"{start.site} on {start.database}: {start.providers:,} providers")
    drawn.title_justify = "left"
    drawn.add_column("of the start", no_wrap=True)
    drawn.add_column("cost", justify="right", no_wrap=True)
    drawn.add_row("the driver alone fetches what a start reads", f"{start.driver_seconds:,.2f} s")
    drawn.add_row("rows", f"{start.rows:,}")
    drawn.add_row("start", f"{start.seconds:,.2f} s")
    drawn.add_row("of that, processor time", f"{start.cpu_seconds:,.2f} s")
    drawn.add_row("beyond the driver", f"{start.beyond_driver_seconds:,.2f} s")
    drawn.add_row("resident memory before the start", f"{_number(start.memory_before_mib, digits=0)} MiB")
    drawn.add_row("resident memory after it", f"{_number(start.memory_mib, digits=0)} MiB")
    drawn.add_row("longest pause when nothing happens", f"{start.idle_pause_ms:,.2f} ms")
    return drawn


def refresh_table(start: Start) -> Table:
    """A line per number of changed providers."""
    drawn = Table(title="snapshot after changes, ms; pause: the longest a reader of memory waited")
    drawn.title_justify = "left"
    for heading in ("changed", "snapshot", "executing SQL", "driver alone", "rest", "rows", "pause"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for refresh in start.refreshes:
        times = (refresh.ms, refresh.execute_ms, refresh.driver_ms, refresh.rest_ms)
        drawn.add_row(
            f"{refresh.changed:,}", *map(_number, times), f"{refresh.rows:,}", _number(refresh.longest_pause_ms)
        )
    return drawn


def memory_table(rungs: Sequence[Rung]) -> Table:
    """A line per thing, a column per number of things."""
    drawn = Table(title="bytes for each; in brackets at most, while all were loaded and read")
    drawn.title_justify = "left"
    drawn.add_column("each", no_wrap=True)
    numbers = sorted({rung.number for rung in rungs})
    for number in numbers:
        drawn.add_column(f"{number:,}", justify="right", no_wrap=True)
    for of in dict.fromkeys(rung.of for rung in rungs):
        cells = {rung.number: rung for rung in rungs if rung.of == of}
        drawn.add_row(of, *(_memory(cells[number]) if number in cells else "" for number in numbers))
    return drawn


def _memory(rung: Rung) -> str:
    return f"{rung.bytes_each:,.0f} ({rung.bytes_at_most / rung.number:,.0f})"
