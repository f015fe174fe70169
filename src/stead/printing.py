"""What people read: text that controls no terminal, and resource classes with their order, usual names and units.

Both the library and the server use it, so it imports neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping


def printable(text: str) -> str:
    r"""*text* with control characters (escapes, line breaks) shown as ``\x1b`` instead."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """*text* as one printable line."""
    return printable(" ".join(text.split()))


# Resource classes: their order, their usual names, and amounts with units.


T = TypeVar("T")

_FIRST = {name: place for place, name in enumerate(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"))}


def class_order(resource_class: str) -> tuple[int, str]:
    """A sort key: VCPU, PCPU, MEMORY_MB and DISK_GB as in nova's flavors, then all others by name."""
    return _FIRST.get(resource_class, len(_FIRST)), resource_class


def in_class_order(by_class: Mapping[str, T]) -> dict[str, T]:
    """*by_class* with its resource classes in the order of :func:`class_order`."""
    return {name: by_class[name] for name in sorted(by_class, key=class_order)}


_WORDS = {
    "VCPU": "vCPUs",
    "PCPU": "Dedicated CPUs",
    "MEMORY_MB": "Memory",
    "DISK_GB": "Disk",
    "PGPU": "GPUs",
    "VGPU": "vGPUs",
    "FPGA": "FPGAs",
    "SRIOV_NET_VF": "Network functions",
    "IPV4_ADDRESS": "IPv4 addresses",
    "NET_BW_EGR_KILOBIT_PER_SEC": "Bandwidth out",
    "NET_BW_IGR_KILOBIT_PER_SEC": "Bandwidth in",
}


def class_words(resource_class: str) -> str:
    """The usual name of a resource class; its identifier if it has none."""
    return _WORDS.get(resource_class, resource_class)


_UNITS = ("MiB", "GiB", "TiB", "PiB")
_FIRST_UNIT = {"_MB": 0, "_GB": 1}
"""The unit of a class by the end of its name, as of MEMORY_MB and DISK_GB."""


def unit_of(resource_class: str, amount: float) -> tuple[float, str]:
    """*amount* in the largest unit of which it has at least one, and this unit; classes without units have none."""
    place = _FIRST_UNIT.get(resource_class[-3:])
    if place is None or not amount:
        return amount, ""
    while abs(amount) >= 1024 and place < len(_UNITS) - 1:
        amount /= 1024
        place += 1
    return amount, _UNITS[place]


def short_amount(amount: float) -> str:
    """*amount* in about three digits."""
    digits = 0 if float(amount).is_integer() or abs(amount) >= 100 else 1 if abs(amount) >= 10 else 2
    text = f"{amount:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text
