"""A server in this process with an application of the test: its supervisor, and what it makes of odd answers."""

import json
import select
import socket
import ssl
import struct
import threading
import time
from contextlib import ExitStack

import pytest

from lanes_testing.serving import GET, PATIENCE_SECONDS, Routes, hello, received, serving
from lanes_testing.waiting import wait_until
from wsgi_lanes.bounds import MIB, Bounds
from wsgi_lanes.connection import UNSENT_FACTOR
from wsgi_lanes.requests import Lane
from wsgi_lanes.server import FULL_SECONDS, REFUSED_AT_A_TIME, Server

STATES = ("opening", "head", "idle", "body", "working", "sending", "streaming", "lingering")


def test_the_connection_of_a_supervisor_is_not_counted_as_one_of_a_client():
    with serving() as (server, address):
        server.supervisor.sendall(GET)
        received(server.supervisor, b"hello")
        with socket.create_connection(address):
            wait_until(lambda: server.states() == {state: int(state == "head") for state in STATES})
        wait_until(lambda: not any(server.states().values()))


def test_a_request_on_the_connection_of_a_supervisor_has_a_deadline():
    with serving(head_timeout=0.1) as (server, _):
        server.supervisor.sendall(GET[:-2])
        assert received(server.supervisor, b"}").startswith(b"HTTP/1.1 408 ")


def test_the_connection_of_a_supervisor_may_be_idle_for_any_time():
    with serving(head_timeout=0.0, idle_timeout=0.0) as (server, address):
        server.supervisor.sendall(GET)
        received(server.supervisor, b"hello")
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as other:
            assert other.recv(1) == b""  # the deadlines of all were looked at
        server.supervisor.sendall(GET)
        received(server.supervisor, b"hello")


def test_the_end_does_not_wait_for_the_connection_of_a_supervisor():
    with serving() as (server, _):
        server.supervisor.sendall(GET)
        received(server.supervisor, b"hello")
        server.loop.call_soon_threadsafe(server.drain, 3600)
        wait_until(server.loop.is_closed)


def test_an_application_that_fails_answers_500_and_that_is_no_refusal():
    def failing(_environ, _start_response):
        raise RuntimeError("a fault")

    with serving(failing) as (server, address), socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        refused = []
        server.refusals.subscribe(refused.append)
        client.sendall(GET)
        head, _, body = received(client, b"}").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert b"content-type: application/problem+json" in head
    error = json.loads(body)
    assert (error["status"], error["title"]) == (500, "Internal Server Error")
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
        assert b"hello" + b"HTTP/1.1 408 Request Timeout" in received(client, b"}")


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
        server.refusals.subscribe(refused.append)
        deaf, client = (stack.enter_context(socket.create_connection(address)) for _ in range(2))
        client.settimeout(PATIENCE_SECONDS)
        deaf.sendall(GET)
        wait_until(lambda: server.unsent.used > UNSENT_FACTOR * MIB)
        client.sendall(GET)
        refusal = received(client, b"}")
        assert refusal.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in refusal
        assert b"(unsent)" in refusal
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
    monkeypatch.setattr("wsgi_lanes.server.REFUSAL_SECONDS", 3600)
    monkeypatch.setattr(
        "wsgi_lanes.admission.OVERDUE_SECONDS", 3600
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

        goes_before = next(iter(server._refused)).receiver._transport.get_extra_info("peername")
        (gone,) = [client for client in clients if client.getsockname() == goes_before]
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        clients.remove(gone)
        wait_until(lambda: len(server._refused) == waiting - 1)

        reasons = []
        server.refusals.subscribe(reasons.append)
        server.loop.call_soon_threadsafe(server._refuse_next)
        wait_until(lambda: len(reasons) == REFUSED_AT_A_TIME and len(server._refused) == waiting - 1)  # they ask again
        waits = {request.receiver._transport.get_extra_info("peername") for request in server._refused}
        refused = [client for client in clients if is_readable(client)]
        assert len(refused) == REFUSED_AT_A_TIME
        assert {client.getsockname() for client in refused} <= waits
        for client in refused:
            assert received(client, b"}").startswith(b"HTTP/1.1 503 ")

        monkeypatch.setattr("wsgi_lanes.server.REFUSAL_SECONDS", 0)
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
            assert received(client, b"}").startswith(b"HTTP/1.1 500 ")


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
        server.refusals.subscribe(reasons.append)
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
            if case == "plain HTTP to TLS":
                client.sendall(GET)
                answer = received(client, b"}")
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
