"""The cost of a required trait that all providers have: ``python -m stead_bench.common_trait [HOSTS]`` (1,000 trees).

In this process, without a network: processor milliseconds of GET /allocation_candidates, as asked and with
``required=OWNER_NOVA`` in all groups and ``root_required=OWNER_NOVA``. Both are asked in turns, with a claim before
each request. Every request differs from all others, so none is answered from memory. The table has medians.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

import orjson
from rich.console import Console
from rich.table import Table

from stead_bench import in_process, queries
from stead_bench.claims import body
from stead_bench.sites import Site, roomy

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

ROUNDS = 100
TRAIT = "OWNER_NOVA"
LIMITS = (None, 10)
QUERIES = {
    "flat": queries.host_in_zones,
    "shared": queries.shared_disk,
    "nested": queries.one_subtree,
    "numa": queries.port_and_gpu,
}


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    table = Table("site", "query", "limit", "CPU, ms", f"with {TRAIT}, ms", "ratio")
    for kind, query_of in QUERIES.items():
        site = Site(kind, hosts)
        query = query_of(site)
        with in_process.serving(site) as (app, _):
            own_everywhere(app)
            for limit in LIMITS:
                plain, owned = medians(app, site, query, limit)
                shown = "none" if limit is None else str(limit)
                table.add_row(str(site), query.name, shown, f"{plain:.2f}", f"{owned:.2f}", f"{owned / plain:.3f}")
    Console().print(table)


def own_everywhere(app: WSGIApplication) -> None:
    """Give the trait to all providers."""
    for provider in orjson.loads(in_process.get(app, queries.PROVIDERS)[0])["resource_providers"]:
        path = f"{queries.PROVIDERS}/{provider['uuid']}/traits"
        traits = orjson.loads(in_process.get(app, path)[0])
        changed = {
            "traits": [*traits["traits"], TRAIT],
            "resource_provider_generation": traits["resource_provider_generation"],
        }
        in_process.put(app, path, changed)


def medians(app: WSGIApplication, site: Site, query: queries.Query, limit: int | None) -> tuple[float, float]:
    """Median processor milliseconds of the requests as asked, and of those that require the trait."""
    taken: tuple[list[float], list[float]] = ([], [])
    claimable = roomy(site)
    for number in range(ROUNDS):
        sides = [(query.target(number, limit), taken[0]), (with_trait(query.target(number, limit)), taken[1])]
        answers = []
        for target, seconds in sides if number % 2 else reversed(sides):
            provider, resource_class = claimable[number % len(claimable)]
            in_process.post(app, "/allocations", {str(uuid4()): body({provider: {resource_class: 1}})})
            began = time.process_time()
            answer = in_process.get(app, target)[0]
            seconds.append(time.process_time() - began)
            answers.append(query.count(answer))
        if answers[0] != answers[1] or not answers[0]:
            raise RuntimeError(f"{answers[0]} and {answers[1]} candidates of {query.target(number, limit)}")
    return median(taken[0]) * 1e3, median(taken[1]) * 1e3


def with_trait(target: str) -> str:
    """*target*, with the trait required of the providers of all groups, and of the root."""
    path, _, query = target.partition("?")
    parts = query.split("&")
    keys = [part.partition("=")[0] for part in parts]
    groups = [key.removeprefix("resources") for key in keys if key.startswith("resources")]
    return f"{path}?{'&'.join([*parts, *(f'required{group}={TRAIT}' for group in groups), f'root_required={TRAIT}'])}"


if __name__ == "__main__":
    main()
