"""An exporter: capacity and usage of each host in the text format of Prometheus.

    python exporter.py http://127.0.0.1:8778 > /var/lib/node_exporter/stead.prom

Run it from a timer, beside a node exporter that reads such files.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import stead

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


if __name__ == "__main__":
    with stead.connect(sys.argv[1], os.environ.get("STEAD_TOKEN")) as connected:
        print("\n".join(metrics(connected)))
