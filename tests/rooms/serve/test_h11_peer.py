"""HTTP/1.1 between a live server and a peer that speaks by h11, which refuses answers that break RFC 9112."""

from __future__ import annotations

import socket
from json import loads
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes_testing.refused import HEAD, REFUSED
from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.system.api.client import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # starts a server

USER = [("Host", "localhost"), ("X-Auth-Token", "admin"), ("OpenStack-API-Version", f"placement {NEWEST}, stead 1.0")]
JSON = [*USER, ("Content-Type", "application/json")]
TRAIT = "/traits/CUSTOM_H11"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    directory = tmp_path_factory.mktemp("h11")
    with serving(write_configuration(directory, f"sqlite:///{directory}/p.db"), workers=1) as url:
        yield "127.0.0.1", int(url.rpartition(":")[2])


class Peer:
    """A client on one connection."""

    def __init__(self, place: tuple[str, int]) -> None:
        self.connection = socket.create_connection(place, timeout=30)
        self.h11 = h11.Connection(h11.CLIENT)
        self.received: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, *events: h11.Event) -> None:
        self.connection.sendall(b"".join(self.h11.send(event) or b"" for event in events))

    def next(self) -> Any:
        """The next event; `ConnectionClosed` if the server has ended the connection."""
        while True:
            event = self.h11.next_event()
            if event is not h11.NEED_DATA:
                return event
            self.receive()

    def receive(self) -> None:
        data = self.connection.recv(65536)
        self.received.append(data)
        self.h11.receive_data(data)

    def answer(self) -> tuple[h11.Response, bytes]:
        """The next answer and its body, to its end."""
        response, body = self.next(), b""
        assert isinstance(response, h11.Response), response
        while isinstance(event := self.next(), h11.Data):
            body += event.data
        assert isinstance(event, h11.EndOfMessage), event
        return response, body

    def ask(
        self, method: str, target: str, body: bytes = b"", headers: list[tuple[str, str]] = JSON
    ) -> tuple[h11.Response, bytes]:
        if body:
            headers = [*headers, ("Content-Length", str(len(body)))]
        self.send(h11.Request(method=method, target=target, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        return self.answer()


@pytest.fixture
def peer(place: tuple[str, int]) -> Iterator[Peer]:
    with Peer(place) as peer:
        yield peer


def fields(response: h11.Response) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in response.headers}


def test_one_connection_serves_all_kinds_of_answers(peer: Peer) -> None:
    asked: list[tuple[str, str, bytes, set[int]]] = [
        ("GET", "/", b"", {200}),
        ("HEAD", "/traits", b"", {405}),
        ("HEAD", "/healthcheck", b"", {200}),
        ("PUT", TRAIT, b"{}", {201, 204}),
        ("PUT", TRAIT, b"", {204}),
        ("GET", TRAIT, b"", {204}),
        ("GET", "/nothing", b"{}", {404}),
        ("POST", "/resource_providers", b"{", {400}),
        ("OPTIONS", "/traits", b"{}", {405}),
        ("GET", "/traits", b"", {200}),
        ("GET", "/changes", b"", {200}),
    ]
    for method, target, body, statuses in [*asked, *asked]:
        response, received = peer.ask(method, target, body)
        assert response.status_code in statuses, (method, target, received)
        if response.status_code == 204:
            assert "content-length" not in fields(response)
        elif method != "HEAD":
            assert int(fields(response)["content-length"]) == len(received)
        peer.h11.start_next_cycle()  # an error if the answer ended the connection


def test_an_answer_to_head_has_no_body(peer: Peer) -> None:
    for target in ("/healthcheck", "/healthcheck/live", "/", "/nothing", "/traits"):
        response, body = peer.ask("HEAD", target)
        assert body == b""
        assert response.status_code in (200, 404, 405)
        peer.h11.start_next_cycle()
        shown, its_body = peer.ask("GET", target)
        if response.status_code == shown.status_code:
            assert fields(response).get("content-length") in (None, str(len(its_body)))
        peer.h11.start_next_cycle()


def test_a_client_that_closes_is_told_so_and_the_server_ends_the_connection(peer: Peer) -> None:
    response, _ = peer.ask("GET", "/traits", headers=[*USER, ("Connection", "close")])
    assert fields(response)["connection"] == "close"
    assert peer.h11.their_state is h11.MUST_CLOSE
    assert isinstance(peer.next(), h11.ConnectionClosed)


@pytest.mark.parametrize(("connection", "is_kept"), [(None, False), ("close", False), ("keep-alive", True)])
def test_a_client_of_http_1_0(peer: Peer, connection: str | None, is_kept: bool) -> None:
    headers = [*USER, *([("Connection", connection)] if connection else [])]
    # h11 sends HTTP/1.1 alone.
    request = peer.h11.send(h11.Request(method="GET", target="/traits", headers=headers))
    assert request is not None
    peer.h11.send(h11.EndOfMessage())
    for _ in range(2 if is_kept else 1):
        peer.connection.sendall(request.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        response, body = peer.answer()
        assert response.status_code == 200
        assert b"HW_CPU_X86_SHA" in body
        assert fields(response)["connection"] == ("keep-alive" if is_kept else "close")
        if is_kept:
            peer.h11 = h11.Connection(h11.CLIENT)
            peer.h11.send(h11.Request(method="GET", target="/traits", headers=headers))
            peer.h11.send(h11.EndOfMessage())
    if not is_kept:
        assert peer.connection.recv(1) == b""


def test_a_body_in_chunks_is_put_together_and_its_trailers_change_nothing(peer: Peer) -> None:
    @settings(max_examples=20, deadline=None)
    @given(st.sets(st.integers(1, 40)), st.lists(st.sampled_from(["X-Trailer", "Content-Type", "X-Auth-Token"])))
    def put_together(cuts: set[int], trailers: list[str]) -> None:
        uuid = str(uuid4())
        body = b'{"name": "%b", "uuid": "%b"}' % (uuid.encode(), uuid.encode())
        ends = [*sorted(cuts), len(body)]
        peer.send(
            h11.Request(method="POST", target="/resource_providers", headers=[*JSON, ("Transfer-Encoding", "chunked")]),
            *(h11.Data(data=body[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)),
            h11.EndOfMessage(headers=[(name, "text/plain") for name in trailers]),
        )
        response, received = peer.answer()
        assert response.status_code == 200, received
        assert loads(received)["name"] == uuid
        peer.h11.start_next_cycle()

    put_together()


def test_a_client_that_expects_to_go_on_is_told_to(peer: Peer) -> None:
    body = b"{}"
    headers = [*JSON, ("Expect", "100-continue"), ("Content-Length", str(len(body)))]
    peer.send(h11.Request(method="PUT", target=TRAIT, headers=headers))
    told = peer.next()
    assert isinstance(told, h11.InformationalResponse)
    assert told.status_code == 100
    peer.send(h11.Data(data=body), h11.EndOfMessage())
    assert peer.answer()[0].status_code in (201, 204)
    peer.h11.start_next_cycle()
    assert peer.ask("GET", TRAIT)[0].status_code == 204


def test_a_body_that_is_too_long_is_refused_instead_of_being_asked_for(peer: Peer) -> None:
    headers = [*JSON, ("Expect", "100-continue"), ("Content-Length", str(10**9))]
    peer.send(h11.Request(method="PUT", target=TRAIT, headers=headers))
    response, _ = peer.answer()
    assert (response.status_code, fields(response)["connection"]) == (413, "close")


@pytest.mark.parametrize("headers", [JSON, [("Host", "localhost")]], ids=["token", "no token"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("expects", [False, True], ids=["", "expects"])
def test_a_body_that_no_route_reads_is_read_and_the_connection_is_kept(
    peer: Peer, headers: list[tuple[str, str]], framing: str, expects: bool
) -> None:
    body = b"DELETE /traits/CUSTOM_INNER HTTP/1.1\r\nHost: a\r\n\r\n"
    length = ("Content-Length", str(len(body))) if framing == "length" else ("Transfer-Encoding", "chunked")
    headers = [*headers, length, *([("Expect", "100-continue")] if expects else [])]
    for method in ("HEAD", "OPTIONS", "GET", "TRACE", "DELETE", "PATCH", "PUT"):
        for target in ("/traits", "/nothing", "/healthcheck", "/healthcheck/live", TRAIT):
            peer.send(h11.Request(method=method, target=target, headers=headers))
            if expects:  # whatever the final answer is
                told = peer.next()
                assert isinstance(told, h11.InformationalResponse)
                assert told.status_code == 100
            peer.send(h11.Data(data=body), h11.EndOfMessage())
            response, received = peer.answer()
            assert response.status_code < 500, (method, target, received)
            assert method != "HEAD" or received == b""
            peer.h11.start_next_cycle()
            response, received = peer.ask("GET", "/traits/CUSTOM_ASKED_NEXT")
            assert response.status_code == 404
            assert b"CUSTOM_ASKED_NEXT" in received, (method, target)
            peer.h11.start_next_cycle()


@pytest.mark.parametrize("target", ["/traits", "/nothing", TRAIT])
@pytest.mark.parametrize("headers", [JSON, [("Host", "localhost")]], ids=["token", "no token"])
@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS"])
def test_a_body_that_is_too_long_ends_the_connection_whatever_the_answer(
    place: tuple[str, int], method: str, target: str, headers: list[tuple[str, str]]
) -> None:
    for length, expect in [(10**9, []), (10**9, [("Expect", "100-continue")])]:
        with Peer(place) as peer:
            peer.send(
                h11.Request(method=method, target=target, headers=[*headers, *expect, ("Content-Length", str(length))])
            )
            response, _ = peer.answer()
            assert response.status_code in (401, 404, 405, 413)
            assert fields(response)["connection"] == "close"


def test_a_pipeline_is_answered_in_order(place: tuple[str, int]) -> None:
    names = [f"CUSTOM_PIPE_{number}" for number in range(30)]
    asked: list[tuple[str, str, bytes]] = []
    for name in names:
        asked += [
            ("PUT", f"/traits/{name}", b"{}"),
            ("GET", f"/traits/{name}", b""),
            ("GET", f"/resource_classes/{name}", b""),
        ]
    with Peer(place) as peer:
        talks = []
        sent = b""
        for method, target, body in asked:
            talk = h11.Connection(h11.CLIENT)  # each knows one request, and its answer
            headers = [*JSON, *([("Content-Length", str(len(body)))] if body else [])]
            for event in (
                h11.Request(method=method, target=target, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                sent += talk.send(event) or b""
            talks.append(talk)
        peer.connection.sendall(sent)
        rest = b""
        for (method, target, _), talk in zip(asked, talks, strict=True):
            peer.h11 = talk
            talk.receive_data(rest) if rest else None
            response, body = peer.answer()
            rest, _ = talk.trailing_data
            if method == "PUT":
                assert response.status_code == 201
            elif target.startswith("/traits"):
                assert response.status_code == 204
            else:
                assert response.status_code == 404
                assert target.rpartition("/")[2].encode() in body
        assert rest == b""


def test_a_stream_comes_in_chunks(peer: Peer, place: tuple[str, int]) -> None:
    peer.send(
        h11.Request(method="GET", target="/changes", headers=[*USER, ("Accept", "text/event-stream")]),
        h11.EndOfMessage(),
    )
    response = peer.next()
    assert (response.status_code, fields(response)["transfer-encoding"]) == (200, "chunked")
    uuid = str(uuid4())
    with Peer(place) as other:
        made = b'{"name": "%b", "uuid": "%b"}' % (uuid.encode(), uuid.encode())
        assert other.ask("POST", "/resource_providers", made)[0].status_code == 200
    text = b""
    while uuid.encode() not in text:
        event = peer.next()
        assert isinstance(event, h11.Data), event
        text += event.data


# What breaks the protocol: by raw sockets, since h11 sends none of it. Its answer, h11 must understand.

MORE_REFUSED = {
    "conflicting lengths far apart": (
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
        400,
    ),
    "a folded length": (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n 5\r\n\r\nabcde", 400),
    "a chunk without its end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n", 400),
    "a size of a chunk with 20 digits": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n", 400),
    "a bare line feed after the size of a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400),
}
NEXT = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def until_end(connection: socket.socket) -> bytes:
    """All that the server sends; a reset is an error."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def the_only_answer(received: bytes) -> h11.Response:
    """The one answer that *received* has, which must announce the end of the connection."""
    talk = h11.Connection(h11.CLIENT)
    talk.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    talk.send(h11.EndOfMessage())
    talk.receive_data(received)
    response = talk.next_event()
    assert isinstance(response, h11.Response), received
    while isinstance(event := talk.next_event(), h11.Data):
        pass
    assert isinstance(event, h11.EndOfMessage)
    assert fields(response)["connection"] == "close"
    assert talk.trailing_data == (b"", False)
    return response


@pytest.mark.parametrize("size", [1, 10_000], ids=["byte by byte", "at once"])
@pytest.mark.parametrize("case", REFUSED | MORE_REFUSED)
def test_what_breaks_the_protocol_is_refused_and_the_end_is_announced(
    place: tuple[str, int], case: str, size: int
) -> None:
    sent, status = (REFUSED | MORE_REFUSED)[case]
    with socket.create_connection(place, timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = sent + NEXT
        for begin in range(0, len(whole), size):
            connection.sendall(whole[begin : begin + size])
        assert the_only_answer(until_end(connection)).status_code == status


TRUNCATED: dict[str, tuple[bytes, int | None]] = {
    "a body that is shorter than its length": (HEAD + b"Content-Length: 3\r\n\r\n{}", 400),
    "a body without a byte": (HEAD + b"Content-Length: 3\r\n\r\n", 400),
    "a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc", 400),
    "chunks without the last": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", 400),
    "the last chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", 400),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n", 400),
    "a head": (b"GET /traits HTTP/1.1\r\nHost: a\r\n", None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize("case", TRUNCATED)
def test_a_request_that_ends_too_early_is_not_one(place: tuple[str, int], case: str) -> None:
    sent, status = TRUNCATED[case]
    with socket.create_connection(place, timeout=30) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = until_end(connection)
    if status is None:
        assert received == b""
    else:
        assert the_only_answer(received).status_code == status


def test_a_truncated_write_changes_nothing(place: tuple[str, int]) -> None:
    name = f"CUSTOM_{uuid4().hex.upper()}"
    head = "\r\n".join(f"{key}: {value}" for key, value in JSON)
    with socket.create_connection(place, timeout=30) as connection:
        connection.sendall(f"PUT /traits/{name} HTTP/1.1\r\n{head}\r\nContent-Length: 3\r\n\r\n{{}}".encode())
        connection.shutdown(socket.SHUT_WR)
        assert the_only_answer(until_end(connection)).status_code == 400
    with Peer(place) as peer:
        assert peer.ask("GET", f"/traits/{name}")[0].status_code == 404
