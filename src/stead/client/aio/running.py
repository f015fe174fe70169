"""What asynchronous code needs of its event loop. The synchronous twin of this module is written by hand."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

R = TypeVar("R")

LONGEST_WAIT = 1
"""Seconds that a call in this process may wait for a change: a thread waits, which cannot be cancelled."""


async def sleep(seconds: float) -> None:
    """Pause."""
    await asyncio.sleep(seconds)


async def in_thread(function: Callable[..., R], *arguments: object) -> R:
    """What *function* returns, which may block."""
    return await asyncio.to_thread(function, *arguments)


async def called(function: Callable[[], Any | Awaitable[Any]]) -> Any:
    """What *function* returns or, if it is asynchronous, what it returns in the end. It may block."""
    returned = await asyncio.to_thread(function)
    return await returned if isawaitable(returned) else returned
