"""``stead serve`` as a process, the way an operator runs it: a placement.conf, a database, some workers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serving(configuration: Path, *, workers: int = 2) -> Iterator[str]:
    """The URL of a server on a free port; it has ended when the block has."""
    command = [sys.executable, "-c", "from stead.cli import main; main()"]
    arguments = ["--json", "serve", "--port", "0", "--workers", str(workers), "--config-file", str(configuration)]
    errors = configuration.with_name("stead.log")
    with errors.open("wb") as log:
        server = subprocess.Popen(
            [*command, *arguments],
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
            yield json.loads(line)["url"]
        finally:
            server.terminate()
            server.stdout.close()
            server.wait(timeout=30)
