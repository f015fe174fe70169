"""Servers, asked the same in turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead_bench import processes
from stead_bench.errors import BenchError, Overdue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stead_bench.asking import Connection, Reply

FEWEST, MOST = 3, 500
"""Requests to one server for one row, whatever the time."""

KEPT_SHARE = 0.2
"""Of the seconds of a row, those for requests that were answered before."""


@dataclass
class Side:
    """One server, what it is asked, and what that took.

    Attributes:
        target: the n-th request.
        between: done before each request, outside of the time taken.
        afterwards: done in the end, unless the server failed.
        pids: the processes whose time counts; none if it is unknown.
        check: looks at each answer, outside of the time taken.
        seconds: of each request.
        cpu: processor seconds of the server during all of them.
        kept: seconds of each request that repeats the one before, with nothing in between.
        failed: why the server is not asked any more.
    """

    name: str
    connection: Connection
    target: Callable[[int], str]
    between: Callable[[], None] = lambda: None
    afterwards: Callable[[], None] = lambda: None
    pids: Sequence[int] = ()
    check: Callable[[bytes], None] = lambda _: None
    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0
    kept: list[float] = field(default_factory=list)
    failed: str | None = None

    def ask(self, number: int) -> None:
        """One timed request; a server that fails is not asked again."""
        try:
            self.between()
            before = processes.cpu_seconds(self.pids)
            reply = self.connection.get(self.target(number))
            self.cpu += processes.cpu_seconds(self.pids) - before
        except Overdue:
            self.failed = f"> {self.connection.patience:g} s"
            return
        except BenchError as error:
            self.failed = str(error)
            return
        self.seconds.append(reply.seconds)
        self.check(reply.body)

    def ask_again(self, number: int) -> Reply:
        """A request whose answer the server may have kept."""
        reply = self.connection.get(self.target(number))
        self.kept.append(reply.seconds)
        return reply

    def wants(self, seconds: float) -> bool:
        """Whether more requests would tell more: it had few, or has time left."""
        count = len(self.seconds)
        return self.failed is None and (count < FEWEST or (count < MOST and sum(self.seconds) < seconds))


def in_turns(sides: Sequence[Side], floor: Side, *, seconds: float) -> None:
    """Ask every side again and again, each for about *seconds* of its own time; who is first changes every round.

    Requests are numbered from 1: number 0 was asked when the row began.

    Args:
        floor: asked in every round, as long as any other is.
    """
    number = 0
    while asking := [side for side in sides if side.wants(seconds)]:
        number += 1
        asking.append(floor)
        first = number % len(asking)
        for side in asking[first:] + asking[:first]:
            side.ask(number)
    for side in sides:
        if side.failed is None:
            _ask_again(side, number, seconds * KEPT_SHARE)


def _ask_again(side: Side, number: int, seconds: float) -> None:
    side.connection.get(side.target(number))  # now it can have been kept
    deadline = time.monotonic() + seconds
    while len(side.kept) < FEWEST or (len(side.kept) < MOST and time.monotonic() < deadline):
        side.ask_again(number)
