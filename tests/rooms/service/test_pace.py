"""When a class runs out at the pace of the last day."""

from __future__ import annotations

from stead.domain.provider import Sums
from stead.service.pace import PACE_SECONDS, SHORTEST, CourseOfUse

DAY = 86_400


def sums(**used: float) -> list[Sums]:
    """Sums of classes that have a capacity of 100 each."""
    return [Sums(name, 1, 100.0, 0.0, 100.0, amount) for name, amount in used.items()]


class Course:
    """A course of use, and its clock."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.use = CourseOfUse(lambda: self.now)

    def after(self, seconds: float, **used: float) -> list[Sums]:
        """Note the use some time later."""
        self.now += seconds
        present = sums(**used)
        self.use.note(present)
        return present


def test_the_class_with_the_least_time_runs_out_first() -> None:
    course = Course()
    course.after(0, A=10, B=50)
    present = course.after(3600, A=50, B=60)  # A: 50 left at 40 an hour; B: 40 left at 10 an hour
    found = course.use.first_to_run_out(present)
    assert found is not None
    assert (found.resource_class, found.seconds, found.course) == ("A", 4500, 3600)


def test_no_class_runs_out_if_none_has_grown() -> None:
    course = Course()
    course.after(0, A=10, B=50)
    assert course.use.first_to_run_out(course.after(3600, A=10, B=40, C=90)) is None
    assert course.use.covers() == 3600


def test_a_class_that_came_later_has_its_own_course() -> None:
    course = Course()
    course.after(0, A=10)
    course.after(3600, A=10, B=50)
    found = course.use.first_to_run_out(course.after(1800, A=10, B=75))
    assert found is not None
    assert (found.resource_class, found.seconds, found.course) == ("B", 1800, 1800)


def test_a_short_course_has_no_pace() -> None:
    course = Course()
    course.after(0, A=10)
    present = course.after(SHORTEST - 1, A=50)
    assert (course.use.covers(), course.use.first_to_run_out(present)) == (0, None)


def test_a_class_that_is_overcommitted_has_run_out() -> None:
    course = Course()
    course.after(0, A=10)
    found = course.use.first_to_run_out(course.after(SHORTEST, A=120))
    assert found is not None
    assert found.seconds == 0


def test_the_course_of_one_day_is_kept() -> None:
    course = Course()
    for _ in range(3 * DAY // PACE_SECONDS):
        course.after(PACE_SECONDS, A=1)
        course.after(1, A=1)  # too soon for another entry
    assert DAY - 2 * PACE_SECONDS < course.use.covers() <= DAY + 2 * PACE_SECONDS
