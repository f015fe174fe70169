"""What the library adds to the engine: ``python -m stead_bench.library_cost [HOSTS]`` (10,000 flat hosts).

``Site.candidates(request, limit=10)`` of ``stead.open``, for a site on a temporary SQLite database. The time of the
engine is measured inside the same call, so both have the same caches. The rest is parsing, policy, the check that the
snapshot is fresh, and the values that the library makes of the answer. Every request differs from the one before.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

import stead
from stead.candidates import engine
from stead_bench import filling
from stead_bench.in_process import silent
from stead_bench.queries import host_in_zones
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 10
WARM_UP = 100
REQUESTS = 1000


def main() -> None:
    """Measure and show."""
    site = Site("flat", int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    query = host_in_zones(site)
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory, 'stead.db')}"
        filling.make(url, site, silent)
        with stead.open(url) as library:
            requests = [
                stead.Request.parse(query.target(number, None).partition("?")[2])
                for number in range(WARM_UP + REQUESTS)
            ]
            engine.answer, spent = timed(engine.answer)
            calls = []
            for request in requests:
                began = time.perf_counter()
                library.candidates(request, limit=LIMIT)
                calls.append(time.perf_counter() - began)
    table = Table("ms", "median", "p99", title=f"{site}, limit={LIMIT}, {REQUESTS} requests")
    beyond = [whole - part for whole, part in zip(calls, spent, strict=True)]
    for name, seconds in (("Site.candidates", calls), ("engine", spent), ("beyond the engine", beyond)):
        measured = seconds[WARM_UP:]
        table.add_row(name, f"{median(measured) * 1e3:.2f}", f"{quantiles(measured, n=100)[98] * 1e3:.2f}")
    Console().print(table)


def timed(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[float]]:
    """*function*, and the list to which each of its calls adds its seconds."""
    spent: list[float] = []

    def call(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments, **named)
        spent.append(time.perf_counter() - began)
        return result

    return call, spent


if __name__ == "__main__":
    main()
