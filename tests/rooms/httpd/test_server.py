"""A server in this process, with an application of the test: its own connections, and what it makes of odd answers."""

import json
import select
import socket
import ssl
import struct
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest

from stead.httpd.bounds import MIB, Bounds
from stead.httpd.connection import UNSENT_FACTOR
from stead.httpd.requests import Lane
from stead.httpd.server import FULL_SECONDS, REFUSED_AT_A_TIME, Server
from tests.waiting import wait_until

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(60)]

PATIENCE_SECONDS = 20
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
STATES = ("opening", "head", "idle", "body", "working", "sending", "streaming", "lingering")


class Routes:
    def lane(self, request):
        return Lane.READ

    def credential(self, request):
        return request.fields.get("HTTP_X_AUTH_TOKEN")

    def longest_body(self, method, path):
        return 1000


def hello(_environ, start_response):
    start_response("200 OK", [("content-type", "text/plain")])
    return [b"hello"]


@contextmanager
def serving(application=hello, context=None, **bounds):
    """A server, and the address of its listening socket; a connection of its own is `server.door`."""
    server = Server(application, Routes(), Bounds(**bounds), threads=2)
    server.door, door = socket.socketpair()
    server.door.settimeout(PATIENCE_SECONDS)
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    options = {"own": [door], "context": context}
    thread = threading.Thread(target=server.run, args=([listening],), kwargs=options, daemon=True)
    thread.start()
    try:
        yield server, address
    finally:
        with suppress(RuntimeError):  # it has ended already
            server.loop.call_soon_threadsafe(server.drain, 0)
        thread.join(PATIENCE_SECONDS)
        server.door.close()
        assert not thread.is_alive()


def received(connection, end, *, size=0, at_a_time=65536):
    """What comes until *end*, or until there are *size* bytes."""
    content = bytearray()
    while len(content) < size or not content.endswith(end):
        part = connection.recv(min(at_a_time, size - len(content)) if size else at_a_time)
        assert part, f"the connection ended after {bytes(content[:1000])!r}"
        content += part
    return bytes(content)


def test_a_connection_of_its_own_is_not_counted_as_one_of_a_client():
    with serving() as (server, address):
        server.door.sendall(GET)
        received(server.door, b"hello")
        with socket.create_connection(address):
            wait_until(lambda: server.states() == {state: int(state == "head") for state in STATES})
        wait_until(lambda: not any(server.states().values()))


def test_a_request_on_a_connection_of_its_own_has_a_deadline():
    with serving(head_timeout=0.1) as (server, _):
        server.door.sendall(GET[:-2])
        assert received(server.door, b"]}").startswith(b"HTTP/1.1 408 ")


def test_a_connection_of_its_own_may_be_idle_for_any_time():
    with serving(head_timeout=0.0, idle_timeout=0.0) as (server, address):
        server.door.sendall(GET)
        received(server.door, b"hello")
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as other:
            assert other.recv(1) == b""  # the deadlines of all were looked at
        server.door.sendall(GET)
        received(server.door, b"hello")


def test_the_end_does_not_wait_for_a_connection_of_its_own():
    with serving() as (server, _):
        server.door.sendall(GET)
        received(server.door, b"hello")
        server.loop.call_soon_threadsafe(server.drain, 3600)
        wait_until(server.loop.is_closed)


