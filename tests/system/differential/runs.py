"""Runs of many histories, and what was seen in them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test

from tests.system.differential.comparison import Exchange
from tests.system.differential.machine import Histories
from tests.system.differential.pair import Pair

STEPS_PER_HISTORY = 40


@dataclass
class Tally:
    """What was compared: how often each route was answered with each status, and which known differences showed.

    The first difference that is news is told at once, since making it simple can take minutes.
    """

    tell: Callable[[str], object] = lambda _text: None
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    news: bool = False

    def add(self, exchange: Exchange, names: tuple[str, ...]) -> None:
        self.answers[exchange.request.route, exchange.stead.status] += 1
        self.differences.update(names)
        if exchange.facets and not names and not self.news:
            self.news = True
            self.tell(f"a difference, to be made simpler now: {exchange}")


def run(pair: Pair, histories: int, tally: Tally, *, seed: int | None = None, shrink: bool = True) -> None:
    """Compare both services over so many histories; without a *seed* over the same ones each time.

    Raises:
        machine.Difference: they answered differently; its text shows the last exchange, shrunk.
    """
    machine = type("Histories", (Histories,), {"pair": pair, "seen": staticmethod(tally.add)})
    run_state_machine_as_test(
        machine if seed is None else seeded(seed)(machine),
        settings=settings(
            max_examples=histories,
            stateful_step_count=STEPS_PER_HISTORY,
            derandomize=seed is None,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )
