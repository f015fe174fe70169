"""Long requests give way to short ones: the rule without threads, then threads that keep to it, then the requests."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.api.answers import ProviderForm
from stead.api.middleware import Slices as SlicesLayer
from stead.candidates.engine import Enumeration, answer, found_within
from stead.candidates.explain import explain
from stead.candidates.render import Form, Rendering
from stead.candidates.work import Work
from stead.catalog.fragments import RUN
from stead.domain.request import RequestGroup
from stead.process import runtime
from stead.process.runtime import PIECE, PORTION, Bounds, Pieces, Precedence, Request, Slices
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.rooms.candidates.test_engine import ask, devices, equal_groups
from tests.rooms.candidates.test_work import packing
from tests.waiting import stays, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from wsgiref.types import StartResponse, WSGIEnvironment

BOUNDS = Bounds(first=5, slice=2, patience=20, short=100, lost=100)
ENDLESS = Bounds(first=0, slice=0, patience=3600, short=3600, lost=3600)
"""Every request is long at its first call, and waits for as long as a short one runs."""


def requests(number: int) -> list[Request]:
    return [Request(0) for _ in range(number)]


def test_a_long_request_runs_at_once_while_no_other_runs() -> None:
    precedence, (only,) = Precedence(BOUNDS), requests(1)
    precedence.begin(only, 0)
    precedence.give_way(only, 6)
    assert precedence.next(6) is only


def test_the_next_slice_begins_when_the_last_short_request_ends() -> None:
    precedence, (long, *short) = Precedence(BOUNDS), requests(3)
    for request in (long, *short):
        precedence.begin(request, 0)
    precedence.give_way(long, 5)
    assert precedence.next(5) is None
    precedence.end(short[0], 6)
    assert precedence.next(6) is None
    precedence.end(short[1], 7)
    assert precedence.next(7) is long


def test_long_requests_run_one_at_a_time_and_one_after_the_other() -> None:
    precedence, longs = Precedence(BOUNDS), requests(3)
    for request in longs:
        precedence.give_way(request, 0)
    order = []
    for now in range(9):
        running = precedence.next(now)
        assert running is not None
        assert precedence.next(now) is None
        order.append(longs.index(running))
        precedence.give_way(running, now + 1)
    assert order == [0, 1, 2] * 3


def test_clients_take_turns_however_many_requests_each_has() -> None:
    precedence = Precedence(BOUNDS)
    many, few = [Request(0, "many") for _ in range(10)], [Request(0, "few") for _ in range(2)]
    for request in (*many, *few):
        precedence.give_way(request, 0)
    order: list[Request] = []
    for now in range(24):
        running = precedence.next(now)
        assert running is not None
        order.append(running)
        precedence.give_way(running, now + 1)
    assert [request.client for request in order] == ["many", "few"] * 12
    assert order[::2] == [*many, *many[:2]]
    assert order[1::2] == few * 6
    for request in few:
        precedence.end(request, 24)
    assert [precedence.next(24)] == many[2:3]


def test_a_request_that_has_run_for_long_is_waited_for_no_more() -> None:
    precedence, (long, waiting) = Precedence(Bounds(patience=3600, short=100)), requests(2)
    precedence.begin(waiting, 0)
    precedence.give_way(long, 1)
    assert precedence.next(99) is None
    assert precedence.next(101) is long


def test_a_request_that_never_gives_way_again_stops_no_other() -> None:
    precedence, (silent, other) = Precedence(BOUNDS), requests(2)
    precedence.give_way(silent, 0)
    assert precedence.next(0) is silent
    precedence.give_way(other, 1)
    assert precedence.next(99) is None
    assert precedence.pause(99) == 1
    assert precedence.next(100) is other
    precedence.give_way(silent, 101)  # when it comes back, it waits like any other
    assert precedence.next(101) is None
    precedence.end(other, 102)
    assert precedence.next(102) is silent


@pytest.mark.parametrize("over", [Precedence.end, Precedence.give_way])
def test_patience_counts_from_the_end_of_the_last_slice(over: Callable[[Precedence, Request, float], None]) -> None:
    precedence, (first, second, short) = Precedence(BOUNDS), requests(3)
    precedence.give_way(first, 0)
    assert precedence.next(0) is first
    precedence.give_way(second, 1)
    precedence.begin(short, 2)
    over(precedence, first, 10)
    assert precedence.next(29) is None
    assert precedence.next(30) is second


def test_a_request_that_ends_while_it_waits_is_forgotten() -> None:
    precedence, (ended, other) = Precedence(BOUNDS), requests(2)
    for request in (ended, other):
        precedence.give_way(request, 0)
    precedence.end(ended, 1)
    assert precedence.next(1) is other


@given(st.integers(1, 10), st.lists(st.floats(0, 50), min_size=1, max_size=20))
def test_beside_short_requests_without_end_each_long_one_goes_on(number: int, lengths: list[float]) -> None:
    """A short request begins before the one before it ends; each asks for its slice no later than `pause` says."""
    precedence, longs = Precedence(BOUNDS), requests(number)
    now, short, running = 0.0, Request(0), None
    precedence.begin(short, now)
    for request in longs:
        precedence.give_way(request, now)
    began: dict[Request, list[float]] = {request: [0.0] for request in longs}
    for length in lengths * (3 * number):
        following = Request(0)
        precedence.begin(following, now)
        precedence.end(short, now)
        short = following
        if running is not None:
            now += BOUNDS.slice
            precedence.give_way(running, now)
            running = None
        now += min(length, precedence.pause(now))
        running = precedence.next(now)
        if running is not None:
            began[running].append(now)
    longest = number * (BOUNDS.slice + BOUNDS.patience)
    for times in began.values():
        assert all(later - earlier <= longest + 1e-6 for earlier, later in pairwise([*times, now]))
    slices_ = sum(len(times) - 1 for times in began.values())
    assert slices_ * BOUNDS.patience <= now + 1e-6, "long ones get no more than their share"


class Long:
    """A long request in a thread, which gives way and then says that it ran."""

    def __init__(self, own: Slices) -> None:
        self.has_run = False
        self._own = own
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        with self._own.request():
            self._own.give_way()
            self.has_run = True

    def waits(self) -> bool:
        return bool(self._own._precedence._waiting)

    def join(self) -> None:
        self._thread.join()


def test_a_thread_waits_until_the_short_request_ends() -> None:
    own = Slices(ENDLESS)
    with own.request():
        long = Long(own)
        wait_until(long.waits)
        assert not long.has_run
    wait_until(lambda: long.has_run)
    long.join()


def test_a_thread_waits_again_at_its_next_slice() -> None:
    own = Slices(ENDLESS)
    has_slice, goes_on, has_ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with own.request():
            own.give_way()
            has_slice.set()
            goes_on.wait(50)
            own.give_way()
            has_ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert has_slice.wait(50)
    with own.request():
        goes_on.set()
        assert stays(lambda: not has_ended.is_set(), 0.2)
    assert has_ended.wait(50)
    thread.join()


def test_a_thread_waits_no_longer_than_its_patience() -> None:
    own = Slices(Bounds(first=0, patience=0.01, short=3600, lost=3600))
    with own.request():
        long = Long(own)
        wait_until(lambda: long.has_run)
    long.join()


def test_a_thread_without_a_request_never_waits() -> None:
    own = Slices(ENDLESS)
    with own.request():
        thread = threading.Thread(target=own.give_way)
        thread.start()
        thread.join()


def test_a_short_request_never_waits() -> None:
    own = Slices(Bounds(first=3600, patience=3600, short=3600), processor_time=lambda: 0.0)
    done = threading.Event()

    def short() -> None:
        with own.request():
            own.give_way()
        done.set()

    with own.request():
        threading.Thread(target=short).start()
        wait_until(done.is_set)


def test_a_request_is_not_long_because_it_waited() -> None:
    now, computed = 0.0, 0.0
    own = Slices(BOUNDS, clock=lambda: now, processor_time=lambda: computed)
    with own.request():
        now = 100.0  # another thread runs, and this one waits for a lock
        own.give_way()
        assert own._precedence.next(now) is None
        assert own._precedence._short
        computed = 6.0
        own.give_way()
        assert not own._precedence._short


def test_the_processor_time_is_read_only_when_the_slice_can_have_ended() -> None:
    now, readings = 0.0, []
    own = Slices(BOUNDS, clock=lambda: now, processor_time=lambda: readings.append(now) or 0.0)
    with own.request():
        for now in (1.0, 4.0, 6.0, 7.0):  # noqa: B007  # the clock reads it
            own.give_way()
    assert readings == [0.0, 6.0, 7.0]


def test_of_many_long_threads_one_runs_at_a_time_and_all_end() -> None:
    own = Slices(ENDLESS)
    running: list[int] = []
    together = []

    def work(number: int) -> None:
        with own.request():
            for _ in range(50):
                own.give_way()
                running.append(number)
                together.append(len(running))
                running.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with own.request():
            pass
    assert together == [1] * 400


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """In which thread a long request gave way, each time."""
    counted: list[str] = []
    monkeypatch.setattr(runtime, "give_way", lambda: counted.append(threading.current_thread().name))
    return counted


def test_work_gives_way_about_every_millisecond() -> None:
    calls = 0

    def give_way() -> None:
        nonlocal calls
        calls += 1

    work = Work(give_way=give_way)
    for _ in range(1000):
        work.spend(100)
    assert 20 <= calls <= 30


def test_a_search_gives_way_though_it_finds_nothing(calls: list[str]) -> None:
    forest, request = packing()
    assert answer(snapshot_of(forest), request, Enumeration(work=50_000), Form()).number == 0
    assert len(calls) > 10


def test_an_answer_is_written_in_portions(calls: list[str]) -> None:
    number = 2 * PORTION + 1  # hosts; the text of their candidates is more than two pieces
    hosts = [PlainProvider(f"host {place}", None, {"VCPU": PlainInventory(1)}) for place in range(number)]
    snapshot = snapshot_of(Forest(tuple(hosts), frozenset({"VCPU"}), frozenset()))
    request = ask(RequestGroup("", {"VCPU": 1}))
    batches = list(found_within(snapshot, request, Enumeration(), Work()))
    assert sum(batch.size for batch in batches) == number
    rendering = Rendering(snapshot, request, Form(), runtime.give_way)
    rendering.add(batches)
    assert len(calls) >= 4  # one candidate alone, the arrangement of the others, and portions of these
    calls.clear()
    written = rendering.finish()
    assert len(calls) >= 3  # portions of summaries
    calls.clear()
    searched = found_within(snapshot, request, Enumeration(), Work(give_way=runtime.give_way))
    assert len(list(searched)) == len(batches)
    few = len(calls)
    assert answer(snapshot, request, Enumeration(), Form()).body == written
    assert len(calls) > 2 * few  # while it searched, and while it was written


def test_an_explanation_gives_way(calls: list[str]) -> None:
    snapshot, request = snapshot_of(devices(12, PlainInventory(1))), ask(*equal_groups(4), isolate=True)
    explain(snapshot, request)
    assert not calls
    explain(snapshot, request, give_way=runtime.give_way)
    assert calls


def test_the_application_works_on_a_request_until_it_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Slices(ENDLESS)
    monkeypatch.setattr(runtime, "request", own.request)
    calling = threading.Event()

    def app(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        calling.set()
        own.give_way()
        start_response("200 OK", [])
        return iter([b"later"])

    answers: list[Iterable[bytes]] = []
    thread = threading.Thread(target=lambda: answers.append(SlicesLayer(app)({}, lambda *_: bytes)))  # type: ignore[arg-type,return-value]  # a start_response that returns no write
    with own.request():
        thread.start()
        assert calling.wait(50)
        assert stays(lambda: not answers, 0.2)
    thread.join()
    assert answers
    with own.request():  # what is sent later is waited for by none
        own.give_way()


def test_a_list_of_providers_gives_way(calls: list[str]) -> None:
    number = 2 * PORTION + 1
    snapshot = snapshot_of(
        Forest(tuple(PlainProvider(f"{n}", None, {}) for n in range(number)), frozenset(), frozenset())
    )
    slots = np.flatnonzero(snapshot.live)
    assert len(slots) == number
    texts = list(ProviderForm(("[]",), tells_tree=True).texts(snapshot, slots))
    providers = json.loads(b"[%b]" % b"".join(texts)[1:])
    assert [provider["uuid"] for provider in providers] == [snapshot.uuid(slot) for slot in slots.tolist()]
    assert len(calls) == len(texts) == number // RUN + 1


def test_items_are_handed_on_in_slices(calls: list[str]) -> None:
    assert list(runtime.sliced(range(10), 4)) == list(range(10))
    assert len(calls) == 3


def test_the_pieces_of_an_answer_are_its_json(calls: list[str]) -> None:
    members = [b"1" * (number * number % 2000 + 1) for number in range(3000)] + [b"2" * (3 * PIECE)]
    pieces = Pieces(runtime.give_way)
    pieces.add('{"a":[')
    pieces.add_members(members[:1])
    pieces.add_members([])
    pieces.add_members(members[1:])
    pieces.add('],"b":[')
    pieces.add_joined(b",3")
    pieces.add_joined(b",4,5")
    pieces.add_members([b'"\xc3\xbc"'])
    pieces.add('],"ü":[')
    pieces.add_members([b"6"])
    pieces.add("]}")
    joined = pieces.all()
    assert b"".join(joined) == b'{"a":[%b],"b":[3,4,5,"\xc3\xbc"],"\xc3\xbc":[6]}' % b",".join(members)
    assert len(joined) > 10
    assert all(joined)
    assert len(calls) > len(joined) / 2


def test_the_application_tells_whose_request_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[str] = []

    def request(client: str) -> AbstractContextManager[None]:
        clients.append(client)
        return nullcontext()

    monkeypatch.setattr(runtime, "request", request)
    for environ in ({"HTTP_X_AUTH_TOKEN": "one"}, {}):
        assert SlicesLayer(lambda _environ, _start: [b""])(environ, cast("StartResponse", None)) == [b""]
    assert clients == ["one", ""]
