"""Streams of events: answers that last for minutes, whose parts must be sent at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.api.gates import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def is_attachable(parts: Iterable[bytes]) -> bool:
    """Whether the server sends this body later, so that layers must not wrap it."""
    return hasattr(parts, "attach")


def is_stream(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether *headers* describe a stream of events."""
    return any(name.lower() == "content-type" and value.startswith(EVENTS) for name, value in headers)


class Closing:
    """The parts of a body, and a function that is called once the body is closed."""

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
        self.close()  # some servers do not close a body that they stop reading
