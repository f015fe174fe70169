"""What a site should have, as values: nodes with children, for PUT ``/provider_trees``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from stead.client import BY_NAME, request
from stead.client.errors import InvalidRequest
from stead.client.provider import Displayed, Inventory, Tree, counted, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from rich.console import RenderableType

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, init=False)
class Node:
    """A provider with its children, as it should be.

    Attributes:
        name: of the provider.
        inventories: by resource class; None leaves those that it has.
        traits, aggregates: all of them; None leaves those that it has.
        children: the providers directly below it.
        uuid: of the provider, if the caller chooses it.
    """

    name: str
    inventories: Mapping[str, Inventory] | None = field(hash=False)
    traits: frozenset[str] | None
    aggregates: frozenset[str] | None
    children: tuple[Node, ...]
    uuid: str | None

    def __init__(
        self,
        name: str,
        /,
        inventories: Mapping[str, int | Inventory] | None = None,
        *,
        traits: request.Names | None = None,
        aggregates: request.Names | None = None,
        children: Iterable[Node] = (),
        uuid: str | UUID | None = None,
        **amounts: int | Inventory,
    ) -> None:
        """A node, for example ``Node("host1", VCPU=64, MEMORY_MB=Inventory(262144, reserved=4096))``.

        Raises:
            InvalidRequest: the API cannot say this.
        """
        if not name or len(name) > 200:
            raise InvalidRequest(f"a provider's name has 1 to 200 characters, not {len(name)}")
        given = {**(inventories or {}), **amounts}
        values = {
            "name": name,
            "inventories": _inventories(given) if given or inventories is not None else None,
            "traits": None if traits is None else frozenset(map(request.trait, request.names(traits))),
            "aggregates": None if aggregates is None else frozenset(map(request.aggregate, request.names(aggregates))),
            "children": tuple(children),
            "uuid": None if uuid is None else str(uuid),
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def records(self, parent: str | None = None) -> list[Json]:
        """The entries of the document for the node and all below it; *parent* refers to the one above it."""
        record: Json = {"name": self.name, "parent_provider_uuid": parent}
        if self.uuid is not None:
            record["uuid"] = self.uuid
        if self.inventories is not None:
            record["inventories"] = {name: asdict(inventory) for name, inventory in self.inventories.items()}
        for key, names in (("traits", self.traits), ("aggregates", self.aggregates)):
            if names is not None:
                record[key] = sorted(names)
        below = [entry for child in self.children for entry in child.records(BY_NAME + self.name)]
        return [record, *below]


def _inventories(given: Mapping[str, int | Inventory]) -> dict[str, Inventory]:
    return {
        request.resource_class(name): value if isinstance(value, Inventory) else Inventory(request.amount(name, value))
        for name, value in given.items()
    }


@dataclass(frozen=True, slots=True, repr=False)
class Applied(Displayed):
    """What :meth:`Site.apply` did, or would do.

    Attributes:
        document: the response of PUT ``/provider_trees``.
    """

    document: Json = field(hash=False)

    @property
    def uuids(self) -> dict[str, str]:
        """Uuids of the described providers by name; without those that a dry run does not know yet."""
        return {each["name"]: each["uuid"] for each in self.document["providers"] if each["uuid"]}

    @property
    def changes(self) -> dict[str, list[str]]:
        """What was done to each described provider that changed, by name; and ``deleted``."""
        changes = {each["name"]: each["changes"] for each in self.document["providers"] if each["changes"]}
        return {**changes, **{each["name"]: ["deleted"] for each in self.document["deleted"]}}

    def __repr__(self) -> str:
        verb = "would change" if self.document["dry_run"] else "changed"
        return f"<Applied: {verb} {counted(len(self.changes), 'provider')}>"

    def __rich__(self) -> RenderableType:
        rows = [(name, ", ".join(changes)) for name, changes in self.changes.items()]
        return table_of(repr(self).strip("<>"), ("provider", "changes"), rows)


def document(described: Node | Tree | Json | Iterable[Node | Tree | Json]) -> Json:
    """The body of PUT ``/provider_trees``: from nodes, trees that were read, entries, or a whole body."""
    if isinstance(described, dict) and "provider_trees" in described:
        return dict(described)
    if isinstance(described, Node | Tree | dict):
        return {"provider_trees": [_entry(described)]}
    return {"provider_trees": [_entry(each) for each in described]}


def _entry(described: Node | Tree | Json) -> Json:
    if isinstance(described, Node):
        return {"providers": described.records()}
    if isinstance(described, Tree):
        return {"providers": [_record(provider) for provider in described]}
    return described


def _record(provider: Any) -> Json:
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "parent_provider_uuid": provider.parent,
        "generation": provider.generation,
        "inventories": {name: asdict(inventory) for name, inventory in (provider.inventories or {}).items()},
        "traits": sorted(provider.traits or ()),
        "aggregates": sorted(provider.aggregates or ()),
    }
