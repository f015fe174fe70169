"""Attempts to sign in: how many at once, and the delay after failures."""

from collections import Counter
from contextlib import ExitStack

import pytest

from stead.auth.attempts import (
    FREE_OF_ADDRESS,
    FREE_OF_NAME,
    LONGEST_DELAY_SECONDS,
    MOST_REMEMBERED,
    MOST_UNDERWAY,
    REMEMBERED_SECONDS,
    Attempts,
    TooManyAttempts,
)

pytestmark = pytest.mark.one_database


class Site:
    """Attempts at a time of the test, and their outcomes."""

    def __init__(self):
        self.now = 1000.0
        self.outcomes = Counter()
        self.attempts = Attempts(lambda outcome: self.outcomes.update([outcome]), lambda: self.now)

    def fail(self, address="192.0.2.1", name="alice"):
        with self.attempts.attempt(address, name) as attempt:
            attempt.refuse()

    def delay(self, address="192.0.2.1", name="alice"):
        """Seconds that the next attempt must wait; the attempt itself changes nothing."""
        try:
            with self.attempts.attempt(address, name):
                return 0
        except TooManyAttempts as error:
            return error.seconds


@pytest.fixture
def site():
    return Site()


def test_each_failure_for_a_name_beyond_the_first_ones_doubles_the_delay(site):
    for _ in range(FREE_OF_NAME):
        assert site.delay() == 0
        site.fail()
    for delay in (1, 2, 4, 8, 16, 32, LONGEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS):
        assert site.delay() == delay
        site.now += delay
        assert site.delay() == 0
        site.fail()
    assert site.outcomes["refused"] == FREE_OF_NAME + 8
    assert site.outcomes["delayed"] == 8


def test_failures_delay_neither_other_names_nor_other_addresses(site):
    for _ in range(FREE_OF_NAME):
        site.fail()
    assert site.delay()
    assert not site.delay(name="bob")
    assert not site.delay(address="192.0.2.2")


def test_an_address_that_fails_with_many_names_is_delayed_for_all(site):
    for number in range(FREE_OF_ADDRESS):
        site.fail(name=f"user {number}")
    assert site.delay(name="another")
    assert site.delay(name=None)
    assert not site.delay(address="192.0.2.2")


def test_a_success_forgets_the_failures_for_its_name_only(site):
    for _ in range(FREE_OF_NAME - 1):
        site.fail()
        site.fail(name="bob")
    with site.attempts.attempt("192.0.2.1", "alice") as attempt:
        attempt.accept()
    site.fail()
    site.fail(name="bob")
    assert not site.delay()
    assert site.delay(name="bob")


def test_failures_are_forgotten_after_a_while(site):
    for _ in range(FREE_OF_NAME):
        site.fail()
    site.now += REMEMBERED_SECONDS + 1
    site.fail()
    assert not site.delay()


def test_what_keystone_did_not_answer_is_no_failure_of_the_client(site):
    for _ in range(FREE_OF_NAME):
        with pytest.raises(ZeroDivisionError), site.attempts.attempt("192.0.2.1", "alice"):
            raise ZeroDivisionError
    assert not site.delay()
    assert site.outcomes["unavailable"] == FREE_OF_NAME + 1


def test_few_attempts_run_at_the_same_time(site):
    with ExitStack() as stack:
        for number in range(MOST_UNDERWAY):
            stack.enter_context(site.attempts.attempt("192.0.2.1", f"user {number}"))
        with pytest.raises(TooManyAttempts, match="at the same time"):
            stack.enter_context(site.attempts.attempt("192.0.2.2", "another"))
    assert not site.delay()


def test_the_memory_of_failures_is_bounded(site):
    for number in range(MOST_REMEMBERED):
        site.fail(address=f"address {number}")
    assert len(site.attempts._failures) == MOST_REMEMBERED


def test_the_log_has_the_address_in_one_line_and_nothing_that_the_user_typed(site, caplog):
    site.fail(address="192.0.2.1\nforged line", name="s3cr3t")
    (message,) = caplog.messages
    assert message == "sign-in refused: 192.0.2.1\\nforged line, failures from this address: 1"
