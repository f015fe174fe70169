"""Bytes to requests, cut anywhere: the grammar and the framing of HTTP/1.1, without a socket."""

import sys
from pathlib import Path
from subprocess import run

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes_testing.pieces import KINDS
from lanes_testing.reading import LONGEST, Client
from lanes_testing.refused import HEAD, REFUSED
from wsgi_lanes.answers import Refusal
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.reader import PIPELINED
from wsgi_lanes.requests import FREE_SIZE


def shown(read):
    return [
        (each.status.value, each.closes)
        if isinstance(each, Refusal)
        else (each.method, each.path, each.query, each.body, each.declared, each.keeps_connection)
        for each in read
    ]


def read(*pieces, **bounds):
    return shown(Client(Bounds(**bounds)).send(*pieces))


PUT = b"PUT /traits/CUSTOM_Q HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
GET = b"GET /traits?name=in:A%2CB HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = (
    b"POST /a%20b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n"
)
EXPECTED = {
    PUT: ("PUT", "/traits/CUSTOM_Q", "", b"{}", 2, True),
    GET: ("GET", "/traits", "name=in:A%2CB", b"", 0, True),
    CHUNKED: ("POST", "/a b", "", b"abcde", 5, True),
}
UPGRADES = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "websocket": b"Upgrade: websocket\r\nConnection: keep-alive, upgrade\r\n",
    "anything": b"Connection: upgrade\r\nUpgrade: x/1, y\r\n",
}
# As Java's HttpClient and `curl --http2` send them. An upgrade that the server ignores changes nothing.
EXPECTED |= {
    request.replace(b"Host: a\r\n", b"Host: a\r\n" + upgrade, 1): shown
    for request, shown in EXPECTED.items()
    for upgrade in UPGRADES.values()
}
SMUGGLED = b"DELETE /resource_providers/x HTTP/1.1\r\nHost: a\r\n\r\n"


@given(st.lists(st.sampled_from(list(EXPECTED)), min_size=1, max_size=4), st.data())
def test_requests_are_the_same_wherever_they_are_cut(requests, data):
    stream = b"".join(requests)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1))))
    pieces = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*pieces) == [EXPECTED[each] for each in requests]


@pytest.mark.parametrize("request_", [PUT, GET, CHUNKED], ids=["length", "none", "chunks"])
def test_a_request_is_complete_with_its_last_byte_and_not_before(request_):
    client = Client()
    assert client.send(request_[:-1]) == []
    assert client.reader.in_message
    assert len(client.send(request_[-1:])) == 1
    assert not client.reader.in_message


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("step", [1, 7, 1_000_000])
def test_the_body_of_a_request_with_upgrade_is_no_request(upgrade, framing, step):
    if framing == "length":
        body = b"Content-Length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED)
    else:
        body = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    stream = b"POST /traits HTTP/1.1\r\nHost: a\r\n" + upgrade + body + GET
    pieces = [stream[begin : begin + step] for begin in range(0, len(stream), step)]
    assert read(*pieces) == [("POST", "/traits", "", SMUGGLED, len(SMUGGLED), True), EXPECTED[GET]]


