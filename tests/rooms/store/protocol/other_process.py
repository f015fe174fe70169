"""Books in a process of their own, with a call and a result per line.

``python -m tests.rooms.store.protocol.other_process URL`` starts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Self

from tests.checkout import ROOT
from tests.rooms.store.books import Books
from tests.rooms.store.protocol.storm import storm


class OtherProcess:
    """Calls are answered in order; `send` does not wait, `receive` does."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.rooms.store.protocol.other_process", url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, method: str, *args: object, **kwargs: object) -> None:
        assert self._process.stdin
        print(json.dumps([method, args, kwargs]), file=self._process.stdin, flush=True)

    def receive(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the other process is gone"
        return json.loads(line)

    def call(self, method: str, *args: object, **kwargs: object) -> Any:
        self.send(method, *args, **kwargs)
        return self.receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(60) == 0


class Worker(Books):
    def storm(self, seed: int, providers: list[str], rounds: int) -> Any:
        return storm(self, seed, providers, rounds)


if __name__ == "__main__":
    worker = Worker(sys.argv[1])
    for line in sys.stdin:
        method, args, kwargs = json.loads(line)
        print(json.dumps(getattr(worker, method)(*args, **kwargs)), flush=True)
    worker.close()
