"""What asynchronous code needs of its event loop. The synchronous twin of this module is written by hand."""

from __future__ import annotations

import asyncio
from asyncio import Event
from collections import deque
from contextlib import suppress
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


__all__ = ["Event"]  # for other modules

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


class Background:
    """Calls a function again and again in a task, which ends when there is nothing left to do."""

    def __init__(self, step: Callable[[], Awaitable[float | None]], name: str) -> None:
        """Nothing runs yet.

        Args:
            step: returns the seconds until its next call; None if there is nothing left to do.
            name: of the task.
        """
        self._step = step
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Call the function soon, and then when it says."""
        if self._task is None or self._task.done():
            self._woken = Event()
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)
        self._woken.set()

    async def stop(self) -> None:
        """End the task, even while the function runs."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            seconds = await self._step()
            if seconds is None and not self._woken.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), seconds)


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
