"""The ``stead-bench`` command: measures what Stead costs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from stead.printing import one_line
from stead_bench import plot, report, results
from stead_bench.asking import PATIENCE
from stead_bench.errors import BenchError
from stead_bench.options import (
    RESULTS,
    AsJson,
    Markdown,
    Out,
    PeerCommand,
    PeerDatabase,
    PeerLoaded,
    PeerPid,
    PeerToken,
    PeerUrl,
    Seed,
    Threads,
    Workers,
    peer_of,
    refusing,
)
from stead_bench.sites import Site
from stead_bench.suites import SUITES, cases

if TYPE_CHECKING:
    from stead_bench.memory import Rung
    from stead_bench.results import Row

NO, REFUSED, INTERRUPTED = 1, 2, 128 + 2
"""Exit codes: a server answered wrongly; the measurement cannot be made; SIGINT, as a shell reports it."""

UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # Typer exports no public name for it

app = typer.Typer(
    pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True, help="Measure what Stead costs."
)


@app.command()
@refusing()
def candidates(
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="Suite to measure; repeatable. Default: all; machines requires --machines. "
            + "; ".join(f"{name}: {suite.help}" for name, suite in SUITES.items())
        ),
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="Size of the sites instead of the usual ones; may be repeated.")
    ] = None,
    traits: Annotated[
        int | None, typer.Option(min=3, help="Traits of each flat host; 30, or what a suite has.")
    ] = None,
    seed: Seed = 1,
    machines: Annotated[
        Path | None, typer.Option(help="Folder of hwloc XML files (lstopo --of xml) for the suite machines.")
    ] = None,
    limit: Annotated[
        list[int] | None, typer.Option(min=0, help="Only rows with this limit, 0 for none; may be repeated.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.01, help="Time per row and server.")] = 5.0,
    microversion: Annotated[str, typer.Option(help="Microversion of the requests.")] = "1.39",
    workers: Workers = 1,
    threads: Threads = 8,
    stead: Annotated[
        str | None, typer.Option(help="URL of a Stead that runs, instead of one started for each site.")
    ] = None,
    stead_pid: Annotated[
        list[int] | None, typer.Option(help="Its process, for processor time; may be repeated.")
    ] = None,
    token: Annotated[str, typer.Option("--stead-token", help="Token of that Stead.")] = "admin",
    peer: PeerUrl = None,
    peer_pid: PeerPid = None,
    peer_command: PeerCommand = None,
    peer_token: PeerToken = "admin",
    peer_database: PeerDatabase = None,
    peer_loaded: PeerLoaded = False,
    patience: Annotated[float, typer.Option(min=1, help="Seconds to wait for an answer.")] = 60.0,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "candidates.json",
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw cost against size into this PNG (needs stead-bench[plot]).")
    ] = None,
) -> None:
    """Measure queries beside a bare server, and beside a peer."""
    from stead_bench.candidates import Bench
    from stead_bench.servers import Server, Serving

    if plot_file is not None:
        plot.require()
    chosen = _suites(suite, machines)
    bench = Bench(Serving(workers, threads), seconds, microversion, report.progress, patience=patience)
    if stead is not None:
        bench.stead = Server("Stead", stead, token, tuple(stead_pid or ()), patience=patience)
    rows: list[Row] = []
    with peer_of(
        peer,
        pids=peer_pid,
        command=peer_command,
        token=peer_token,
        database=peer_database,
        loaded=peer_loaded,
        patience=patience,
    ) as bench.peer:
        for name in chosen:
            chosen_cases = cases(name, size or (), traits=traits, seed=seed, folder=machines, limits=limit or ())
            for row in bench.rows(name, chosen_cases):
                rows.append(row)
                _save(out, rows)
                report.complaints().print(_line(row))
    _show(rows, out, markdown=markdown, as_json=as_json)
    if plot_file is not None:
        plot.draw(rows, plot_file)
    if any(row.differences for row in rows):
        raise typer.Exit(NO)


@app.command()
@refusing()
def throughput(
    hosts: Annotated[int, typer.Option(min=3, help="Flat hosts of the site.")] = 10_000,
    clients: Annotated[int, typer.Option(min=1, help="Clients at once, each a process.")] = 16,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds per server.")] = 30.0,
    workers: Workers = 2,
    threads: Threads = 8,
    database: Annotated[
        str | None, typer.Option(help="URL of an empty database for Stead; a temporary SQLite file, if not given.")
    ] = None,
    database_pid: Annotated[
        list[int] | None, typer.Option(help="Process of the database server of Stead, for its processor time.")
    ] = None,
    seed: Seed = 1,
    peer: PeerUrl = None,
    peer_pid: PeerPid = None,
    peer_command: PeerCommand = None,
    peer_token: PeerToken = "admin",
    peer_database: PeerDatabase = None,
    peer_database_pid: Annotated[
        list[int] | None, typer.Option(help="Process of the peer's database server, for its processor time.")
    ] = None,
    peer_loaded: PeerLoaded = False,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "throughput.json",
) -> None:
    """Measure many clients at once: nine questions where something fits, then a claim."""
    from stead_bench.servers import Serving
    from stead_bench.throughput import Load, measure, prepare_peer, stead

    load = Load(clients, seconds, Site("flat", hosts, seed=seed))
    measured = []
    with stead(database, load.site, Serving(workers, threads), report.progress) as server:
        measured.append(measure(server, load, seed=seed, database_pids=database_pid or ()))
    with peer_of(
        peer,
        pids=peer_pid,
        command=peer_command,
        token=peer_token,
        database=peer_database,
        loaded=peer_loaded,
        patience=PATIENCE,
    ) as other:
        if other is not None:
            prepare_peer(other, load.site, report.progress)
            measured.append(measure(other.server, load, seed=seed, database_pids=peer_database_pid or ()))
    results.write(out, "throughput", site=str(load.site), clients=clients, workers=workers, servers=measured)
    if as_json:
        report.print_json({"servers": [asdict(throughput) for throughput in measured]})
    else:
        report.show(report.throughput_table(measured), markdown=markdown)
        print(f"written to {out}")
    complaints = [complaint for throughput in measured for complaint in throughput.complaints]
    for complaint in complaints:
        report.complaints().print(complaint, style="red", markup=False)
    if complaints:
        raise typer.Exit(NO)


@app.command()
@refusing()
def claims(
    database: Annotated[
        list[str] | None,
        typer.Option(help="URL of an empty database; may be repeated; a temporary SQLite file, if not given."),
    ] = None,
    clients: Annotated[
        list[int] | None, typer.Option(min=1, help="Clients at once; may be repeated; else 1, 4 and 16.")
    ] = None,
    hosts: Annotated[int, typer.Option(min=1, help="Providers over which claims are spread.")] = 1000,
    consumers: Annotated[
        int, typer.Option(min=0, help="Number of consumers with allocations from the storage pool.")
    ] = 100_000,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds of each turn of Stead and of the bare program.")
    ] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Number of turns of each.")] = 3,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Measure stead.open and Site.claim in this process, without HTTP.")
    ] = False,
    workers: Workers = 1,
    threads: Threads = 16,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "claims.json",
) -> None:
    """Measure claims beside a program that only commits the same rows, on databases that keep what they commit."""
    from stead_bench.claims_rate import Bench, ClaimRate
    from stead_bench.claims_site import ClaimsSite
    from stead_bench.servers import Serving

    bench = Bench(ClaimsSite(hosts, consumers), Serving(workers, threads), seconds, rounds, report.progress, embedded)
    rates: list[ClaimRate] = []
    urls: list[str | None] = [*database] if database else [None]
    for url in urls:
        for rate in bench.rates(url, clients or (1, 4, 16)):
            rates.append(rate)
            results.write(out, "claims", hosts=hosts, consumers=consumers, workers=workers, rates=rates)
    if as_json:
        report.print_json({"rates": [asdict(rate) for rate in rates]})
    else:
        report.show(report.claims_table(rates), markdown=markdown)
        print(f"written to {out}")


@app.command()
@refusing()
def leases(
    database: Annotated[
        list[str] | None,
        typer.Option(help="URL of an empty database; may be repeated; a temporary SQLite file, if not given."),
    ] = None,
    number: Annotated[int, typer.Option(min=1, help="Leases that are alive.")] = 100_000,
    renewals: Annotated[int, typer.Option(min=1, max=10_000, help="Renewals in one request.")] = 10_000,
    rounds: Annotated[int, typer.Option(min=1, help="Number of these requests.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds without requests, in which the processor time is measured.")
    ] = 30.0,
    workers: Workers = 1,
    threads: Threads = 8,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "leases.json",
) -> None:
    """Measure renewals of many leases in one request, and what leases cost a service that does nothing else."""
    from stead_bench.leases import Bench
    from stead_bench.servers import Serving

    bench = Bench(number, renewals, rounds, seconds, Serving(workers, threads), report.progress)
    urls: list[str | None] = [*database] if database else [None]
    measured = []
    for url in urls:
        measured.append(bench.measure(url))
        results.write(out, "leases", workers=workers, leases=measured)
    if as_json:
        report.print_json({"leases": [asdict(each) for each in measured]})
    else:
        report.show(report.leases_table(measured), markdown=markdown)
        print(f"written to {out}")


@app.command()
@refusing()
def fill(
    database: Annotated[
        list[str] | None,
        typer.Option(help="URL of an empty database; may be repeated; a temporary SQLite file, if not given."),
    ] = None,
    order: Annotated[
        list[str] | None, typer.Option(help="Value of order_by; repeatable. Default: random and pack.")
    ] = None,
    hosts: Annotated[int, typer.Option(min=1, help="Hosts, all of them empty.")] = 1000,
    per_host: Annotated[int, typer.Option(min=1, help="Claims that fit on each.")] = 4,
    clients: Annotated[int, typer.Option(min=1, help="Clients at once.")] = 16,
    services: Annotated[int, typer.Option(min=1, help="Services on one database, to which clients are dealt.")] = 1,
    workers: Workers = 1,
    threads: Threads = 16,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "fill.json",
) -> None:
    """Measure how a site is filled by claims in one request, and by a question and a claim."""
    from stead_bench.servers import Serving
    from stead_bench.site_fill import Bench, Fill

    bench = Bench(hosts, per_host, clients, services, Serving(workers, threads), report.progress)
    fills: list[Fill] = []
    urls: list[str | None] = [*database] if database else [None]
    for url in urls:
        for fill in bench.fills(url, order or ("random", "pack")):
            fills.append(fill)
            results.write(out, "fill", hosts=hosts, per_host=per_host, workers=workers, fills=fills)
    if as_json:
        report.print_json({"fills": [asdict(fill) for fill in fills]})
    else:
        report.show(report.fills_table(fills), markdown=markdown)
        print(f"written to {out}")


@app.command()
@refusing()
def trace(
    nodes: Annotated[Path, typer.Argument(help="CSV file of hosts: sn, cpu_milli, memory_mib, gpu, model.")],
    tasks: Annotated[
        list[Path],
        typer.Argument(help="CSV files of tasks: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec."),
    ],
    order: Annotated[
        list[str] | None,
        typer.Option(help="Value of order_by; repeatable. Default: headroom, pack, spread, random."),
    ] = None,
    mix: Annotated[
        Path | None,
        typer.Option(help="CSV file of tasks that become flavors for headroom. Default: the tasks that arrive."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each order, with other arrivals.")] = 10,
    clients: Annotated[
        int,
        typer.Option(
            min=0,
            max=64,
            help="Clients of a server on loopback. Default 0: the library in this process.",
        ),
    ] = 0,
    until: Annotated[
        int, typer.Option(min=1, max=130, help="Percent of all GPUs that tasks ask for until the end.")
    ] = 130,
    published: Annotated[
        Path | None, typer.Option(help="CSV file of other policies: tasks, policy, allocated_at_100, allocated_at_130.")
    ] = None,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "trace.json",
    plot_file: Annotated[
        Path | None, typer.Option("--plot", help="Draw what was given out into this PNG (needs stead-bench[plot]).")
    ] = None,
) -> None:
    """Measure how much of a GPU cluster each order gives out to the tasks of a trace."""
    from stead_bench import trace as tracing

    if plot_file is not None:
        plot.require()
    forms = tracing.tasks_of(mix) if mix else ()
    bench = tracing.Bench(tracing.hosts_of(nodes), seeds, report.progress, forms, clients, until / 100)
    arrivals = {file.stem.removeprefix("tasks-"): tracing.tasks_of(file) for file in tasks}
    fills = tracing.published(published, set(arrivals)) if published else []
    for name, of_file in arrivals.items():
        for value in order or ("headroom", "pack", "spread", "random"):
            fills.append(bench.fill(name, of_file, value))
            results.write(out, "trace", hosts=len(bench.hosts), fills=fills)
    fills.sort(key=lambda fill: (list(arrivals).index(fill.tasks), fill.at_130))
    if as_json:
        report.print_json({"fills": [asdict(fill) for fill in fills]})
    else:
        report.show(report.trace_table(fills), markdown=markdown)
        print(f"written to {out}")
    if plot_file is not None:
        plot.draw_trace(fills, plot_file)


@app.command()
@refusing()
def door(
    question: Annotated[
        list[str] | None,
        typer.Option(
            help="Request to measure; repeatable. Default: all. 'bytes' and 'many bytes' of an application that only "
            "returns them, 'root', 'small query' and 'large query' of Stead."
        ),
    ] = None,
    connections: Annotated[
        list[int] | None, typer.Option(min=1, help="Kept connections; may be repeated; else 1, 16 and 256.")
    ] = None,
    hosts: Annotated[int, typer.Option(min=1, help="Flat hosts of the site; 1000 make a large answer of 1 MB.")] = 1000,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds of each turn of Stead and of the peer.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Number of turns of each.")] = 3,
    workers: Workers = 1,
    threads: Threads = 8,
    peer_command: Annotated[
        str | None,
        typer.Option(
            help="Start another WSGI server, in the foreground, with {port} and {application} in their places; "
            "it needs this installation of Stead to import both applications."
        ),
    ] = None,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "door.json",
) -> None:
    """Measure the HTTP server of stead serve, in turns with another WSGI server; needs the program wrk."""
    from stead_bench.door import CONNECTIONS, QUESTIONS, Bench, DoorRow
    from stead_bench.servers import Serving

    unknown = next((name for name in question or () if name not in QUESTIONS), None)
    if unknown is not None:
        raise BenchError(f"there is no question {unknown}; there are {', '.join(QUESTIONS)}")
    bench = Bench(Serving(workers, threads), peer_command, seconds, rounds, hosts, report.progress)
    rows: list[DoorRow] = []
    for row in bench.rows(question or QUESTIONS, connections or CONNECTIONS):
        rows.append(row)
        results.write(out, "door", hosts=hosts, workers=workers, threads=threads, rows=rows)
    if as_json:
        report.print_json({"rows": [asdict(row) for row in rows]})
    else:
        report.show(report.door_table(rows), markdown=markdown)
        print(f"written to {out}")
    if complaints := [complaint for row in rows for complaint in row.complaints]:
        for complaint in complaints:
            report.complaints().print(complaint, style="red", markup=False)
        raise typer.Exit(NO)


@app.command("load")
@refusing()
def load_site(
    providers: Annotated[int, typer.Option(min=1, help="Flat hosts of the site.")] = 100_000,
    traits: Annotated[int, typer.Option(min=3, help="Traits of each.")] = 30,
    changed: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Changed providers before a refresh; may be repeated; else 1, 100 and 10,000."),
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of an empty database; a temporary SQLite file, if not given.")
    ] = None,
    seed: Seed = 1,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "load.json",
) -> None:
    """Measure a start and the refreshes after it, beside what the driver alone needs."""
    from stead_bench.loading import measure

    start = measure(Site("flat", providers, traits, seed), database, changed or (1, 100, 10_000), report.progress)
    results.write(out, "load", start=start)
    if as_json:
        report.print_json(asdict(start))
    else:
        report.show(report.start_table(start), markdown=markdown)
        report.show(report.refresh_table(start), markdown=markdown)
        print(f"written to {out}")


@app.command()
@refusing()
def memory(
    thing: Annotated[
        list[str] | None,
        typer.Option(help="Part of the names of things to measure, such as 'provider'; may be repeated; else all."),
    ] = None,
    number: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Number of each thing; may be repeated; else 100, 1,000, 10,000 and 100,000."),
    ] = None,
    hosts: Annotated[int, typer.Option(min=1, help="Hosts beside classes, traits, aggregates and pools.")] = 10_000,
    markdown: Markdown = False,
    as_json: AsJson = False,
    out: Out = RESULTS / "memory.json",
) -> None:
    """Measure the memory of a worker for each thing, by the number of things."""
    from stead_bench.worker_memory import rungs

    measured: list[Rung] = []
    for rung in rungs(thing or (), number or (100, 1_000, 10_000, 100_000), hosts, report.progress):
        measured.append(rung)
        results.write(out, "memory", hosts=hosts, rungs=measured)
        report.complaints().print(f"{rung.of}, {rung.number:,}: {rung.bytes_each:,.0f} bytes each")
    if as_json:
        report.print_json({"rungs": [asdict(rung) for rung in measured]})
    else:
        report.show(report.memory_table(measured), markdown=markdown)
        print(f"written to {out}")


def _suites(given: list[str] | None, machines: Path | None) -> list[str]:
    unknown = next((name for name in given or () if name not in SUITES), None)
    if unknown is not None:
        raise BenchError(f"there is no suite {unknown}; there are {', '.join(SUITES)}")
    if "machines" in (given or ()) and (machines is None or not any(machines.glob("*.xml"))):
        raise BenchError("the suite machines needs --machines with a folder of hwloc XML files")
    return given or [name for name in SUITES if name != "machines" or machines is not None]


def _line(row: Row) -> str:
    """One row, printed as soon as it is measured."""
    stead = f"{row.stead.median_ms:,.2f} ms" if row.stead else "failed"
    peer = f", peer {row.peer.median_ms:,.2f} ms" if row.peer else f", peer {row.peer_note}" if row.peer_note else ""
    verdict = f", {row.compared}" if row.compared else ""
    return f"{row.site}, {row.query}, limit {row.limit or 'none'}: {stead}{peer}{verdict}"


def _save(out: Path, rows: list[Row]) -> None:
    results.write(out, "candidates", rows=rows, differences=report.differences(rows))


def _show(rows: list[Row], out: Path, *, markdown: bool, as_json: bool) -> None:
    if as_json:
        report.print_json({"rows": [asdict(row) for row in rows], "differences": report.differences(rows)})
    else:
        report.show(report.candidates_table(rows), markdown=markdown)
        print(f"written to {out}")
    if wrong := report.differences(rows):
        complaints = report.complaints()
        complaints.print(f"[bold red]{len(wrong)} DIFFERENCES")
        for line in wrong:
            complaints.print(line, style="red", markup=False)


def main() -> None:
    """Run the command of the process, and end it with the exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run ``stead-bench`` and return the exit code."""
    try:
        code = app(args=arguments or ["--help"], prog_name="stead-bench", standalone_mode=False)
    except BenchError as error:
        return _complain(str(error))
    except UsageError as error:
        return _complain(error.format_message())  # type: ignore[attr-defined]  # click's errors have it; Typer's base class does not
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    if message:
        print(f"stead-bench: {one_line(message)}", file=sys.stderr)
    return REFUSED
