"""The queue before the threads: who is next, what is refused, and that nothing is lost in it."""

import itertools
import random
import threading
import time
from collections import Counter
from queue import SimpleQueue

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lanes_testing.queueing import accept, put, request
from lanes_testing.waiting import wait_until
from wsgi_lanes.admission import KNOWN_CREDENTIALS, OVERDUE_SECONDS, PASSES, Admission, Concurrency
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane

PATIENCE_SECONDS = 20
LANES = (Lane.CLAIM, Lane.READ, Lane.BULK)


def admission(threads=1, may_start_bulk=lambda: True, clock=lambda: 0.0, **bounds):
    """A queue that limits no reads, so that only its own rules decide. By default no time passes."""
    concurrency = Concurrency(threads, clock=itertools.count().__next__)
    return Admission(Bounds(**bounds), threads, may_start_bulk, concurrency, clock)


def in_order(queue, is_refused=False):
    """What one thread takes until nothing waits."""
    taken = [queue.take()]
    while (following := queue.done(taken[-1], is_refused=is_refused)) is not None:
        taken.append(following)
    return taken


def test_clients_have_equal_turns_however_much_each_asks():
    queue = admission()
    accept(queue, "greedy", "modest")
    put(queue, *(request(token="greedy") for _ in range(5)), *(request(token="modest") for _ in range(2)))
    assert [each.credential for each in in_order(queue)] == ["greedy", "modest"] * 2 + ["greedy"] * 3


def test_tokens_that_were_not_accepted_share_the_turns_of_their_address():
    queue = admission()
    guesses = [request("192.0.2.1", f"guess {number}") for number in range(5)]
    put(queue, *guesses, request("192.0.2.2"), request("192.0.2.2", "another"))
    addresses = [each.peers.remote_address[-1] for each in in_order(queue)]
    assert addresses == ["1", "2", "1", "2", "1", "1", "1"]


def test_an_accepted_token_has_turns_of_its_own_until_it_is_refused():
    queue = admission()
    accept(queue, "one", "two")
    requests = [request(token="one"), request(token="one"), request(token="two")]
    put(queue, *requests)
    assert in_order(queue, is_refused=True) == [requests[0], requests[2], requests[1]]
    put(queue, *requests)
    assert {each.client for each in in_order(queue)} == {"address 192.0.2.1"}


def test_of_accepted_tokens_those_used_longest_ago_are_forgotten():
    queue = admission()
    tokens = [f"token {number}" for number in range(KNOWN_CREDENTIALS)]
    accept(queue, *tokens)
    accept(queue, tokens[0], "one more")
    put(queue, *(request(token=token) for token in tokens[:3]), request())
    first, second, third, none = sorted(in_order(queue), key=lambda each: each.credential or "~")
    assert second.client == none.client  # it is forgotten, and has the turns of its address
    assert len({first.client, second.client, third.client}) == 3


def test_claims_go_before_reads_and_reads_before_bulk():
    queue = admission()
    put(queue, *(request(lane=lane) for lane in (Lane.BULK, Lane.READ, Lane.CLAIM)))
    assert [each.lane for each in in_order(queue)] == [Lane.CLAIM, Lane.READ, Lane.BULK]


def test_no_lane_waits_for_ever_while_claims_keep_coming():
    queue = admission()
    put(queue, request(lane=Lane.BULK), *(request(lane=Lane.READ) for _ in range(2)), request(lane=Lane.CLAIM))
    running, order = queue.take(), []
    while len(order) < 4 * PASSES:
        put(queue, request(lane=Lane.CLAIM))
        order.append(running.lane)
        running = queue.done(running)
    claims = [Lane.CLAIM] * PASSES
    assert order[: 2 * PASSES + 3] == [*claims, Lane.READ, Lane.BULK, *claims, Lane.READ]
    assert set(order[2 * PASSES + 3 :]) == {Lane.CLAIM}


@pytest.mark.parametrize("how", ["dropped", "expired"])
def test_a_lane_that_was_emptied_has_no_right_from_those_that_waited_in_it(how):
    queue = admission()
    put(queue, read := request(lane=Lane.READ), *(request(lane=Lane.CLAIM) for _ in range(PASSES)))
    read.arrived = -100.0
    running = queue.take()
    for _ in range(PASSES - 1):
        running = queue.done(running)
    assert queue.drop(read) if how == "dropped" else queue.expire(0.0) == [read]
    put(queue, request(lane=Lane.READ), claim := request(lane=Lane.CLAIM))
    assert queue.done(running) is claim


