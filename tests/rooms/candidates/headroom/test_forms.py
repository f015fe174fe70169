"""Requests of one form that are counted together fit as often as each of them alone, tree by tree."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, note, settings
from hypothesis import strategies as st

from stead.candidates.engine import match_all
from stead.candidates.headroom.each_tree import NOWHERE, each_tree, each_tree_of_all, form_of
from stead.candidates.match import resolve, resolve_traits
from stead.candidates.work import Work
from stead.domain.errors import BadRequest
from stead.domain.request import CandidateRequest, RequestGroup, Terms
from tests.rooms.candidates.brute_force import SHARES
from tests.rooms.candidates.forests import forests_and_requests, forests_and_requests_beyond
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of
from tests.selection import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.candidates.headroom.each_tree import Fits
    from stead.catalog.snapshot import Snapshot

CASES = int(os.environ.get("STEAD_HEADROOM_CASES") or examples(150))

pytestmark = pytest.mark.timeout(120 + CASES)  # hundreds of cases, each counted twice
some = settings(max_examples=CASES, deadline=None)


def with_more(request: CandidateRequest, more: int) -> CandidateRequest:
    """*request* with this number more of each class."""
    return replace(
        request,
        groups=tuple(
            replace(group, resources={name: amount + more for name, amount in group.resources.items()})
            for group in request.groups
        ),
    )


def has_known_names(snapshot: Snapshot, request: CandidateRequest) -> bool:
    """Whether all names exist; `match_all` does not look at the groups after one that nothing can serve."""
    with suppress(BadRequest):
        resolve_traits(snapshot, request.root_traits)
        for group in request.groups:
            resolve(snapshot, group)
        return True
    return False


def shown(fits: Fits) -> tuple[object, ...]:
    """The bounds of the trees in which the request may fit, and what limits them."""
    bounds = zip(fits.anchors.tolist(), fits.at_least.tolist(), fits.at_most.tolist(), strict=True)
    limiting: dict[object, list[int]] = defaultdict(list)
    for by, roots in fits.limiting:
        limiting[by] += roots.tolist()
    return [row for row in bounds if row[2]], {by: sorted(roots) for by, roots in limiting.items()}


def require_equal(snapshot: Snapshot, requests: Sequence[CandidateRequest]) -> None:
    """Require that all of *requests* together are counted as each of them alone."""
    for request, together in zip(requests, each_tree_of_all(snapshot, requests, Work()), strict=True):
        matched = match_all(snapshot, request, Work())
        alone = None if matched is None else each_tree(snapshot, request, matched, Work())
        event("filled" if together is None else "by sums")
        if together is None:
            assert alone is not None
            assert not alone.is_exact.all()
        else:
            assert shown(together) == shown(NOWHERE if alone is None else alone.fits), request


@some
@given(st.one_of(forests_and_requests(), forests_and_requests_beyond()), st.lists(st.integers(0, 3), min_size=2))
def test_together_they_fit_as_often_as_each_alone(
    case: tuple[Forest, Sequence[CandidateRequest]], more: list[int]
) -> None:
    forest, requests = case
    forest = replace(forest, providers=tuple(replace(one, traits=one.traits - {SHARES}) for one in forest.providers))
    snapshot = snapshot_of(forest)
    for request in requests:
        note(f"{forest}\n{request}")
        assume(form_of(request) is not None)
        assume(has_known_names(snapshot, request))
        require_equal(snapshot, [with_more(request, number) for number in more])


def device(name: str, parent: str, total: int) -> PlainProvider:
    return PlainProvider(name, parent, {"VGPU": PlainInventory(total)})


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=6))
def test_groups_that_compete_in_some_trees_only(totals: list[tuple[int, int]]) -> None:
    """Amounts decide for each request in which trees its groups compete for a device."""
    hosts = [
        provider
        for number, rooms in enumerate(totals)
        for provider in (
            PlainProvider(f"host{number}"),
            *(device(f"device{number}-{place}", f"host{number}", total) for place, total in enumerate(rooms) if total),
        )
    ]
    snapshot = snapshot_of(Forest(tuple(hosts), frozenset({"VGPU"}), frozenset()))
    groups = [RequestGroup(suffix, {"VGPU": 1}) for suffix in ("_A", "_B")]
    for isolate in (False, True):
        request = CandidateRequest(tuple(groups), isolate=isolate)
        require_equal(snapshot, [with_more(request, more) for more in range(6)])


def test_the_form_is_all_but_amounts_and_names_of_groups() -> None:
    first, second = RequestGroup("_A", {"VCPU": 1, "MEMORY_MB": 5}), RequestGroup("_B", {"VCPU": 1})
    request = CandidateRequest((first, second), same_subtree=(frozenset({"_A", "_B"}),))
    form = form_of(request)
    assert form == form_of(with_more(request, 3))
    renamed = (replace(first, suffix="_B"), replace(second, suffix="_A"))
    assert form == form_of(replace(request, groups=renamed))
    others = [
        replace(request, isolate=True),
        replace(request, same_subtree=()),
        replace(request, root_traits=Terms(forbidden=frozenset({"CUSTOM_A"}))),
        replace(request, groups=(first, replace(second, resources={"VCPU": 2}))),  # unequal amounts compete otherwise
        replace(request, groups=(first, replace(second, traits=Terms((frozenset({"CUSTOM_A"}),))))),
        replace(request, groups=(replace(first, resources={"VCPU": 1}), second)),
    ]
    assert form not in [form_of(other) for other in others]
    assert form_of(replace(request, groups=(first, RequestGroup("_B", {})))) is None
    assert form_of(with_more(request, 2**31)) is None, "no provider has more, and no column has the number"
