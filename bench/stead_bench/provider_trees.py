"""The cost of GET /provider_trees: ``python -m stead_bench.provider_trees [HOSTS]`` (10,000 trees of seven).

In this process, without a network: processor seconds of one request, the minimum of several runs, and the bytes of the
answer. For comparison, the requests of microversion 1.39 with the same information, for one host and, multiplied, for
all.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import orjson
from rich.console import Console
from rich.table import Table

from stead_bench import in_process
from stead_bench.sites import Site

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

RUNS = 5
QUERIES = (
    "totals=true&depth=0",
    "totals=true&depth=0&limit=10000",
    "depth=0&limit=10000&fields=name,usages",
    "",
    "limit=10",
    "totals=true&limit=10",
    "name=*-numa1-gpu&limit=10",
    "columns=true",
    "columns=true&totals=true&depth=0&fields=name,traits,aggregates,disabled",
)


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with in_process.serving(Site("nested", hosts)) as (app, providers):
        table = Table("request", "CPU, ms", "bytes", title=f"{hosts:,} trees, {providers:,} providers")
        for query in QUERIES:
            seconds, size, _ = least(app, f"/provider_trees?{query}", in_process.OWN)
            table.add_row(f"/provider_trees?{query}", f"{seconds * 1e3:.1f}", f"{size:,}")
        seconds, size = whole(app)
        table.add_row("/provider_trees, all pages", f"{seconds * 1e3:.1f}", f"{size:,}")
        _, _, tag = least(app, "/provider_trees", in_process.OWN)
        seconds, size, _ = least(app, "/provider_trees", in_process.OWN, tag)
        table.add_row("/provider_trees, If-None-Match", f"{seconds * 1e3:.1f}", f"{size:,}")
        seconds, size = one_by_one(app)
        table.add_row("1.39, one tree", f"{seconds * 1e3:.1f}", f"{size:,}")
        table.add_row("1.39, all trees (multiplied)", f"{seconds * 1e3 * hosts:,.0f}", f"{size * hosts:,}")
        Console().print(table)


def least(app: WSGIApplication, target: str, version: str, tag: str = "") -> tuple[float, int, str]:
    """Processor seconds of a GET in the best of all runs, the bytes of its body, and its ETag."""
    seconds = []
    for _ in range(RUNS):
        began = time.process_time()
        body, answered = in_process.get(app, target, version, tag)
        seconds.append(time.process_time() - began)
    return min(seconds), len(body), answered


def whole(app: WSGIApplication) -> tuple[float, int]:
    """Processor seconds and bytes of all pages, from the first to the last."""
    seconds, size, target = 0.0, 0, "/provider_trees"
    while target:
        began = time.process_time()
        body, _ = in_process.get(app, target, in_process.OWN)
        seconds += time.process_time() - began
        size += len(body)
        links = orjson.loads(body)["links"]
        target = links[0]["href"] if links else ""
    return seconds, size


def one_by_one(app: WSGIApplication) -> tuple[float, int]:
    """Processor seconds and bytes of the requests for everything about one tree at 1.39."""
    body, _ = in_process.get(app, "/provider_trees?limit=1&fields=uuid", in_process.OWN)
    (tree,) = orjson.loads(body)["provider_trees"]
    targets = [f"/resource_providers?in_tree={tree['root_provider_uuid']}"]
    for provider in tree["providers"]:
        path = f"/resource_providers/{provider['uuid']}"
        targets += [f"{path}/{part}" for part in ("inventories", "usages", "traits", "aggregates")]
    measured = [least(app, target, "placement 1.39") for target in targets]
    return sum(seconds for seconds, _, _ in measured), sum(size for _, size, _ in measured)


if __name__ == "__main__":
    main()
