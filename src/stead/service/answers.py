"""Answers to candidate requests that were asked before, in the same snapshot.

Many clients can ask the same between two changes: a scheduler for each of a thousand equal servers, or several
schedulers. While nothing changes, a request has one answer, so it is computed once.

Source: decision 50.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from stead.candidates.engine import Answer
    from stead.catalog.snapshot import Snapshot

    Asked = tuple[str, Hashable]
    """The text of a request, and the versions at which it was asked. Both determine the request and its form."""

MOST_BYTES = 16 << 20
"""Limit of the bytes of all answers together: 16 answers with 1,000 candidates, or one with 10,000."""

BESIDE = 1024
"""Bytes that an answer needs beside its text, so that short answers are bounded too."""


class Answers:
    """The answers in the snapshot of the last call, up to a limit of bytes; thread-safe.

    An older snapshot can follow a newer one, if its request waited for its slice. Then both compute their answers.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # The cache must not keep the memory of a replaced snapshot.
        self._snapshot: Callable[[], Any] = lambda: None
        self._answer_to: dict[Asked, Answer] = {}  # the oldest first
        self._bytes = 0

    def get(self, snapshot: Snapshot, asked: Asked, make: Callable[[], Answer]) -> Answer:
        """The answer to *asked* in *snapshot*. The caller may change its list of pieces.

        Args:
            make: computes it. Nothing is locked meanwhile, so two threads may compute the same.
        """
        with self._lock:
            if self._snapshot() is not snapshot:
                self._snapshot, self._answer_to, self._bytes = ref(snapshot), {}, 0
            answer = self._answer_to.get(asked)
        if answer is None:
            answer = make()
            self._keep(snapshot, asked, answer)
        return answer._replace(body=answer.body.copy())

    def _keep(self, snapshot: Snapshot, asked: Asked, answer: Answer) -> None:
        size = _bytes(asked, answer)
        with self._lock:
            # Another thread may have asked in a newer snapshot meanwhile, or the same in this one.
            if size > MOST_BYTES or self._snapshot() is not snapshot or asked in self._answer_to:
                return
            self._answer_to[asked] = answer
            self._bytes += size
            while self._bytes > MOST_BYTES:
                oldest = next(iter(self._answer_to))
                self._bytes -= _bytes(oldest, self._answer_to.pop(oldest))


def _bytes(asked: Asked, answer: Answer) -> int:
    return len(asked[0]) + sum(map(len, answer.body)) + BESIDE
