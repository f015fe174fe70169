"""Climb to the worst request of each expensive question. ``python -m tests.system.worst [SECONDS] --seed SEED``.

Each question has its share of SECONDS (default 300). A climb begins at a random site and query, changes a little of
both, and continues from what takes the most processor time. It begins again after a number of changes without a worse
request.
"""

from __future__ import annotations

import argparse
import time
from random import Random
from typing import TYPE_CHECKING

from tests.system.worst import measuring
from tests.system.worst.questions import QUESTIONS, case, changed

if TYPE_CHECKING:
    from tests.system.worst.measuring import Times
    from tests.system.worst.questions import Case, SiteShape

WORK = 100_000
"""The budget of a query, a fiftieth of the default, so that small sites reach it."""

UNIT_SECONDS = 0.6e-6
"""Most processor time of a unit in docs/api.md."""

FACTOR = 3
BESIDE_SECONDS = 0.03
"""What a request of a small site may take beside its work: parsing, names, the answer."""

PATIENCE = 25


class Climb:
    """The worst cases of one question that were found."""

    def __init__(self, question: str, rng: Random) -> None:
        self.question = question
        self.slowest: tuple[float, Case, Times] | None = None
        self.longest: tuple[float, Case, Times] | None = None
        self.tried = 0
        self._rng = rng

    def run(self, seconds: float) -> None:
        """Try for *seconds*."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._climb(until)

    def _climb(self, until: float) -> None:
        at, worst, without = case(self._rng, self.question), 0.0, 0
        following = at
        shape: SiteShape | None = None
        while time.monotonic() < until and without < PATIENCE:
            shape = following.shape
            with measuring.site(WORK) as site:
                site.fill(shape)
                # Several queries of one site, since it takes longer to make a site.
                while following.shape == shape and without < PATIENCE and time.monotonic() < until:
                    times = site.timed(following)
                    self._note(following, times)
                    if times.seconds > worst:
                        at, worst, without = following, times.seconds, 0
                    else:
                        without += 1
                    following = changed(self._rng, at)

    def _note(self, tried: Case, times: Times) -> None:
        self.tried += 1
        if self.slowest is None or times.seconds > self.slowest[0]:
            self.slowest = times.seconds, tried, times
        if self.longest is None or times.longest > self.longest[0]:
            self.longest = times.longest, tried, times


def again(tried: Case) -> tuple[Times, measuring.Counts]:
    """The least of three times, since other processes run beside this one, and the counts."""
    with measuring.site(WORK) as site:
        site.fill(tried.shape)
        times = min((site.timed(tried) for _ in range(3)), key=lambda each: each.seconds)
        return times, site.counted(tried)


def main() -> None:
    """Climb, and print the worst of each question."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.worst")
    parser.add_argument("seconds", nargs="?", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--question", choices=QUESTIONS, action="append")
    asked = parser.parse_args()
    questions = asked.question or list(QUESTIONS)
    is_bounded = True
    print("question      tried  seconds   bound     units   µs/unit  longest slice  marked")
    for question in questions:
        climb = Climb(question, Random(f"{asked.seed} {question}"))
        climb.run(asked.seconds / len(questions))
        assert climb.slowest is not None
        assert climb.longest is not None
        (times, counts), (longest, _) = again(climb.slowest[1]), again(climb.longest[1])
        bound = QUESTIONS[question] * WORK * UNIT_SECONDS * FACTOR + BESIDE_SECONDS
        units = counts.units
        print(
            f"{question:12} {climb.tried:6} {times.seconds:8.3f} {bound:7.3f} {units:9,} "
            f"{times.seconds / max(units, 1) * 1e6:9.2f} {longest.longest * 1000:11.1f} ms  {times.answer.is_marked}",
            flush=True,
        )
        print(f"    slowest: {climb.slowest[1].shape} {climb.slowest[1].request()}")
        print(f"    longest: {climb.longest[1].shape} {climb.longest[1].request()}")
        is_cut = any(budget.is_cut for budget in counts.budgets)
        if times.seconds > bound or (is_cut and not counts.answer.is_marked and question != "gang"):
            is_bounded = False
            print("    NOT BOUNDED" if times.seconds > bound else "    NOT MARKED")
    raise SystemExit(not is_bounded)


if __name__ == "__main__":
    main()
