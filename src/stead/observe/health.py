"""Whether a worker can answer: asked often, so the answer is never waited for long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

FRESH_SECONDS = 1.5
"""A worker that knew the database's state so long ago is ready without asking again; idle ones look once a second."""

PATIENCE_SECONDS = 3.0
"""The database is waited for so long."""


class Readiness:
    """Asks whether memory can be brought up to date with the database, and whether that takes writes."""

    def __init__(
        self, lag: Callable[[], float], refresh: Callable[[], object], *, patience: float = PATIENCE_SECONDS
    ) -> None:
        """Nothing is asked yet.

        Args:
            lag: seconds since the memory was last known to be true; infinite if it is not known whether writes work.
            refresh: brings it up to date, and finds out whether writes work; raises Unavailable.
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
        with self._lock:  # one look at a time, however many ask
            look = self._look
            if look is None or look.is_over:
                look = self._look = _Look(self._refresh)
        return look.outcome(self._patience)


class _Look:
    """A refresh in a thread of its own: a database that hangs keeps the thread, and not who asked."""

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
        except Exception as error:  # whatever it is, it is what requests would meet
            self._problem = f"Cannot refresh the snapshot ({type(error).__name__})."
        finally:
            self._over.set()
