"""Claims of a worker that lost races draw from more candidates, for a while."""

from __future__ import annotations

import pytest

from stead.service.claims import HALF_LIFE, MOST, CandidateDraw


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def drawing(watch: Watch) -> CandidateDraw:
    return CandidateDraw(watch)


def lose(drawing: CandidateDraw, races: int) -> int:
    """A claim that loses *races* one after another; returns the number of candidates of its last try."""
    among_best = drawing.first()
    for _ in range(races):
        among_best = drawing.after_loss(among_best)
    return among_best


def test_without_a_lost_race_claims_take_the_best(drawing: CandidateDraw) -> None:
    assert drawing.first() == 1


def test_each_lost_race_doubles_the_number_up_to_a_limit(drawing: CandidateDraw) -> None:
    assert [lose(CandidateDraw(), races) for races in range(4)] == [1, 2, 4, 8]
    assert lose(drawing, 50) == MOST


def test_the_next_claim_begins_where_the_last_one_lost(drawing: CandidateDraw) -> None:
    assert (lose(drawing, 3), drawing.first()) == (8, 8)


def test_the_number_halves_with_time_until_claims_take_the_best_again(drawing: CandidateDraw, watch: Watch) -> None:
    lose(drawing, 3)
    seen = []
    for _ in range(5):
        watch.seconds += HALF_LIFE
        seen.append(drawing.first())
    assert seen == [4, 2, 1, 1, 1]


def test_a_claim_that_lost_fewer_races_does_not_narrow_the_number(drawing: CandidateDraw) -> None:
    lose(drawing, 5)
    assert (drawing.after_loss(1), drawing.first()) == (2, 32)
