"""The twin of ``stead.client.aio.running``, written by hand."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

LONGEST_WAIT = 30
"""Seconds that a call in this process may wait for a change."""


__all__ = ["Event"]  # for other modules

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


class Background:
    """Calls a function again and again in a thread, which ends when there is nothing left to do."""

    def __init__(self, step: Callable[[], float | None], name: str) -> None:
        """Nothing runs yet.

        Args:
            step: returns the seconds until its next call; None if there is nothing left to do.
            name: of the thread.
        """
        self._step = step
        self._name = name
        self._thread: Thread | None = None
        self._changed = Condition()
        self._is_woken = False

    def wake(self) -> None:
        """Call the function soon, and then when it says."""
        with self._changed:
            self._is_woken = True
            # A thread of the process that this one was forked from is not alive here.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Wait until the function has nothing left to do."""
        with self._changed:
            thread, self._is_woken = self._thread, True
            self._changed.notify()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_woken = False
            seconds = self._step()
            with self._changed:
                if seconds is None and not self._is_woken:
                    self._thread = None
                    return
                if not self._is_woken:
                    self._changed.wait(seconds)


def opens(function: Callable[P, R]) -> Callable[P, R]:
    """*function*."""
    return function
