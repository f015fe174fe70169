"""``stead serve`` as a process, the way an operator runs it: a placement.conf, a database, some workers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

STEAD = (sys.executable, "-c", "from stead.cli import main; main()")


@dataclass(frozen=True)
class Serving:
    """A server that listens at *url*."""

    url: str
    process: subprocess.Popen[bytes]
    token: str = "admin"
    """What it takes with ``noauth2``."""

    def kill(self) -> None:
        """SIGKILL to the main process and all workers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def started(configuration: Path, *, workers: int = 2, options: Sequence[str] = ()) -> Iterator[Serving]:
    """A server on a free port, or where *options* say; it has ended when the block has."""
    arguments = ["--json", "serve", "--port", "0", "--workers", str(workers), "--config-file", str(configuration)]
    errors = configuration.with_suffix(".log")
    with errors.open("wb") as log:
        server = subprocess.Popen(
            [*STEAD, *arguments, *options],
            cwd=configuration.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            assert line, errors.read_text()
            yield Serving(json.loads(line)["url"], server)
        finally:
            server.terminate()
            server.stdout.close()
            server.wait(timeout=60)


@contextmanager
def serving(configuration: Path, *, workers: int = 2) -> Iterator[str]:
    """The URL of a server on a free port; it has ended when the block has."""
    with started(configuration, workers=workers) as server:
        yield server.url
