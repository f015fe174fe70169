"""``python -m tests.system.hostile.reloads [COUNT]``: reloads under load, and how many requests were lost.

Clients ask without a pause, on new connections and on kept ones. A client that keeps its connection makes another one
only after an answer that announces the end of the old one.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import NEWEST
from tests.system.segments.runs import workers_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.stead import Serving

WORKERS = 2
CLIENTS_OF_EACH_KIND = 3
RELOAD_SECONDS = 120.0  # a deadline: workers load, then the old ones drain
HEADERS = {
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": f"placement {NEWEST}",
    "Content-Type": "application/json",
}
REQUESTS = (("GET", "/", b""), ("PUT", "/traits/CUSTOM_RELOADED", b"{}"), ("GET", "/resource_providers", b""))


@dataclass
class Load:
    """Clients of a server, what they were answered, and what failed.

    Attributes:
        new, kept: answers on new connections, and on kept ones.
        lost: what happened instead of an answer.
    """

    url: str
    new: int = 0
    kept: int = 0
    lost: list[str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Ask until the block ends."""
        threads = [
            threading.Thread(target=self._ask, args=(is_kept,))
            for is_kept in (False, True)
            for _ in range(CLIENTS_OF_EACH_KIND)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()

    @property
    def answers(self) -> int:
        return self.new + self.kept

    def _ask(self, is_kept: bool) -> None:
        place = urlsplit(self.url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
        number = 0
        while not self._stopped.is_set():
            method, path, body = REQUESTS[number % len(REQUESTS)]
            number += 1
            try:
                connection.request(method, path, body, HEADERS)  # head and body are two segments
                answer = connection.getresponse()
                answer.read()
            except (OSError, HTTPException) as error:
                self.lost.append(f"{method} {path} on a {'kept' if is_kept else 'new'} connection: {error!r}")
                connection.close()
                continue
            if answer.status not in (200, 201, 204):
                self.lost.append(f"{method} {path}: {answer.status}")
            if is_kept:
                self.kept += 1  # += of several threads may lose a count, never a failure
            else:
                self.new += 1
                connection.close()
        connection.close()


def reload(server: Serving, load: Load) -> None:
    """Reload *server*; wait until all old workers have gone, and the new ones have answered some requests."""
    old = set(workers_of(server.process.pid))
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in old), seconds=RELOAD_SECONDS)
    assert len(workers_of(server.process.pid)) == WORKERS
    so_far = load.answers
    wait_until(lambda: load.answers > so_far + 20)


def reloaded(directory: Path, count: int, *, tells: bool = False) -> Load:
    """The load of a server that was reloaded *count* times."""
    configuration = write_configuration(directory, f"sqlite:///{directory}/placement.db")
    with started(configuration, workers=WORKERS) as server:
        wait_until(lambda: len(workers_of(server.process.pid)) == WORKERS)
        load = Load(server.url)
        with load.going_on():
            wait_until(lambda: load.answers > 20)
            for number in range(1, count + 1):
                reload(server, load)
                if tells and number % 10 == 0:
                    print(f"    {number} reloads, {load.answers} answers, {len(load.lost)} lost", flush=True)
    return load


def main() -> int:
    """Print what was lost; 1 if anything was."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        load = reloaded(Path(directory), count, tells=True)
    print(
        f"{count} reloads in {time.monotonic() - began:.0f} s: {load.new} requests on new connections, {load.kept} on "
        f"kept ones, {len(load.lost)} lost"
    )
    for failure in load.lost[:10]:
        print(f"    {failure}")
    return int(bool(load.lost))


if __name__ == "__main__":
    sys.exit(main())
