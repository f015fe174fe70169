"""Which microversion a header asks for. Source: contract, "Microversion negotiation"."""

import pytest

from stead.api.errors import Refused
from stead.api.negotiation import microversion


@pytest.mark.parametrize(
    ("header", "used"),
    [
        (None, "1.0"),
        ("", "1.0"),
        ("placement 1.5", "1.5"),
        ("PLACEMENT 1.5", "1.5"),
        ("placement latest", "1.39"),
        ("placement 1.05", "1.5"),
        ("placement 1. 5", "1.5"),
        ("  placement   1.5  ", "1.5"),
        ("placement 1.5,placement", "1.5"),
        ("placement 1.5, placement 1.7", "1.7"),
        ("compute 2.5, placement 1.7, identity 3", "1.7"),
        ("compute 2.5", "1.0"),
        ("placement", "1.0"),
        ("1.5", "1.0"),
    ],
)
def test_the_last_entry_for_placement_counts(header, used):
    assert str(microversion(header)) == used


@pytest.mark.parametrize("value", ["abc.def", "1.2.3", "1", "LATEST", "1.", ".5", "1.5 x"])
def test_what_is_no_version_is_400(value):
    with pytest.raises(Refused, match=f"invalid version string: {value}") as refused:
        microversion(f"placement {value}")
    assert refused.value.problem.status == 400


@pytest.mark.parametrize("value", ["0.5", "0.9", "1.40", "2.0", "1.-1"])
def test_a_version_that_is_not_offered_is_406_and_names_those_that_are(value):
    with pytest.raises(Refused, match=f"Unacceptable version header: {value}") as refused:
        microversion(f"placement {value}")
    assert refused.value.problem.status == 406
    assert refused.value.problem.more == {"max_version": "1.39", "min_version": "1.0"}


@pytest.mark.parametrize(("value", "status"), [("1.0", 406), ("latest", 406), ("nonsense", 400)])
def test_features_of_stead_s_own_are_not_offered_yet(value, status):
    with pytest.raises(Refused) as refused:
        microversion(f"placement 1.39, stead {value}")
    assert refused.value.problem.status == status
    assert not refused.value.problem.more
