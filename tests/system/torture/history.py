"""A history: who asked for what, when, and what they were told."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.system.torture.model import UNKNOWN, Seek

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from tests.system.torture.model import Request


__all__ = ["UNKNOWN", "History", "NotSent", "Operation"]


class NotSent(Exception):
    """There was nobody to send the request to, or nobody who carried it out, so it did not happen."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One request. ``began`` is before it was sent, ``ended`` after its answer had come: seconds of one clock."""

    number: int
    client: int
    request: Request
    began: float
    ended: float
    answer: Hashable

    def __str__(self) -> str:
        return f"{self.began:.6f} {self.ended:.6f} client {self.client} #{self.number} {self.request} -> {self.answer}"


class History:
    """Operations as they are recorded, by several threads."""

    def __init__(self, providers: Sequence[str] = ()) -> None:
        """*providers* are those among which the service may choose."""
        self._providers = providers
        self.operations: list[Operation] = []
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()

    def record(self, client: int, request: Request, ask: Callable[[Request], Hashable]) -> Hashable:
        """Ask, note it, and return the answer.

        Raises:
            NotSent: nothing was noted.
        """
        began = time.monotonic()
        answer = ask(request)
        ended = time.monotonic()
        rows = request.as_happened(answer, self._providers) if isinstance(request, Seek) else [(request, answer)]
        with self._writing:
            for meant, told in rows:
                self.operations.append(Operation(next(self._numbers), client, meant, began, ended, told))
        return answer
