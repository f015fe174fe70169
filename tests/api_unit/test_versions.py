"""Microversions and values that depend on them."""

import pytest

from stead.api.versions import NEWEST, OLDEST, Microversion, V, Versioned


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
