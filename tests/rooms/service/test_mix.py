"""The mix: what is learned of it is bounded, decays, is shared by workers, and gives way to weights of flavors."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.api.query.candidates import Pairs, stored_request, usual_query
from stead.domain.errors import Unavailable
from stead.domain.request import AskedForm, CandidateRequest, Flavor
from stead.service import mix
from stead.service.mix import HALF_LIFE_SECONDS, LEAST_TIMES, MOST_FORMS, Learning, NotedRequests, TargetMix, counted
from stead.store.protocol.store import Store
from stead.store.schema import schema
from stead.store.sql.dialects import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_800_000_000


def form(times: float, query: str = "resources=VCPU:1", *, at: int = NOW) -> AskedForm:
    return AskedForm(query, times, 0.0, at)


def query(amount: int) -> str:
    return f"resources=VCPU:{amount}"


class TestCounting:
    @given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.5, 9)), max_size=200), st.integers(1, 12))
    def test_a_form_that_is_asked_for_often_is_never_lost(self, asked: list[tuple[int, float]], most: int) -> None:
        truth: dict[str, float] = {}
        stored: list[AskedForm] = []
        for number, times in asked:
            truth[query(number)] = truth.get(query(number), 0) + times
            stored = counted(stored, {query(number): times}, NOW, most)
        assert len(stored) <= most
        total = sum(truth.values())
        present = {each.query: each for each in stored}
        assert {name for name, times in truth.items() if times > total / most * (1 + 1e-9)} <= present.keys()
        for name, each in present.items():
            # What it was surely asked for, and what it was at most.
            assert each.times - each.surplus <= truth[name] * (1 + 1e-9) <= each.times * (1 + 1e-6)

    def test_a_million_invented_forms_are_bounded_and_leave_the_shares_of_the_others(self) -> None:
        stored: list[AskedForm] = []
        honest = {query(1): 600.0, query(2): 300.0}
        for batch in range(2_000):
            invented = {f"resources=VCPU:{1_000 + 500 * batch + number}": 1.0 for number in range(500)}
            stored = counted(stored, {**invented, **{name: times / 2 for name, times in honest.items()}}, NOW)
        assert len(stored) == MOST_FORMS
        weights = mix.weights_of(stored, NOW)
        total = sum(weights.values())
        assert weights[query(1)] / total > 0.6
        assert weights[query(1)] == pytest.approx(2 * weights[query(2)])

    def test_counts_halve_over_days_and_what_is_nearly_nothing_is_removed(self) -> None:
        stored = counted([form(8.0)], {}, NOW)
        later = counted(stored, {query(1): 1.0}, NOW + 2 * HALF_LIFE_SECONDS)
        assert [(each.query, each.times) for each in later] == [(query(1), pytest.approx(3.0))]
        assert counted(stored, {}, NOW + 20 * HALF_LIFE_SECONDS) == []
        # A clock that is behind does not raise them.
        assert counted(stored, {query(1): 1.0}, NOW - 9_999)[0] == form(9.0)

    def test_few_requests_are_no_mix(self) -> None:
        assert mix.weights_of([form(LEAST_TIMES - 1)], NOW) == {}
        assert mix.weights_of([form(LEAST_TIMES)], NOW) == {query(1): LEAST_TIMES}


class TestNoting:
    def test_of_many_requests_a_sample_stands_for_all(self) -> None:
        noted = NotedRequests()
        common, rare = stored_request(query(1)), stored_request(query(2))
        for number in range(20_000):
            noted.note(rare if number % 10 == 0 else common)
        sample, each = noted.take()
        assert len(sample) * each == pytest.approx(20_000)
        assert 200 < sum(request is rare for request in sample) * each < 5_000
        assert noted.take() == ([], 1.0)

    def test_a_claim_that_is_tried_again_counts_once(self) -> None:
        noted = NotedRequests()
        for consumer in ("a", "b", "a", "a", "b"):
            noted.note(stored_request(query(1)), consumer)
        assert len(noted.take()[0]) == 2


@pytest.fixture
def store(ready_database_url: str) -> Iterator[Store]:
    store = Store(Database(ready_database_url))
    yield store
    store.close()


class TestLearning:
    def asking(self, learning: Learning, text: str, times: int) -> None:
        for _ in range(times):
            learning.note(stored_request(text))

    def test_workers_share_what_they_learn_and_a_restart_keeps_it(self, store: Store) -> None:
        one, other = (Learning(store, usual_query, lambda: NOW) for _ in range(2))
        self.asking(one, f"{query(1)}&limit=3", 30)
        self.asking(other, query(1), 10)
        self.asking(other, query(2), 20)
        for learning in (one, other, one):
            learning.step()
        assert one.weights == other.weights == {query(1): 40.0, query(2): 20.0}
        restarted = Learning(store, usual_query, lambda: NOW)
        restarted.step()
        assert restarted.weights == one.weights
        one.forget()
        assert one.weights == {}
        other.step()
        assert other.weights == {}

    def test_weights_that_are_about_the_same_are_the_same_object(self, store: Store) -> None:
        learning = Learning(store, usual_query, lambda: NOW)
        self.asking(learning, query(1), 200)
        self.asking(learning, query(2), 200)
        learning.step()
        before = learning.weights
        self.asking(learning, query(1), 10)
        learning.step()
        assert learning.weights is before
        self.asking(learning, query(1), 200)
        learning.step()
        assert learning.weights is not before

    def test_requests_that_name_a_provider_or_are_too_long_are_no_forms(self, store: Store) -> None:
        learning = Learning(store, usual_query, lambda: NOW)
        self.asking(learning, f"{query(1)}&in_tree=12345678-1234-1234-1234-123456789abc", 30)
        self.asking(learning, f"{query(1)}&required={','.join(f'CUSTOM_{n:0200}' for n in range(20))}", 30)
        learning.step()
        assert learning.weights == {}

    @pytest.mark.one_database
    def test_what_could_not_be_written_is_written_later(self, tmp_path: Path) -> None:
        file = tmp_path / "placement.db"
        store = Store(Database(f"sqlite:///{file}"), write_timeout=0.1)
        schema.upgrade(store.writer)
        learning = Learning(store, usual_query, lambda: NOW)
        self.asking(learning, query(1), 30)
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with suppress(Unavailable):
                learning.step()
            assert learning.weights == {}
            other.execute("ROLLBACK")
        learning.finish()
        assert learning.weights == {query(1): 30.0}
        store.close()


FLAVOR = Flavor("small", query(1), "")


@pytest.mark.parametrize(
    ("flavors", "learned", "source", "shares"),
    [
        ([], {}, "none", {}),
        ([FLAVOR], {}, "flavors", {query(1): 1.0}),
        ([FLAVOR], {query(2): 6.0, query(3): 2.0}, "learned", {query(2): 0.75, query(3): 0.25}),
        ([Flavor("big", query(9), "", 3.0), FLAVOR], {query(2): 6.0}, "weights", {query(9): 1.0}),
        ([Flavor("big", query(9), "", 0.0)], {}, "none", {}),
        ([Flavor("old", "no=query", "", 3.0)], {}, "weights", {}),
    ],
)
def test_weights_come_before_what_is_learned_and_that_before_all_flavors(
    flavors: list[Flavor], learned: dict[str, float], source: str, shares: dict[str, float]
) -> None:
    target = TargetMix(lambda: flavors, stored_request, lambda: learned)
    found, parts = target.parts()
    assert (found, {part.query: part.share for part in parts}) == (source, shares)
    assert [wanted.request for wanted in target.forms()] == [stored_request(part.query) for part in parts]
    assert target.forms() is target.forms()


UUIDS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


@pytest.mark.parametrize(
    ("given", "usual"),
    [
        ("resources=VCPU:2,MEMORY_MB:512&limit=3&order_by=pack", "resources=MEMORY_MB:512,VCPU:2"),
        ("resources=MEMORY_MB:512,VCPU:02", "resources=MEMORY_MB:512,VCPU:2"),
        (
            "required=in:CUSTOM_B,CUSTOM_A&resources=VCPU:1&required=!CUSTOM_D,CUSTOM_C",
            "resources=VCPU:1&required=CUSTOM_C,!CUSTOM_D&required=in:CUSTOM_A,CUSTOM_B",
        ),
        (
            f"resources=VCPU:1&member_of=in:{UUIDS[1]},{UUIDS[0]}&root_member_of=!{UUIDS[0]}&root_required=!CUSTOM_A",
            f"resources=VCPU:1&member_of=in:{UUIDS[0]},{UUIDS[1]}&root_required=!CUSTOM_A"
            f"&root_member_of=!in:{UUIDS[0]}",
        ),
        (
            "resources_B=VGPU:1&resources_A=VCPU:1&same_subtree=_B,_A&same_subtree=_A,!_B&group_policy=isolate",
            "resources_A=VCPU:1&resources_B=VGPU:1&group_policy=isolate&same_subtree=_A,!_B&same_subtree=_A,_B",
        ),
        (
            "resources=VCPU:4,PCPU:1&can_split=VCPU&resources1=VGPU:1&required2=CUSTOM_A&same_subtree=1,2&isolate=1",
            "resources=PCPU:1,VCPU:4&can_split=VCPU&resources1=VGPU:1&required2=CUSTOM_A&isolate=1&same_subtree=1,2",
        ),
    ],
)
def test_equal_requests_have_one_usual_query(given: str, usual: str) -> None:
    request = stored_request(given)
    assert usual_query(request) == usual
    assert list(Pairs.read(usual))
    again = stored_request(usual)
    assert usual_query(again) == usual
    assert canonical(again) == canonical(request)


def canonical(request: CandidateRequest) -> object:
    """All that a form keeps of a request, without its order of parts."""
    groups = {
        (
            group.suffix,
            frozenset(group.resources.items()),
            frozenset(group.traits.clauses),
            group.traits.forbidden,
            frozenset(group.aggregates.clauses),
            group.aggregates.forbidden,
            group.can_split,
        )
        for group in request.groups
    }
    roots = (request.root_traits, request.root_aggregates)
    return (
        groups, request.isolate, request.isolated, frozenset(request.same_subtree), frozenset(request.apart),
        [(frozenset(terms.clauses), terms.forbidden) for terms in roots],
    )  # fmt: skip
