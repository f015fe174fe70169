"""Reads hwloc's XML into objects; rejects other files, and bounds the cost of hostile ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from stead.topology.objects import HwObject
from stead.topology.relations import Distances, MemoryAccess, Relations
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 500
MAX_OBJECTS = 200_000
FORMATS = (1, 2, 3)
"""Supported major versions of hwloc's XML.

A file of version 1 states no version, and its NUMA nodes contain their cores. Version 3 has other numbers for the kinds
of operating system devices.
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine's objects, and the data of the file about the whole machine.

    Attributes:
        format: the major version of the file's format.
        distances: matrices between NUMA nodes, and between linked devices.
        accesses: the performance of NUMA nodes as seen from hardware threads.
    """

    root: HwObject
    infos: Mapping[str, str]
    format: int
    distances: tuple[Distances, ...] = ()
    accesses: tuple[MemoryAccess, ...] = ()

    @property
    def shows_devices(self) -> bool:
        """Whether the file has any I/O devices, allocatable or not."""
        return any(hw.is_io for hw in self.root.walk())


def read_xml(data: bytes, source: str = "machine") -> Machine:
    """The machine that *data*, the XML of ``lstopo --of xml``, describes.

    Raises:
        SiteError: not hwloc XML, cut short, of another format, too large, too deep, with a matrix of distances or a
            memory attribute that cannot be read, or it declares entities.
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
    """The parser's target: builds objects while the text is read, and stops at the first value that exceeds a limit."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tags: list[str] = []
        self._inside: HwObject | None = None
        self._machine: HwObject | None = None
        self._infos: dict[str, str] = {}
        self._version = ""
        self._objects = 0
        self._relations = Relations(source)

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
            case _:
                self._relations.start(tag, attributes)

    def end(self, tag: str) -> None:
        self._tags.pop()
        if tag == "object" and self._inside is not None:
            self._inside = self._inside.parent
        self._relations.end(tag)

    def data(self, text: str) -> None:
        self._relations.data(text)

    def close(self) -> None:
        """Do nothing at the end of the file; :meth:`machine` has the result."""

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
        if major not in {str(accepted) for accepted in FORMATS}:
            raise SiteError(
                f"{self._source}: hwloc XML of format {self._version[:20]!r}; known are {FORMATS[0]} to {FORMATS[-1]}"
            )
        if self._machine is None or self._machine.type != "Machine":
            raise SiteError(f"{self._source}: not hwloc XML: it has no Machine object")
        distances, accesses = self._relations.between(self._machine)
        return Machine(self._machine, {**self._infos, **self._machine.infos}, int(major), distances, accesses)
