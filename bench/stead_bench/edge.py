"""What a read costs beside the engine: ``python -m stead_bench.edge [HOSTS]`` (1,000 flat hosts with 90 traits).

Two tables. Over HTTP, with no claim in between and with different queries for candidates: CPU time of Stead, and of the
bare application under the same server, which returns the same bytes; the best of all rounds of each. In this process,
without a network: CPU time and function calls of the layers around the engine, whose answer is that of the request
before.
"""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import stead
from stead.application import prepare_process
from stead.candidates import engine
from stead_bench import bare, filling, processes, servers
from stead_bench.candidates import ADDED_BY_THE_SERVER
from stead_bench.in_process import get, service_of, silent
from stead_bench.queries import PROVIDERS, host_in_zones
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from stead_bench.asking import Connection

ROUNDS = 7
SECONDS = 0.4
"""Of each round and server; the number of requests follows from it."""

LIMIT = 10
LARGEST = 1_000
"""Maximum number of hosts for the requests without limit."""

SOURCES = str(Path(stead.__file__).parent)

Targets = dict[str, "Callable[[int], str]"]


def main() -> None:
    """Measure and show."""
    site = Site("flat", int(sys.argv[1]) if len(sys.argv) > 1 else LARGEST, traits=90)
    provider = f"{PROVIDERS}/{next(site.descriptions()).uuid}"
    query = host_in_zones(site)
    targets: Targets = {
        "version document": lambda _: "/",
        "one provider": lambda _: provider,
        f"candidates, limit={LIMIT}": lambda number: query.target(number, LIMIT),
    }
    complete: Targets = {
        "candidates, no limit": lambda number: query.target(number, None),
        "list of providers": lambda _: PROVIDERS,
    }
    console = Console()
    console.print(over_http(site, targets | complete if site.size <= LARGEST else targets))
    console.print(beside_engine(site, targets))


def over_http(site: Site, targets: Targets) -> Table:
    """The table of CPU times of the two servers."""
    table = Table("request", "Stead, µs", "bare, µs", "beyond bare, µs", "Stead/bare", title=f"Over HTTP, {site}")
    with TemporaryDirectory() as directory, ExitStack() as stack:
        folder = Path(directory)
        bodies = folder / "bodies"
        bodies.mkdir()
        url = f"sqlite:///{folder / 'placement.db'}"
        filling.make(url, site, silent)
        both = [
            (server, server.connect())
            for server in (
                stack.enter_context(servers.stead(folder, url, servers.Serving())),
                stack.enter_context(servers.bare(folder, bodies, servers.Serving())),
            )
        ]
        for number, (name, target) in enumerate(targets.items()):
            reply = both[0][1].get(target(0))
            headers = [pair for pair in reply.headers if pair[0].lower() not in ADDED_BY_THE_SERVER]
            path = bare.keep(bodies, number, headers, reply.body)
            asked = (target, lambda _, path=path: path)
            least = [float("inf")] * 2
            numbers = itertools.count(1)
            for _ in range(ROUNDS):
                for place, (server, connection) in enumerate(both):
                    least[place] = min(least[place], cpu(connection, server.processes(), asked[place], numbers))
            ours, bares = (1e6 * seconds for seconds in least)
            table.add_row(name, f"{ours:.0f}", f"{bares:.0f}", f"{ours - bares:.0f}", f"{ours / bares:.2f}")
    return table


def cpu(connection: Connection, pids: list[int], target: Callable[[int], str], numbers: Iterator[int]) -> float:
    """CPU seconds of the server for one request, as a mean over a round; each request has the next of *numbers*."""
    before, began, requests = processes.cpu_seconds(pids), time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        requests += 1
        connection.get(target(next(numbers)))
    return (processes.cpu_seconds(pids) - before) / requests


def beside_engine(site: Site, targets: Targets) -> Table:
    """The table of the layers around the engine."""
    table = Table("request", "CPU, µs", "calls", "in files", title=f"In one process, without the engine, {site}")
    with service_of(site) as (_, app, _):
        prepare_process()
        for name, target in targets.items():
            get(app, target(0), "placement 1.39")
            computing, engine.answer = engine.answer, repeating(engine.answer)
            least = float("inf")
            numbers = itertools.count(1)
            for _ in range(ROUNDS):
                began, requests = time.process_time(), 0
                while time.process_time() - began < SECONDS:
                    requests += 1
                    get(app, target(next(numbers)), "placement 1.39")
                least = min(least, (time.process_time() - began) / requests)
            another = target(next(numbers))
            calls, files = entered(lambda another=another: get(app, another, "placement 1.39"))  # type: ignore[misc]  # mypy cannot infer the default
            engine.answer = computing
            table.add_row(name, f"{1e6 * least:.1f}", str(calls), str(files))
    return table


def repeating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the first result of *function* at every call."""
    results: list[Any] = []

    def call(*arguments: Any, **named: Any) -> Any:
        if not results:
            results.append(function(*arguments, **named))
        return results[0]

    return call


def entered(request: Callable[[], object]) -> tuple[int, int]:
    """The calls of functions of Stead during a request, and the number of files that have these functions."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCES):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    request()
    sys.setprofile(None)
    return len(files), len(set(files))


if __name__ == "__main__":
    main()
