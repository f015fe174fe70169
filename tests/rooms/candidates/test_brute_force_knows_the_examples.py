"""The yardstick itself, measured: the brute force says what the contract's worked examples say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stead.domain.errors import UnknownResourceClass, UnknownTraits
from tests.rooms.candidates.brute_force import (
    Refusal,
    Way,
    every_provider,
    every_way,
    summarised_givers,
    summarised_trees,
)
from tests.rooms.candidates.examples import CANDIDATES, PROVIDERS, Case, candidate_request, provider_query

if TYPE_CHECKING:
    from collections.abc import Callable

MAPPINGS_SHOWN = 34
WHOLE_TREES_SHOWN = 29


@pytest.mark.parametrize("case", CANDIDATES.values(), ids=CANDIDATES.keys())
def test_the_brute_force_finds_the_candidates_of_the_worked_examples(case: Case) -> None:
    request = candidate_request(case)
    found = every_way(case.forest, request)
    if case.is_refused:
        assert isinstance(found, Refusal)
        assert any(all(part in detail for part in case.expected["detail_contains"]) for detail in details_of(found))
    elif "allocation_requests" in case.expected:
        assert not isinstance(found, Refusal)
        assert Counter(map(shown(case), found)) == expected_of(case, "allocation_requests")
    else:
        assert not isinstance(found, Refusal)
        assert Counter(map(shown(case), found)) >= expected_of(case, "subset_of")
        assert min(len(found), request.limit or len(found)) == case.expected["count"]


@pytest.mark.parametrize(
    "case",
    [case for case in CANDIDATES.values() if "provider_summaries" in case.expected],
    ids=[name for name, case in CANDIDATES.items() if "provider_summaries" in case.expected],
)
def test_the_brute_force_shows_the_summaries_of_the_worked_examples(case: Case) -> None:
    found = every_way(case.forest, candidate_request(case))
    assert not isinstance(found, Refusal)
    whole_trees = case.microversion >= WHOLE_TREES_SHOWN or not case.forest.is_nested
    summaries = summarised_trees(case.forest, found) if whole_trees else summarised_givers(case.forest, found, found)
    assert summaries == set(case.expected["provider_summaries"])


@pytest.mark.parametrize("case", PROVIDERS.values(), ids=PROVIDERS.keys())
def test_the_brute_force_lists_the_providers_of_the_worked_examples(case: Case) -> None:
    found = every_provider(case.forest, provider_query(case))
    if case.is_refused:
        assert isinstance(found, Refusal)
        assert any(all(part in detail for part in case.expected["detail_contains"]) for detail in details_of(found))
    else:
        assert found == frozenset(case.expected["resource_providers"])


def details_of(refusal: Refusal) -> list[str]:
    """What the service may say of it, in the words of the contract."""
    words = {
        UnknownResourceClass: "Invalid resource class in resources parameter: No such resource class {}.",
        UnknownTraits: 'Invalid trait(s) in "required" parameter: No such trait(s): {}.',
    }
    return [words[refusal.error].format(name) for name in refusal.names]


def shown(case: Case) -> Callable[[Way], object]:
    """How the case's microversion shows a candidate: mappings are part of it since 1.34."""
    return lambda way: (way.takes, way.mappings if case.microversion >= MAPPINGS_SHOWN else None)


def expected_of(case: Case, key: str) -> Counter[object]:
    return Counter(map(shown(case), map(way_of, case.expected[key])))


def way_of(row: dict[str, Any]) -> Way:
    takes = {(name, resource, n) for name, amounts in row["allocations"].items() for resource, n in amounts.items()}
    mappings = {(suffix, frozenset(names)) for suffix, names in row.get("mappings", {}).items()}
    return Way(frozenset(takes), frozenset(mappings))
