"""The twin of ``stead.client.aio.running``, written by hand."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

LONGEST_WAIT = 30
"""Seconds that a call in this process may wait for a change."""


MOST_CALLS = 8
"""Calls that run at a time if something is read provider by provider."""


def sleep(seconds: float) -> None:
    """Pause."""
    time.sleep(seconds)


def in_thread(function: Callable[..., R], *arguments: object) -> R:
    """What *function* returns."""
    return function(*arguments)


def called(function: Callable[[], Any]) -> Any:
    """What *function* returns."""
    return function()


def in_parallel(function: Callable[[T], R], items: Iterable[T], most: int = MOST_CALLS) -> Iterator[R]:
    """What *function* returns for each of *items*, in their order; up to *most* calls run at a time, in threads."""
    from concurrent.futures import Future, ThreadPoolExecutor

    running: deque[Future[R]] = deque()
    with ThreadPoolExecutor(most) as threads:
        try:
            for item in items:
                running.append(threads.submit(function, item))
                if len(running) == 2 * most:  # so that no thread waits for the first of them
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for call in running:
                call.cancel()


def opens(function: Callable[P, R]) -> Callable[P, R]:
    """*function*."""
    return function
