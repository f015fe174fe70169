"""The contents of site files: descriptions of providers, by name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from stead.domain.errors import SteadError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stead.domain.inventory import Inventory

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
