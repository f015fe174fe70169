"""Microversions and values that depend on them."""

import pytest

from stead.api.versions import NEWEST, OLDEST, Agreed, Microversion, S, V, Versioned, name_of


def test_the_minor_numbers_run_from_0_to_39_without_a_gap():
    assert [version.value for version in Microversion] == list(range(40))
    assert (str(OLDEST), str(NEWEST)) == ("1.0", "1.39")


def test_every_microversion_says_what_it_brought():
    meanings = [version.meaning for version in Microversion]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)


def test_a_span_reaches_to_the_next():
    values = Versioned({V.AGGREGATES: "list", V.AGGREGATE_GENERATION: "object"})
    assert [values.at(V(minor)) for minor in (1, 2, 18, 19, 39)] == ["list", "list", "list", "object", "object"]


def test_before_the_first_span_there_is_no_value():
    with pytest.raises(ValueError, match="empty"):
        Versioned({V.AGGREGATES: "list"}).at(V.INITIAL)


@pytest.mark.parametrize(
    ("agreed", "expected"),
    [
        (Agreed(V.FORBIDDEN_AGGREGATES), [True, False, False]),
        (Agreed(NEWEST), [True, True, False]),
        (Agreed(NEWEST, S.OWN_FEATURES), [True, True, True]),
    ],
)
def test_what_stead_has_of_its_own_is_known_to_who_asked_for_it_alone(agreed, expected):
    assert [agreed.knows(step) for step in (V.FORBIDDEN_AGGREGATES, NEWEST, S.OWN_FEATURES)] == expected


def test_versions_are_named_apart():
    assert (name_of(V.ROOT_REQUIRED), name_of(S.OWN_FEATURES)) == ("1.35", "stead 1.0")