def test_one_client_never_holds_all_threads():
    queue = admission(threads=4)
    accept(queue, "greedy", "modest")
    put(queue, *(request(token="greedy") for _ in range(10)))
    for _ in range(3):
        assert queue.take().credential == "greedy"
    put(queue, request(token="modest"))
    assert queue.take().credential == "modest"


def test_a_client_alone_is_served_by_the_only_thread():
    queue = admission(threads=1)
    put(queue, request(), request(lane=Lane.BULK))
    assert len(in_order(queue)) == 2


@pytest.mark.parametrize(("threads", "share"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_bulk_reads_run_on_a_quarter_of_the_threads_at_most(threads, share):
    queue = admission(threads)
    tokens, others = [f"token {number}" for number in range(threads)], ["a", "b", "c"]
    accept(queue, *tokens, *others)
    put(queue, *(request(token=token, lane=Lane.BULK) for token in tokens))
    bulk = [queue.take() for _ in range(share)]
    put(queue, *(request(token=token) for token in others))
    reads = [queue.take()]
    reads.append(queue.done(reads[0]))
    reads.append(queue.done(bulk[0]))
    assert [each.lane for each in (*bulk, *reads)] == [Lane.BULK] * share + [Lane.READ] * 3
    assert queue.done(reads[1]).lane is Lane.BULK
    assert queue.done(reads[2]) is None


def test_a_large_answer_is_not_started_while_others_are_not_read():
    is_room = threading.Event()
    queue = admission(4, is_room.is_set)
    accept(queue, "a client")
    put(queue, request(token="a client", lane=Lane.BULK), request(token="a client"))
    read = queue.take()
    assert read.lane is Lane.READ
    assert queue.done(read) is None
    taken = SimpleQueue()
    threading.Thread(target=lambda: taken.put(queue.take()), daemon=True).start()
    is_room.set()
    queue.wake()
    assert taken.get(timeout=PATIENCE_SECONDS).lane is Lane.BULK


def test_too_many_waiting_requests_are_refused():
    queue = admission(queue=3, queue_per_client=2)
    put(queue, request("192.0.2.1"), request("192.0.2.1", lane=Lane.CLAIM))
    refused = queue.put(request("192.0.2.1"))
    assert (refused.status, refused.reason, refused.retry_after, refused.closes) == (503, "queue_full", 1, False)
    assert "(queue_per_client)" in refused.detail
    put(queue, request("192.0.2.2"))
    refused = queue.put(request("192.0.2.3"))
    assert (refused.status, refused.reason) == (503, "queue_full")
    assert "(queue)" in refused.detail
    assert queue.length() == 3
    queue.take()
    put(queue, request("192.0.2.3"))  # there is room again


def test_what_waited_for_too_long_expires_and_leaves_room():
    queue = admission(queue_timeout=10.0, queue_per_client=2)
    old, young = request(arrived=1.0, lane=Lane.BULK), request(arrived=5.0)
    put(queue, old, young)
    assert queue.ages(9.0) == {"claim": 0.0, "read": 4.0, "bulk": 8.0, "abandoned": 0.0}
    assert queue.lengths() == {"claim": 0, "read": 1, "bulk": 1, "abandoned": 0}
    assert queue.expire(11.0) == []
    assert queue.expire(11.5) == [old]
    assert queue.ages(11.5)["read"] == 6.5
    put(queue, request(arrived=12.0))
    assert not queue.drop(old)
    assert queue.expire(100.0)[0] is young
    assert (queue.length(), set(queue.ages(100.0).values())) == (0, {0.0})


def test_a_postponed_request_is_passed_by_those_that_come_later():
    queue = admission()
    old, taken = [request() for _ in range(3)], request()
    put(queue, taken)
    assert queue.take() is taken
    queue.postpone(taken)  # a thread has it already
    assert taken.lane is Lane.READ
    put(queue, *old)
    for each in old:
        queue.postpone(each)
    new = [request() for _ in range(3)]
    put(queue, *new)
    assert queue.length() == 6
    assert queue.done(taken) is new[0]
    assert queue.done(new[0]) is new[1]
    assert queue.done(new[1]) is new[2]
    assert queue.drop(old[1])
    assert queue.done(new[2]) is old[0]
    assert queue.done(old[0]) is old[2]
    assert queue.done(old[2]) is None


def test_a_dropped_request_is_not_taken_and_a_taken_one_not_dropped():
    queue = admission(queue_per_client=2)
    gone, stays = request(), request()
    put(queue, gone, stays)
    assert queue.drop(gone)
    assert not queue.drop(gone)
    put(queue, request(lane=Lane.CLAIM))
    assert queue.drop(stays)
    claim = queue.take()
    assert claim.lane is Lane.CLAIM
    assert not queue.drop(claim)
    assert queue.length() == 0


def test_what_never_waited_cannot_be_dropped():
    assert not admission().drop(request(lane=Lane.HEALTH))


@pytest.mark.parametrize("attempt", range(10))  # whether the thread sleeps already, nothing shows
def test_an_end_that_lets_two_requests_run_starts_both(attempt):
    queue, taken = admission(threads=8), SimpleQueue()
    accept(queue, "one", "two")
    put(queue, *(request(token="one", lane=Lane.BULK) for _ in range(2)), *(request(token="one") for _ in range(5)))
    running = [queue.take() for _ in range(7)]
    both = [request(token="one"), request(token="two", lane=Lane.BULK)]  # too many of its client run, and of its lane
    put(queue, *both)
    queue.stop(1)
    assert queue.take() is None
    threading.Thread(target=lambda: taken.put(queue.take()), daemon=True).start()
    bulk = next(each for each in running if each.lane is Lane.BULK)
    assert {queue.done(bulk), taken.get(timeout=PATIENCE_SECONDS)} == set(both)


def test_a_thread_that_has_just_ended_a_request_takes_the_next_one_although_another_one_sleeps():
    queue, taken = admission(threads=2), SimpleQueue()
    accept(queue, "one", "two")
    put(queue, request(token="one"))
    ended = queue.take()
    threading.Thread(target=lambda: [taken.put(queue.take()) for _ in range(2)], daemon=True).start()
    time.sleep(0.05)  # it sleeps
    assert queue.done(ended) is None
    new, further = request(token="one"), request(token="two")
    put(queue, new)
    time.sleep(0.05)
    assert queue.take() is new
    put(queue, further)  # for this one, only the other thread is there
    assert taken.get(timeout=PATIENCE_SECONDS) is further


@pytest.mark.parametrize("lane", [Lane.CLAIM, Lane.READ])
@pytest.mark.parametrize("slow", [2, 3, 20])
def test_a_request_of_another_client_starts_beside_any_number_of_slow_ones(slow, lane):
    now = [0.0]
    queue = admission(threads=8, clock=lambda: now[0])
    accept(queue, *(credentials := [f"slow {number}" for number in range(slow)]), "another")
    for each in LANES:
        put(queue, *(request(token=credential, lane=each) for credential in credentials for _ in range(8)))
    running = 0
    while True:  # until nothing more of them starts, whatever time passes
        queue.stop(1)
        if queue.take() is not None:
            running += 1
            continue
        if now[0] > 100 * OVERDUE_SECONDS:
            break
        now[0] += OVERDUE_SECONDS
    assert running < queue.threads
    put(queue, mine := request(token="another", lane=lane))
    assert queue.take() is mine


def test_the_first_request_of_a_new_client_starts_beside_those_of_a_slow_new_client():
    queue = admission(threads=8)
    put(queue, *(request(token="slow", lane=Lane.BULK) for _ in range(8)))
    slow = queue.take()
    queue.stop(1)
    assert queue.take() is None  # the others wait for what the application says about their credential
    put(queue, first := request(token="new"))
    assert queue.take() is first
    queue.accept(slow)
    assert queue.take().client == slow.client == "credential slow"
    put(queue, second := request(token="slow"), request(token="new"))
    assert queue.take() is second
    queue.accept(first)
    assert queue.take().client == first.client == "credential new"


@pytest.mark.parametrize("is_invented", [True, False])
def test_requests_that_no_application_accepts_take_half_of_the_threads(is_invented):
    queue = admission(threads=8)
    accept(queue, "known")
    put(queue, *(request(token=f"invented {number}" if is_invented else None) for number in range(20)))
    for _ in range(4):
        assert not queue.take().is_verified
    put(queue, mine := request(token="known"))
    assert queue.take() is mine
    queue.stop(1)
    assert queue.take() is None


def test_what_no_application_accepted_does_not_make_a_known_credential_forgotten():
    queue = admission()
    accept(queue, "known")
    for number in range(KNOWN_CREDENTIALS):
        put(queue, request(token=f"invented {number}"))
        assert queue.done(queue.take()) is None
    put(queue, request(token="known"))
    assert queue.take().client == "credential known"


def test_the_thread_that_slept_last_wakes_first():
    queue, taken = admission(threads=4), SimpleQueue()
    for number in range(3):
        threading.Thread(target=lambda name=number: taken.put((name, queue.take())), daemon=True).start()
        time.sleep(0.05)  # it sleeps
    put(queue, request())
    assert taken.get(timeout=PATIENCE_SECONDS)[0] == 2


class Threads:
    """Real threads that take requests, and what they noticed.

    Attributes:
        ran: how often each request ran.
        wrong: requests that started beside too many of their credential or lane, for eight threads.
    """

    def __init__(self, queue, count):
        self.ran, self.wrong = Counter(), []
        self._queue, self._lock = queue, threading.Lock()
        self._clients, self._bulk = Counter(), 0
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(each),), daemon=True) for each in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()

    def _work(self, chance):
        while (each := self._queue.take()) is not None:
            while each is not None:
                self._run(each, chance)
                each = self._queue.done(each, is_refused=chance.random() < 0.5)

    def _run(self, each, chance):
        with self._lock:
            self.ran[each] += 1
            self._clients[each.credential] += each.credential is not None
            self._bulk += each.lane is Lane.BULK
            if self._clients[each.credential] > 7 or self._bulk > 6:
                self.wrong.append(each)
        if chance.random() < 0.1:
            time.sleep(chance.random() / 1000)
        if each.credential is not None and chance.random() < 0.5:
            self._queue.accept(each)
        with self._lock:
            self._clients[each.credential] -= each.credential is not None
            self._bulk -= each.lane is Lane.BULK


