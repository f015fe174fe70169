"""What a process does by itself, again and again, beside the requests: a step in a thread of its own, and a pause."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from stead.domain.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_PAUSE_SECONDS = 30.0
"""Between two steps that fail; the pause doubles until then, so that a database that is away fills no log."""

_STOP_SECONDS = 5.0

STOPPING = threading.Event()
"""Set when the process is about to end: a request that only waits for something to happen waits no longer."""

_log = logging.getLogger(__name__)


class Background:
    """Takes a step, pauses for as many seconds as the step says, and so on until it is stopped."""

    def __init__(self, name: str, step: Callable[[], float], pause: float) -> None:
        """Nothing runs yet.

        Args:
            name: of the thread.
            pause: seconds before the first step.
        """
        self._step = step
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin with a pause."""
        self._thread.start()

    def stop(self) -> None:
        """Take no further step; the one under way is waited for, for some seconds."""
        self._stopped.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                self._pause = self._step()
            except Unavailable:  # whoever knows why has said so
                self._fall_back()
            except Exception:
                _log.exception("%s failed", self._thread.name)
                self._fall_back()

    def _fall_back(self) -> None:
        self._pause = min(max(self._pause, 0.5) * 2, max(self._pause, LONGEST_PAUSE_SECONDS))
