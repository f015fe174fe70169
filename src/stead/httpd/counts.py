"""The server's counters, for metrics and the log."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.httpd.refusals import Reason

LOG_SECONDS = 10.0
"""The log has one line for all refusals of this interval, so that an attack does not fill it."""

_log = logging.getLogger(__name__)


class Refusals:
    """Counts refusals by reason. Thread-safe."""

    def __init__(self) -> None:
        """Start with no refusals."""
        self._on_refusal: Callable[[Reason], None] | None = None
        self._lock = threading.Lock()
        self._unlogged: Counter[str] = Counter()
        self._logged_at = float("-inf")

    def tell(self, on_refusal: Callable[[Reason], None]) -> None:
        """Call *on_refusal* with the reason of each further refusal, in the thread that refuses."""
        self._on_refusal = on_refusal

    def add(self, reason: Reason) -> None:
        """Count one refusal."""
        with self._lock:
            self._unlogged[reason] += 1
        if self._on_refusal is not None:
            self._on_refusal(reason)

    def log(self, now: float) -> None:
        """Log the refusals since the last line, unless the interval has not passed yet."""
        with self._lock:
            if not self._unlogged or now - self._logged_at < LOG_SECONDS:
                return
            unlogged, self._unlogged = self._unlogged, Counter()
            self._logged_at = now
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(unlogged.items()))
        _log.warning("refused %d requests or connections: %s", sum(unlogged.values()), reasons)
