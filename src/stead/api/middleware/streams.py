"""Streams of events: answers that go on for minutes, and must be passed on as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.gates import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def is_attachable(parts: Iterable[bytes]) -> bool:
    """Whether this body is sent by the server later, and must reach it as it is."""
    return hasattr(parts, "attach")


def is_stream(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether these headers are those of a stream."""
    return any(name.lower() == "content-type" and value.startswith(EVENTS) for name, value in headers)


class Closing:
    """The parts of a body, and what is to be done when no more of it is wanted."""

    def __init__(self, parts: Iterable[bytes], done: Callable[[], object]) -> None:
        self._parts = parts
        self._iterator = iter(parts)
        self._done: Callable[[], object] | None = done

    def __iter__(self) -> Iterator[bytes]:
        return self._iterator

    def close(self) -> None:
        """Close the body too; may be called twice."""
        done, self._done = self._done, None
        if done is not None:
            getattr(self._parts, "close", lambda: None)()
            done()

    def __del__(self) -> None:
        self.close()  # not every server closes what it stopped reading
