"""An importer of the nodes of a Kubernetes cluster, with their racks, GPUs and states.

    kubectl get nodes -o json | python import_kubernetes.py http://127.0.0.1:8778
    python import_kubernetes.py --demo  # two nodes, in memory

It may be run again at any time. Nodes that left the cluster stay; it prints their names. STEAD_TOKEN is the token.

| Kubernetes | Stead |
|---|---|
| `cpu`, `memory`, `ephemeral-storage` | VCPU (whole cores), MEMORY_MB, DISK_GB |
| `nvidia.com/gpu`, `amd.com/gpu` | PGPU of the node |
| another extended resource, such as `example.com/dongle` | CUSTOM_EXAMPLE_COM_DONGLE |
| capacity that is not allocatable | reserved |
| label `topology.kubernetes.io/zone` | the aggregate `stead.rack("zone …")` |
| labels `kubernetes.io/arch` and `nvidia.com/gpu.product` | traits |
| cordoned, or not ready | disabled, with the reason |
"""

from __future__ import annotations

import json
import os
import re
import sys
from decimal import Decimal
from typing import Any

import stead
from stead import Inventory, Node, testing

Json = dict[str, Any]

CLASSES = {
    "cpu": ("VCPU", 1),
    "memory": ("MEMORY_MB", 2**20),
    "ephemeral-storage": ("DISK_GB", 2**30),
    "nvidia.com/gpu": ("PGPU", 1),
    "amd.com/gpu": ("PGPU", 1),
}
"""The resource class of a resource of Kubernetes, and how many of its units are one of the class."""

ARCHITECTURES = {"amd64": "HW_ARCH_X86_64", "arm64": "HW_ARCH_AARCH64"}
MARK = "CUSTOM_KUBERNETES_NODE"
"""The trait of all nodes that this program wrote."""

DISABLED = "COMPUTE_STATUS_DISABLED"
CORDONED, NOT_READY = "cordoned in Kubernetes", "not ready in Kubernetes"
TREES = 200

_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([EPTGMk]i?|Ki|m|u|n)?")
_SUFFIXES = {
    "": Decimal(1),
    **{suffix: Decimal(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def quantity(text: str) -> Decimal:
    """A quantity such as ``3920m``, ``16Gi`` or ``1e3``.

    Raises:
        ValueError: *text* is none.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def custom(text: str) -> str:
    """The name of a class or trait of this site."""
    return "CUSTOM_" + re.sub(r"[^A-Z0-9]+", "_", text.upper()).strip("_")


def inventories(status: Json) -> dict[str, Inventory]:
    """What a node has, and what of it pods cannot use."""
    made = {}
    for resource, text in status["capacity"].items():
        if resource in CLASSES:
            name, unit = CLASSES[resource]
        elif "/" in resource:
            name, unit = custom(resource), 1
        else:
            continue  # pods, huge pages
        total = int(quantity(text) / unit)
        usable = int(quantity(status["allocatable"].get(resource, "0")) / unit)
        if total:
            made[name] = Inventory(total, reserved=max(total - usable, 0))
    return made


def node_of(record: Json, *, has_mark_of_stead: bool) -> Node:
    """A node of the cluster as a provider; with or without the trait by which Stead marks disabled providers."""
    labels = record["metadata"].get("labels", {})
    traits = {MARK, DISABLED} if has_mark_of_stead else {MARK}
    if architecture := ARCHITECTURES.get(labels.get("kubernetes.io/arch", "")):
        traits.add(architecture)
    if model := labels.get("nvidia.com/gpu.product"):
        traits.add(custom(f"GPU {model}"))
    zone = labels.get("topology.kubernetes.io/zone")
    racks = [stead.rack(f"zone {zone}")] if zone else []
    return Node(record["metadata"]["name"], inventories(record["status"]), traits=traits, aggregates=racks)


def state(record: Json) -> str | None:
    """Why a node accepts no pods; None if it does."""
    if record.get("spec", {}).get("unschedulable"):
        return CORDONED
    conditions = {each["type"]: each["status"] for each in record["status"].get("conditions", ())}
    return None if conditions.get("Ready", "True") == "True" else NOT_READY


def import_nodes(site: stead.Site, document: Json) -> int:
    """Write all nodes and their states; the number of nodes that changed."""
    records = document["items"]
    marked = site.trees(root_required=f"{MARK},{DISABLED}", depth=0) if site.traits(MARK) else ()
    names = {tree.root.name for tree in marked}
    nodes = [node_of(record, has_mark_of_stead=record["metadata"]["name"] in names) for record in records]
    changed = set[str]()
    for start in range(0, len(nodes), TREES):
        applied = site.apply(nodes[start : start + TREES], exact=True, keep_used=True, create_names=True)
        changed.update(applied.changes)
    states = {record["metadata"]["name"]: state(record) for record in records}
    gone = []
    for tree in site.trees(root_required=MARK):
        name, disabled = tree.root.name, tree.root.disabled
        if name not in states:
            gone.append(name)
        elif states[name] != (disabled and disabled.reason) and (disabled is None or ours(disabled)):
            # What an operator disabled for another reason stays so.
            changed.add(name)
            if (reason := states[name]) is None:
                site.enable(tree.root.uuid)
            else:
                site.disable(tree.root.uuid, reason)
    if gone:
        print("not in the cluster any more:", ", ".join(sorted(gone)))
    return len(changed)


def ours(disabled: stead.Disabled) -> bool:
    """Whether this program disabled the provider."""
    return disabled.reason in (CORDONED, NOT_READY)


def sample(name: str, **spec: Any) -> Json:
    """A node with 64 cores and 8 GPUs, in the form of kubectl."""
    resources = {"cpu": "64", "memory": "263842336Ki", "nvidia.com/gpu": "8", "pods": "110"}
    labels = {
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "topology.kubernetes.io/zone": "eu-1a",
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": resources,
            "allocatable": {**resources, "cpu": "63770m", "memory": "250Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def demo() -> None:
    """Import two nodes, of which one is cordoned; then the same after it was uncordoned."""
    with testing.site() as site:
        for spec in ({"unschedulable": True}, {}):
            document = {"items": [sample("node-a"), sample("node-b", **spec)]}
            print(import_nodes(site, document), "nodes changed")
            request = stead.Request(stead.Group(PGPU=8, member_of=stead.rack("zone eu-1a")))
            print("places for 8 GPUs:", sorted(each.name for each in site.headroom(request).trees))


def main(arguments: list[str]) -> None:
    """Import what kubectl writes to standard input, or the demo."""
    match arguments:
        case ["--demo"]:
            demo()
        case [url]:
            with stead.connect(url, os.environ.get("STEAD_TOKEN")) as site:
                print(import_nodes(site, json.load(sys.stdin)), "nodes changed")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
