"""Looks up the provider that a path names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.domain.errors import ProviderNotFound

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot
    from stead.domain.provider import Slot


def find_provider(snapshot: Snapshot, uuid: str) -> Slot:
    """The slot of the provider with exactly this spelling of the uuid.

    Raises:
        ProviderNotFound: no provider has this uuid.
    """
    slot = snapshot.find(uuid)
    if slot is None:
        raise ProviderNotFound(uuid)
    return slot
