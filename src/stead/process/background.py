"""Periodic work of a process beside its requests: a step in its own thread, then a pause."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_PAUSE_SECONDS = 30.0
"""Longest pause between steps that fail. The pause doubles up to it, so that a lost database does not fill the log."""

_STOP_SECONDS = 5.0

STOPPING = threading.Event()
"""Set when the process is about to end: requests that only wait for an event return at once."""

_log = logging.getLogger(__name__)


class Background:
    """Runs a step, pauses for as many seconds as the step returns, and repeats this until it is stopped."""

    def __init__(self, name: str, step: Callable[[], float], pause: float) -> None:
        """Create the thread without starting it.

        Args:
            name: of the thread.
            pause: seconds before the first step.
        """
        self._step = step
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start with a pause."""
        self._thread.start()

    def stop(self) -> None:
        """Run no further step; wait some seconds for the current one."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                self._pause = self._step()
            except Unavailable:  # the step has logged it
                self._fall_back()
            except Exception:
                # A bug in one step must not end the periodic work.
                _log.exception("%s failed", self._thread.name)
                self._fall_back()

    def _fall_back(self) -> None:
        self._pause = min(max(self._pause, 0.5) * 2, max(self._pause, LONGEST_PAUSE_SECONDS))
