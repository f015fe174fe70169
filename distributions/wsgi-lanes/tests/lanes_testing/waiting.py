"""How a test waits: for a state, up to a deadline so late that only a fault reaches it, never for a fixed time.

This folder uses nothing outside of it, so it does not use the module of the same name in Stead's tests.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_SECONDS = 50.0
"""Shorter than the default timeout of a test (pyproject.toml), so that the wait says what did not happen."""

PAUSE_SECONDS = 0.01


class TimedOut(AssertionError):
    """What was waited for did not happen."""


def wait_until(condition: Callable[[], T], otherwise: Callable[[], str] = lambda: "it did not happen") -> T:
    """The first true value of *condition*; *otherwise* says what is wrong if there is none.

    Raises:
        TimedOut: the deadline passed, and the condition did not hold even after it.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        is_late = time.monotonic() > deadline
        value = condition()
        if value:
            return value
        if is_late:
            raise TimedOut(otherwise())
        time.sleep(PAUSE_SECONDS)


def stays(condition: Callable[[], object], seconds: float = 1.0) -> bool:
    """Whether *condition* holds now and all the time for so many *seconds*. Only for what must not happen."""
    end = time.monotonic() + seconds
    while condition():
        if time.monotonic() > end:
            return True
        time.sleep(PAUSE_SECONDS)
    return False
