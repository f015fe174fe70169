"""Enables providers whose ``until`` has passed.

Every process does this, and skips what another process has already done. The write is the same as a client's, so that
snapshots and claims always agree. ``until`` is therefore the earliest time at which a provider is enabled.

Source: "PATCH /provider_trees/{uuid}", docs/api.md.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from stead.domain.errors import ProviderNotFound
from stead.store.extensions import service_states
from stead.store.provider_trees import disabling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.store.protocol.store import Store

PAUSE_SECONDS = 1.0
"""Interval between steps. A step reads the catalog, and the database only if an end may have passed."""

SKEW_SECONDS = 60.0
"""Maximum lag of this process's clock behind that of the database, which decides."""


class States(Protocol):
    """The catalog of this process."""

    def ends_of_disabling(self) -> Iterable[int]:
        """The ends of disabled providers, in seconds since 1970."""
        ...


class Overdue:
    """Enables the providers of one database."""

    def __init__(self, store: Store, states: States) -> None:
        """Read nothing yet."""
        self._store = store
        self._states = states

    def step(self) -> float:
        """Enable providers whose end has passed; returns the seconds until the next step.

        Raises:
            Unavailable: the database does not answer.
        """
        if any(until <= time.time() + SKEW_SECONDS for until in self._states.ends_of_disabling()):
            for provider in self._store.read(service_states.overdue, self._store.dialect):
                with suppress(ProviderNotFound):
                    self._store.write(disabling.enable_if_overdue, provider)
        return PAUSE_SECONDS
