"""The Activity page: what was written last, by the times in the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stead.ui.views.provider import Recent

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot

ROWS = 30


def last_written(snapshot: Snapshot) -> list[Recent]:
    """The providers that were written last, the newest first, at most :data:`ROWS`."""
    slots = np.flatnonzero(snapshot.live)
    moments = snapshot.modified.at(slots)
    newest = slots[np.argsort(-moments, kind="stable")[:ROWS]].tolist()
    providers = [snapshot.provider(slot) for slot in newest]
    return [Recent(provider.uuid, provider.name, "provider", provider.modified) for provider in providers]