@pytest.mark.parametrize("upgrade", UPGRADES.values(), ids=UPGRADES)
def test_the_body_of_a_refused_request_with_upgrade_is_skipped(upgrade):
    body = SMUGGLED * (LONGEST // len(SMUGGLED) + 1)
    stream = b"POST /traits HTTP/1.1\r\nHost: a\r\n%bContent-Length: %d\r\n\r\n" % (upgrade, len(body))
    client = Client()
    (shown_,) = shown(client.send(stream + body[:1000], body[1000:-1]))
    assert shown_ == ("POST", "/traits", "", b"", len(body), False)
    assert client.reader.in_body, "the last byte is missing"
    assert len(client.send(body[-1:], GET)) == 1
    assert not client.reader.in_body


def test_an_upgrade_with_a_connection_that_closes_ends_it():
    stream = b"PUT / HTTP/1.1\r\nHost: a\r\nConnection: close, upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\na"
    assert read(stream + GET) == [("PUT", "/", "", b"a", 1, False)]


def test_many_requests_with_upgrade_in_one_piece_are_read_up_to_the_limit():
    request = GET.replace(b"Host: a\r\n", b"Host: a\r\n" + UPGRADES["h2c"])
    client = Client()
    requests = client.send(request * 5000)
    assert [each.keeps_connection for each in requests] == [True] * PIPELINED + [False]


CHUNKED_HEAD = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("case", REFUSED)
def test_what_breaks_the_protocol_is_refused_and_ends_the_connection(case):
    sent, status = REFUSED[case]
    assert read(sent + GET) == [(status, True)]


def test_tls_is_named_where_a_connection_begins_with_it():
    handshake = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    assert read(handshake + GET) == [(400, True)]
    assert read(GET + handshake) == [EXPECTED[GET], (501, True)]


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_before_it_is_answered_first(case):
    sent, status = REFUSED[case]
    assert read(GET + sent) == [EXPECTED[GET], (status, True)]


def test_a_list_of_codings_may_not_smuggle_a_request():
    sent = HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + GET
    assert [each[0] for each in read(sent)] in ([400], [501])


def test_an_absolute_target_comes_before_the_host():
    (request,) = Client().send(b"GET http://b:80/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (request.path, request.query, request.fields["HTTP_HOST"]) == ("/x", "y", "b:80")


def test_a_field_with_an_underscore_is_left_out():
    (request,) = Client().send(b"GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_Host: b\r\nX-Forwarded-Host: c\r\n\r\n")
    assert request.fields["HTTP_X_FORWARDED_HOST"] == "c"


def test_fields_that_come_again_are_joined():
    (request,) = Client().send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Y: b\r\nx-y:  c \r\n\r\n")
    assert request.fields["HTTP_X_Y"] == "b,c"


def test_an_upgrade_is_declined_and_the_next_request_is_read():
    upgrade = b"GET /traits?name=in:A%2CB HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    assert [each[:3] for each in read(upgrade + GET)] == [EXPECTED[GET][:3]] * 2


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 1\r\n\r\nx", b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"]
)
def test_a_client_that_expects_to_go_on_waits_until_its_body_comes(framing):
    head, end, body = framing.partition(b"\r\n\r\n")
    client = Client()
    client.send(HEAD + b"Expect: 100-Continue\r\n" + head + end)
    assert client.reader.expects_continue
    assert [each.body for each in client.send(body)] == [b"x"]
    assert not client.reader.expects_continue


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Expect: 100-continue\r\n\r\n",
        HEAD + b"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
        HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (LONGEST + 1),
        HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    ],
    ids=["no body", "an empty body", "HTTP/1.0", "a body that is too long", "a body that is there"],
)
def test_a_client_is_not_told_to_go_on_for_nothing(head):
    client = Client()
    client.send(head)
    assert not client.reader.expects_continue


def test_a_body_that_is_too_long_is_not_asked_for():
    (request,) = Client().send(HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (LONGEST + 1))
    assert (request.body, request.declared, request.keeps_connection) == (b"", LONGEST + 1, False)


@pytest.mark.parametrize("how", ["length", "chunks"])
def test_a_body_that_is_too_long_is_thrown_away(how):
    client = Client()
    if how == "length":
        head, part = b"Content-Length: %d\r\n\r\n" % (LONGEST * 9), b"x" * LONGEST
    else:
        head, part = b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%b\r\n" % (LONGEST, b"x" * LONGEST)
    read = client.send(HEAD + head, *[part] * 8)
    assert [(each.body, each.declared > LONGEST, each.keeps_connection) for each in read] == [(b"", True, False)]
    assert client.bodies.used == 0