def test_threads_end_when_they_are_told_to_after_what_waits():
    queue = admission(threads=3)
    put(queue, *(request(f"192.0.2.{number}") for number in range(10)))
    queue.stop(3)
    threads = Threads(queue, 3)
    threads.join()
    assert sum(threads.ran.values()) == 10


CLIENTS = (
    ("192.0.2.1", "known"),
    ("192.0.2.1", "another"),
    ("192.0.2.1", None),
    ("192.0.2.1", "invented"),
    ("192.0.2.2", "invented"),
    ("192.0.2.2", None),
)
"""Addresses and credentials; two clients are known from the start."""

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, len(CLIENTS) - 1), st.sampled_from(LANES)),
        st.tuples(
            st.sampled_from(["take", "end", "refuse", "accept", "drop", "expire"]), st.integers(0, 20), st.none()
        ),
    ),
    max_size=80,
)


CLAIM, TAKE, ACCEPT = Lane.CLAIM, ("take", 0, None), ("accept", 0, None)


class Model:
    """An admission beside two lists: what waits, and what runs on four threads. Time is counted in actions."""

    threads, share, bulk_share, most_bulk, unverified_share = 4, 3, 1, 3, 2
    overdue = 4.5
    """Actions after which a request is overdue; not a whole number, for which rounding of the clock would decide."""

    def __init__(self):
        self.now = 0.0
        bounds = {"queue": 12, "queue_per_client": 6, "queue_timeout": 20.0}
        self.queue = admission(self.threads, clock=lambda: self.now / self.overdue * OVERDUE_SECONDS, **bounds)
        self.known = {"known", "another"}
        accept(self.queue, *self.known)
        self.waiting, self.running, self.all = [], {}, []

    def apply(self, action, number, lane):
        self.now += 1
        getattr(self, action)(number, lane)
        assert self.queue.length() == len(self.waiting) == sum(self.queue.lengths().values())
        oldest = max((self.now - each.arrived for each in self.waiting), default=0.0)
        assert max(self.queue.ages(self.now).values()) == oldest

    def client(self, each):
        return each.credential if self.is_known(each) else each.peers.remote_address

    def is_known(self, each):
        return each.is_verified

    def put(self, number, lane):
        address, credential = CLIENTS[number]
        new = request(address, credential, lane, arrived=self.now)
        is_known = credential in self.known
        client = credential if is_known else address
        own = [each for each in self.waiting if self.client(each) == client]
        refused = self.queue.put(new)
        assert (refused is not None) == (len(self.waiting) >= 12 or len(own) >= 6)
        self.all.append(new)
        if refused is None:
            assert new.is_verified == is_known
            self.waiting.append(new)

    def take(self, _number, _lane):
        self.queue.stop(1)  # or it would wait for a request
        self._started(self.queue.take())

    def end(self, number, _lane, is_refused=False):
        if self.running:
            ended = list(self.running)[number % len(self.running)]
            del self.running[ended]
            if ended.is_accepted:
                self.known.add(ended.credential)
            elif is_refused:
                self.known.discard(ended.credential)
            self._started(self.queue.done(ended, is_refused=is_refused))

    def refuse(self, number, lane):
        self.end(number, lane, is_refused=True)

    def accept(self, number, _lane):
        """All that wait with the credential, at any address, are requests of the client from now on."""
        if self.running:
            accepted = list(self.running)[number % len(self.running)]
            if accepted.credential is None:
                return
            is_new = not accepted.is_verified
            self.queue.accept(accepted)
            if is_new:
                self.known.add(accepted.credential)
                same = [each for each in self.waiting if each.credential == accepted.credential]
                assert all(each.is_verified for each in same)

    def drop(self, number, _lane):
        if self.all:
            dropped = self.all[number % len(self.all)]
            assert self.queue.drop(dropped) == (dropped in self.waiting)
            self.waiting = [each for each in self.waiting if each is not dropped]

    def expire(self, _number, _lane):
        expired = self.queue.expire(self.now)
        assert set(expired) == {each for each in self.waiting if each.arrived < self.now - 20}
        assert len(expired) == len(set(expired))
        self.waiting = [each for each in self.waiting if each not in expired]

    def _started(self, started):
        may_run = [each for each in self.waiting if self._may_run(each)]
        if started is None:
            assert may_run == []
        else:
            assert started in may_run
            same = (self.client(started), started.credential, started.lane)
            earlier = self.waiting[: self.waiting.index(started)]
            assert not any((self.client(each), each.credential, each.lane) == same for each in earlier)
            self.waiting.remove(started)
            self.running[started] = self.now

    def _may_run(self, waiting):
        own = [each for each in self.running if self.client(each) == self.client(waiting)]
        if len(own) >= self.share:
            return False
        if not self.is_known(waiting):
            unverified = [each for each in self.running if not self.is_known(each)]
            if len(unverified) >= self.unverified_share:
                return False
            if waiting.credential is not None and waiting.credential in {each.credential for each in unverified}:
                return False
        bulk = {each for each in self.running if each.lane is Lane.BULK}
        if len(self.running) < self.threads and (waiting.lane is not Lane.BULK or len(bulk) < self.bulk_share):
            return True
        fresh = {each for each, since in self.running.items() if self.now - since < self.overdue}
        if any(each.lane is waiting.lane for each in own) or len(fresh) >= self.threads:
            return False
        return waiting.lane is not Lane.BULK or (len(bulk & fresh) < self.bulk_share and len(bulk) < self.most_bulk)


