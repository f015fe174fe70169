"""Makes planned changes for real, through the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead import AddTrait, DeleteAggregate, Disable, Drain, RemoveInventory, RemoveTrait, SetInventory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead import Move, PlannedChange, Site


def make(site: Site, changes: Iterable[PlannedChange], moves: Iterable[Move]) -> None:
    """Make *changes*, then *moves* in their order."""
    for change in changes:
        match change:
            case Drain(provider) | Disable(provider):
                site.disable(provider, "planned")
            case SetInventory() | RemoveInventory():
                _set_inventory(site, change)
            case AddTrait(provider, trait):
                _set_traits(site, str(provider), lambda traits, trait=trait: traits | {trait})  # type: ignore[misc]  # mypy infers no type of a default in a lambda
            case RemoveTrait(provider, trait):
                _set_traits(site, str(provider), lambda traits, trait=trait: traits - {trait})  # type: ignore[misc]  # mypy infers no type of a default in a lambda
            case DeleteAggregate(aggregate):
                _delete_aggregate(site, str(aggregate))
            case _:
                raise AssertionError(change)
    for move in moves:
        site.move(move)


def _set_inventory(site: Site, change: SetInventory | RemoveInventory) -> None:
    path = f"/resource_providers/{change.provider}/inventories"
    body = site.request("GET", path)
    if isinstance(change, RemoveInventory):
        del body["inventories"][change.resource_class]
    else:
        fields = {
            key: value for key, value in change.record().items() if key not in ("change", "provider", "resource_class")
        }
        held = body["inventories"].setdefault(change.resource_class, {})
        held.update(fields)
    site.request("PUT", path, body)


def _set_traits(site: Site, provider: str, changed: Any) -> None:
    path = f"/resource_providers/{provider}/traits"
    body = site.request("GET", path)
    site.request("PUT", path, {**body, "traits": sorted(changed(set(body["traits"])))})


def _delete_aggregate(site: Site, aggregate: str) -> None:
    for provider in site.request("GET", "/resource_providers", member_of=aggregate)["resource_providers"]:
        path = f"/resource_providers/{provider['uuid']}/aggregates"
        body = site.request("GET", path)
        site.request("PUT", path, {**body, "aggregates": [one for one in body["aggregates"] if one != aggregate]})
