"""A Placement for the tests of other projects.

    with stead.testing.placement() as url:
        ...  # an HTTP server in this process, on a free port of 127.0.0.1, with a database in memory

Fixtures of the pytest plugin: ``placement``, ``placement_site`` and ``placement_uuids``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stead.testing.faults import Faults
    from stead.testing.serving import Placement, PlacementSite, placement, site
    from stead.testing.uuids import deterministic_uuids

__all__ = ["Faults", "Placement", "PlacementSite", "deterministic_uuids", "placement", "site"]

_PLACES = {
    "Faults": "stead.testing.faults",
    "Placement": "stead.testing.serving",
    "PlacementSite": "stead.testing.serving",
    "deterministic_uuids": "stead.testing.uuids",
    "placement": "stead.testing.serving",
    "site": "stead.testing.serving",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'stead.testing' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
