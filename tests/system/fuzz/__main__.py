"""``python -m tests.system.fuzz N``: N requests on each database in turn; a summary, and what was wrong with them.

Before them, so many more (``--examples``) that schemathesis makes of each operation of the OpenAPI document.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from scripts.docs import the_routes
from stead.api.openapi import document
from tests.databases import Server
from tests.servers.programs import Unavailable
from tests.servers.throwaway import STARTERS
from tests.system.fuzz.document import operations, probe
from tests.system.fuzz.runs import REQUESTS_PER_SITE, Tally, fuzz
from tests.system.fuzz.site import site

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KINDS = ("sqlite", "postgresql", "mariadb")
MOST_FAULTS = 50
WIDE = 150
SHOWN = 20
"""A route with fewer answers has no row of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("requests", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="of the run that is to be repeated")
    parser.add_argument("--database", choices=KINDS, action="append", help="only this; may be repeated")
    parser.add_argument("--examples", type=int, default=50, help="of each operation, right and wrong, on each database")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends, too
    logging.getLogger("stead").setLevel(logging.CRITICAL)  # what is wrong is told below
    tally, began = Tally(), time.monotonic()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("fuzz", total=arguments.requests)
            tally.step = lambda: progress.advance(task)
            kinds = arguments.database or KINDS
            run_described(arguments.examples, seed, kinds, tally, progress.console)
            run(arguments.requests, seed, kinds, tally, progress.console)
    except KeyboardInterrupt:
        print("interrupted")
    except Unavailable as unavailable:
        print(f"NOT FUZZED: {unavailable}")
        return 1
    summarise(tally, seed, time.monotonic() - began)
    return 1 if tally.faults else 0


def run(number: int, seed: int, kinds: tuple[str, ...], tally: Tally, console: Console) -> None:
    """One site after another, each on the next kind of database and with the next seed."""
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="stead-fuzz-")))
        servers = [ends.enter_context(started(kind, place)) for kind in kinds]
        every = itertools.cycle(servers)
        for episode in range(-(-number // REQUESTS_PER_SITE)):
            server = next(every)
            some = min(REQUESTS_PER_SITE, number - episode * REQUESTS_PER_SITE)
            before = len(tally.faults)
            one(server, seed + episode, some, tally, place)
            for fault in tally.faults[before:]:
                console.print(fault, markup=False, highlight=False, soft_wrap=True)
            if len(tally.faults) > MOST_FAULTS:
                return


def run_described(examples: int, seed: int, kinds: Sequence[str], tally: Tally, console: Console) -> None:
    """So many requests that fit each operation of the document, and as many that do not, on each kind of database."""
    described = json.loads(json.dumps(document(the_routes())))
    asked: Counter[int] = Counter()
    for kind in kinds if examples else ():
        with ExitStack() as ends:
            place = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="stead-fuzz-")))
            server = ends.enter_context(started(kind, place))
            opened = ends.enter_context(site(place, server.create(), everything_on=False))
            for operation in operations(described, opened.application):
                try:
                    probe(operation, examples, asked, seed=seed)
                except BaseExceptionGroup as group:
                    tally.faults.append(f"{kind}: {operation.label}: {group} {group.exceptions}")
                    console.print(tally.faults[-1], markup=False, highlight=False, soft_wrap=True)
    console.print(f"{asked.total()} requests that the document describes: {dict(sorted(asked.items()))}")


def one(server: Server, seed: int, number: int, tally: Tally, place: Path) -> None:
    url = server.create()
    try:
        with site(place, url, everything_on=seed % 2 == 1) as opened:
            fuzz(opened, seed, number, tally, where=f"--database {server.kind}")
    finally:
        server.drop(url)


@contextmanager
def started(kind: str, place: Path) -> Iterator[Server]:
    """Where databases of this kind are made: a directory, or a throw-away server that ends with the block."""
    if kind == "sqlite":
        yield Server(kind, str(place))
        return
    running = STARTERS[kind](place / "apt.lock")
    try:
        yield Server(kind, running.url)
    finally:
        running.stop()


def summarise(tally: Tally, seed: int, seconds: float) -> None:
    """Answers by route and status, and the slowest requests."""
    statuses = sorted({status for _, status in tally.answers})
    by_route: dict[str, Counter[int]] = {}
    for (route, status), count in tally.answers.items():
        by_route.setdefault(route, Counter())[status] += count
    table = Table("route", *map(str, statuses), title=f"SEED={seed}")
    usual = {route: counts for route, counts in by_route.items() if counts.total() >= SHOWN}
    odd = sum((counts for route, counts in by_route.items() if route not in usual), Counter[int]())
    for route, counts in [*sorted(usual.items()), ("others", odd), ("all", sum(by_route.values(), Counter[int]()))]:
        table.add_row(Text(ascii(route)[1:-1]), *(str(counts[status] or "") for status in statuses))
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    console.print(table)
    number = tally.answers.total()
    console.print(f"{number} requests in {seconds:.0f} s, {number / seconds:.0f} a second; the slowest:")
    for took, asked in tally.slowest:
        console.print(f"{took:8.2f} s  {asked}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(tally.faults)} faults")


if __name__ == "__main__":
    sys.exit(main())