def test_an_application_that_fails_answers_500_and_that_is_no_refusal():
    def failing(_environ, _start_response):
        raise RuntimeError("a fault")

    with serving(failing) as (server, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        refused = []
        server.refusals.tell(refused.append)
        client.sendall(GET)
        head, _, body = received(client, b"]}").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    (error,) = json.loads(body)["errors"]
    assert (error["status"], error["title"]) == (500, "Internal Server Error")
    assert error["request_id"] in head.decode()
    assert refused == []


def test_a_client_is_told_to_go_on_after_the_answers_to_its_earlier_requests():
    def echo(environ, start_response):
        start_response("200 OK", [("content-length", "1")])
        return [environ["wsgi.input"].read() or b"-"]

    head = b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    with serving(echo) as (_, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        for cut in range(len(head) + 1):
            client.sendall(GET + GET + head[:cut])
            client.sendall(head[cut:])
            answers = received(client, b"HTTP/1.1 100 Continue\r\n\r\n")
            assert answers.count(b"HTTP/1.1 200 OK\r\n") == 2
            client.sendall(b"%d" % (cut % 10))
            assert received(client, b"\r\n\r\n%d" % (cut % 10)).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "piece", [GET[:20], b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx"], ids=["head", "body"]
)
def test_an_incomplete_request_behind_another_has_the_deadline_of_a_request(piece):
    with (
        serving(head_timeout=0.1, body_idle_timeout=0.1) as (_, address),
        socket.create_connection(address, timeout=PATIENCE_SECONDS) as client,
    ):
        client.sendall(GET + piece)
        assert b"hello" + b"HTTP/1.1 408 Request Timeout" in received(client, b"]}")


def test_a_body_of_an_answer_without_body_does_not_become_the_next_answer():
    def none(_environ, start_response):
        start_response("204 No Content", [("content-length", "4")])
        return [b"body"]

    with serving(none) as (_, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        for _ in range(2):
            client.sendall(GET)
            answer = received(client, b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 204 No Content\r\n")
            assert b"content-length" not in answer


def test_a_large_answer_arrives_whole_though_its_client_reads_slowly():
    pieces = [b"%d," % number * (80 * number) for number in range(500)]  # the first one is empty

    def large(_environ, start_response):
        start_response("200 OK", [])
        return list(pieces)

    whole = b"".join(pieces)
    with serving(large) as (server, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(GET + GET)
        wait_until(lambda: server.unsent.used > len(whole) // 2)
        for _ in range(2):
            head = received(client, b"\r\n\r\n", at_a_time=1)
            assert f"content-length: {len(whole)}\r\n".encode() in head
            assert received(client, b"", size=len(whole)) == whole
        wait_until(lambda: server.unsent.used == 0)


def test_large_answers_are_refused_while_far_too_many_bytes_are_unsent():
    def large(_environ, start_response):
        start_response("200 OK", [])
        return [b"x" * (16 * MIB)]

    with serving(large, unsent=MIB) as (server, address), ExitStack() as stack:
        refused = []
        server.refusals.tell(refused.append)
        deaf, client = (stack.enter_context(socket.create_connection(address)) for _ in range(2))
        client.settimeout(PATIENCE_SECONDS)
        deaf.sendall(GET)
        wait_until(lambda: server.unsent.used > UNSENT_FACTOR * MIB)
        client.sendall(GET)
        refusal = received(client, b"]}")
        assert refusal.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in refusal
        assert b"max_unsent_size" in refusal
        assert refused == ["answers"]
        client.sendall(GET.replace(b"GET", b"POST"))  # its work is done: a refusal would be wrong
        assert received(client, b"\r\n\r\n", at_a_time=1).startswith(b"HTTP/1.1 200 OK\r\n")
        deaf.close()
        received(client, b"", size=16 * MIB)
        client.sendall(GET)  # on the same connection
        assert received(client, b"\r\n\r\n", at_a_time=1).startswith(b"HTTP/1.1 200 OK\r\n")


def test_the_loop_answers_an_instant_request_while_all_threads_are_busy(monkeypatch):
    monkeypatch.setattr(Routes, "lane", lambda _self, request: Lane.INSTANT if request.path == "/" else Lane.CLAIM)
    goes_on, names = threading.Event(), []

    def app(environ, start_response):
        if environ["PATH_INFO"] != "/":
            goes_on.wait(PATIENCE_SECONDS)
        names.append(threading.current_thread().name)
        return hello(environ, start_response)

    with serving(app) as (_, address), ExitStack() as stack:
        busy = [stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS)) for _ in range(2)]
        for client in busy:  # of one unknown client, so that the second one waits
            client.sendall(GET.replace(b"/ ", b"/slow "))
        client = stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS))
        client.sendall(GET * 3)
        wait_until(lambda: len(names) == 3)
        loop = set(names)
        goes_on.set()
        for client in busy:
            received(client, b"hello")
        assert len(loop) == 1
        assert loop.isdisjoint(names[3:])


def test_requests_beyond_the_queue_are_refused_in_their_turn_and_not_at_once(monkeypatch):
    """Clients that ask again at once would take the time of the loop, which other clients need."""
    monkeypatch.setattr("stead.httpd.server.REFUSAL_SECONDS", 3600)
    monkeypatch.setattr(
        "stead.httpd.admission.OVERDUE_SECONDS", 3600
    )  # or a spare thread takes a request from the queue
    monkeypatch.setattr(Routes, "lane", lambda _, request: Lane.LIVE if request.path == "/live" else Lane.CLAIM)
    has_begun, goes_on = threading.Event(), threading.Event()

    def app(environ, start_response):
        has_begun.set()
        goes_on.wait(PATIENCE_SECONDS)
        return hello(environ, start_response)

    with serving(app, queue=1) as (server, address), ExitStack() as stack:

        def connect():
            return stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS))

        clients = [connect() for _ in range(3 * REFUSED_AT_A_TIME)]
        for client in clients:
            client.sendall(GET * 2)
            # The first request has left the queue, so that the second one fills it and all others find it full.
            assert has_begun.wait(PATIENCE_SECONDS)
        wait_until(lambda: server.states()["working"] == len(clients))
        live = connect()
        live.sendall(GET.replace(b"/ ", b"/live "))
        received(live, b'{"status": "ok"}')
        waiting = len(server._refused)
        assert waiting > 2 * REFUSED_AT_A_TIME

        goes_before = next(iter(server._refused)).answering._transport.get_extra_info("peername")
        (gone,) = [client for client in clients if client.getsockname() == goes_before]
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        clients.remove(gone)
        wait_until(lambda: len(server._refused) == waiting - 1)

        reasons = []
        server.refusals.tell(reasons.append)
        server.loop.call_soon_threadsafe(server._refuse_next)
        wait_until(lambda: len(reasons) == REFUSED_AT_A_TIME and len(server._refused) == waiting - 1)  # they ask again
        waits = {request.answering._transport.get_extra_info("peername") for request in server._refused}
        refused = [client for client in clients if is_readable(client)]
        assert len(refused) == REFUSED_AT_A_TIME
        assert {client.getsockname() for client in refused} <= waits
        for client in refused:
            assert received(client, b"]}").startswith(b"HTTP/1.1 503 ")

        monkeypatch.setattr("stead.httpd.server.REFUSAL_SECONDS", 0)
        goes_on.set()
        server.loop.call_soon_threadsafe(server._refuse_next)
        wait_until(lambda: not server._refused)


