"""How much the event loop does in one turn, before it looks for new events: other clients wait for that only."""

import socket
import threading
import time
from contextlib import ExitStack
from itertools import pairwise

import pytest

from lanes_testing.serving import GET, Routes, received, serving
from lanes_testing.waiting import wait_until
from wsgi_lanes.bounds import LEAST_READ, READ_SIZE, TURN_SIZE, Reading
from wsgi_lanes.requests import FREE_SIZE
from wsgi_lanes.server import CHECKED_AT_A_TIME

CLIENTS = 60
SENT = 100_000
"""Bytes of each client: more than one read takes, less than a socket holds. All together are many turns."""


class Uploads(Routes):
    def longest_body(self, method, path):
        return 2 * SENT


def turns(server, seen, until):
    """What *seen* returns at each turn of the loop, until *until* does."""
    values = [seen()]

    def look():
        values.append(seen())
        if not until():
            server.loop.call_soon(look)

    server.loop.call_soon_threadsafe(look)
    return values


def held(server):
    """Stop the loop; returns a function that lets it go on."""
    stopped, go_on = threading.Event(), threading.Event()
    server.loop.call_soon_threadsafe(lambda: (stopped.set(), go_on.wait()))
    stopped.wait()
    return go_on.set


@pytest.mark.parametrize("piece", [b"a" * 1000, b"1\r\na\r\n" * 170], ids=["a known length", "chunks of one byte"])
def test_a_turn_reads_a_bounded_number_of_bytes_of_all_connections(piece):
    is_chunked = piece.startswith(b"1")
    how = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % (2 * SENT)
    body = (piece * SENT)[:SENT]
    content = body.count(b"a")
    expected = CLIENTS * (content - FREE_SIZE)
    with serving(routes=Uploads()) as (server, address), ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address)) for _ in range(CLIENTS)]
        for client in clients:
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\n" + how + b"\r\n\r\n")
        wait_until(lambda: server.states()["body"] == CLIENTS)
        go_on = held(server)
        for client in clients:
            client.sendall(body)
        is_over = threading.Event()
        used = turns(server, lambda: server.bodies.used, is_over.is_set)
        go_on()
        with socket.create_connection(address) as other:
            other.sendall(GET)
            assert b"200 OK" in received(other, b"hello")
        wait_until(lambda: server.bodies.used >= expected * 0.9)
        is_over.set()
        most = max(later - before for before, later in pairwise(used))
    assert 0 < most <= TURN_SIZE + CLIENTS * LEAST_READ


def test_a_turn_ends_a_bounded_number_of_overdue_connections():
    most, seconds = 3 * CHECKED_AT_A_TIME, 4.0  # long enough to open so many on a busy machine
    with serving(head_timeout=seconds) as (server, address), ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(socket.create_connection(address))
        wait_until(lambda: server.states()["head"] == most)
        go_on = held(server)
        is_over = threading.Event()
        waiting = turns(server, lambda: server.states()["head"], is_over.is_set)
        time.sleep(seconds)  # all become overdue together
        go_on()
        wait_until(lambda: not server.states()["head"])
        is_over.set()
    assert max(before - after for before, after in pairwise(waiting)) <= CHECKED_AT_A_TIME


def test_each_read_is_smaller_when_the_bytes_of_a_turn_are_used_up():
    scheduled = []
    reading = Reading(scheduled.append)
    sizes = []
    while len(sizes) < 8:
        sizes.append(len(reading.buffer()))
        reading.buffer()[:5] = b"bytes"
        assert reading.read(sizes[-1])[:5] == b"bytes"
    full = TURN_SIZE // READ_SIZE
    assert sizes == [READ_SIZE] * full + [LEAST_READ] * (8 - full)
    (begin,) = scheduled
    begin()
    assert len(reading.buffer()) == READ_SIZE


def test_small_reads_make_the_loop_look_no_more_often():
    scheduled = []
    reading = Reading(scheduled.append)
    for _ in range(100):
        reading.read(1000)
    assert scheduled == []
