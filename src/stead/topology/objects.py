"""One object of hwloc's tree, and the text forms of its attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_IO_TYPES = frozenset({"Bridge", "PCIDev", "OSDev"})
_OUTSIDE_TYPES = _IO_TYPES | {"Misc"}


@dataclass(slots=True, eq=False)
class HwObject:
    """One `<object>`: a package, a NUMA node, a core, a PCI device and so on, compared by identity."""

    type: str
    attributes: Mapping[str, str]
    parent: HwObject | None
    infos: dict[str, str] = field(default_factory=dict)
    children: list[HwObject] = field(default_factory=list)

    def walk(self) -> Iterator[HwObject]:
        """The object and all its descendants, parents first, in the order of the file."""
        waiting = [self]
        while waiting:
            here = waiting.pop()
            yield here
            waiting.extend(reversed(here.children))

    @property
    def is_io(self) -> bool:
        """Whether it is an I/O device or a bridge to I/O devices."""
        return self.type in _IO_TYPES

    def locality(self) -> HwObject | None:
        """The nearest enclosing object that is part of the machine's CPU and memory hierarchy."""
        around = self.parent
        while around is not None and around.type in _OUTSIDE_TYPES:
            around = around.parent
        return around

    def number(self, attribute: str) -> int | None:
        """The attribute as a nonnegative integer; None if it is absent or has another value."""
        return whole_number(self.attributes.get(attribute, ""))

    def bitmap(self, attribute: str) -> int | None:
        """The attribute as a set of bits; negative (infinitely many ones) if the set is infinite; None if invalid.

        Source: hwloc's bitmap text form: 32-bit groups from high to low; an empty group is 0, and a leading
        ``0xf...f`` means infinitely many ones.
        """
        text = self.attributes.get(attribute)
        return None if text is None else bits(text)


def whole_number(text: str) -> int | None:
    """*text* as a nonnegative integer of at most 20 digits; None if it is not one."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def bits(text: str) -> int | None:
    """A set of bits in hwloc's text form; see :meth:`HwObject.bitmap`."""
    groups = text.strip().split(",")
    endless = groups[0].lower() == "0xf...f"
    if endless:
        groups = groups[1:]
    digits = [group.strip().lower().removeprefix("0x") or "0" for group in groups]
    if any(len(group) > 8 or not set(group) <= _HEX for group in digits):
        return None
    value = int("".join(group.zfill(8) for group in digits) or "0", 16)
    return value - (1 << 32 * len(digits)) if endless else value


_HEX = frozenset("0123456789abcdef")
