"""What bounds each test: its timeout, and what ends the process if a test does not end by it.

`timeout` in pyproject.toml is that of a test without a mark of its own. At the timeout pytest-timeout raises an error
in the main thread. That does not end a test whose other threads hang: a pool waits for its threads. Then, after
GRACE_SECONDS, the stacks of all threads are printed and the process ends; pytest-xdist counts the test as failed, and
goes on with another worker.
"""

from __future__ import annotations

import faulthandler
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import pytest_timeout
from hypothesis import settings
from hypothesis.internal.conjecture import engine

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_SECONDS = 60.0

SHRINKING_SECONDS = 15
"""Hypothesis tries for five minutes to find a smaller example of a fault that it has found; a test has less."""

assert isinstance(engine.MAX_SHRINKING_SECONDS, int)
engine.MAX_SHRINKING_SECONDS = SHRINKING_SECONDS

# An example that takes long on a busy machine is no fault: the timeout bounds the test.
settings.register_profile("stead", settings.default, deadline=None)
settings.load_profile("stead")

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_stderr] = os.dup(2)  # before a test's output is captured


def pytest_unconfigure(config: pytest.Config) -> None:
    with suppress(OSError):
        os.close(config.stash[_stderr])


@pytest.hookimpl(wrapper=True)  # inside that of tests.databases, which may wait for long
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    timeout = pytest_timeout._get_item_settings(item).timeout
    if timeout:
        faulthandler.dump_traceback_later(timeout + GRACE_SECONDS, exit=True, file=item.config.stash[_stderr])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()
