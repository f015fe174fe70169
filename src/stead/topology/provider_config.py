"""nova's provider configuration files (``provider.yaml``): inventories and traits for providers that exist.

A file owns what it adds, and nothing else of a provider. What leaves the files is removed, so a later run must know
what an earlier one added. A trait of the provider says it for each class and trait, see docs/decisions/0080.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from stead.domain.names import CUSTOM_NAME, NAME_LENGTH
from stead.topology.document import Node, NodeReader, read_documents, shown, site_of_nodes
from stead.topology.plan import NotPruned
from stead.topology.site import SiteError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stead.domain.provider import Inventory
    from stead.topology.site import Description

COMPUTE_NODE = "$COMPUTE_NODE"
"""In place of a uuid: the provider of the host that the file is for."""

CLASS_MARK = "CUSTOM_PROVIDER_YAML_CLASS_"
TRAIT_MARK = "CUSTOM_PROVIDER_YAML_TRAIT_"
"""The beginnings of traits that say what is from a file; the rest is a name without ``CUSTOM_``."""

_CUSTOM = "CUSTOM_"
_MOST = NAME_LENGTH - len(CLASS_MARK) + len(_CUSTOM)
_NAME = re.compile(CUSTOM_NAME)
_VERSION = re.compile(r"1\.[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Addition:
    """What a file adds to one provider.

    Attributes:
        place: the file and the line.
        provider: a uuid, a name, or :data:`COMPUTE_NODE`.
        is_name: whether *provider* is a name.
    """

    place: str
    provider: str
    is_name: bool
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]


def load_additions(text: str, source: str = "provider.yaml") -> list[Addition]:
    """What *text* adds to each provider that it identifies.

    Args:
        source: the name of the text in error messages, such as a file name.

    Raises:
        SiteError: the text is no such file; the message names the line.
    """
    documents = read_documents(text, source)
    if not documents:
        # A failed command leaves an empty file. It would remove everything that was added.
        raise SiteError(f"{source}: empty file. A file without providers is `meta: {{schema_version: '1.0'}}`.")
    if len(documents) > 1:
        raise SiteError(f"{source}:{documents[1].line}: a second YAML document; one file has one")
    return _Reader(source).read(documents[0])


class _Reader(NodeReader):
    """Reads the structure of a file. What it adds is read as entries of a site file, with the same rules and errors."""

    def read(self, document: Node) -> list[Addition]:
        fields = self._fields(document, ("meta", "providers"), "the file")
        if "meta" not in fields:
            raise self._error(document, "meta is missing: it has the schema_version, such as '1.0'")
        self._require_version(fields["meta"])
        identified: dict[str, tuple[int, bool]] = {}  # by name in the site: line, whether it is a name
        entries = []
        for node in self._items(fields.get("providers"), "providers"):
            provider = self._fields(node, ("identification", "inventories", "traits"), "a provider")
            if "identification" not in provider:
                raise self._error(node, "a provider has no identification")
            name, is_name = self._identified(provider["identification"])
            where = f"provider {str(name.value)!r}"
            added = {
                "name": name,
                "inventories": self._inventories(provider.get("inventories"), where),
                "traits": self._traits(provider.get("traits"), where),
            }
            if isinstance(name.value, str):
                identified.setdefault(name.value, (node.line, is_name))
            entries.append(Node(added, node.line))
        site = site_of_nodes([Node({"providers": Node(list(entries), document.line)}, document.line)], self.source)
        return [
            Addition(f"{self.source}:{line}", name, is_name, described.inventories, described.traits)
            for name, described in site.providers.items()
            for line, is_name in (identified[name],)
        ]

    def _require_version(self, node: Node) -> None:
        fields = self._fields(node, ("schema_version",), "meta")
        version = fields.get("schema_version")
        if version is None:
            raise self._error(node, "meta: schema_version is missing, such as '1.0'")
        if not isinstance(version.value, str):
            raise self._error(version, f"meta: schema_version must be text, not {shown(version)}; put it in quotes")
        if not _VERSION.fullmatch(version.value):
            raise self._error(version, f"meta: unknown schema_version {shown(version)}; known are '1.0' to '1.x'")

    def _identified(self, node: Node) -> tuple[Node, bool]:
        fields = self._fields(node, ("uuid", "name"), "identification")
        if len(fields) != 1:
            raise self._error(node, f"identification must have either uuid ({COMPUTE_NODE} or a uuid) or name")
        if "name" in fields:
            return fields["name"], True
        uuid = fields["uuid"]
        if uuid.value == COMPUTE_NODE:
            return uuid, False
        try:
            return Node(str(UUID(str(uuid.value))), uuid.line), False
        except ValueError:
            raise self._error(
                uuid, f"identification: uuid: {shown(uuid)} is neither a uuid nor {COMPUTE_NODE}"
            ) from None

    def _inventories(self, node: Node | None, where: str) -> Node:
        where = f"{where}: inventories"
        records: dict[str, Node] = {}
        for item in self._additional(node, where):
            if not isinstance(item.value, dict):
                raise self._error(item, f"{where}: expected a resource class with its fields, not {shown(item)}")
            for name, record in item.value.items():
                self._require_custom(name, record, where)
                if name in records:
                    raise self._error(record, f"{where}: {name!r} is given twice")
                if not isinstance(record.value, dict):
                    raise self._error(
                        record, f"{where}: {name} must be a mapping with total and others, not {shown(record)}"
                    )
                records[name] = record
        return Node(dict(records), 0 if node is None else node.line)

    def _traits(self, node: Node | None, where: str) -> Node:
        where = f"{where}: traits"
        names = self._additional(node, where)
        for name in names:
            if isinstance(name.value, str):  # the reader of site files refuses others
                self._require_custom(name.value, name, where)
        return Node(list(names), 0 if node is None else node.line)

    def _require_custom(self, name: str, node: Node, where: str) -> None:
        if not _NAME.fullmatch(name):
            raise self._error(node, f"{where}: {name[:60]!r} does not begin with CUSTOM_, or is not of A-Z, 0-9 and _")
        if name.startswith((CLASS_MARK, TRAIT_MARK)):
            raise self._error(node, f"{where}: {name[:60]} is a trait that says what is from a file")
        if len(name) > _MOST:
            raise self._error(node, f"{where}: {name[:60]}… is longer than {_MOST} characters")

    def _additional(self, node: Node | None, where: str) -> list[Node]:
        if node is None or node.value is None:
            return []
        return self._items(self._fields(node, ("additional",), where).get("additional"), f"{where}: additional")


def settle(
    present: Description, used: Mapping[str, int], added: Addition | None
) -> tuple[Description, list[NotPruned]]:
    """The provider with what is *added*, without what an earlier file added and this one lacks; and what stays in use.

    An inventory in use stays marked, so that a later run removes it.

    Args:
        present: all inventories and traits that the provider has.
        used: allocated amounts by resource class.
    """
    inventories = {} if added is None else dict(added.inventories)
    traits = frozenset[str]() if added is None else added.traits
    gone = _marked(present.traits, CLASS_MARK) - inventories.keys()
    in_use = sorted(name for name in gone if used.get(name) and name in present.inventories)
    marked = [*inventories, *in_use]
    marks = {_mark(CLASS_MARK, name) for name in marked} | {_mark(TRAIT_MARK, name) for name in traits}
    others = {
        name
        for name in present.traits - _marked(present.traits, TRAIT_MARK)
        if not name.startswith((CLASS_MARK, TRAIT_MARK))
    }
    remaining = {name: each for name, each in present.inventories.items() if name not in gone or name in in_use}
    settled = replace(
        present,
        inventories={**remaining, **inventories},
        traits=frozenset(others | traits | marks),
    )
    return settled, [NotPruned(present.name, name, f"{used[name]} in use") for name in in_use]


def _mark(kind: str, name: str) -> str:
    return kind + name.removeprefix(_CUSTOM)


def _marked(traits: frozenset[str], kind: str) -> set[str]:
    return {_CUSTOM + trait.removeprefix(kind) for trait in traits if trait.startswith(kind)}
