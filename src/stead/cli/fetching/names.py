"""Names that begin with what was typed: of providers, traits, resource classes and flavors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.client.calls import TREES
from stead.client.errors import NotFound, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead import Site

_MOST_TREES = 100


def provider_names(api: Site, prefix: str) -> list[str]:
    """Names of providers; of a large site, those of the first trees that match."""
    try:
        page = api.request("GET", "/provider_trees", stead=TREES, name=f"{prefix}*", fields="name", limit=_MOST_TREES)
    except (NotFound, Unsupported):
        records = api.request("GET", "/resource_providers")["resource_providers"]
    else:
        records = [each for tree in page["provider_trees"] for each in tree["providers"]]
    return [each["name"] for each in records if each["name"].startswith(prefix)]


def trait_names(api: Site, prefix: str) -> list[str]:
    """Names of traits."""
    traits: list[str] = api.request("GET", "/traits", name=f"startswith:{prefix}")["traits"]
    return [each for each in traits if each.startswith(prefix)]


def class_names(api: Site, prefix: str) -> list[str]:
    """Names of resource classes."""
    classes = api.request("GET", "/resource_classes")["resource_classes"]
    return [each["name"] for each in classes if each["name"].startswith(prefix)]


def flavor_names(api: Site, prefix: str) -> list[str]:
    """Names of flavors; none if the server has no flavors."""
    try:
        flavors = api.request("GET", "/flavors", stead=TREES)["flavors"]
    except (NotFound, Unsupported):
        return []
    return [each["name"] for each in flavors if each["name"].startswith(prefix)]


BY_NOUN: dict[str, Callable[[Site, str], list[str]]] = {
    "CLASS": class_names,
    "FLAVOR": flavor_names,
    "HOST": provider_names,
    "INVENTORY": class_names,
    "PARENT": provider_names,
    "PROVIDER": provider_names,
    "TRAIT": trait_names,
}
"""By what help calls the value of an option or argument."""
