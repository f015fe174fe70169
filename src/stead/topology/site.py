"""The contents of site files: descriptions of providers, by name; as documents of trees, and as tables."""

from __future__ import annotations

import csv
from collections import defaultdict
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stead.domain.errors import SteadError
from stead.domain.provider import Inventory
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO


NAME_LENGTH = 200
"""Maximum length of a provider's name, in characters."""


class SiteError(SteadError):
    """A site, a site file or a machine's description cannot be used; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Description:
    """The target state of one provider.

    Attributes:
        uuid: lower-case and hyphenated; None leaves the choice to the server.
        parent: the parent's name, described here or elsewhere; None for a root.
        inventories: by resource class.
        aggregates: uuids as written; servers compare them as text.
    """

    name: str
    uuid: str | None = None
    parent: str | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=lambda: MappingProxyType({}))
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Site:
    """Descriptions by name. Create it with :func:`site_of`, which checks that they are consistent."""

    providers: Mapping[str, Description] = field(default_factory=lambda: MappingProxyType({}))


def site_of(descriptions: Iterable[Description]) -> Site:
    """The site of *descriptions*.

    Raises:
        SiteError: a name or a uuid occurs twice, a name is too long, or providers are each other's ancestors.
    """
    providers: dict[str, Description] = {}
    names_by_uuid: dict[str, str] = {}
    for described in descriptions:
        if len(described.name) > NAME_LENGTH:
            raise SiteError(f"provider {described.name[:40]!r}…: the name is longer than {NAME_LENGTH} characters")
        if described.name in providers:
            raise SiteError(f"provider {described.name!r} is described twice")
        if described.uuid is not None:
            other = names_by_uuid.setdefault(described.uuid, described.name)
            if other != described.name:
                raise SiteError(f"providers {other!r} and {described.name!r} have the same uuid {described.uuid}")
        providers[described.name] = described
    top_down({name: described.parent for name, described in providers.items()})
    return Site(MappingProxyType(providers))


def top_down(parents: Mapping[str, str | None]) -> list[str]:
    """The keys of *parents*, every parent before its children; siblings, and roots, by name.

    A parent that is not a key counts as absent.

    Raises:
        SiteError: there is a loop of parents.
    """
    children: defaultdict[str | None, list[str]] = defaultdict(list)
    for name, parent in parents.items():
        children[parent if parent in parents else None].append(name)
    ordered: list[str] = []
    waiting = sorted(children[None], reverse=True)
    while waiting:
        name = waiting.pop()
        ordered.append(name)
        waiting.extend(sorted(children[name], reverse=True))
    if len(ordered) < len(parents):
        looped = sorted(parents.keys() - set(ordered))
        raise SiteError(f"provider {looped[0]!r} is, or is below, an ancestor of itself")
    return ordered


# A site as documents for PUT ``/provider_trees``: in parts of whole trees, each small enough for one request.


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


# A site as a table for spreadsheets: a row for each inventory, or for each allocation.
#
# Characters that control a terminal or end a line are escaped. Text that a spreadsheet would run as a formula has an
# apostrophe before it, which spreadsheets do not show.


COLUMNS = (
    "name", "uuid", "parent", "resource_class", "total", "reserved", "min_unit", "max_unit", "step_size",
    "allocation_ratio", "traits", "aggregates",
)  # fmt: skip
ALLOCATION_COLUMNS = ("consumer", "project", "user", "consumer_type", "provider", "resource_class", "used")


_FORMULA = ("=", "+", "-", "@")
"""First characters of formulas. Source: "CSV Injection" of OWASP, whose others are control characters."""


def _cell(text: str) -> str:
    return f"'{printable(text)}" if text.startswith(_FORMULA) else printable(text)


def write_inventories(site: Site, file: TextIO) -> None:
    """A row for each inventory, and one for each provider that has none; lists are separated by spaces."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for name in top_down({name: described.parent for name, described in site.providers.items()}):
        described = site.providers[name]
        provider = (_cell(described.name), described.uuid or "", _cell(described.parent or ""))
        sets = (" ".join(sorted(described.traits)), " ".join(sorted(described.aggregates)))
        for resource_class, inventory in sorted(described.inventories.items()):
            amounts = (
                inventory.total,
                inventory.reserved,
                inventory.min_unit,
                inventory.max_unit,
                inventory.step_size,
                inventory.allocation_ratio,
            )
            rows.writerow((*provider, resource_class, *amounts, *sets))
        if not described.inventories:
            rows.writerow((*provider, *("",) * 7, *sets))


def write_allocations(
    holders: Iterable[tuple[tuple[str, str, str, str], Mapping[str, Mapping[str, int]]]], file: TextIO
) -> None:
    """A row for each allocation.

    Args:
        holders: of each consumer uuid, project, user and type, and amounts by provider and class.
    """
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(ALLOCATION_COLUMNS)
    for identity, allocations in holders:
        for provider, amounts in sorted(allocations.items()):
            for resource_class, used in sorted(amounts.items()):
                rows.writerow((*map(_cell, identity), _cell(provider), resource_class, used))
