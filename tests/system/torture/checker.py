"""Decides whether a history is explained by some order of its requests, each as a whole, that respects real time.

The search is that of Wing and Gong with memory, in the just-in-time form: the history is walked along its invocations
and responses with the set of all *situations* the service may be in: the books, and which of the pending requests have
taken effect. When a response comes, every situation is continued by pending writes, in every order, until that request
has had its answer; situations in which it can not have it are dropped. If none is left, no order explains the history
up to this response. What changes nothing (a read, a refusal) takes place in the first books in which its answer is
right, which is never worse than later, so only writes branch.

This is sound and complete for `model`: it neither accepts a history that is not strictly serializable nor refuses one
that is. A refusal (409) needs books in its interval that justify it, like any other answer. Requests of unknown outcome
stay pending for ever: they may take effect at any time after they began, or never.

The general problem is NP-hard. Here it stays small as generations and marks in the answers leave few situations: mostly
one or two, and 2^n at worst for n writes pending. What it can not decide: more than `MOST_SITUATIONS` at one
response, as after many unknown outcomes that nobody looked at, raises `Undecided`, which is no verdict. It knows
nothing of what no client did ask for, nor of liveness: a service that answers 503 to everything is explained.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tests.system.torture.history import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from tests.system.torture.history import Operation
    from tests.system.torture.model import Books, Request

MOST_SITUATIONS = 100_000
LINES_TOLD = 30


class Situation(NamedTuple):
    """Books the service may have at one moment, and the pending operations that took effect, by number."""

    books: Books
    effective: frozenset[int]


class Undecided(Exception):
    """There were too many situations to look at them all."""


class Unexplained(Exception):
    """No order of the requests gives this answer."""

    def __init__(
        self, operation: Operation, situations: Iterable[Situation], pending: Iterable[Operation], past: list[Operation]
    ) -> None:
        self.operation = operation
        books = list(dict.fromkeys(situation.books for situation in situations))
        super().__init__(
            "\n".join(
                [
                    f"no order of the requests explains:\n  {operation}",
                    "the books before it may have been:",
                    *(f"  {some}" for some in books[:LINES_TOLD]),
                    "pending:",
                    *(f"  {other}" for other in pending if other is not operation),
                    "answered before it:",
                    *(f"  {other}" for other in past[-LINES_TOLD:]),
                ]
            )
        )


def check(operations: Iterable[Operation], initial: Books) -> int:
    """Explain a history that begins with *initial* books; returns the most situations there were at one response.

    Raises:
        Unexplained, Undecided
    """
    return _Walk(initial).along([op for op in operations if op.answer != UNKNOWN or _may_write(op.request)])


def _may_write(request: Request) -> bool:
    return not type(request).__name__.startswith("Read")


@lru_cache(maxsize=200_000)
def _step(request: Request, books: Books) -> tuple[Hashable, Books]:
    return request.answer(books)


class _Walk:
    def __init__(self, initial: Books) -> None:
        self._situations = {Situation(initial, frozenset())}
        self._pending: dict[int, Operation] = {}
        self._past: list[Operation] = []

    def along(self, operations: list[Operation]) -> int:
        # Of a response and an invocation at one moment the invocation is first: so they may be in either order.
        begins = [(op.began, 0, op.number, op) for op in operations]
        ends = [(op.ended, 1, op.number, op) for op in operations if op.answer != UNKNOWN]
        most = 1
        for _, is_end, _, operation in sorted(begins + ends):
            if is_end:
                self._end(operation)
                most = max(most, len(self._situations))
            else:
                self._pending[operation.number] = operation
                self._situations = {self._settled(*situation) for situation in self._situations}
        return most

    def _end(self, operation: Operation) -> None:
        before = self._situations
        self._situations = self._explaining(operation)
        if not self._situations:
            raise Unexplained(operation, before, self._pending.values(), self._past)
        del self._pending[operation.number]
        self._past.append(operation)

    def _explaining(self, operation: Operation) -> set[Situation]:
        """The situations, continued no further than needed, in which *operation* has had its answer."""
        explaining = set()
        seen, ahead = set(self._situations), list(self._situations)
        while ahead:
            situation = ahead.pop()
            if operation.number in situation.effective:
                explaining.add(situation._replace(effective=situation.effective - {operation.number}))
                continue
            new = self._continued(situation) - seen
            seen |= new
            ahead += new
            if len(seen) > MOST_SITUATIONS:
                raise Undecided(f"more than {MOST_SITUATIONS} situations at {operation}")
        return explaining

    def _continued(self, situation: Situation) -> set[Situation]:
        """After one more pending write."""
        found = set()
        for number, operation in self._pending.items():
            if number not in situation.effective:
                answer, books = _step(operation.request, situation.books)
                if operation.answer in (UNKNOWN, answer) and books != situation.books:
                    found.add(self._settled(books, situation.effective | {number}))
        return found

    def _settled(self, books: Books, effective: frozenset[int]) -> Situation:
        """With all that changes nothing and has its answer right in these books."""
        return Situation(
            books,
            effective.union(
                number
                for number, operation in self._pending.items()
                if number not in effective and _step(operation.request, books) == (operation.answer, books)
            ),
        )
