"""A reader without a socket, and how much it allocates beyond what it counts.

`python -m lanes_testing.reading KIND SIZE` feeds the bytes of a kind in pieces of a size to some readers, in a process
that does nothing else, and fails when they hold more than they have counted.
"""

import gc
import sys
import tracemalloc

from lanes_testing.pieces import KINDS
from wsgi_lanes.bounds import Bounds, Budget
from wsgi_lanes.reader import SLICE, Reader
from wsgi_lanes.requests import FREE_SIZE, Lane, Peers

LONGEST = 100_000
BOUNDS = Bounds()


class Routes:
    def lane(self, request):
        return Lane.READ

    def credential(self, request):
        return request.fields.get("HTTP_X_AUTH_TOKEN")

    def longest_body(self, method, path):
        return LONGEST


class Client:
    """Sends bytes to a reader, and has what it made of them."""

    def __init__(self, bounds=BOUNDS, bodies=4_000_000):
        self.bodies = Budget(bodies)
        self.reader = Reader(
            Peers("192.0.2.1", False, {}),
            self,
            bounds=bounds,
            routes=Routes(),
            bodies=self.bodies,
        )

    def send(self, *pieces):
        """Send *pieces*, and return the requests and refusals that the reader has made of them and keeps."""
        read = []
        for piece in pieces:
            self.reader.feed(piece, 1.0)
            while self.reader.has_more:
                read += self.reader.read
                self.reader.read.clear()
                self.reader.proceed(1.0)
        self.reader.read.extend(read)
        return read


READERS = 4
PARSED_AHEAD = 2 * SLICE
"""Bytes that the last slice may add before it is counted, and the reader with its parser."""


def beyond_what_is_counted(sent: bytes, size: int) -> int:
    """Bytes that some readers have allocated for *sent* in pieces of *size*, beyond those that they have counted."""
    clients = [Client(bodies=1_000_000_000) for _ in range(READERS)]
    gc.collect()
    tracemalloc.start()
    for client in clients:
        for begin in range(0, len(sent), size):
            piece = bytes(bytearray(sent[begin : begin + size]))  # its own bytes, as a socket has them
            (client.reader.store(piece) if client.reader.read else client.reader.feed(piece, 1.0))
    del piece
    gc.collect()
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = sum(client.bodies.used for client in clients)
    for client in clients:
        client.reader.close()
        assert client.bodies.used == 0
    return allocated - counted


if __name__ == "__main__":
    kind, size = sys.argv[1], int(sys.argv[2])
    beyond = beyond_what_is_counted(KINDS[kind][: 4000 * size], size)
    assert beyond <= READERS * (FREE_SIZE + PARSED_AHEAD), f"{beyond} bytes are allocated and not counted"
