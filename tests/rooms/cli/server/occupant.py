"""A process that occupies a data directory as ``stead serve`` does, without serving."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import os, pathlib, sys, time
from stead.cli.server import NotServed, occupied

directory, url, until = sys.argv[1:]
try:
    with occupied(pathlib.Path(directory)) as occupation:
        occupation.decide(url)
        if until == "listens":
            occupation.announce(url)
        child = os.fork() if until == "forks" else None
        if child == 0:
            time.sleep(600)
        print(child or "occupied", flush=True)
        sys.stdin.read()
except NotServed as refused:
    print(f"refused: {refused}", flush=True)
"""


def start(directory: Path, url: str = "http://127.0.0.1:1", until: str = "listens") -> subprocess.Popen[str]:
    """Start it; its first line tells how it went. It ends when its input does."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory), url, until],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@contextmanager
def occupant(
    directory: Path, url: str = "http://127.0.0.1:1", until: str = "listens"
) -> Iterator[subprocess.Popen[str]]:
    """One that has the directory; it is killed in the end."""
    with start(directory, url, until) as process:
        assert process.stdout is not None
        process.told = process.stdout.readline().strip()  # type: ignore[attr-defined]  # a note for the test
        try:
            yield process
        finally:
            process.kill()
