"""Gives each test the loggers of a new process: commands and servers that ran in this one configure them."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Let all loggers pass on what they get, as nothing was configured, and close the handlers that a test adds."""
    logging.disable(logging.NOTSET)
    for logger in _all_loggers():
        logger.filters.clear()
        logger.setLevel(_FIRST_LEVELS.get(logger.name, logging.NOTSET))
        logger.disabled = False
        logger.propagate = True
    root = logging.getLogger()
    handlers, hook = [*root.handlers], sys.excepthook
    yield
    for handler in [*root.handlers]:
        if handler not in handlers:
            root.removeHandler(handler)
            handler.close()
    root.handlers[:] = handlers
    sys.excepthook = hook


def _all_loggers() -> list[logging.Logger]:
    named = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in named if isinstance(logger, logging.Logger))]


_FIRST_LEVELS = {logger.name: logger.level for logger in _all_loggers()}
