"""Fails a test that leaves signals of this process blocked or handled otherwise than before.

Processes that later tests start would inherit that, and not end when they are told to.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Compare what this process does with each signal before and after a test; repair and report what differs."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    handlers = _handlers()
    yield
    left_mask, left_handlers = signal.pthread_sigmask(signal.SIG_SETMASK, mask), _handlers()
    if threading.current_thread() is threading.main_thread():
        for number in left_handlers.keys() & handlers.keys():
            if left_handlers[number] is not handlers[number]:
                signal.signal(number, handlers[number])
    assert left_mask == mask, "the test leaves these signals blocked, or unblocked"
    assert left_handlers == handlers, "the test leaves these handlers of signals"


def _handlers() -> dict[signal.Signals, object]:
    """The handlers that Python knows, but for that of the alarm, with which pytest-timeout bounds each test."""
    return {
        number: handler
        for number in signal.valid_signals()
        if isinstance(number, signal.Signals)
        and number not in (signal.SIGALRM, signal.SIGKILL, signal.SIGSTOP)
        and (handler := signal.getsignal(number)) is not None
    }
