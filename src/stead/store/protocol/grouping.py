"""Group commit: writes of one process that wait for each other share one transaction, and so one COMMIT.

For a database with a single writer, in which each commit waits for the disk. A write that arrives while no other runs
becomes the leader. The leader runs its own write, then the writes that arrived meanwhile, in order, each in a
savepoint. Then it commits, and only after that the members get their outcomes. The first write that arrived too late
leads the next group. This queue is fair, while the database's own lock is not.

A write without concurrency has no extra cost: the first of a group needs no savepoint, since no earlier write could be
lost by rolling back the whole transaction.

Source: "The write and refresh protocol", docs/protocol.md (rule 2).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sqlalchemy as sa

from stead.domain.errors import Unavailable
from stead.store.sql import driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Connection

R = TypeVar("R")

MOST_MEMBERS = 64

LONGEST_SECONDS = 0.05
"""A group accepts no more members after its further members took this long: all wait for the last of them."""


@dataclass(eq=False, slots=True)
class _Member(Generic[R]):
    """A write that waits for its outcome, or for the lead."""

    work: Callable[[Connection], R]
    context: Context = field(default_factory=copy_context)  # of the thread that submitted it; another may run it
    called: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    result: R = field(init=False)
    error: Exception | None = None

    def run(self, connection: Connection) -> None:
        self.result = self.context.run(self.work, connection)

    def run_apart(self, connection: Connection) -> None:
        """Run in a savepoint, so that an error does not affect the earlier writes of the transaction.

        Raises:
            Exception: that of the write, if the database rolled back the whole transaction because of it.
        """
        driver.count(connection, "SAVEPOINT member", ())
        try:
            self.run(connection)
        except Exception as error:
            self.error = error
            try:
                driver.count(connection, "ROLLBACK TO member", ())
            except sa.exc.DBAPIError:  # the savepoint no longer exists
                raise error from None
        # A rollback to a savepoint keeps it.
        driver.count(connection, "RELEASE member", ())

    def outcome(self) -> R:
        """Return the result of the write or raise its error. Call it only once."""
        try:
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            self.error = None  # its traceback refers to this member


class Grouping:
    """The queue of the writers of one process."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]], *, patience: float) -> None:
        """Connect to nothing yet.

        Args:
            begin: begins a transaction that excludes all other writers; commits it, or rolls it back after an error.
            patience: maximum wait for the write's turn, in seconds.
        """
        self._begin = begin
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: deque[_Member[Any]] = deque()
        self._is_led = False  # False: the queue is empty

    def run(self, work: Callable[[Connection], R]) -> R:
        """The result of *work*, once its writes are committed. Another thread may run it.

        If *work* raises an error, its writes are undone, and the other writes of the transaction stay. The error is
        raised only after the COMMIT, since it may depend on the other writes: a claim must not be refused because of
        another claim that is never committed. All members of a transaction receive an error of the transaction itself.

        Raises:
            Unavailable: its turn did not come in time.
        """
        member = _Member(work)
        with self._lock:
            self._waiting.append(member)
            leads = not self._is_led
            self._is_led = True
        if leads or self._is_called_to_lead(member):
            self._lead()
        return member.outcome()

    def _is_called_to_lead(self, member: _Member[Any]) -> bool:
        """Wait until *member* has its outcome, or must lead."""
        try:
            if not member.called.wait(self._patience):
                if self._withdraw(member):
                    raise Unavailable("The database was too busy to take the write in time.")
                member.called.wait()  # another thread is running it
        except BaseException:  # such as an interrupt: the others must not wait for a leader that never runs
            self._withdraw(member)
            raise
        return member.leads

    def _withdraw(self, member: _Member[Any]) -> bool:
        """Remove *member* from the queue; returns whether it was still in it."""
        with self._lock:
            if member not in self._waiting:
                return False
            self._waiting.remove(member)
            # Another thread may have called it to lead just after its time was over: then the next write must lead.
            if member.leads:
                self._call_next()
            return True

    def _lead(self) -> None:
        """Run the waiting writes, the caller's first; commit; deliver the outcomes."""
        group: list[_Member[Any]] = []
        try:
            with self._begin() as connection:
                if first := self._join(group):
                    first.run(connection)
                until = time.monotonic() + LONGEST_SECONDS
                # Bounded, since all members wait for the COMMIT, and other processes for the end of the transaction.
                while len(group) < MOST_MEMBERS and time.monotonic() < until and (member := self._join(group)):
                    member.run_apart(connection)
        except BaseException as error:
            if not group:  # the transaction did not begin: the waiting writes fail for the same reason
                while self._join(group):
                    pass
            # Also for members that were refused: the refusal may depend on a write that is undone now.
            for member in group:
                member.error = error if isinstance(error, Exception) else Unavailable("The write was interrupted.")
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                self._call_next()
            for member in group:
                member.called.set()

    def _join(self, group: list[_Member[Any]]) -> _Member[Any] | None:
        """Move the first member of the queue to *group* and return it; None if the queue is empty."""
        with self._lock:
            if not self._waiting:
                return None
            group.append(self._waiting.popleft())
            return group[-1]

    def _call_next(self) -> None:
        """Make the first member of the queue the leader, if there is one."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].called.set()
