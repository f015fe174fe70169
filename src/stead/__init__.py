"""Stead: a Placement service that tracks the free capacity of every resource provider, and claims it.

For programs: :func:`connect` and :func:`open` return a :class:`Site`; ``stead.aio`` has the asynchronous versions.
Each name is imported at its first use, so that ``import stead`` takes a few milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PLACES = {
    "Applied": "stead.client.description",
    "Candidate": "stead.client.answers",
    "Candidates": "stead.client.answers",
    "CannotOpen": "stead.client.errors",
    "CapacityBelowUse": "stead.client.errors",
    "Change": "stead.client.answers",
    "Claim": "stead.client.blocking.claim",
    "Conflict": "stead.client.errors",
    "Disabled": "stead.client.answers",
    "Error": "stead.client.errors",
    "Explanation": "stead.client.explanation",
    "Headroom": "stead.client.headroom",
    "TreeHeadroom": "stead.client.headroom",
    "Failed": "stead.client.errors",
    "Group": "stead.client.request",
    "InUse": "stead.client.errors",
    "Invalid": "stead.client.errors",
    "InvalidRequest": "stead.client.errors",
    "Inventory": "stead.client.answers",
    "Node": "stead.client.description",
    "NotAllowed": "stead.client.errors",
    "NotFound": "stead.client.errors",
    "NothingFits": "stead.client.errors",
    "Provider": "stead.client.answers",
    "ProviderDisabled": "stead.client.errors",
    "Refused": "stead.client.errors",
    "Reply": "stead.client.calls",
    "Request": "stead.client.request",
    "Site": "stead.client.blocking.site",
    "Stale": "stead.client.errors",
    "StartOver": "stead.client.errors",
    "TooLarge": "stead.client.errors",
    "Tree": "stead.client.answers",
    "Unavailable": "stead.client.errors",
    "Unreachable": "stead.client.errors",
    "Unsupported": "stead.client.errors",
    "Usage": "stead.client.answers",
    "connect": "stead.client.blocking.connecting",
    "open": "stead.client.blocking.connecting",
    "uuid_of": "stead.client.consumers",
}

if TYPE_CHECKING:
    from stead.client.answers import (
        Candidate,
        Candidates,
        Change,
        Disabled,
        Inventory,
        Provider,
        Tree,
        Usage,
    )
    from stead.client.blocking.claim import Claim
    from stead.client.blocking.connecting import connect, open  # noqa: A004
    from stead.client.blocking.site import Site
    from stead.client.calls import Reply
    from stead.client.consumers import uuid_of
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
        NotAllowed,
        NotFound,
        NothingFits,
        ProviderDisabled,
        Refused,
        Stale,
        StartOver,
        TooLarge,
        Unavailable,
        Unreachable,
        Unsupported,
    )
    from stead.client.explanation import Explanation
    from stead.client.headroom import Headroom, TreeHeadroom
    from stead.client.request import Group, Request

__all__ = [
    "Applied",
    "Candidate",
    "Candidates",
    "CannotOpen",
    "CapacityBelowUse",
    "Change",
    "Claim",
    "Conflict",
    "Disabled",
    "Error",
    "Explanation",
    "Failed",
    "Group",
    "Headroom",
    "InUse",
    "Invalid",
    "InvalidRequest",
    "Inventory",
    "Node",
    "NotAllowed",
    "NotFound",
    "NothingFits",
    "Provider",
    "ProviderDisabled",
    "Refused",
    "Reply",
    "Request",
    "Site",
    "Stale",
    "StartOver",
    "TooLarge",
    "Tree",
    "TreeHeadroom",
    "Unavailable",
    "Unreachable",
    "Unsupported",
    "Usage",
    "__version__",
    "connect",
    "open",
    "uuid_of",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'stead' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
