"""The text form of a site: YAML that people write, and that is written back byte for byte.

docs/topology.md describes the format; its limits are those of the API.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

import yaml
from yaml import events
from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from stead.domain.names import NAME_LENGTH as CLASS_NAME_LENGTH
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.provider import MAX_FLOAT, MAX_INT, Inventory
from stead.topology.site import NAME_LENGTH, Description, Site, SiteError, site_of, top_down

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of one file; a site can consist of several files.

Its values and their lines take about 20 times the size of the file in memory, and 0.7 s of CPU per MiB.
"""

MAX_NESTED = 40
"""Levels of `children` that are written nested; deeper providers name their parent."""

_PROVIDER_FIELDS = ("name", "uuid", "parent", "inventories", "traits", "aggregates", "children")
_UPPER_NAME = re.compile(RESOURCE_CLASS_NAME)


class _Range(NamedTuple):
    least: int
    most: int = MAX_INT


_INVENTORY_INTEGERS = {
    "total": _Range(1),
    "reserved": _Range(0),
    "min_unit": _Range(1),
    "max_unit": _Range(1),
    "step_size": _Range(1),
}
_INVENTORY_FIELDS = (*_INVENTORY_INTEGERS, "allocation_ratio")
_DEFAULT = Inventory(total=1)


def load(text: str, source: str = "site") -> Site:
    """The site that *text* describes; all YAML documents of one text form one site.

    Args:
        text: YAML.
        source: the name of the text in error messages, such as a file name.

    Raises:
        SiteError: the text is not a site file; the message names the place.
    """
    return site_of_nodes(read_documents(text, source), source)


def site_of_nodes(documents: Iterable[Node], source: str) -> Site:
    """The site that *documents* describe together, each with the structure of a site file.

    Raises:
        SiteError: they describe no site; the message names the place in *source*.
    """
    reader = _Reader(source)
    for document in documents:
        reader.read_site(document)
    try:
        return site_of(reader.descriptions)
    except SiteError as error:
        raise SiteError(f"{source}: {error}") from error


def dump(site: Site, consumers: Sequence[Mapping[str, Any]] | None = None) -> str:
    """*site* as YAML, sorted by name and without defaults. Equal sites give equal bytes.

    *consumers* are written below the providers; `load` ignores them.

    If a name has a character that could control a terminal or reorder a line, all non-ASCII characters are escaped.
    """
    data = as_data(site, consumers)
    # Written with the characters first, because escapes are hard to read and seldom needed.
    text = _dumped(data, allow_unicode=True)
    is_harmless = text.isascii() or text.replace("\n", "").isprintable()
    return text if is_harmless else _dumped(data, allow_unicode=False)


def _dumped(data: Mapping[str, Any], *, allow_unicode: bool) -> str:
    text: str = yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=allow_unicode,
        explicit_start=True,  # so that concatenated files form one site
        width=NAME_LENGTH,
    )
    return text


