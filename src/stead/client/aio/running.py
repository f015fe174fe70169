"""What asynchronous code needs of its event loop. The synchronous twin of this module is written by hand."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", bound="Closing")

LONGEST_WAIT = 1
"""Seconds that a call in this process may wait for a change: a thread waits, which cannot be cancelled."""


MOST_CALLS = 8
"""Calls that run at a time if something is read provider by provider."""


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


async def in_parallel(
    function: Callable[[T], Awaitable[R]], items: Iterable[T], most: int = MOST_CALLS
) -> AsyncIterator[R]:
    """What *function* returns for each of *items*, in their order; up to *most* calls run at a time."""
    running: deque[asyncio.Future[R]] = deque()
    try:
        for item in items:
            running.append(asyncio.ensure_future(function(item)))
            if len(running) == most:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for call in running:
            call.cancel()


class Closing(Protocol):
    """What ends with ``close``."""

    async def close(self) -> None:
        """End it."""


class Opening(Generic[C]):
    """What opens when it is awaited, or in ``async with``, which also closes it."""

    def __init__(self, opening: Coroutine[Any, Any, C]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, Any, C]:
        return self._opening.__await__()

    async def __aenter__(self) -> C:
        self._opened = await self._opening
        return self._opened

    async def __aexit__(self, *_: object) -> None:
        await self._opened.close()


def opens(function: Callable[P, Coroutine[Any, Any, C]]) -> Callable[P, Opening[C]]:
    """*function*, with a result that ``async with`` accepts without ``await``, as ``with`` accepts that of the twin."""

    @wraps(function)
    def opening(*args: P.args, **kwargs: P.kwargs) -> Opening[C]:
        return Opening(function(*args, **kwargs))

    return opening
