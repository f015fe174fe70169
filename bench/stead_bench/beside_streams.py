"""The latency of a small query beside open event streams: ``python -m stead_bench.beside_streams``.

One worker. Rounds with and without streams alternate, so that other work on the machine disturbs both alike: compare
only numbers of one run. A reader consumes the streams. With `--writes`, each write is an event on every stream. With
`--merged`, the streams are those of pages of the web interface: one message per second at most.
"""

from __future__ import annotations

import argparse
import http.client
import json
import selectors
import socket
import statistics
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stead_bench import filling, processes, queries, servers
from stead_bench.beside_big_queries import silent
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = Site("numa", 1000)
LIMIT = 10
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39, stead 1.1"}


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20, help="with the streams, and as many without")
    parser.add_argument("--requests", type=int, default=100, help="of each round")
    parser.add_argument("--writes", type=float, default=0.0, help="per second, in all rounds")
    parser.add_argument("--merged", action="store_true", help="streams of merged changes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    taken: dict[bool, list[float]] = {False: [], True: []}
    medians: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    with TemporaryDirectory() as directory, ExitStack() as stack:
        folder = Path(directory)
        url = f"sqlite:///{folder}/placement.db"
        filling.make(url, SITE, silent)
        server = stack.enter_context(servers.stead(folder, url, servers.Serving(1), durable=False))
        stack.enter_context(writing(server.url, options.writes))
        times(server, options.requests)  # warm up
        for turn in range(options.rounds):
            for has_streams in (False, True) if turn % 2 else (True, False):
                path = "/changes?merged=true" if options.merged else "/changes"
                with streams(server.url, options.streams if has_streams else 0, path):
                    began = processes.cpu_seconds(server.processes())
                    round_ = times(server, options.requests)
                    cpu[has_streams].append(processes.cpu_seconds(server.processes()) - began)
                taken[has_streams] += round_
                medians[has_streams].append(statistics.median(round_))
    ratios = sorted(beside / alone for alone, beside in zip(medians[False], medians[True], strict=True))
    figures = {
        "streams": options.streams,
        "writes per second": options.writes,
        "p50 without, ms": statistics.median(taken[False]),
        "p50 beside, ms": statistics.median(taken[True]),
        "p50 beside/without": statistics.median(taken[True]) / statistics.median(taken[False]),
        "p99 beside/without": percentile(taken[True]) / percentile(taken[False]),
        "CPU time of the server, beside/without": sum(cpu[True]) / sum(cpu[False]),
        "median ratio of rounds": statistics.median(ratios),
        "quartiles of it": f"{ratios[len(ratios) // 4]:.3f} to {ratios[-1 - len(ratios) // 4]:.3f}",
    }
    shown = {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}
    print(json.dumps(shown) if options.json else "\n".join(f"{name:40} {value}" for name, value in shown.items()))


def percentile(values: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(values, n=100)[98]


def times(server: servers.Server, requests: int) -> list[float]:
    """Milliseconds of each of *requests* small queries, on a kept connection."""
    query = queries.port_and_gpu(SITE)
    with closing(server.connect()) as connection:
        return [connection.get(query.target(turn, LIMIT)).seconds * 1e3 for turn in range(requests)]


@contextmanager
def streams(url: str, number: int, path: str) -> Iterator[None]:
    """Open *number* streams of *path*; a thread reads them."""
    place = urlsplit(url)
    request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAccept: text/event-stream\r\n"
    request += "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()) + "\r\n"
    stopped = threading.Event()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(number):
            connection = stack.enter_context(socket.create_connection((str(place.hostname), place.port or 80)))
            connection.sendall(request.encode())
            assert b" 200 " in connection.recv(65536)[:20]
            selector.register(connection, selectors.EVENT_READ)
        reader = threading.Thread(target=read, args=(selector, stopped))
        reader.start()
        try:
            yield
        finally:
            stopped.set()
            reader.join()


def read(selector: selectors.BaseSelector, stopped: threading.Event) -> None:
    """Read and discard the data."""
    while not stopped.wait(0.05):
        for key, _ in selector.select(0):
            key.fileobj.recv(65536)  # type: ignore[union-attr]  # they are sockets


@contextmanager
def writing(url: str, rate: float) -> Iterator[None]:
    """Write *rate* times per second."""
    stopped = threading.Event()

    def write() -> None:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port or 80)
        headers = {**HEADERS, "Content-Type": "application/json"}
        number = 0
        while not stopped.wait(1 / rate):
            number += 1
            made = json.dumps({"name": f"streamed-{number}"})
            connection.request("POST", "/resource_providers", made, headers)
            connection.getresponse().read()
        connection.close()

    writer = threading.Thread(target=write)
    if rate:
        writer.start()
    try:
        yield
    finally:
        stopped.set()
        if rate:
            writer.join()


if __name__ == "__main__":
    main()
