"""Books in a process of their own, with a call and a result per line.

``python -m tests.rooms.store.protocol.other_process`` starts it. To start one takes a second, so it waits for the next
test with another database.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from typing import Any, ClassVar, Self

from tests.checkout import ROOT
from tests.rooms.store.books import Books
from tests.rooms.store.protocol.storm import storm


class OtherProcess:
    """Calls are answered in order; `send` does not wait, `receive` does."""

    _idle: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, url: str) -> None:
        self._process = self._idle.pop() if self._idle else _start()
        self.send("open", url)  # which is not answered: several may open a database at the same time

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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # answers may be left
            self._process.kill()
            self._process.communicate()
            return
        assert self.call("close") is None
        self._idle.append(self._process)


def _start() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.rooms.store.protocol.other_process"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


class Worker(Books):
    def storm(self, seed: int, providers: list[str], rounds: int) -> Any:
        return storm(self, seed, providers, rounds)


if __name__ == "__main__":
    for line in sys.stdin:
        method, args, kwargs = json.loads(line)
        if method == "open":
            worker = Worker(*args)
        else:
            print(json.dumps(getattr(worker, method)(*args, **kwargs)), flush=True)
