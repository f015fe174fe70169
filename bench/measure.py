"""Two servers, asked for the same bytes in turns, so that what disturbs the machine disturbs both."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.servers import Server

FEWEST, MOST = 15, 500
"""Rounds per case, whatever the time."""


@dataclass
class Side:
    """One server and what it is asked; the seconds of each round; the processor seconds of all rounds together."""

    server: Server
    target: str
    headers: Mapping[str, str]
    seconds: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def median_ms(self) -> float:
        return median(self.seconds) * 1e3

    @property
    def cpu_ms(self) -> float:
        return self.cpu / len(self.seconds) * 1e3

    def ask(self, expected: bytes) -> None:
        reply = self.server.get(self.target, self.headers)
        if reply.body != expected:
            raise RuntimeError(f"{self.target}: the answer changed")
        self.seconds.append(reply.seconds)


def in_turns(stead: Side, bare: Side, expected: bytes, *, seconds: float) -> None:
    """Ask both again and again for about *seconds*; who is first changes with every round.

    Raises:
        RuntimeError: an answer is not *expected*.
    """
    sides = [stead, bare]
    for side in sides:
        side.cpu -= side.server.cpu_seconds()
    deadline = time.monotonic() + seconds
    for number in range(MOST):
        if number >= FEWEST and time.monotonic() > deadline:
            break
        sides.reverse()
        for side in sides:
            side.ask(expected)
    for side in sides:
        side.cpu += side.server.cpu_seconds()
