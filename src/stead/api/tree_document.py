"""The body of PUT ``/provider_trees``. An answer to GET has this form too; its read-only fields are ignored.

Source: "PUT /provider_trees", docs/api.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from stead.api import uuids
from stead.api.bodies import STORABLE, Body, Schema, mapping, strict_object
from stead.api.shapes import GENERATION, INVENTORY_FIELDS, TOTAL, UUID, build_inventories
from stead.api.versions import V, Versioned
from stead.domain.names import NAME_LENGTH, RESOURCE_CLASS_NAME
from stead.domain.provider import BY_NAME, MOST_OF_PROVIDER
from stead.domain.tree_document import UNSTATED, DescribedProvider, DocumentFault, TreeDocument
from stead.process import slices

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.api.limits import Limits
    from stead.domain.inventory import Inventory

_ANYTHING: Schema = {}
_BOOLEAN: Schema = {"type": "boolean"}
_NAMES: Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH, "format": STORABLE},
    "maxItems": MOST_OF_PROVIDER,
    "uniqueItems": True,
}
INVENTORY = strict_object(
    TOTAL, {name: schema for name, schema in INVENTORY_FIELDS.items() if name != "resource_provider_generation"}
)
PARENT: Schema = {
    "anyOf": [
        {"type": "null"},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": f"^{BY_NAME}.", "format": STORABLE},
    ]
}
PROVIDER = strict_object(
    {},
    {
        "uuid": UUID,
        "name": {"type": "string", "minLength": 1, "maxLength": 200, "format": STORABLE},
        "parent_provider_uuid": PARENT,
        "generation": GENERATION,
        "inventories": mapping(RESOURCE_CLASS_NAME, INVENTORY, maxProperties=MOST_OF_PROVIDER),
        "traits": _NAMES,
        "aggregates": {
            "type": "array",
            "items": {**UUID, "maxLength": 36},
            "maxItems": MOST_OF_PROVIDER,
            "uniqueItems": True,
        },
        "usages": _ANYTHING,
        "disabled": _ANYTHING,
    },
)
TREE = strict_object(
    {"providers": {"type": "array", "items": PROVIDER}},
    {"root_provider_uuid": UUID, "provider_count": _ANYTHING, "totals": _ANYTHING},
)
OPTIONS = ("prune", "merge", "keep_used", "allow_overcommit", "create_names")
"""Options of a document; the names are those of `TreeDocument`."""


@dataclass(frozen=True, slots=True)
class Described:
    """A parsed body: its trees, the options by name, and whether it is a dry run."""

    trees: Sequence[dict[str, Any]]
    options: dict[str, bool]
    dry_run: bool

    @classmethod
    def build(cls, body: dict[str, Any]) -> Described:
        """Build it from the body of a PUT."""
        options = {name: body[name] for name in OPTIONS if name in body}
        return cls(body["provider_trees"], options, body.get("dry_run", False))

    def document(self, limits: Limits) -> TreeDocument:
        """The document that the body describes.

        Raises:
            Refused: 413, too many providers.
            DocumentFault: a provider has neither a uuid nor a name.
        """
        limits.require_tree_providers([len(tree["providers"]) for tree in self.trees])
        emptied = [
            (f"provider_trees[{number}]", str(uuids.normalised(tree["root_provider_uuid"])))
            for number, tree in enumerate(self.trees)
            if not tree["providers"] and "root_provider_uuid" in tree
        ]
        return TreeDocument(list(self._providers()), emptied, **self.options)

    def _providers(self) -> Iterator[DescribedProvider]:
        make = _Maker()
        for number, tree in enumerate(self.trees):
            slices.give_way()
            for position, record in enumerate(tree["providers"]):
                yield make.provider(f"provider_trees[{number}].providers[{position}]", record)


class _Maker:
    """Builds providers from records. Providers with equal parts share one object, which compares quickly."""

    def __init__(self) -> None:
        self._inventories: dict[str, dict[str, Inventory]] = {}
        self._sets: dict[frozenset[str], frozenset[str]] = {}

    def provider(self, place: str, record: dict[str, Any]) -> DescribedProvider:
        uuid, name = record.get("uuid"), record.get("name")
        if uuid is None and name is None:
            raise DocumentFault(place, "neither a uuid nor a name")
        generation = record.get("generation")
        return DescribedProvider(
            place,
            None if uuid is None else uuids.normalised(uuid),
            name,
            _parent(record),
            None if generation is None else int(generation),
            self._stock(record.get("inventories")),
            self._set(record.get("traits")),
            self._set(record.get("aggregates")),
            # Chosen before the transaction, so that each attempt creates the provider with the same uuid.
            str(uuid4()),
        )

    def _stock(self, records: dict[str, Any] | None) -> dict[str, Inventory] | None:
        if records is None:
            return None
        # The text is the key, because the records are dicts, which have no hash.
        key = repr(records)
        stock = self._inventories.get(key)
        if stock is None:
            stock = self._inventories[key] = build_inventories(records)
        return stock

    def _set(self, names: list[str] | None) -> frozenset[str] | None:
        if names is None:
            return None
        members = frozenset(names)
        return self._sets.setdefault(members, members)


def _parent(record: dict[str, Any]) -> Any:
    parent = record.get("parent_provider_uuid", UNSTATED)
    if not isinstance(parent, str) or parent.startswith(BY_NAME):
        return parent
    return uuids.normalised(parent)


DOCUMENT = Versioned(
    {
        V.INITIAL: Body(
            strict_object(
                {"provider_trees": {"type": "array", "items": TREE}},
                {
                    **dict.fromkeys((*OPTIONS, "dry_run"), _BOOLEAN),
                    **dict.fromkeys(("tree_count", "provider_count", "totals", "links"), _ANYTHING),
                },
            ),
            Described.build,
            placed=True,
        )
    }
)
