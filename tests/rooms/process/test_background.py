"""A step in the background that fails is tried again, ever more seldom, and quietly."""

from __future__ import annotations

import pytest

from stead.domain.errors import Unavailable
from stead.process.background import LONGEST_PAUSE_SECONDS, Background


class Pauses:
    """Stands for the event of a thread: nobody waits, and it ends after so many pauses."""

    def __init__(self, number: int) -> None:
        self.seen: list[float] = []
        self._number = number

    def wait(self, seconds: float) -> bool:
        self.seen.append(seconds)
        return len(self.seen) == self._number


@pytest.mark.parametrize("error", [Unavailable("away"), ZeroDivisionError()])
def test_a_step_that_fails_is_tried_again_ever_more_seldom(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def step() -> float:
        steps.append(1)
        if len(steps) < 9:
            raise error
        return 1.0

    steps: list[int] = []
    background = Background("a step", step, 1.0)
    background._stopped = pauses = Pauses(11)  # type: ignore[assignment]  # an event, as far as it is asked
    background._run()
    assert pauses.seen == [1, 2, 4, 8, 16, *[LONGEST_PAUSE_SECONDS] * 4, 1, 1]
    assert len(caplog.records) == (0 if isinstance(error, Unavailable) else 8)


def test_a_pause_longer_than_that_stays_as_it_is() -> None:
    def step() -> float:
        raise Unavailable("away")

    background = Background("a step", step, 600.0)
    background._stopped = pauses = Pauses(3)  # type: ignore[assignment]  # an event, as far as it is asked
    background._run()
    assert pauses.seen == [600, 600, 600]
