"""One suite for both transports and both styles: the tests of a session are written once, synchronously."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from inspect import iscoroutine
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import stead
import stead.aio
from stead import testing
from stead.client.aio.transport import InProcess
from stead.testing.serving import PlacementSite

if TYPE_CHECKING:
    from collections.abc import Iterator


class Loop:
    """An event loop in a thread, in which tests run one coroutine after another."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(50)

    def close(self) -> None:
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class Synchronous:
    """An asynchronous site, hold or claim, called as its twin is."""

    def __init__(self, subject: Any, loop: Loop) -> None:
        self.__dict__.update(subject=subject, _loop=loop)

    def __repr__(self) -> str:
        return repr(self.subject)

    def __enter__(self) -> Any:
        return self._wrapped(self._loop.run(self.subject.__aenter__()))

    def __exit__(self, *error: object) -> None:
        self._loop.run(self.subject.__aexit__(*error))

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.subject, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **kwargs: self._awaited(attribute(*map(_unwrapped, args), **kwargs))

    def _awaited(self, returned: Any) -> Any:
        if hasattr(returned, "__anext__"):
            return self._iterate(returned)
        return self._wrapped(self._loop.run(returned) if iscoroutine(returned) else returned)

    def _iterate(self, iterator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._wrapped(self._loop.run(anext(iterator)))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run(iterator.aclose())

    def _wrapped(self, returned: Any) -> Any:
        if isinstance(returned, list):
            return [self._wrapped(each) for each in returned]
        is_wrapped = isinstance(returned, stead.aio.Claim) or hasattr(returned, "__aenter__")
        return Synchronous(returned, self._loop) if is_wrapped else returned


def _unwrapped(argument: Any) -> Any:
    return argument.subject if isinstance(argument, Synchronous) else argument


@pytest.fixture(params=["http", "in process", "http async", "in process async"])
def site(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An empty site of the project ``lab``, over each transport, in each style. It has ``faults``."""
    transport, style, _ = request.param.partition(" async")
    is_async = bool(style)
    with ExitStack() as undoing:
        if transport == "http":
            url = undoing.enter_context(testing.placement())
            faults = url.faults
            made: Any = (stead.aio if is_async else stead).connect(url, "admin", project="lab", timeout=20)
        else:
            blocking = undoing.enter_context(testing.site(project="lab"))
            faults, made = blocking.faults, blocking
            if is_async:
                made = stead.aio.Site(InProcess(faults, "in memory", lambda: None), "admin", project="lab", timeout=20)
        if is_async:
            loop = Loop()
            undoing.callback(loop.close)
            made = Synchronous(made, loop)
            made.__dict__["faults"] = faults
        elif not isinstance(made, PlacementSite):
            made.faults = faults
        undoing.callback(made.close)
        yield made
