"""The cost of questions about capacity: ``python -m stead_bench.capacity_questions [HOSTS]`` (10,000 trees).

In this process, without a network: processor milliseconds of GET /headroom and of POST /whatif, the best of several
runs, beside those of GET /allocation_candidates with the same query and ``limit=10``. Trees of NUMA nodes have fifteen
providers each, so a site of 10,000 of them takes a minute to make.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING
from uuid import uuid5

import orjson
from rich.console import Console
from rich.table import Table

from stead_bench import in_process
from stead_bench.claims import body
from stead_bench.queries import host_in_zones, port_and_gpu
from stead_bench.sites import SPACE, Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

RUNS = 5
CONSUMERS = 50
"""Of the host that is drained."""


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    table = Table("site", "request", "CPU, ms", "candidates, ms", "times it fits")
    for site, query in ((Site("flat", hosts), host_in_zones), (Site("numa", hosts), port_and_gpu)):
        with in_process.serving(site) as (app, _):
            flat = "resources=VCPU:2,MEMORY_MB:2048"
            queries = {query(site).name: query(site).target(1, None).partition("?")[2]}
            if site.kind == "flat":
                queries = {"VCPU and memory": flat, **queries}
            for name, asked in queries.items():
                candidates = least(lambda asked=asked: in_process.get(app, f"/allocation_candidates?{asked}&limit=10"))  # type: ignore[misc]  # mypy infers no type of a default in a lambda
                headroom = least(lambda asked=asked: in_process.get(app, f"/headroom?{asked}&limit=10"))  # type: ignore[misc]  # mypy infers no type of a default in a lambda
                fits = orjson.loads(in_process.get(app, f"/headroom?{asked}&limit=10")[0])["headroom"]
                bounds = f"{fits['at_least']:,} to {fits['at_most']:,}"
                table.add_row(str(site), f"headroom: {name}", f"{headroom:.1f}", f"{candidates:.1f}", bounds)
            if site.kind == "flat":
                moves, drain = drained(app)
                table.add_row(str(site), f"what-if: drain of {moves} consumers", f"{drain:.1f}", "", "")
    Console().print(table)


def least(request: Callable[[], object]) -> float:
    """Processor milliseconds of *request* in the best of all runs."""
    taken = []
    for _ in range(RUNS):
        began = time.process_time()
        request()
        taken.append(time.process_time() - began)
    return min(taken) * 1e3


def drained(app: WSGIApplication) -> tuple[int, float]:
    """The moves of a drain of one host, and its processor milliseconds."""
    changes = {"changes": [{"change": "drain", "provider": crowded(app)}]}
    answer = orjson.loads(in_process.post(app, "/whatif", changes))
    return len(answer["moves"]), least(lambda: in_process.post(app, "/whatif", changes))


def crowded(app: WSGIApplication) -> str:
    """Claim a unit of one host for each of many consumers; returns the uuid of the host."""
    page = in_process.get(app, "/provider_trees?limit=1&fields=uuid")[0]
    uuid: str = orjson.loads(page)["provider_trees"][0]["root_provider_uuid"]
    for number in range(CONSUMERS):
        claim = body({uuid: {"VCPU": 1, "MEMORY_MB": 64}})
        in_process.post(app, "/allocations", {str(uuid5(SPACE, f"crowd/{number}")): claim})
    return uuid


if __name__ == "__main__":
    main()
