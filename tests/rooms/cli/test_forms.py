"""The forms of values that people type are said by every command that reads one, and are the same in all."""

import pytest

TIMES = "is not a span such as 90s, 30m, 12h or 7d, or a time with a zone such as 2031-01-01T00:00:00Z"


@pytest.mark.parametrize("command", [["headroom"], ["candidates"], ["explain"], ["claim", "--project=p", "--user=u"]])
def test_the_name_of_a_flavor_is_no_query(stead, command):
    words = "'m1.large' is not a query such as resources=VCPU:2. A flavor is named by --flavor m1.large"
    ran = stead(*command, "m1.large")
    assert (ran.code, ran.out, ran.err) == (2, "", f"stead: {words}\n")


@pytest.mark.parametrize("text", ["tomorrow", "2031-01-01", "1.5h"])
def test_a_time_of_another_form_says_which_there_are(stead, text):
    ran = stead("consumers", "--older-than", text)
    assert (ran.code, ran.out, ran.err) == (2, "", f"stead: --older-than: {text!r} {TIMES}\n")
