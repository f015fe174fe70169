"""Which versions a header asks for. Source: "Microversion negotiation", docs/api.md."""

import pytest

from stead.api.request import Refused, agree
from tests.system.api.client import Api, wsgi_door


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
    assert (str(agree(header).placement), agree(header).stead) == (used, None)


@pytest.mark.parametrize("value", ["abc.def", "1.2.3", "1", "LATEST", "1.", ".5", "1.5 x"])
def test_what_is_no_version_is_400(value):
    with pytest.raises(Refused, match=f"invalid version string: {value}") as refused:
        agree(f"placement {value}")
    assert refused.value.problem.status == 400


@pytest.mark.parametrize("value", ["0.5", "0.9", "1.40", "2.0", "1.-1"])
def test_a_version_that_is_not_offered_is_406_and_names_those_that_are(value):
    with pytest.raises(Refused, match=f"Unacceptable version header: {value}") as refused:
        agree(f"placement {value}")
    assert refused.value.problem.status == 406
    assert refused.value.problem.more == {"max_version": "1.39", "min_version": "1.0"}


@pytest.mark.parametrize(
    ("header", "used"),
    [
        ("placement 1.39, stead 1.0", ("1.39", "1.0")),
        ("stead 1.0, placement 1.39", ("1.39", "1.0")),
        ("placement 1.39, stead 1.1", ("1.39", "1.1")),
        ("placement latest,Stead latest", ("1.39", "1.2")),
        ("placement 1.39, stead 9.9, stead 1.0", ("1.39", "1.0")),
    ],
)
def test_stead_s_own_features_have_an_entry_of_their_own(header, used):
    assert tuple(map(str, agree(header))) == used


@pytest.mark.parametrize(
    ("header", "status", "text", "more"),
    [
        ("placement 1.39, stead 1.3", 406, "Unacceptable version header: stead 1.3", {"max_version": "1.2"}),
        ("placement 1.39, stead 0.9", 406, "Unacceptable version header: stead 0.9", {"min_version": "1.0"}),
        ("placement 1.39, stead nonsense", 400, "invalid version string: stead nonsense", {}),
        ("placement 1.39, stead LATEST", 400, "invalid version string: stead LATEST", {}),
        ("placement 1.38, stead 1.0", 400, "stead 1.0 needs placement 1.39 or newer, not 1.38", {}),
        ("stead latest", 400, "stead 1.2 needs placement 1.39 or newer, not 1.0", {}),
        ("placement 1.40, stead 1.1", 406, "Unacceptable version header: 1.40", {"max_version": "1.39"}),
    ],
)
def test_versions_that_can_not_be_had_together_or_at_all_are_refused(header, status, text, more):
    with pytest.raises(Refused, match=text) as refused:
        agree(header)
    assert refused.value.problem.status == status
    assert refused.value.problem.more.items() >= more.items()


@pytest.mark.parametrize("digits", [20, 101, 5000])
def test_a_length_that_python_would_not_read_is_too_long(edge, digits):
    length = {"Content-Length": "9" * digits, "Content-Type": "application/json"}
    assert Api(wsgi_door(edge)).call("PUT", "/traits/CUSTOM_MAGIC", headers=length).status == 413
