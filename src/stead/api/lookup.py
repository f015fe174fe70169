"""Finding what a path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.domain.errors import ProviderNotFound

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


def find_provider(snapshot: Snapshot, uuid: str) -> Slot:
    """Where the provider with this uuid stands, spelled exactly so.

    Raises:
        ProviderNotFound: there is none.
    """
    slot = snapshot.find(uuid)
    if slot is None:
        raise ProviderNotFound(uuid)
    return slot