@settings(max_examples=300)
@example([("put", 3, CLAIM), ("put", 4, CLAIM), ("put", 5, CLAIM), ("put", 3, CLAIM), TAKE, TAKE, ACCEPT, TAKE])
@given(ACTIONS)
def test_a_request_is_next_if_and_only_if_it_may_run(actions):
    model = Model()
    for action in actions:
        model.apply(*action)


def ask(queue, chance, accepted, gone):
    """A client's requests, some of which it gives up."""
    for _ in range(400):
        address, token = f"192.0.2.{chance.randrange(3)}", chance.choice([None, "one", "two"])
        new = request(address, token, chance.choice(LANES))
        if queue.put(new) is not None:
            time.sleep(chance.random() / 1000)
            continue
        accepted.append(new)
        if chance.random() < 0.2 and queue.drop(new):
            gone.append(new)


@pytest.mark.parametrize("seed", range(5))
def test_under_real_threads_nothing_is_lost_or_runs_twice(seed):
    queue = admission(threads=8, queue=50, queue_per_client=20)
    threads, accepted, gone = Threads(queue, 8), [], []
    clients = [
        threading.Thread(target=ask, args=(queue, random.Random(f"{seed} {each}"), accepted, gone), daemon=True)
        for each in range(4)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join(PATIENCE_SECONDS)
    # With no wake from outside.
    wait_until(lambda: not queue.length(), lambda: f"{queue.length()} requests wait for ever")
    queue.stop(8)
    threads.join()
    assert threads.wrong == []
    assert set(threads.ran.values()) == {1}
    assert set(threads.ran) == set(accepted) - set(gone)
