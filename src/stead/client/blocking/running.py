"""The twin of ``stead.client.aio.running``, written by hand."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_WAIT = 30
"""Seconds that a call in this process may wait for a change."""


def sleep(seconds: float) -> None:
    """Pause."""
    time.sleep(seconds)


def in_thread(function: Callable[..., R], *arguments: object) -> R:
    """What *function* returns."""
    return function(*arguments)


def called(function: Callable[[], Any]) -> Any:
    """What *function* returns."""
    return function()


def opens(function: Callable[P, R]) -> Callable[P, R]:
    """*function*."""
    return function