def is_readable(client):
    return bool(select.select([client], [], [], 0)[0])


def test_an_instant_request_that_fails_does_not_stop_the_loop(monkeypatch):
    monkeypatch.setattr(Routes, "lane", lambda *_: Lane.INSTANT)

    def failing(_environ, _start_response):
        raise RuntimeError("a fault")

    with serving(failing) as (_, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        for _ in range(2):
            client.sendall(GET)
            assert received(client, b"]}").startswith(b"HTTP/1.1 500 ")


def test_connections_that_are_reset_before_they_are_accepted_leave_nothing(caplog):
    with serving() as (server, address):
        for _ in range(200):
            client = socket.create_connection(address, timeout=PATIENCE_SECONDS)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(GET)
            received(client, b"hello")
        wait_until(lambda: not server._connections)
    assert caplog.records == []


def test_a_server_that_is_full_does_not_ask_all_the_time_for_connections(monkeypatch):
    looks = []
    with serving() as (server, address):
        accept = server._accept
        monkeypatch.setattr(server, "_accept", lambda listening: (looks.append(listening), accept(listening)))
        server._most_connections = -1000  # as if connections that cannot be closed filled it
        began = time.monotonic()
        with socket.create_connection(address, timeout=PATIENCE_SECONDS):
            wait_until(lambda: len(looks) >= 5)
            assert time.monotonic() - began >= 3 * FULL_SECONDS  # looks at an idle core follow each other at once
            server._most_connections = 100
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(GET)
            received(client, b"hello")


def test_nothing_more_is_written_after_the_client_has_reset_the_connection(caplog):
    called, goes_on = threading.Event(), threading.Event()

    def large(_environ, start_response):
        called.set()
        goes_on.wait(PATIENCE_SECONDS)
        start_response("200 OK", [])
        return [b"x" * MIB] * 16

    with serving(large) as (server, address):
        client = socket.create_connection(address, timeout=PATIENCE_SECONDS)
        client.sendall(GET)
        called.wait(PATIENCE_SECONDS)
        client.sendall(GET)  # the server stops reading, so that it learns of the reset when it writes
        wait_until(lambda: any(connection._reader.has_more for connection in server._connections))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        goes_on.set()
        wait_until(lambda: not any(server.states().values()))
        assert server.unsent.used == 0
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize("case", ["plain HTTP to TLS", "TLS to plain HTTP"])
def test_a_client_of_the_other_protocol_is_told_and_counted(case, tls):
    context, clients_context = tls
    with serving(context=context if case == "plain HTTP to TLS" else None) as (server, address):
        reasons = []
        server.refusals.tell(reasons.append)
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
            if case == "plain HTTP to TLS":
                client.sendall(GET)
                answer = received(client, b"]}")
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert b"connection: close" in answer
                assert b"use https" in answer
                assert not client.recv(1)
            else:
                with pytest.raises(ssl.SSLError):
                    clients_context.wrap_socket(client, server_hostname="localhost")
        wait_until(lambda: not any(server.states().values()))
        assert reasons == ["protocol"]


def test_a_client_of_tls_that_sends_nothing_has_a_deadline(tls):
    with (
        serving(context=tls[0], head_timeout=0.1) as (_, address),
        socket.create_connection(address, timeout=PATIENCE_SECONDS) as client,
    ):
        assert not client.recv(1)


@pytest.mark.parametrize("when", ["before the server runs", "before its first step"])
def test_a_server_that_drains_before_it_serves_accepts_no_connections(when):
    server = Server(hello, Routes(), Bounds(), threads=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if when == "before the server runs":
            server.drain(0)
        else:
            server.loop.call_soon(server.drain, 0)
        server.run([listening])
        assert listening.fileno() == -1
