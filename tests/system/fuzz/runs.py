"""Runs of many requests against one site, and what was seen in them."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from tests.system.api.client import Answer
from tests.system.fuzz.judging import SAFE, faults
from tests.system.fuzz.requests import Request, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from tests.system.fuzz.site import Site

REQUESTS_PER_SITE = 2000
"""What they leave behind makes a site bigger and the next ones slower; then there is a new one."""

SECONDS_PER_REQUEST = 120.0
"""Who takes longer hangs."""

SLOWEST = 5


class Fault(Exception):
    """A request that was answered as none may be, or changed what it should not."""


class Hangs(BaseException):
    """A request that has no end: no `except Exception` shall take it for a failure of its own."""


@dataclass
class Tally:
    """What was answered, by route and status; which requests took longest, and what went wrong."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    step: Callable[[], object] = lambda: None

    def add(self, asked: Request, status: int, seconds: float) -> None:
        self.answers[asked.route, status] += 1
        self.slowest.append((seconds, told(asked, 300)))
        self.slowest.sort(key=lambda one: -one[0])
        del self.slowest[SLOWEST:]
        self.step()


def told(asked: Request, most: int = 1500) -> str:
    """*asked*, so that it can be sent again; where it repeats itself, or is huge, it is shortened."""
    text = re.sub(r"(.{1,8}?)\1{30,}", lambda run: f"{run[1]}…×{len(run[0]) // len(run[1])}", repr(asked))
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]} ({len(text)} characters)"


def fuzz(site: Site, seed: int, number: int, tally: Tally, *, where: str = "") -> None:
    """Send so many requests; the same ones for the same seed. What is wrong is noted, and the run goes on."""
    rng = Random(seed)
    before = site.digest()
    for index in range(number):
        asked = request(rng, site.generation)
        wrong, answer = wrong_with(site, asked, tally)
        after = site.digest()
        if after != before and (answer is None or answer.status >= 400 or asked.route.startswith(SAFE)):
            wrong.append(f"{'no answer' if answer is None else answer.status}, and yet the database changed")
        tally.faults += [f"{words}\n  request {index} of SEED={seed} {where}: {told(asked)}" for words in wrong]
        before = after
    tally.faults += [f"the books: {fault}\n  after SEED={seed} {where}" for fault in site.faults()]


def wrong_with(site: Site, asked: Request, tally: Tally) -> tuple[list[str], Answer | None]:
    """Send a request; says what is wrong with what came of it."""
    began = time.perf_counter()
    try:
        with limited(SECONDS_PER_REQUEST):
            answer = Answer(*site.door(asked.method, asked.target, asked.headers, asked.body))
    except Exception as error:
        return [f"the application raised {error!r}"], None
    except Hangs:
        return [f"no answer in {SECONDS_PER_REQUEST:.0f} seconds"], None
    tally.add(asked, answer.status, time.perf_counter() - began)
    return [f"{fault}: {answer.status} {answer.body[:500]!r}" for fault in faults(asked, answer)], answer


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises Hangs in the block if it takes longer."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
