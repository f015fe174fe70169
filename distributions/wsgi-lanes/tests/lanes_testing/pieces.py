"""Requests that never end, in the pieces that cost a server the most memory for each byte.

``python pieces.py KIND PORT COUNT`` sends them on COUNT connections, prints a line with
the number of bytes that the server took, and holds the connections until its standard input ends. It is a process of
its own, so that it takes no time from the one that measures.
"""

from __future__ import annotations

import resource
import selectors
import socket
import sys
from contextlib import suppress

HEAD = b"POST /allocations HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LARGE = 56 * 1024
"""Bytes on each connection, unless the server refuses them before."""

QUIET_SECONDS = 3.0
"""After this time without progress, the server takes no more."""

KINDS: dict[str, bytes] = {
    "chunks of one byte": CHUNKED + b"1\r\na\r\n" * (LARGE // 6),
    "chunks of two bytes": CHUNKED + b"2\r\nab\r\n" * (LARGE // 7),
    "body of a known length": HEAD + b"Content-Length: 65536\r\n\r\n" + b"a" * LARGE,
    "chunk extensions": CHUNKED + b"1" + b";a=b" * (LARGE // 4),
    "trailer in one field": CHUNKED + b"0\r\nX: " + b"a" * LARGE,
    "trailer of short fields": CHUNKED + b"0\r\n" + b"A:b\r\n" * (LARGE // 5),
    "head with one long field": HEAD + b"X: " + b"a" * LARGE,
    "head with a long target": b"GET /" + b"a" * LARGE,
    "head with short fields": HEAD + b"".join(b"%x:b\r\n" % number for number in range(190)),
    "head with long names": HEAD + b"".join(b"%0280d:\r\n" % number for number in range(190)),
    "pipeline of short requests": b"GET /changes HTTP/1.1\r\nHost:\r\n\r\n" * (LARGE // 32),
    "pipeline of short fields": (
        b"GET /changes HTTP/1.1\r\nHost:\r\n" + b"".join(b"%x:\r\n" % number for number in range(190)) + b"\r\n"
    )
    * (LARGE // 1000),
}
"""By name: what each connection sends."""


def send(kind: str, port: int, count: int) -> tuple[list[socket.socket], int]:
    """Open *count* connections and send on each as much as the server takes. Returns them, and the number of bytes."""
    payload = memoryview(KINDS[kind])
    ready = selectors.DefaultSelector()
    connections, taken = [], 0
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.setblocking(False)
        ready.register(connection, selectors.EVENT_WRITE, 0)
        connections.append(connection)
    while ready.get_map() and (events := ready.select(QUIET_SECONDS)):
        for key, _ in events:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            sent = 0
            with suppress(BlockingIOError):
                try:
                    sent = connection.send(payload[key.data : key.data + 8192])
                except OSError:  # refused
                    ready.unregister(connection)
                    continue
            taken += sent
            if key.data + sent == len(payload):
                ready.unregister(connection)
            else:
                ready.modify(connection, selectors.EVENT_WRITE, key.data + sent)
    return connections, taken


def main() -> None:
    """Send, say so, and hold."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kind, port, count = sys.argv[1:]
    connections, taken = send(kind, int(port), int(count))
    print(taken, flush=True)
    sys.stdin.read()
    for connection in connections:
        connection.close()


if __name__ == "__main__":
    main()
