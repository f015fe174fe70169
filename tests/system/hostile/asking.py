"""Clients that ask again as soon as they have an answer, each on a connection of its own.

``python -m tests.system.hostile.asking PORT COUNT TARGET`` asks for TARGET on COUNT connections until its standard
input ends, and prints how many answers had which status. It is a process of its own, so that it takes no time from the
probes.
"""

from __future__ import annotations

import resource
import selectors
import socket
import sys
from collections import Counter
from contextlib import suppress

from tests.system.api.client import NEWEST

CONNECTED_AT_A_TIME = 64


class _Clients:
    """The connections, and what they got."""

    def __init__(self, port: int, target: str) -> None:
        self.statuses: Counter[str] = Counter()
        self.ready = selectors.DefaultSelector()
        self._address = ("127.0.0.1", port)
        self._request = (
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin:asking\r\n"
            f"OpenStack-API-Version: placement {NEWEST}\r\n\r\n"
        ).encode()

    def connect(self) -> None:
        """Open one connection, and ask on it."""
        connection = socket.create_connection(self._address, timeout=60)
        connection.setblocking(False)
        self.ready.register(connection, selectors.EVENT_READ, bytearray())
        connection.send(self._request)

    def receive(self, key: selectors.SelectorKey) -> None:
        """Take what has arrived on one connection. After a complete answer, ask again."""
        connection, received = key.fileobj, key.data
        assert isinstance(connection, socket.socket)
        try:
            part = connection.recv(65536)
            received += part
            if part and not _is_complete(received):
                return
            if part:
                self.statuses[received[9:12].decode()] += 1
                received.clear()
                connection.send(self._request)
                return
        except OSError:
            pass
        self.statuses["closed"] += 1
        self.ready.unregister(connection)
        connection.close()
        with suppress(OSError):
            self.connect()


def _is_complete(received: bytearray) -> bool:
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = received.lower().find(b"\r\ncontent-length: ", 0, end)
    if length < 0:
        return True
    return len(received) >= end + 4 + int(received[length + 18 : received.index(b"\r\n", length + 18)])


def main() -> None:
    """Ask until the standard input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, count, target = sys.argv[1:]
    clients = _Clients(int(port), target)
    clients.ready.register(sys.stdin, selectors.EVENT_READ)
    remaining = int(count)
    while True:
        for key, _ in clients.ready.select(0 if remaining else None):
            if key.fileobj is sys.stdin:
                print(*(f"{status} {number}" for status, number in sorted(clients.statuses.items())), flush=True)
                return
            clients.receive(key)
        for _ in range(min(remaining, CONNECTED_AT_A_TIME)):
            clients.connect()
            remaining -= 1
        if not remaining and clients.statuses["open"] == 0:
            clients.statuses["open"] = int(count)
            print("open", flush=True)


if __name__ == "__main__":
    main()
