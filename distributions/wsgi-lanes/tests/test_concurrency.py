"""How many reads run at the same time: it follows from what they wait for."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from lanes_testing.queueing import accept, request
from lanes_testing.waiting import stays, wait_until
from wsgi_lanes.admission import LONG_SECONDS, SAMPLE, Admission, Concurrency
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane

THREADS = 8
COMPUTED = 0.0002
"""Processor seconds of each request here."""


class Clocks:
    """The two clocks of a process in which this many requests at once keep the interpreter busy."""

    def __init__(self, needed=1.0):
        self.needed = needed
        self.now = 0.0
        self.computed = 0.0
        self.concurrency = Concurrency(THREADS, lambda: self.now, lambda: self.computed)

    def answer(self, requests=SAMPLE, computed=COMPUTED):
        """Answer requests, as many at once as may run."""
        for _ in range(requests):
            each = request()
            self.concurrency.start(each)
            # Beside others that compute too, a request takes longer; waiting for the database, it leaves them time.
            self.now += computed * max(self.needed, self.concurrency.width)
            self.computed += computed
            self.concurrency.end(each)


def test_requests_that_only_compute_run_one_after_another():
    clocks = Clocks()
    widths = []
    for _ in range(20):
        clocks.answer()
        widths.append(clocks.concurrency.width)
    assert set(widths) == {1}


@given(needed=st.floats(1.0, 2 * THREADS))
def test_as_many_requests_run_as_keep_the_interpreter_busy_within_one(needed):
    clocks = Clocks(needed)
    clocks.answer(SAMPLE * 2 * THREADS)
    widths = set()
    for _ in range(4):
        clocks.answer()
        widths.add(clocks.concurrency.width)
    enough = min(max(needed, 1), THREADS)
    assert all(enough - 1.5 <= width <= enough + 1 for width in widths)


def test_the_number_falls_again_when_requests_wait_no_more():
    clocks = Clocks(THREADS)
    clocks.answer(SAMPLE * 2 * THREADS)
    assert clocks.concurrency.width >= THREADS - 1
    clocks.needed = 1
    clocks.answer(SAMPLE * THREADS)
    assert clocks.concurrency.width == 1


def test_what_a_long_request_waits_for_does_not_count():
    """It gives way to short requests, and its pauses say nothing about them."""
    clocks = Clocks(needed=100)
    clocks.answer(SAMPLE * THREADS, computed=LONG_SECONDS)
    assert clocks.concurrency.width == 1


def test_a_request_that_has_run_for_long_lets_another_one_start():
    clocks = Clocks()
    clocks.concurrency.start(request())
    assert not clocks.concurrency.may_start()
    clocks.now += LONG_SECONDS
    assert clocks.concurrency.may_start()
    clocks.concurrency.start(request())
    assert not clocks.concurrency.may_start()


def test_a_request_that_was_held_starts_when_the_queue_is_woken():
    clocks = Clocks()
    queue = Admission(Bounds(), THREADS, concurrency=clocks.concurrency)
    first, second = request(), request()
    assert queue.put(first) is None
    assert queue.take() is first
    taken = []
    thread = threading.Thread(target=lambda: taken.append(queue.take()))
    thread.start()
    assert queue.put(second) is None
    queue.wake()
    assert stays(lambda: not taken)
    clocks.now += LONG_SECONDS
    queue.wake()
    wait_until(lambda: taken == [second])
    thread.join()


def test_writes_run_beside_any_number_of_requests():
    clocks = Clocks()
    queue = Admission(Bounds(), THREADS, concurrency=clocks.concurrency)
    accept(queue, "a client")
    read, *writes = request(token="a client"), *(request(token="a client", lane=Lane.CLAIM) for _ in range(3))
    assert queue.put(read) is None
    assert queue.take() is read
    for write in writes:
        assert queue.put(write) is None
    assert [queue.take() for _ in writes] == writes


def test_the_end_of_a_request_starts_the_next_one_in_its_thread():
    clocks = Clocks()
    queue = Admission(Bounds(), THREADS, concurrency=clocks.concurrency)
    first, second = request(), request()
    assert queue.put(first) is None
    assert queue.put(second) is None
    assert queue.take() is first
    assert queue.done(first) is second
