"""No message is read in one way by this server and in another by h11 or gunicorn, wherever it is cut."""

from __future__ import annotations

import pytest

from lanes_testing.comparison import CORPUS, disagreement
from lanes_testing.messages import stream_of
from lanes_testing.readers import by_gunicorn, by_h11, by_this_server

pytestmark = pytest.mark.timeout(300)  # reads streams cut at every byte

STREAMS = 600


@pytest.mark.parametrize("stream", CORPUS, ids=range(len(CORPUS)))
def test_a_stream_that_was_once_read_in_two_ways_is_read_in_one(stream: bytes) -> None:
    assert disagreement(stream, [by_h11, by_gunicorn]) is None


def test_generated_streams_are_read_as_the_strictest_reader_reads_them() -> None:
    shown = (disagreement(stream_of(number), [by_h11, by_gunicorn]) for number in range(STREAMS))
    assert [each for each in shown if each] == []


def test_generated_streams_are_read_alike_wherever_they_are_cut() -> None:
    for number in range(0, STREAMS, 10):
        stream = stream_of(number)
        whole = by_this_server([stream])
        assert by_this_server(stream[place : place + 1] for place in range(len(stream))) == whole, number
        for place in range(1, len(stream), 7):
            assert by_this_server([stream[:place], stream[place:]]) == whole, (number, place)
