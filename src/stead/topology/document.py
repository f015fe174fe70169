"""The text form of a site: YAML that people write, and that is written back byte for byte.

docs/topology.md describes the format; its limits are those of the API.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import yaml

from stead.domain.inventory import MAX_FLOAT, MAX_INT, Inventory
from stead.domain.names import NAME_LENGTH as CLASS_NAME_LENGTH
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.topology.nodes import Node, read_documents, shown
from stead.topology.site import NAME_LENGTH, Description, Site, SiteError, site_of, top_down

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    reader = _Reader(source)
    for document in read_documents(text, source):
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


@dataclass(slots=True)
class _Reader:
    """Reads nodes into descriptions; every error names the file, line, provider and field."""

    source: str
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

    def _distinct(self, values: list[str], node: Node | None, where: str) -> frozenset[str]:
        distinct = frozenset(values)
        if node is not None and len(distinct) < len(values):
            repeated = next(value for value in values if values.count(value) > 1)
            raise self._error(node, f"{where}: {repeated!r} is given twice")
        return distinct

    def _error(self, node: Node, problem: str) -> SiteError:
        return SiteError(f"{self.source}:{node.line}: {problem}")


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the class depends on whether libyaml is installed
    """Writes every value in full: anchors and aliases are hard to read."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Always True: write *data* in full each time it occurs."""
        return True