def as_data(site: Site, consumers: Sequence[Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """*site*, and *consumers* if given, as plain dicts and lists, in the structure of the file."""
    entries: dict[str, dict[str, Any]] = {}
    depths: dict[str, int] = {}
    top = []
    for name in top_down({name: described.parent for name, described in site.providers.items()}):
        described = site.providers[name]
        entries[name] = entry = _entry(described)
        parent = described.parent
        depths[name] = depths[parent] + 1 if parent in depths else 0
        if parent is None or parent not in entries or depths[name] % MAX_NESTED == 0:
            top.append(entry)
        else:
            del entry["parent"]
            entries[parent].setdefault("children", []).append(entry)
    data: dict[str, Any] = {"providers": sorted(top, key=lambda entry: entry["name"])}
    return data if consumers is None else {**data, "consumers": list(consumers)}


def _entry(described: Description) -> dict[str, Any]:
    fields = {
        "name": described.name,
        "uuid": described.uuid,
        "parent": described.parent,
        "inventories": {name: _inventory_data(described.inventories[name]) for name in sorted(described.inventories)},
        "traits": sorted(described.traits),
        "aggregates": sorted(described.aggregates),
    }
    return {key: value for key, value in fields.items() if value not in (None, {}, [])}


def _inventory_data(inventory: Inventory) -> int | dict[str, int | float]:
    given = {
        key: getattr(inventory, key)
        for key in _INVENTORY_FIELDS
        if key == "total" or getattr(inventory, key) != getattr(_DEFAULT, key)
    }
    return inventory.total if len(given) == 1 else given


@dataclass
class NodeReader:
    """Reads the parts that files in YAML have in common; every error names the file and the line."""

    source: str

    def _items(self, node: Node | None, where: str) -> list[Node]:
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            raise self._error(node, f"{where} must be a list, not {shown(node)}")
        return node.value

    def _fields(self, node: Node, names: tuple[str, ...], where: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            raise self._error(node, f"{where} must be a mapping, not {shown(node)}")
        for key, value in node.value.items():
            if key not in names:
                raise self._error(value, f"{where}: unknown field {key[:60]!r}; known are {', '.join(names)}")
        return node.value

    def _error(self, node: Node, problem: str) -> SiteError:
        return SiteError(f"{self.source}:{node.line}: {problem}")


@dataclass
class _Reader(NodeReader):
    """Reads nodes into descriptions; every error names the file, line, provider and field."""

    descriptions: list[Description] = field(default_factory=list)
    _lines: dict[str, int] = field(default_factory=dict)

    def read_site(self, document: Node) -> None:
        fields = self._fields(document, ("providers", "consumers"), "the file")
        if "providers" in fields:
            self._read_providers(fields["providers"], None, "providers")

    def _read_providers(self, node: Node, parent: str | None, where: str) -> None:
        for entry in self._items(node, where):
            self._read_provider(entry, parent)

    def _read_provider(self, node: Node, above: str | None) -> None:
        fields = self._fields(node, _PROVIDER_FIELDS, "a provider")
        if "name" not in fields:
            raise self._error(node, "a provider has no name")
        name = self._name(fields["name"], "name")
        where = f"provider {name!r}"
        if name in self._lines:
            raise self._error(node, f"{where} is described twice; first in line {self._lines[name]}")
        self._lines[name] = node.line
        self.descriptions.append(
            Description(
                name=name,
                uuid=self._uuid(fields["uuid"], where) if "uuid" in fields else None,
                parent=self._parent(fields.get("parent"), above, where),
                inventories=self._inventories(fields.get("inventories"), where),
                traits=self._upper_names(fields.get("traits"), f"{where}: traits"),
                aggregates=self._aggregates(fields.get("aggregates"), f"{where}: aggregates"),
            )
        )
        if "children" in fields:
            self._read_providers(fields["children"], name, f"{where}: children")

    def _parent(self, node: Node | None, above: str | None, where: str) -> str | None:
        if node is None:
            return above
        if above is not None:
            raise self._error(node, f"{where}: parent: already a child of {above!r}")
        return self._name(node, f"{where}: parent")

    def _name(self, node: Node, where: str) -> str:
        name = self._text(node, where)
        if not 0 < len(name) <= NAME_LENGTH:
            raise self._error(node, f"{where}: a name has 1 to {NAME_LENGTH} characters, not {len(name)}")
        return name

    def _uuid(self, node: Node, where: str) -> str:
        text = self._text(node, f"{where}: uuid")
        try:
            return str(UUID(text))
        except ValueError:
            raise self._error(node, f"{where}: uuid: {shown(node)} is not a uuid") from None

    def _aggregates(self, node: Node | None, where: str) -> frozenset[str]:
        aggregates = []
        for item in self._items(node, where):
            self._uuid(item, where)
            aggregates.append(self._text(item, where))
        return self._distinct(aggregates, node, where)

    def _upper_names(self, node: Node | None, where: str) -> frozenset[str]:
        return self._distinct([self._upper_name(item, where) for item in self._items(node, where)], node, where)

    def _upper_name(self, node: Node, where: str) -> str:
        name = self._text(node, where)
        self._require_upper_name(name, node, where)
        return name

    def _require_upper_name(self, name: str, node: Node, where: str) -> None:
        if not _UPPER_NAME.fullmatch(name) or len(name) > CLASS_NAME_LENGTH:
            raise self._error(
                node, f"{where}: {name[:60]!r} is not a name of A-Z, 0-9 and _ (at most {CLASS_NAME_LENGTH})"
            )

    def _inventories(self, node: Node | None, where: str) -> dict[str, Inventory]:
        where = f"{where}: inventories"
        if node is None or node.value is None:
            return {}
        if not isinstance(node.value, dict):
            raise self._error(node, f"{where} must be a mapping of resource classes, not {shown(node)}")
        inventories = {}
        for name, record in node.value.items():
            self._require_upper_name(name, record, where)
            inventories[name] = self._inventory(record, f"{where}: {name}")
        return inventories

    def _inventory(self, node: Node, where: str) -> Inventory:
        if not isinstance(node.value, dict):
            return Inventory(self._integer(node, _INVENTORY_INTEGERS["total"], where))
        fields = self._fields(node, _INVENTORY_FIELDS, where)
        if "total" not in fields:
            raise self._error(node, f"{where}: total is missing")
        integers = {
            key: self._integer(fields[key], allowed, f"{where}: {key}")
            for key, allowed in _INVENTORY_INTEGERS.items()
            if key in fields
        }
        inventory = Inventory(**integers)
        if "allocation_ratio" in fields:
            ratio = self._ratio(fields["allocation_ratio"], f"{where}: allocation_ratio")
            inventory = Inventory(**integers, allocation_ratio=ratio)
        if inventory.capacity < 0:
            raise self._error(node, f"{where}: the capacity, (total - reserved) * allocation_ratio, is negative")
        return inventory

    def _integer(self, node: Node, allowed: _Range, where: str) -> int:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._error(node, f"{where} must be a whole number, not {shown(node)}")
        if not allowed.least <= value <= allowed.most:
            raise self._error(node, f"{where} must be {allowed.least} to {allowed.most}, not {shown(node)}")
        return value

    def _ratio(self, node: Node, where: str) -> float:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._error(node, f"{where} must be a number, not {shown(node)}")
        if not abs(value) <= MAX_FLOAT:  # also true for nan
            raise self._error(node, f"{where} must be at most {MAX_FLOAT:g}, not {shown(node)}")
        return float(value)

    def _text(self, node: Node, where: str) -> str:
        if not isinstance(node.value, str):
            hint = "" if isinstance(node.value, list | dict | None) else "; put it in quotes"
            raise self._error(node, f"{where} must be text, not {shown(node)}{hint}")
        return node.value

    def _distinct(self, values: list[str], node: Node | None, where: str) -> frozenset[str]:
        distinct = frozenset(values)
        if node is not None and len(distinct) < len(values):
            repeated = next(value for value in values if values.count(value) > 1)
            raise self._error(node, f"{where}: {repeated!r} is given twice")
        return distinct


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the class depends on whether libyaml is installed
    """Writes every value in full: anchors and aliases are hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Always True: write *data* in full each time it occurs."""
        return True


# Parses YAML into plain values with their lines, in bounded memory.
#
# PyYAML's own composer recurses (in C, where a deep file crashes the process), and the last of two equal keys wins.
# Merges or aliases multiply a small file without bound. Here nesting is limited, repeated keys are rejected, and the
# values of aliases are counted before any code iterates over them.


MAX_DEPTH = 200
MAX_ALIASED = 1_000_000
"""Values that aliases may add to the written ones."""

_MOST_BITS = 1024
"""Maximum size of a whole number; the values of site files have 31 bits."""

Scalar: TypeAlias = str | int | float | bool | None

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_CONVERTED_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null"))


@dataclass(slots=True)
class Node:
    """A value, its first line (from 1), and the number of values in it, including itself, with aliases expanded."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    size: int = 1


def read_documents(text: str, source: str) -> list[Node]:
    """The documents of *text*, in order, without empty ones.

    Raises:
        SiteError: it is not YAML, or uses features that site files do not support; names the place in *source*.
    """
    composer = _Composer(source)
    read: Any = yaml.Mark("", 0, 0, 0, "", 0)  # the end of the last event
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            composer.take(event)
            read = event.end_mark
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            composer.refuse_depth(text[read.index : mark.index + 1], read.line + 1)
        place = f"{source}:{mark.line + 1}" if mark else source
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be read"
        raise SiteError(f"{place}: not YAML: {problem}") from error
    return composer.documents


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read; *key* is the mapping's key that waits for its value."""

    node: Node
    anchor: str | None
    key: str | None = None


@dataclass(slots=True)
class _Composer:
    source: str
    documents: list[Node] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node] = field(default_factory=dict)
    _written: int = 0

    def take(self, event: Any) -> None:
        match event:
            case events.ScalarEvent():
                self._refuse_tag(event)
                self._finish(Node(self._scalar(event), _line(event)), event.anchor)
            case events.DocumentStartEvent():
                self._anchors = {}
            case events.SequenceStartEvent():
                self._enter(event, [])
            case events.MappingStartEvent():
                self._enter(event, {})
            case events.CollectionEndEvent():
                done = self._open.pop()
                self._finish(done.node, done.anchor)
            case events.AliasEvent():
                self._finish(self._aliased(event), None)

    def refuse_depth(self, unread: str, line: int) -> None:
        """Raise our own error if *unread*, the text from *line* on that has no events yet, is nested too deep.

        A parser scans up to 1,024 characters before it returns the event of a bracket, since a key may start there.
        So the parser can reach a limit of its own, such as libyaml's 1,000 levels, before `take` reaches ours.
        """
        depth = len(self._open)
        with suppress(yaml.YAMLError):
            for token in yaml.scan(unread, Loader=yaml.SafeLoader):
                depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
                if depth > MAX_DEPTH:
                    raise self._too_deep(line + token.start_mark.line)

    def _enter(self, event: Any, empty: list[Node] | dict[str, Node]) -> None:
        self._refuse_tag(event)
        if len(self._open) == MAX_DEPTH:
            raise self._too_deep(_line(event))
        self._open.append(_Open(Node(empty, _line(event)), event.anchor))

    def _finish(self, node: Node, anchor: str | None) -> None:
        self._written += 1
        if anchor is not None:  # registered last: an alias inside its own anchor would be infinite
            self._anchors[anchor] = node
        if self._open:
            self._attach(self._open[-1], node)
        elif node.value is not None:
            self.documents.append(node)

    def _attach(self, inside: _Open, node: Node) -> None:
        holder = inside.node
        holder.size += node.size
        if holder.size > self._written + MAX_ALIASED:
            raise SiteError(f"{self.source}:{node.line}: the aliases stand for more than {MAX_ALIASED:,} values")
        if isinstance(holder.value, list):
            holder.value.append(node)
        elif isinstance(holder.value, dict):
            if inside.key is None:
                inside.key = self._key(holder.value, node)
            else:
                holder.value[inside.key] = node
                inside.key = None

    def _key(self, taken: dict[str, Node], node: Node) -> str:
        if not isinstance(node.value, str):
            raise SiteError(f"{self.source}:{node.line}: {shown(node)} is no field name")
        if node.value in taken:
            raise SiteError(f"{self.source}:{node.line}: {node.value!r} is given twice")
        return node.value

    def _aliased(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._error(event, f"no anchor &{event.anchor} stands before this alias")
        return self._anchors[event.anchor]

    def _scalar(self, event: Any) -> Scalar:
        text = str(event.value)
        with suppress(ValueError):
            return _scalar_of(text, event.implicit)
        raise self._error(event, f"{text[:40]!r} cannot be read as a number")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag not in (None, "!"):
            raise self._error(event, f"the tag {event.tag} has no meaning here")

    def _too_deep(self, line: int) -> SiteError:
        return SiteError(f"{self.source}:{line}: nested more than {MAX_DEPTH} levels deep")

    def _error(self, event: Any, problem: str) -> SiteError:
        return SiteError(f"{self.source}:{_line(event)}: {problem}")


_resolve: Any = Resolver().resolve
_CONSTRUCTOR = SafeConstructor()


@lru_cache(maxsize=1024)  # the names of fields, classes and traits recur
def _scalar_of(text: str, implicit: tuple[bool, bool]) -> Scalar:
    tag = _resolve(ScalarNode, text, implicit)
    if tag not in _CONVERTED_TAGS or ":" in text:  # in YAML 1.1, 1:30 is the number 90; users do not expect that
        return text
    value: Scalar = _CONSTRUCTOR.construct_object(ScalarNode(tag, text))
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError  # Python converts long hexadecimal numbers, but refuses to print them in a message
    # PyYAML remembers each node that it constructed, which would keep them all in memory.
    _CONSTRUCTOR.constructed_objects.clear()
    return value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def shown(node: Node) -> str:
    """*node* for an error message: short, on one line."""
    match node.value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing"
        case value:
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:60]}…"
