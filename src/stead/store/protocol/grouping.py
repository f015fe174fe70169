"""Writes of one process that wait for each other share one transaction, and so one COMMIT.

For a database with one writer at a time, to whom a commit costs what the disk takes to be sure of it. Whoever comes
while nobody writes leads: he runs his own write, then those that came meanwhile, in the order in which they came, each
in a savepoint of its own; then he commits, and only then anybody is told anything. The first of those who came too late
leads next. So they wait in a fair queue, where the database itself would let them try their luck.

A write that is alone pays nothing for it: the first of a group has no savepoint, since nothing is before it that a
rollback of the whole could take along.

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

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from sqlalchemy.engine import Connection

R = TypeVar("R")

MOST_MEMBERS = 64

LONGEST_SECONDS = 0.05
"""Nobody joins a group any more when those after the first have taken so long: all wait for the last of them."""


@dataclass(eq=False, slots=True)
class _Member(Generic[R]):
    """A write that waits: to be told its outcome, or to lead."""

    work: Callable[[Connection], R]
    context: Context = field(default_factory=copy_context)  # of the thread it comes from, whichever runs it
    called: threading.Event = field(default_factory=threading.Event)
    leads: bool = False
    result: R = field(init=False)
    error: Exception | None = None

    def run(self, connection: Connection) -> None:
        self.result = self.context.run(self.work, connection)

    def run_apart(self, connection: Connection) -> None:
        """The same, without harm to what the transaction holds already.

        Raises:
            Exception: that of the write, if because of it the database rolled everything back.
        """
        savepoint = connection.begin_nested()
        try:
            self.run(connection)
        except Exception as error:
            self.error = error
            try:
                savepoint.rollback()
            except sa.exc.DBAPIError:  # there is no such savepoint any more
                raise error from None
        else:
            savepoint.commit()

    def outcome(self) -> R:
        """What the write returned, or what it raised; to be asked once."""
        try:
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            self.error = None  # its traceback refers to this member


class Grouping:
    """The queue of one process's writers."""

    def __init__(self, begin: Callable[[], AbstractContextManager[Connection]], *, patience: float) -> None:
        """Nothing is connected yet.

        Args:
            begin: begins a transaction that excludes all other writers; commits it, or rolls it back for an error.
            patience: seconds to wait for one's turn.
        """
        self._begin = begin
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: deque[_Member[Any]] = deque()
        self._is_led = False  # if it is not, nobody waits

    def run(self, work: Callable[[Connection], R]) -> R:
        """What *work* returns, called perhaps by another thread, once all that it wrote is committed.

        A *work* that raises an error leaves nothing behind, and what others wrote in the same transaction stands. Its
        error is raised after the COMMIT too, for it may rest on what they wrote: a claim is not refused for want of
        what another takes that comes to nothing. An error of the transaction itself is raised to all of its members.

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
        """Wait until *member* has its outcome, or is to lead."""
        try:
            if not member.called.wait(self._patience):
                if self._withdraw(member):
                    raise Unavailable("The database was too busy to take the write in time.")
                member.called.wait()  # it is being run
        except BaseException:  # an interrupt, perhaps: the others must not wait for a leader who does not come
            self._withdraw(member)
            raise
        return member.leads

    def _withdraw(self, member: _Member[Any]) -> bool:
        """Take *member* out of the queue; whether it was still in it."""
        with self._lock:
            if member not in self._waiting:
                return False
            self._waiting.remove(member)
            if member.leads:
                self._call_next()
            return True

    def _lead(self) -> None:
        """Run those who wait, the caller first; commit; tell them."""
        group: list[_Member[Any]] = []
        try:
            with self._begin() as connection:
                if first := self._join(group):
                    first.run(connection)
                until = time.monotonic() + LONGEST_SECONDS
                while len(group) < MOST_MEMBERS and time.monotonic() < until and (member := self._join(group)):
                    member.run_apart(connection)
        except BaseException as error:
            if not group:  # it did not even begin; those who came meanwhile have waited for the same
                while self._join(group):
                    pass
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
        """The first in the queue, who is of *group* now; None if nobody waits."""
        with self._lock:
            if not self._waiting:
                return None
            group.append(self._waiting.popleft())
            return group[-1]

    def _call_next(self) -> None:
        """Let the first in the queue lead, if there is one."""
        self._is_led = bool(self._waiting)
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].called.set()
