"""The order in which people read resource classes. Both the library and the server use it, so it imports neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

_FIRST = {name: place for place, name in enumerate(("VCPU", "PCPU", "MEMORY_MB", "DISK_GB"))}


def class_order(resource_class: str) -> tuple[int, str]:
    """A sort key: VCPU, PCPU, MEMORY_MB and DISK_GB as in nova's flavors, then all others by name."""
    return _FIRST.get(resource_class, len(_FIRST)), resource_class


def in_class_order(by_class: Mapping[str, T]) -> dict[str, T]:
    """*by_class* with its resource classes in the order of :func:`class_order`."""
    return {name: by_class[name] for name in sorted(by_class, key=class_order)}
