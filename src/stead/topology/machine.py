"""Reads hwloc's XML into objects, matrices and attributes, and bounds the cost of hostile files."""

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


# One object of hwloc's tree, and the text forms of its attributes.


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


# hwloc's data about pairs of objects: matrices of distances, and memory attributes.
#
# Source: hwloc's XML, elements `distances2`, `distances2hetero` (since 2.3) and `memattr` (since 2.3). The
# `distances` of hwloc 1 are ignored: they state the depth of their objects, but do not identify them.


MAX_RELATED_OBJECTS = 1024
"""Maximum number of objects in one matrix."""

MAX_ACCESSES = 200_000

LATENCY = "NUMALatency"
LINKS = {"NVLinkBandwidth": "NVLINK", "XGMIBandwidth": "XGMI", "XeLinkBandwidth": "XELINK"}
"""Matrices of links between devices, and the names of the links in traits: NVIDIA's, AMD's, Intel's."""

_MEANS_LATENCY = 1 << 2  # HWLOC_DISTANCES_KIND_MEANS_LATENCY
_HIGHER_FIRST = 1 << 0  # HWLOC_MEMATTR_FLAG_HIGHER_FIRST
_NEED_INITIATOR = 1 << 2  # HWLOC_MEMATTR_FLAG_NEED_INITIATOR

_ROOM = 64
"""Maximum length of one number of a matrix, or one name of an object, with the surrounding blanks."""


