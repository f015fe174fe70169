"""hwloc's data about pairs of objects: matrices of distances, and memory attributes.

Source: hwloc's XML, elements `distances2`, `distances2hetero` (since 2.3) and `memattr` (since 2.3). The `distances` of
hwloc 1 are ignored: they state the depth of their objects, but do not identify them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.topology.objects import bits, whole_number
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.topology.objects import HwObject

MAX_OBJECTS = 1024
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
        if size is None or not 0 < size <= MAX_OBJECTS:
            raise SiteError(
                f"{self.source}: distances {name}: nbobjs is {attributes.get('nbobjs', '')[:40]!r}, "
                f"not a number from 1 to {MAX_OBJECTS}"
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
