"""The forms of times and spans, which are the same in every option."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from stead import InvalidRequest
from stead.client.times import age, moment, span


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("12h", 43200), ("7d", 604800), ("0s", 0)])
def test_a_span_is_a_number_and_a_unit(text, seconds):
    assert span(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "1h30m", "٣d", "7 d", "tomorrow"])
def test_what_is_no_span_says_which_forms_are(text):
    with pytest.raises(InvalidRequest, match="is not a span such as 90s, 30m, 12h or 7d"):
        span(text)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("2031-01-01T00:00:00Z", "2031-01-01T00:00:00Z"),
        ("2031-01-01T02:00:00+02:00", "2031-01-01T02:00:00+02:00"),
        ("2031-01-01 00:00Z", "2031-01-01T00:00:00Z"),
        (datetime(2031, 1, 1, tzinfo=UTC), "2031-01-01T00:00:00Z"),
        (datetime(2031, 1, 1, tzinfo=timezone(timedelta(hours=2))), "2031-01-01T00:00:00+02:00"),
    ],
)
def test_a_time_with_a_zone_is_sent_as_it_is(value, sent):
    assert moment(value) == sent


def test_a_span_counts_from_now_and_an_age_back():
    now = datetime.now(UTC)
    for value in ("7d", timedelta(days=7)):
        assert timedelta(0) <= now + timedelta(days=7, seconds=1) - datetime.fromisoformat(moment(value))
    assert age("7d") == timedelta(days=7)
    assert timedelta(0) <= age(now.isoformat()) < timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tomorrow", "'tomorrow' is not a span such as .* or a time with a zone such as"),
        ("2031-01-01", "'2031-01-01' is not a span"),
        ("2031-01-01T00:00:00", "has no time zone; 2031-01-01T00:00:00Z is in UTC"),
        ("999999999d", "too far away"),
    ],
)
def test_what_is_no_time_says_which_forms_are(value, words):
    with pytest.raises(InvalidRequest, match=words):
        moment(value)