@dataclass(frozen=True, slots=True)
class Distances:
    """A matrix between objects.

    Attributes:
        name: :data:`LATENCY`, or one of :data:`LINKS`.
        objects: the objects of its rows and columns; None for an object that is missing in the file.
        values: row by row, ``len(objects) ** 2`` of them. A lower latency is nearer; a bandwidth of 0 is no link.
    """

    name: str
    objects: tuple[HwObject | None, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """The value of a memory attribute for one NUMA node, as seen from some hardware threads.

    Attributes:
        attribute: hwloc's name, such as `Latency`.
        value: in the attribute's unit; lower is better. Negative for attributes of which higher is better.
    """

    attribute: str
    node: HwObject
    threads: int
    value: int


@dataclass(slots=True)
class _Matrix:
    """A matrix during parsing: its unparsed texts, and their total length."""

    name: str
    type: str
    size: int
    indexing: str
    indexes: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    length: int = 0


@dataclass(slots=True)
class Relations:
    """Collects the parser's events about relations, and interprets them at the end.

    All data may be invalid. References to missing objects are not errors: `lstopo` can omit objects.
    """

    source: str
    _matrices: list[_Matrix] = field(default_factory=list)
    _accesses: list[tuple[str, int, Mapping[str, str]]] = field(default_factory=list)
    _matrix: _Matrix | None = None
    _text: list[str] | None = None
    _attribute: tuple[str, int] | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        match tag:
            case "distances2" | "distances2hetero":
                self._matrix = self._start_matrix(attributes)
            case "indexes" if self._matrix is not None:
                self._text = self._matrix.indexes
            case "u64values" if self._matrix is not None:
                self._text = self._matrix.values
            case "memattr":
                self._attribute = self._start_attribute(attributes)
            case "memattr_value" if self._attribute is not None:
                if len(self._accesses) == MAX_ACCESSES:
                    raise SiteError(f"{self.source}: more than {MAX_ACCESSES:,} values of memory attributes")
                self._accesses.append((*self._attribute, attributes))

    def data(self, text: str) -> None:
        """Collect text; only the text in a matrix is relevant."""
        if self._text is None or self._matrix is None:
            return
        self._matrix.length += len(text)
        # Checked while the text arrives, so that a hostile file cannot fill the memory.
        if self._matrix.length > _ROOM * (self._matrix.size + 1) ** 2:
            raise self._error(self._matrix, "it has more text than values")
        self._text.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        match tag:
            case "distances2" | "distances2hetero":
                self._matrix = self._text = None
            case "indexes" | "u64values" if self._text is not None:
                self._text.append(" ")
                self._text = None
            case "memattr":
                self._attribute = None

    def between(self, root: HwObject) -> tuple[tuple[Distances, ...], tuple[MemoryAccess, ...]]:
        """The relations between the objects of *root*.

        Raises:
            SiteError: a matrix lacks objects or values, or a value is not a number.
        """
        if not self._matrices and not self._accesses:
            return (), ()
        objects: dict[tuple[str, int], HwObject] = {}
        nodes: dict[int, HwObject] = {}
        for hw in root.walk():
            if (number := hw.number("gp_index")) is not None:
                objects.setdefault((hw.type, number), hw)
            if hw.type == "NUMANode" and (number := hw.number("os_index")) is not None:
                nodes.setdefault(number, hw)
        distances = tuple(self._distances(matrix, objects, nodes) for matrix in self._matrices)
        accesses = [self._access(*access, objects) for access in self._accesses]
        return distances, tuple(access for access in accesses if access is not None)

    def _start_matrix(self, attributes: Mapping[str, str]) -> _Matrix | None:
        kind = whole_number(attributes.get("kind", "")) or 0
        name, of_type = attributes.get("name", ""), attributes.get("type", "")
        if not name and of_type == "NUMANode" and kind & _MEANS_LATENCY:
            name = LATENCY  # hwloc 2.0 wrote it without a name
        if name != LATENCY and name not in LINKS:
            return None
        size = whole_number(attributes.get("nbobjs", ""))
        if size is None or not 0 < size <= MAX_RELATED_OBJECTS:
            raise SiteError(
                f"{self.source}: distances {name}: nbobjs is {attributes.get('nbobjs', '')[:40]!r}, "
                f"not a number from 1 to {MAX_RELATED_OBJECTS}"
            )
        self._matrices.append(_Matrix(name, of_type, size, attributes.get("indexing", "gp")))
        return self._matrices[-1]

    def _start_attribute(self, attributes: Mapping[str, str]) -> tuple[str, int] | None:
        flags = whole_number(attributes.get("flags", ""))
        if flags is None:
            raise SiteError(f"{self.source}: memory attribute {attributes.get('name', '')[:40]!r}: flags are missing")
        return (attributes.get("name", ""), flags) if flags & _NEED_INITIATOR else None

    def _distances(
        self, matrix: _Matrix, objects: Mapping[tuple[str, int], HwObject], nodes: Mapping[int, HwObject]
    ) -> Distances:
        indexes = _words(matrix.indexes, matrix.size)
        numbers = _words(matrix.values, matrix.size**2)
        if indexes is None or numbers is None:
            raise self._error(
                matrix, f"it does not have {matrix.size} indexes and {matrix.size} x {matrix.size} values"
            )
        compared: list[HwObject | None] = []
        for text in indexes:
            of_type, _, index = text.rpartition(":")
            number = self._number(matrix, index)
            by_os = matrix.indexing == "os" and matrix.type == "NUMANode"
            compared.append(nodes.get(number) if by_os else objects.get((of_type or matrix.type, number)))
        return Distances(matrix.name, tuple(compared), tuple(self._number(matrix, text) for text in numbers))

    def _access(
        self, attribute: str, flags: int, attributes: Mapping[str, str], objects: Mapping[tuple[str, int], HwObject]
    ) -> MemoryAccess | None:
        value = whole_number(attributes.get("value", ""))
        target = whole_number(attributes.get("target_obj_gp_index", ""))
        if value is None or target is None:
            missing = "value" if value is None else "target_obj_gp_index"
            raise SiteError(f"{self.source}: memory attribute {attribute[:40]!r}: a {missing} is missing or no number")
        node = objects.get((attributes.get("target_obj_type", ""), target))
        if node is None or node.type != "NUMANode":
            return None
        if "initiator_cpuset" in attributes:
            threads = bits(attributes["initiator_cpuset"])
        else:
            index = whole_number(attributes.get("initiator_obj_gp_index", ""))
            initiator = None if index is None else objects.get((attributes.get("initiator_obj_type", ""), index))
            threads = None if initiator is None else initiator.bitmap("cpuset")
        if not threads:
            return None
        return MemoryAccess(attribute, node, threads, -value if flags & _HIGHER_FIRST else value)

    def _number(self, matrix: _Matrix, text: str) -> int:
        number = whole_number(text)
        if number is None:
            raise self._error(matrix, f"{text[:40]!r} is not a number")
        return number

    def _error(self, matrix: _Matrix, problem: str) -> SiteError:
        return SiteError(f"{self.source}: distances {matrix.name}: {problem}")


def _words(texts: list[str], expected: int) -> list[str] | None:
    """The words of *texts*; None if their number differs from *expected*."""
    # A limited split, so that too many words are not all split.
    words = "".join(texts).split(None, expected)
    return words if len(words) == expected else None
