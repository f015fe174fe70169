"""An exporter: capacity and usage of each host in the text format of Prometheus.

    python exporter.py http://127.0.0.1:8778 > /var/lib/node_exporter/stead.prom
    python exporter.py --demo  # two hosts in memory

Run it from a timer, beside a node exporter that reads such files. STEAD_TOKEN is the token.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import stead
from stead import Node, testing

if TYPE_CHECKING:
    from collections.abc import Iterator


def metrics(site: stead.Site) -> Iterator[str]:
    """The lines of two gauges, with the sums of each tree by resource class."""
    yield "# TYPE stead_capacity gauge"
    yield "# TYPE stead_used gauge"
    for tree in site.trees():
        capacity, used = Counter[str](), Counter[str]()
        for provider in tree:
            for name, room in provider.rooms.items():
                capacity[name] += room.capacity
                used[name] += room.used
        for name in sorted(capacity):
            labels = f'host="{tree.root.name}",resource_class="{name}"'
            yield f"stead_capacity{{{labels}}} {capacity[name]}"
            yield f"stead_used{{{labels}}} {used[name]}"


def demo() -> None:
    """Print the metrics of two hosts, of which one is used."""
    with testing.site() as site:
        site.apply([Node("node1", PCPU=16, children=[Node("node1_gpu0", PGPU=1)]), Node("node2", PCPU=16)])
        site.claim({"PCPU": 4, "PGPU": 1}, "train-1")
        print("\n".join(metrics(site)))


def main(arguments: list[str]) -> None:
    """Print the metrics of the site at a URL, or of the demo."""
    match arguments:
        case ["--demo"]:
            demo()
        case [url]:
            with stead.connect(url, os.environ.get("STEAD_TOKEN")) as site:
                print("\n".join(metrics(site)))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