@pytest.mark.parametrize("how", ["length", "chunks"])
@pytest.mark.parametrize("size", [1000, LONGEST, 10 * LONGEST])
def test_the_end_of_a_body_that_is_thrown_away_is_noticed(how, size):
    """A connection of TLS is closed then, and not before: its client may still send."""
    body = b"x" * 3 * LONGEST
    if how == "length":
        sent = HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    else:
        sent = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    client = Client()
    client.send(*(sent[begin : min(begin + size, len(sent) - 1)] for begin in range(0, len(sent) - 1, size)))
    assert client.reader.in_message
    client.send(sent[-1:], GET)
    assert not client.reader.in_message
    assert [(each.declared > LONGEST, each.keeps_connection) for each in client.reader.read] == [(True, False)]


def test_bodies_in_flight_are_bounded_together_and_small_ones_are_always_accepted():
    head = HEAD + b"Content-Length: %d\r\n\r\n" % LONGEST
    client = Client(bodies=LONGEST - FREE_SIZE - 1)
    assert shown(client.send(head, b"x" * LONGEST)) == [(503, True)]
    assert client.bodies.used == 0
    small = FREE_SIZE // 2
    (request,) = Client(bodies=0).send(HEAD + b"Content-Length: %d\r\n\r\n" % small + b"x" * small)
    assert (len(request.body), request.counted) == (small, 0)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 3000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 30 + b"\r\n", 431),
    ],
    ids=["target", "field", "fields"],
)
@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_a_head_is_bounded(sent, status, size):
    pieces = [sent[begin : begin + size] for begin in range(0, len(sent), size)]
    assert read(*pieces, head=2048, headers=20) == [(status, True)]


def test_many_requests_ahead_end_the_connection_after_some():
    requests = Client().send(GET * 1000)
    assert 2 <= len(requests) <= 200
    assert [each.keeps_connection for each in requests] == [True] * (len(requests) - 1) + [False]


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [("1.1", "", True), ("1.1", "close", False), ("1.0", "", False), ("1.0", "keep-alive", True)],
)
def test_a_connection_is_kept_as_the_client_says(version, connection, keeps):
    field = f"Connection: {connection}\r\n" if connection else ""
    (request,) = Client().send(f"GET / HTTP/{version}\r\nHost: a\r\n{field}\r\n".encode())
    assert request.keeps_connection is keeps


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(sent):
    client = Client()
    client.send(sent, GET, sent)
    client.reader.close()
    assert client.bodies.used == 0


# Memory: pieces of any size, of each kind of bytes, allocate no more than is counted.


@pytest.mark.parametrize("size", [1, 7, 4000, 256 * 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_allocated_is_counted(kind, size):
    # In a process of its own: the threads of other tests allocate at the same time.
    run([sys.executable, "-m", "lanes_testing.reading", kind, str(size)], cwd=Path(__file__).parent, check=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "chunks of one byte"])  # these remain small
def test_without_memory_for_more_a_request_is_refused_and_its_bytes_are_released(kind):
    client = Client(bodies=0)
    for begin in range(0, len(KINDS[kind]), 1000):
        piece = KINDS[kind][begin : begin + 1000]
        (client.reader.store(piece) if client.reader.read else client.reader.feed(piece, 1.0))
        assert client.bodies.used == 0
    refusal = client.reader.read[-1]
    assert isinstance(refusal, Refusal)
    assert (refusal.status.value, refusal.reason, refusal.closes) == (503, "bodies", True)


@pytest.mark.parametrize("end", [b"0\r\nX: ", b"1;a="], ids=["trailer", "extension"])
def test_what_stands_beside_a_body_is_bounded(end):
    client = Client()
    for piece in [CHUNKED_HEAD + end, *[b"a" * 1000] * 200]:
        client.reader.feed(piece, 1.0)
    assert shown(client.reader.read) == [(431, True)]
