"""A batch importer: hosts from a CSV file become provider trees, 200 of them in one transaction.

    python import_hosts.py http://127.0.0.1:8778 hosts.csv

Columns: name, cores, memory_mb, gpus, model. It may be run again at any time: what is the same is not written, and what
is used is not removed.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import stead
from stead import Node

if TYPE_CHECKING:
    from collections.abc import Iterable

TREES = 200


def node_of(row: dict[str, str]) -> Node:
    """A host with its GPUs below it."""
    gpus = [
        Node(f"{row['name']}_gpu{number}", PGPU=1, traits=[f"CUSTOM_GPU_{row['model']}"])
        for number in range(int(row["gpus"]))
    ]
    return Node(row["name"], PCPU=int(row["cores"]), MEMORY_MB=int(row["memory_mb"]), children=gpus)


def import_hosts(site: stead.Site, rows: Iterable[dict[str, str]]) -> int:
    """Write all hosts; the number of providers that changed."""
    nodes = [node_of(row) for row in rows]
    changed = 0
    for start in range(0, len(nodes), TREES):
        applied = site.apply(nodes[start : start + TREES], prune=True, keep_used=True, create_names=True)
        changed += len(applied.changes)
    return changed


if __name__ == "__main__":
    with stead.connect(sys.argv[1], os.environ.get("STEAD_TOKEN")) as connected, Path(sys.argv[2]).open() as file:
        print(import_hosts(connected, csv.DictReader(file)), "providers changed")
