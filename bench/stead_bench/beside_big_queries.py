"""The latency of a small query and a claim beside big queries: ``python -m stead_bench.beside_big_queries``.

Two servers run side by side; in one of them, big queries do not give way (`stead.process.runtime`). They are measured
alternately, in rounds, so that other work on the machine disturbs both alike: compare only numbers of one run. The
clients of the big queries are another process. Each repeats its query as soon as it has the answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from rich.console import Console
from rich.table import Table

from stead_bench import filling, queries, servers
from stead_bench.claims import body
from stead_bench.sites import Site, roomy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from wsgiref.types import WSGIApplication

BIG = {"answer": (Site("numa", 1000), queries.port_and_gpu, None), "search": (Site("wide", 40), queries.isolated, 1000)}
"""A query whose large answer takes most of its time, and one whose search does."""

NUMBERS = (0, 1, 10)
THREADS = 8
SIDES = ("before", "after")
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", "Accept": "application/json"}


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--big", choices=BIG, default="answer")
    parser.add_argument("--server", choices=("stead", "threads"), default="stead", help="threads: one per connection")
    parser.add_argument("--seconds", type=float, default=4, help="of each step of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, metavar=("SIDE", "CONFIGURATION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        side, configuration = options.serve
        serve(side, configuration, options.server)
        return
    site, query, limit = BIG[options.big]
    big = query(site.size if options.big == "search" else site)  # type: ignore[operator]  # each of the two takes its own kind of argument
    small = queries.isolated(2) if options.big == "search" else big
    taken: dict[tuple[str, int], Taken] = defaultdict(lambda: defaultdict(list))
    with TemporaryDirectory() as directory, ExitStack() as stack:
        ports = {side: stack.enter_context(running(side, Path(directory), site, options.server)) for side in SIDES}
        for round_ in range(options.rounds):
            for number in NUMBERS:
                for side in SIDES if round_ % 2 else reversed(SIDES):
                    with asking(ports[side], [big.target(round_, limit)] * number) as answered:
                        timed(
                            ports[side],
                            lambda turn: small.target(turn, 10),
                            roomy(site),
                            options.seconds,
                            taken[side, number],
                        )
                        taken[side, number]["big per s"].append(answered() / options.seconds)
    show(taken, options)


Taken = dict[str, list[float]]
"""Milliseconds of each request, by kind of request."""


def serve(side: str, configuration: str, kind: str) -> None:
    """Serve the application, and print the port."""
    from stead.application import build_application
    from stead.config import load
    from stead.process import runtime
    from stead.serve.worker import ApiRoutes, bounds_of, error_body
    from wsgi_lanes.server import Server

    if side == "before":
        runtime.give_way = lambda: None
    settings = load([Path(configuration)])
    app: WSGIApplication = build_application(settings)
    if kind == "threads":
        listening = make_server("127.0.0.1", 0, app, Threaded, Quiet)
        print(listening.server_port, flush=True)
        listening.serve_forever()
    with socket.create_server(("127.0.0.1", 0), backlog=100) as door:
        door.setblocking(False)
        print(door.getsockname()[1], flush=True)
        routes = ApiRoutes("", settings.request_limits.body_size)
        Server(app, routes, bounds_of(settings), threads=THREADS, error_body=error_body).run([door])


class Threaded(ThreadingMixIn, WSGIServer):
    """A thread for each connection, without any bound."""

    daemon_threads = True
    request_queue_size = 100


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, *args: object) -> None:
        """Do nothing."""


@contextmanager
def running(side: str, directory: Path, site: Site, kind: str) -> Iterator[int]:
    """A server with *site*; its port."""
    own = directory / side
    own.mkdir()
    url = f"sqlite:///{own}/placement.db"
    filling.make(url, site, silent)
    configuration = servers.configure(own, url, durable=False)
    command = [
        sys.executable,
        "-m",
        "stead_bench.beside_big_queries",
        "--serve",
        side,
        str(configuration),
        "--server",
        kind,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def silent(work: str, size: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # the names are those of `Watcher`
    """Show no progress."""
    yield lambda _number: None


@contextmanager
def asking(port: int, targets: Sequence[str]) -> Iterator[Callable[[], int]]:
    """Clients that repeat one target each; yields a function that returns the number of answers so far."""
    answered = multiprocessing.Value("i", 0)
    begun = multiprocessing.Value("i", 0)
    process = multiprocessing.get_context("fork").Process(
        target=ask_all, args=(port, targets, answered, begun), daemon=True
    )
    process.start()
    try:
        while begun.value < len(targets):
            time.sleep(0.01)
        time.sleep(0.2)  # until the big queries have run long enough to count as long
        answered.value = 0
        yield lambda: answered.value
    finally:
        process.kill()
        process.join()
        quiet(port)


def quiet(port: int) -> None:
    """Wait until all abandoned requests are finished: a small query must be fast three times in a row."""
    fast = 0
    while fast < 3:
        began = time.perf_counter()
        get(port, "/resource_providers?name=none")
        fast = fast + 1 if time.perf_counter() - began < 0.05 else 0
        time.sleep(0.05)


def ask_all(port: int, targets: Sequence[str], answered: Any, begun: Any) -> None:
    """Start a thread for each of *targets*. Runs in another process."""
    threads = [threading.Thread(target=ask, args=(port, target, answered, begun)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(port: int, target: str, answered: Any, begun: Any) -> None:
    """Repeat the request without end; discards the answers without processing them in Python."""
    buffer = bytearray(1 << 20)
    request = f"GET {target} HTTP/1.0\r\nHost: x\r\n" + "".join(
        f"{name}: {value}\r\n" for name, value in HEADERS.items()
    )
    while True:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(request.encode() + b"\r\n")
            with begun.get_lock():
                begun.value += 1
            first = True
            while count := connection.recv_into(buffer):
                if first and b" 200 " not in buffer[: min(count, 20)]:
                    time.sleep(0.1)  # refused; retry later
                    break
                first = False
            else:
                with answered.get_lock():
                    answered.value += 1


def get(port: int, target: str) -> None:
    """One small request on its own connection."""
    send(port, "GET", target, None)


def send(port: int, method: str, target: str, content: object) -> None:
    """A request on its own connection; raises an error if it is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = HEADERS if content is None else {**HEADERS, "Content-Type": "application/json"}
        connection.request(method, target, None if content is None else json.dumps(content), headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status < 300, answer.status
    finally:
        connection.close()


def timed(
    port: int,
    small: Callable[[int], str],
    places: Sequence[tuple[str, str]],
    seconds: float,
    taken: Taken,
) -> None:
    """Measure small queries and claims, alternately."""
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        turn += 1
        consumer, (provider, resource_class) = uuid4(), places[turn % len(places)]
        steps = (
            ("small query", "GET", small(turn), None),
            ("claim", "PUT", f"/allocations/{consumer}", body({provider: {resource_class: 1}})),
            ("release", "DELETE", f"/allocations/{consumer}", None),
        )
        for name, *request in steps:
            began = time.perf_counter()
            send(port, *request)
            taken[name].append((time.perf_counter() - began) * 1e3)


def show(taken: dict[tuple[str, int], Taken], options: argparse.Namespace) -> None:
    """Print a table: milliseconds, and the ratio to those without big queries."""
    rows = []
    for number in NUMBERS:
        for name in ("small query", "claim"):
            row: dict[str, Any] = {"big": number, "request": name}
            for side in SIDES:
                times = taken[side, number][name]
                alone = statistics.median(taken[side, 0][name])
                row |= {
                    f"{side} p50": statistics.median(times),
                    f"{side} p99": statistics.quantiles(times, n=100)[98],
                    f"{side} p50/alone": statistics.median(times) / alone,
                    f"{side} big/s": statistics.mean(taken[side, number]["big per s"]),
                }
            row["p50 before/after"] = row["before p50"] / row["after p50"]
            row["p99 before/after"] = row["before p99"] / row["after p99"]
            rows.append({name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()})
    if options.json:
        print(json.dumps({"big": options.big, "server": options.server, "rows": rows}))
        return
    table = Table(title=f"Beside big queries ({options.big}), server: {options.server}; milliseconds")
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
