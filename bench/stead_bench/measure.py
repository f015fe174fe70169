"""Measures several servers alternately, so that disturbances of the machine affect all of them."""

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
"""Number of requests to one server for one row, whatever the time."""

KEPT_SHARE = 0.2
"""Share of a row's seconds for repeated requests, whose answers the server may have cached."""


@dataclass
class Side:
    """One server, its requests, and their cost.

    Attributes:
        target: the n-th request.
        between: called before each request, outside of the measured time.
        afterwards: called at the end, unless the server failed.
        pids: the processes whose processor time counts; empty if unknown.
        check: checks each answer, outside of the measured time.
        seconds: of each request.
        cpu: processor seconds of the server during all of them.
        kept: seconds of each repetition of the previous request, without a claim in between.
        failed: why the server gets no more requests.
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
        """One timed request; a server that fails gets no more requests."""
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
        """A repeated request, whose answer the server may have cached."""
        reply = self.connection.get(self.target(number))
        self.kept.append(reply.seconds)
        return reply

    def wants(self, seconds: float) -> bool:
        """Whether to send more requests: there were few, or time remains."""
        count = len(self.seconds)
        return self.failed is None and (count < FEWEST or (count < MOST and sum(self.seconds) < seconds))


def in_turns(sides: Sequence[Side], floor: Side, *, seconds: float) -> None:
    """Send requests to all sides, each for about *seconds* of its own time; the first side changes every round.

    Requests are numbered from 1: number 0 was sent when the row began.

    Args:
        floor: gets a request in every round, as long as any other side does.
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
    side.connection.get(side.target(number))  # the server may cache the answer from now on
    deadline = time.monotonic() + seconds
    while len(side.kept) < FEWEST or (len(side.kept) < MOST and time.monotonic() < deadline):
        side.ask_again(number)
