"""hwloc's XML, read into objects: refused if it is none, bounded if it is hostile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 500
MAX_OBJECTS = 200_000
FORMATS = (2, 3)
"""Major versions of hwloc's XML that are understood; they differ in the numbers of operating system devices."""

_IO_TYPES = frozenset({"Bridge", "PCIDev", "OSDev", "Misc"})


@dataclass(slots=True, eq=False)
class HwObject:
    """One `<object>`: a package, a NUMA node, a core, a PCI device and so on, compared by identity."""

    type: str
    attributes: Mapping[str, str]
    parent: HwObject | None
    infos: dict[str, str] = field(default_factory=dict)
    children: list[HwObject] = field(default_factory=list)

    def walk(self) -> Iterator[HwObject]:
        """The object and all below it, each before its children, in the order of the file."""
        waiting = [self]
        while waiting:
            found = waiting.pop()
            yield found
            waiting.extend(reversed(found.children))

    def locality(self) -> HwObject | None:
        """The nearest object around this one that is part of the machine's CPU and memory hierarchy."""
        around = self.parent
        while around is not None and around.type in _IO_TYPES:
            around = around.parent
        return around

    def number(self, attribute: str) -> int | None:
        """The attribute as an integer that is not negative; None if it is absent or anything else."""
        text = self.attributes.get(attribute, "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None

    def bitmap(self, attribute: str) -> int | None:
        """The attribute as a set of bits; negative (infinitely many ones) if the set has no end; None if unreadable.

        Source: hwloc's bitmap text form, 32-bit groups from high to low, an empty group is 0, and a leading
        ``0xf...f`` stands for ones without end.
        """
        text = self.attributes.get(attribute)
        return None if text is None else _bits(text)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine's objects, what the file says about it as a whole, and the major version of the file's format."""

    root: HwObject
    infos: Mapping[str, str]
    format: int


def read_xml(data: bytes, source: str = "machine") -> Machine:
    """The machine that *data*, the XML of ``lstopo --of xml``, describes.

    Raises:
        SiteError: not hwloc XML, cut short, of another format, too large, too deep, or it declares entities.
    """
    if len(data) > MAX_BYTES:
        raise SiteError(f"{source}: larger than {MAX_BYTES // 1024 // 1024} MiB")
    builder = _Builder(source)
    parser = DefusedXMLParser(target=builder)
    try:
        parser.feed(data)
        parser.close()
    except DefusedXmlException as error:
        raise SiteError(f"{source}: declares XML entities, which hwloc never does; refused") from error
    except (ParseError, ValueError, LookupError) as error:
        raise SiteError(f"{source}: not hwloc XML: {error}") from error
    return builder.machine()


class _Builder:
    """The parser's target: makes objects while the text is read, and stops at the first thing that is out of bounds."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tags: list[str] = []
        self._inside: HwObject | None = None
        self._machine: HwObject | None = None
        self._infos: dict[str, str] = {}
        self._version = ""
        self._objects = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._tags and tag != "topology":
            raise SiteError(f"{self._source}: not hwloc XML: the outermost element is <{tag[:40]}>, not <topology>")
        if len(self._tags) == MAX_DEPTH:
            raise SiteError(f"{self._source}: nested more than {MAX_DEPTH} levels deep")
        self._tags.append(tag)
        match tag:
            case "topology" if len(self._tags) == 1:
                self._version = attributes.get("version", "1")
            case "object":
                self._start_object(attributes)
            case "info":
                infos = self._inside.infos if self._inside is not None else self._infos
                infos.setdefault(attributes.get("name", ""), attributes.get("value", ""))

    def end(self, tag: str) -> None:
        self._tags.pop()
        if tag == "object" and self._inside is not None:
            self._inside = self._inside.parent

    def data(self, text: str) -> None:
        """Text between elements says nothing in this format."""

    def close(self) -> None:
        """The end of the file; :meth:`machine` has the result."""

    def _start_object(self, attributes: dict[str, str]) -> None:
        self._objects += 1
        if self._objects > MAX_OBJECTS:
            raise SiteError(f"{self._source}: more than {MAX_OBJECTS:,} objects")
        made = HwObject(attributes.get("type", ""), attributes, self._inside)
        if self._inside is not None:
            self._inside.children.append(made)
        elif self._machine is None:
            self._machine = made
        else:
            raise SiteError(f"{self._source}: not hwloc XML: more than one outermost object")
        self._inside = made

    def machine(self) -> Machine:
        major = self._version.partition(".")[0]
        if major not in {str(known) for known in FORMATS}:
            raise SiteError(
                f"{self._source}: hwloc XML of format {self._version[:20]!r}; known are "
                f"{' and '.join(map(str, FORMATS))} (`lstopo -i OLD.xml --of xml` of a newer hwloc converts)"
            )
        if self._machine is None or self._machine.type != "Machine":
            raise SiteError(f"{self._source}: not hwloc XML: it has no Machine object")
        return Machine(self._machine, {**self._infos, **self._machine.infos}, int(major))


def _bits(text: str) -> int | None:
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
