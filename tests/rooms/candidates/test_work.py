"""What one request may do is bounded: what was found until then is a part of the whole, and is said to be cut."""

from __future__ import annotations

import itertools
import json
import time
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from stead.candidates.engine import Enumeration, answer, find
from stead.candidates.gangs import place
from stead.candidates.losses import Losses
from stead.candidates.placing import NoPlace
from stead.candidates.render import Form
from stead.candidates.work import Work, WorkSpent
from stead.domain.errors import UnknownResourceClass, UnknownTraits
from stead.domain.request import PACK, SPREAD, ByHeadroom, Drawn, RequestGroup, Wanted
from stead.process.runtime import PIECE
from tests.rooms.candidates.forests import forests_and_requests
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.rooms.candidates.test_engine import ask, devices, equal_groups
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.catalog.snapshot import Snapshot
    from stead.domain.request import CandidateRequest, Order


def found(snapshot: Snapshot, request: CandidateRequest, enumeration: Enumeration) -> tuple[list[str], bool]:
    """The candidates as texts, in their order, and whether there may be more."""
    given = answer(snapshot, request, enumeration, Form())
    return [
        json.dumps(one, sort_keys=True) for one in json.loads(b"".join(given.body))["allocation_requests"]
    ], given.is_cut


@settings(max_examples=examples(300), deadline=None)
@given(forests_and_requests(), st.integers(0, 200), st.booleans())
def test_what_is_found_is_the_beginning_of_the_whole(
    case: tuple[Forest, Sequence[CandidateRequest]], work: int, breadth_first: bool
) -> None:
    forest, requests = case
    note(str(forest))
    snapshot = snapshot_of(forest)
    for request in requests:
        try:
            whole, is_whole_cut = found(snapshot, request, Enumeration(breadth_first))
        except (UnknownResourceClass, UnknownTraits):
            continue
        some, is_cut = found(snapshot, request, Enumeration(breadth_first, work=work))
        assert not is_whole_cut
        assert some == (whole[: len(some)] if is_cut else whole)


def packing() -> tuple[Forest, CandidateRequest]:
    """Groups that would fill devices of many sizes to the last unit, and can not: all amounts but one are even."""
    children = [PlainProvider(f"device {n}", "host", {"VGPU": PlainInventory(2 * n + 31)}) for n in range(12)]
    room = sum(child.inventories["VGPU"].total for child in children)
    amounts = [2 * (n % 7) + 6 for n in range(40)]
    while sum(amounts) < room - 1:
        amounts.append(min(8, room - 1 - sum(amounts)) // 2 * 2 or 2)
    while sum(amounts) > room:
        amounts.pop()
    groups = tuple(RequestGroup(str(n), {"VGPU": amount}) for n, amount in enumerate(amounts))
    return Forest((PlainProvider("host"), *children), frozenset({"VGPU"}), frozenset()), ask(*groups)


@pytest.mark.timeout(120)  # not a measure: without a bound it would not end
def test_a_search_that_finds_nothing_ends() -> None:
    forest, request = packing()
    assert found(snapshot_of(forest), request, Enumeration(work=200_000)) == ([], True)


@pytest.mark.timeout(120)  # likewise
@pytest.mark.parametrize("randomize", [False, True])
def test_a_query_with_more_candidates_than_anybody_can_read_ends(randomize: bool) -> None:
    request = ask(*equal_groups(20), isolate=True)
    snapshot = snapshot_of(devices(40, PlainInventory(1)))
    some, is_cut = found(snapshot, request, Enumeration(randomize=randomize, work=100_000))
    assert is_cut
    assert 10 < len(set(some)) == len(some) <= 10_000


def test_a_search_ends_with_its_time() -> None:
    forest, request = packing()
    snapshot = snapshot_of(forest)
    late, timely = Work(until=time.monotonic() - 1), Work(until=time.monotonic() + 3600)
    assert list(find(snapshot, request, Enumeration(), work=late)) == []
    assert late.is_cut
    few = replace(request, groups=request.groups[:1])
    assert list(find(snapshot, few, Enumeration(), work=timely))
    assert not timely.is_cut


@pytest.mark.parametrize("order", [None, PACK, SPREAD, Drawn(), ByHeadroom()], ids=str)
def test_time_may_end_at_each_step_of_a_search(order: Order | None) -> None:
    """Some orders value all trees before they give the first candidate: the end of the time is no error there."""
    hosts = [PlainProvider(f"host {n}", inventories={"VGPU": PlainInventory(n % 3 + 1)}) for n in range(40)]
    snapshot = snapshot_of(Forest(tuple(hosts), frozenset({"VGPU"}), frozenset()))
    request = replace(ask(RequestGroup("", {"VGPU": 1})), order=order)
    whole = [each.members for each in find(snapshot, request, with_mix(request))]
    for step in itertools.count():
        looks = itertools.count()
        work = Work(until=time.monotonic() + 3600, give_way=lambda: ended(work, next(looks) >= step))  # noqa: B023  # called before the next turn
        some = [each.members for each in find(snapshot, request, with_mix(request), work=work)]
        if not work.is_cut:
            assert some == whole or isinstance(order, Drawn)
            break
        assert len(some) < len(whole)
    placed = place(snapshot, [request], with_mix(request), distinct_roots=False, until=time.monotonic() - 1)
    assert isinstance(placed, NoPlace)


def with_mix(request: CandidateRequest) -> Enumeration:
    return Enumeration(losses=Losses(lambda: (Wanted(request, 1.0),)))


def ended(work: Work, is_late: bool) -> None:
    if is_late:
        work.until = time.monotonic() - 1


@pytest.mark.parametrize("units", [1, 10, 1000, 100_000])
@pytest.mark.parametrize("most", [None, 10_000, 5_000_000])
def test_time_ends_within_some_milliseconds_of_work(units: int, most: int | None) -> None:
    work = Work(most, until=time.monotonic() - 1)
    with suppress(WorkSpent):
        for _ in range(20_000 // units + 2):
            work.spend(units)
    assert work.is_cut


def test_who_asks_for_few_is_not_told_that_there_are_more() -> None:
    request = ask(*equal_groups(20), isolate=True, limit=10)
    some, is_cut = found(snapshot_of(devices(40, PlainInventory(1))), request, Enumeration(work=100_000))
    assert (len(some), is_cut) == (10, False)


def test_a_large_answer_needs_little_more_memory_than_its_text() -> None:
    snapshot, request = snapshot_of(devices(24, PlainInventory(100))), ask(*equal_groups(3))
    tracemalloc.start()
    try:
        given = answer(snapshot, request, Enumeration(), Form())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    size = sum(map(len, given.body))
    assert given.number == 24**3
    assert len(given.body) > 10
    assert max(map(len, given.body)) < 2 * PIECE
    assert peak < 2 * size
