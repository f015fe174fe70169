"""The head of an answer: its framing, and that no field can forge another."""

import re

import pytest

from wsgi_lanes.answers import has_no_body, head_of

PARTS = (("name", "location"), ("value", "/traits"), ("status", "201 Created"))


def fields(head):
    """The status line, and the fields with their names in small letters, but for the date."""
    assert head.endswith(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")[:-2]
    pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    dates = [value for name, value in pairs if name == "date"]
    assert len(dates) == 1
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", dates[0])
    return status, [pair for pair in pairs if pair[0] != "date"]


def test_a_head_has_the_status_the_application_s_fields_and_the_length():
    head = head_of("200 OK", [("Content-Type", "text/plain"), ("X-Name", "caf\xe9")], length=5, closes=False)
    assert fields(head) == (
        "HTTP/1.1 200 OK",
        [("content-type", "text/plain"), ("x-name", "caf\xe9"), ("content-length", "5")],
    )


@pytest.mark.parametrize("ending", ["\r\nset-cookie: a=b", "\n", "\r", "\r\n\r\n<html>", "\r\n folded"], ids=repr)
@pytest.mark.parametrize("place", ["name", "value", "status"])
def test_a_line_break_forges_no_field_but_is_an_error(place, ending):
    name, value, status = (text + ending if place == part else text for part, text in PARTS)
    with pytest.raises(ValueError, match="line break"):
        head_of(status, [(name, value)], length=0, closes=False)


@pytest.mark.parametrize("own", ["Connection", "Transfer-Encoding", "Date", "connection"])
def test_an_application_does_not_decide_on_the_connection(own):
    assert fields(head_of("200 OK", [(own, "of the application")], length=1, closes=False))[1] == [
        ("content-length", "1")
    ]


@pytest.mark.parametrize("declared", ["3", "7"])
def test_the_length_is_that_of_the_body_and_stands_there_once(declared):
    headers = [("Content-Length", declared)]
    assert fields(head_of("200 OK", headers, length=5, closes=False))[1] == [("content-length", "5")]


def test_an_answer_to_head_has_the_length_that_the_application_declares_or_none():
    declared = [("content-length", "12345")]
    assert fields(head_of("200 OK", declared, length=None, closes=False))[1] == declared
    assert fields(head_of("200 OK", [], length=None, closes=False))[1] == []


def test_an_answer_in_chunks_has_no_length():
    headers = [("content-length", "5"), ("content-type", "text/event-stream")]
    assert fields(head_of("200 OK", headers, length=None, closes=False, chunked=True))[1] == [
        ("content-type", "text/event-stream"),
        ("transfer-encoding", "chunked"),
    ]


@pytest.mark.parametrize(
    ("status", "has_none"), [("204 No Content", True), ("304 Not Modified", True), ("200 OK", False)]
)
def test_which_answers_end_after_their_head(status, has_none):
    assert has_no_body(status) is has_none


@pytest.mark.parametrize(
    ("status", "lengths"), [("204 No Content", []), ("304 Not Modified", [("content-length", "7")])]
)
def test_a_204_has_no_length_even_if_the_application_gives_one(status, lengths):
    assert fields(head_of(status, [("Content-Length", "7")], length=None, closes=False))[1] == lengths


def test_an_empty_body_has_a_length_or_the_client_would_wait_for_its_end():
    assert fields(head_of("201 Created", [], length=0, closes=False))[1] == [("content-length", "0")]


def test_a_head_says_whether_the_connection_ends():
    assert fields(head_of("200 OK", [], length=1, closes=True))[1][1:] == [("connection", "close")]
    assert fields(head_of("200 OK", [], length=1, closes=True, keeps_1_0=True))[1][1:] == [("connection", "close")]
    assert fields(head_of("200 OK", [], length=1, closes=False, keeps_1_0=True))[1][1:] == [
        ("connection", "keep-alive")
    ]
    assert fields(head_of("200 OK", [], length=1, closes=False))[1][1:] == []
