"""A batch importer: hosts from a CSV file become provider trees, 200 of them in one transaction.

    python import_hosts.py http://127.0.0.1:8778 hosts.csv
    python import_hosts.py --demo  # three hosts, in memory

Columns: name, cores, memory_mb, gpus, model; and rack, if there are racks. It may be run again at any time: what is the
same is not written, and what is used is not removed. STEAD_TOKEN is the token.
"""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import stead
from stead import Node, testing

if TYPE_CHECKING:
    from collections.abc import Iterable

TREES = 200

DEMO = """\
name,cores,memory_mb,gpus,model,rack
node1,16,65536,2,A100,r7
node2,16,65536,2,A100,r7
node3,32,131072,0,,r8
"""


def node_of(row: dict[str, str]) -> Node:
    """A host with its GPUs below it."""
    gpus = [
        Node(f"{row['name']}_gpu{number}", PGPU=1, traits=[f"CUSTOM_GPU_{row['model']}"])
        for number in range(int(row["gpus"]))
    ]
    rack = stead.rack(row["rack"]) if row.get("rack") else None
    return Node(row["name"], PCPU=int(row["cores"]), MEMORY_MB=int(row["memory_mb"]), aggregates=rack, children=gpus)


def import_hosts(site: stead.Site, rows: Iterable[dict[str, str]]) -> int:
    """Write all hosts; the number of providers that changed."""
    nodes = [node_of(row) for row in rows]
    changed = 0
    for start in range(0, len(nodes), TREES):
        applied = site.apply(nodes[start : start + TREES], prune=True, keep_used=True, create_names=True)
        changed += len(applied.changes)
    return changed


def demo() -> None:
    """Import three hosts twice, and claim a GPU in a rack."""
    with testing.site() as site:
        for _ in range(2):
            print(import_hosts(site, csv.DictReader(DEMO.splitlines())), "providers changed")
        claim = site.claim(stead.Group(PGPU=1, member_of=stead.rack("r7"), in_tree="node2"), "train-1")
        print(claim)


def main(arguments: list[str]) -> None:
    """Import a file, or that of the demo."""
    match arguments:
        case ["--demo"]:
            demo()
        case [url, hosts]:
            with stead.connect(url, os.environ.get("STEAD_TOKEN")) as site, Path(hosts).open() as file:
                print(import_hosts(site, csv.DictReader(file)), "providers changed")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
