"""Whether a worker can answer requests. Probes are frequent, so the answer never takes long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

FRESH_SECONDS = 1.5
"""If the last contact with the database is at most this old, the worker is ready. Idle workers poll every second."""

PATIENCE_SECONDS = 3.0
"""Maximum wait for the database."""


class Readiness:
    """Checks whether the catalog can be refreshed, and whether the database accepts writes."""

    def __init__(
        self, lag: Callable[[], float], refresh: Callable[[], object], *, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Check nothing yet.

        Args:
            lag: seconds since the catalog was last known to be current; infinite if it is unknown whether writes work.
            refresh: refreshes it, and finds out whether writes work; raises Unavailable.
        """
        self._lag = lag
        self._refresh = refresh
        self._patience = patience
        self._lock = threading.Lock()
        self._look: _Look | None = None

    def problem(self) -> str | None:
        """Why the worker is not ready; None if it is."""
        if self._lag() < FRESH_SECONDS:
            return None
        with self._lock:  # one check at a time, for all concurrent probes
            look = self._look
            if look is None or look.is_over:
                look = self._look = _Look(self._refresh)
        return look.outcome(self._patience)


class _Look:
    """A refresh in its own thread: if the database hangs, it blocks this thread and not the probe."""

    def __init__(self, refresh: Callable[[], object]) -> None:
        self._refresh = refresh
        self._problem: str | None = None
        self._over = threading.Event()
        threading.Thread(target=self._run, name="readiness", daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def outcome(self, patience: float) -> str | None:
        if not self._over.wait(patience):
            return "The database does not answer in time."
        return self._problem

    def _run(self) -> None:
        try:
            self._refresh()
        except Unavailable as error:
            self._problem = str(error)
        except Exception as error:  # requests would meet the same error
            self._problem = f"Cannot refresh the snapshot ({type(error).__name__})."
        finally:
            self._over.set()
