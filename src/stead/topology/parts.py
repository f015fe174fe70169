"""A site as documents for PUT ``/provider_trees``: in parts of whole trees, each small enough for one request."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from stead.domain.inventory import Inventory
from stead.topology.site import top_down

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.topology.site import Description, Site

_FIELDS = tuple(field.name for field in fields(Inventory))


@dataclass(frozen=True, slots=True)
class Part:
    """Descriptions, parents before their children.

    Attributes:
        is_whole: each tree of which it describes a provider is described in it alone.
    """

    providers: Sequence[Description]
    is_whole: bool = True

    def __str__(self) -> str:
        first, last = self.providers[0].name, self.providers[-1].name
        return f"{first} to {last}" if len(self.providers) > 1 else first


def parts_of(site: Site, most: int) -> list[Part]:
    """*site* in parts of at most *most* providers. A tree that has more is cut into several parts of its own."""
    trees: dict[str, list[Description]] = {}
    top_of: dict[str, str] = {}
    for name in top_down({name: described.parent for name, described in site.providers.items()}):
        described = site.providers[name]
        top_of[name] = name if described.parent is None else top_of.get(described.parent, name)
        trees.setdefault(top_of[name], []).append(described)
    parts: list[Part] = []
    together: list[Description] = []
    for tree in trees.values():
        if together and len(together) + len(tree) > most:
            parts.append(Part(together))
            together = []
        if len(tree) > most:
            parts += [Part(tree[start : start + most], is_whole=False) for start in range(0, len(tree), most)]
        else:
            together = together + tree if together else tree
    return [*parts, Part(together)] if together else parts


def halves(part: Part, site: Site) -> list[Part]:
    """A part in two; the first has no tree of the second, unless the part has only one tree."""
    providers = part.providers
    middle = len(providers) // 2
    tops = [number for number, described in enumerate(providers) if described.parent not in site.providers]
    cuts = [number for number in tops if number]
    if cuts:
        # Between two trees, so that each half can still be pruned.
        middle = min(cuts, key=lambda number: abs(number - middle))
    is_whole = part.is_whole and bool(cuts)
    return [Part(providers[:middle], is_whole), Part(providers[middle:], is_whole)]


def as_record(described: Description) -> dict[str, Any]:
    """A description as a provider of the document."""
    return {
        **as_name(described),
        "parent_provider_uuid": None if described.parent is None else f"name:{described.parent}",
        "inventories": {name: _inventory(inventory) for name, inventory in described.inventories.items()},
        "traits": sorted(described.traits),
        "aggregates": sorted(described.aggregates),
    }


def as_name(described: Description) -> dict[str, Any]:
    """A provider of a document that describes nothing of it but that it is one of the site."""
    return {"name": described.name} if described.uuid is None else {"uuid": described.uuid, "name": described.name}


def _inventory(inventory: Inventory) -> dict[str, Any]:
    return {name: getattr(inventory, name) for name in _FIELDS}  # asdict copies deeply, which takes longer
