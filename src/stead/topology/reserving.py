"""Memory and hardware threads of a host that its operating system keeps: `reserved` of the inventories."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stead.topology.site import Description

_NUMA_WITH_CPUS = "HW_NUMA_ROOT"
_CPUS = ("PCPU", "VCPU")
"""Threads of guests of their own are reserved first: the operating system needs whole ones."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """An amount that each host keeps, or each NUMA node with CPUs of it."""

    amount: int = 0
    per_node: bool = False


def reserve(descriptions: Sequence[Description], memory: Reserve, cpus: Reserve) -> list[Description]:
    """The providers of one host with *memory*, in MiB, and *cpus*, in hardware threads, reserved.

    An amount of the host is taken evenly from its NUMA nodes with CPUs, or from the host if it has none.

    Raises:
        SiteError: a provider has less than it is to reserve.
    """
    holders = [each.name for each in descriptions if _NUMA_WITH_CPUS in each.traits] or [
        each.name for each in descriptions if each.parent is None
    ]
    shares = {
        name: (memory_share, cpu_share)
        for name, memory_share, cpu_share in zip(
            holders, _shares(memory, len(holders)), _shares(cpus, len(holders)), strict=True
        )
    }
    return [_with(each, *shares[each.name]) if each.name in shares else each for each in descriptions]


def _shares(reserve: Reserve, holders: int) -> list[int]:
    if reserve.per_node:
        return [reserve.amount] * holders
    even, more = divmod(reserve.amount, holders)
    return [even + (place < more) for place in range(holders)]


def _with(description: Description, memory: int, cpus: int) -> Description:
    inventories = dict(description.inventories)
    for classes, amount, unit in ((("MEMORY_MB",), memory, "MiB"), (_CPUS, cpus, "hardware threads")):
        remaining = amount
        for name in classes:
            if remaining and name in inventories:
                taken = min(remaining, inventories[name].total)
                inventories[name] = replace(inventories[name], reserved=taken)
                remaining -= taken
        if remaining:
            total = _total(description, classes)
            raise SiteError(f"{description.name}: cannot reserve {amount:,} {unit}, it has {total:,}")
    return replace(description, inventories=inventories)


def _total(description: Description, classes: Iterable[str]) -> int:
    return sum(description.inventories[name].total for name in classes if name in description.inventories)
