"""Stead: a Placement service that tracks the free capacity of every resource provider, and claims it.

For programs: :func:`connect` and :func:`open` return a :class:`Site`; ``stead.aio`` has the asynchronous versions.
Each name is imported at its first use, so that ``import stead`` takes a few milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.1"

_PLACES = {
    "AddTrait": "stead.client.what_if",
    "Advice": "stead.client.what_if",
    "Applied": "stead.client.description",
    "Candidate": "stead.client.candidate",
    "Candidates": "stead.client.candidate",
    "CannotOpen": "stead.client.errors",
    "CapacityBelowUse": "stead.client.errors",
    "Change": "stead.client.provider",
    "Changes": "stead.client.provider",
    "Claim": "stead.client.blocking.site",
    "Conflict": "stead.client.errors",
    "Copy": "stead.client.what_if",
    "DeleteAggregate": "stead.client.what_if",
    "Disable": "stead.client.what_if",
    "Disabled": "stead.client.provider",
    "Drain": "stead.client.what_if",
    "Error": "stead.client.errors",
    "Explanation": "stead.client.candidate",
    "Failed": "stead.client.errors",
    "Flavor": "stead.client.headroom",
    "FlavorHeadroom": "stead.client.headroom",
    "Group": "stead.client.request",
    "Headroom": "stead.client.headroom",
    "Held": "stead.client.blocking.site",
    "Improvement": "stead.client.what_if",
    "InUse": "stead.client.errors",
    "Invalid": "stead.client.errors",
    "InvalidRequest": "stead.client.errors",
    "Inventory": "stead.client.provider",
    "LeaseLost": "stead.client.errors",
    "Mix": "stead.client.headroom",
    "MixForm": "stead.client.headroom",
    "MixHeadroom": "stead.client.headroom",
    "Move": "stead.client.what_if",
    "Node": "stead.client.description",
    "NotAllowed": "stead.client.errors",
    "NotFound": "stead.client.errors",
    "NoPlace": "stead.client.errors",
    "NothingFits": "stead.client.errors",
    "NothingFound": "stead.client.errors",
    "Place": "stead.client.provider",
    "PlannedChange": "stead.client.what_if",
    "Provider": "stead.client.provider",
    "ProviderDisabled": "stead.client.errors",
    "Refused": "stead.client.errors",
    "RemoveInventory": "stead.client.what_if",
    "RemoveTrait": "stead.client.what_if",
    "Reply": "stead.client.calls",
    "Request": "stead.client.request",
    "SetInventory": "stead.client.what_if",
    "Site": "stead.client.blocking.site",
    "SiteClosed": "stead.client.errors",
    "Stale": "stead.client.errors",
    "StartOver": "stead.client.errors",
    "TooLarge": "stead.client.errors",
    "Total": "stead.client.provider",
    "Tree": "stead.client.provider",
    "Stranded": "stead.client.headroom",
    "TreeHeadroom": "stead.client.headroom",
    "Unavailable": "stead.client.errors",
    "Unplaced": "stead.client.what_if",
    "Unreachable": "stead.client.errors",
    "Unsupported": "stead.client.errors",
    "Usage": "stead.client.provider",
    "WhatIf": "stead.client.what_if",
    "connect": "stead.client.blocking.connecting",
    "open": "stead.client.blocking.connecting",
    "rack": "stead.client.consumers",
    "uuid_of": "stead.client.consumers",
}

if TYPE_CHECKING:
    from stead import aio as aio
    from stead.client.blocking.connecting import connect, open  # noqa: A004  # it is called stead.open
    from stead.client.blocking.site import Claim, Held, Site
    from stead.client.calls import Reply
    from stead.client.candidate import Candidate, Candidates, Explanation
    from stead.client.consumers import rack, uuid_of
    from stead.client.description import Applied, Node
    from stead.client.errors import (
        CannotOpen,
        CapacityBelowUse,
        Conflict,
        Error,
        Failed,
        InUse,
        Invalid,
        InvalidRequest,
        LeaseLost,
        NoPlace,
        NotAllowed,
        NotFound,
        NothingFits,
        NothingFound,
        ProviderDisabled,
        Refused,
        SiteClosed,
        Stale,
        StartOver,
        TooLarge,
        Unavailable,
        Unreachable,
        Unsupported,
    )
    from stead.client.headroom import (
        Flavor,
        FlavorHeadroom,
        Headroom,
        Mix,
        MixForm,
        MixHeadroom,
        Stranded,
        TreeHeadroom,
    )
    from stead.client.provider import Change, Changes, Disabled, Inventory, Place, Provider, Total, Tree, Usage
    from stead.client.request import Group, Request
    from stead.client.what_if import (
        AddTrait,
        Advice,
        Copy,
        DeleteAggregate,
        Disable,
        Drain,
        Improvement,
        Move,
        PlannedChange,
        RemoveInventory,
        RemoveTrait,
        SetInventory,
        Unplaced,
        WhatIf,
    )

__all__ = [
    "AddTrait",
    "Advice",
    "Applied",
    "Candidate",
    "Candidates",
    "CannotOpen",
    "CapacityBelowUse",
    "Change",
    "Changes",
    "Claim",
    "Conflict",
    "Copy",
    "DeleteAggregate",
    "Disable",
    "Disabled",
    "Drain",
    "Error",
    "Explanation",
    "Failed",
    "Flavor",
    "FlavorHeadroom",
    "Group",
    "Headroom",
    "Held",
    "Improvement",
    "InUse",
    "Invalid",
    "InvalidRequest",
    "Inventory",
    "LeaseLost",
    "Mix",
    "MixForm",
    "MixHeadroom",
    "Move",
    "NoPlace",
    "Node",
    "NotAllowed",
    "NotFound",
    "NothingFits",
    "NothingFound",
    "Place",
    "PlannedChange",
    "Provider",
    "ProviderDisabled",
    "Refused",
    "RemoveInventory",
    "RemoveTrait",
    "Reply",
    "Request",
    "SetInventory",
    "Site",
    "SiteClosed",
    "Stale",
    "StartOver",
    "Stranded",
    "TooLarge",
    "Total",
    "Tree",
    "TreeHeadroom",
    "Unavailable",
    "Unplaced",
    "Unreachable",
    "Unsupported",
    "Usage",
    "WhatIf",
    "__version__",
    "connect",
    "open",
    "rack",
    "uuid_of",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module("stead.aio")
    if name not in _PLACES:
        raise AttributeError(f"module 'stead' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "aio", "testing"})
