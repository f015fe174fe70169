"""A process that keeps one throw-away server for one test run: ``python -m tests.servers.keeper KIND PLACE OWNER``.

It writes PLACE/KIND.url when the server answers, or PLACE/KIND.failed with the reason, and stops the server when it is
told to (SIGTERM) or when the process OWNER is gone, however that one ended.
"""

import os
import select
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tests.servers.programs import Unavailable
from tests.servers.throwaway import STARTERS


def told_to_stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit


def write(path: Path, text: str) -> None:
    """At once and whole: who waits for the file may read it when it is there."""
    draft = path.with_suffix(".draft-" + path.suffix[1:])
    draft.write_text(text)
    draft.rename(path)


def keep(kind: str, place: Path, owner: int) -> None:
    try:
        running = STARTERS[kind](place / "apt.lock")
    except Unavailable as unavailable:
        write(place / f"{kind}.failed", str(unavailable))
        return
    try:
        write(place / f"{kind}.url", running.url)
        with suppress(ProcessLookupError):  # it is gone already
            select.select([os.pidfd_open(owner)], [], [])
        shutil.rmtree(place, ignore_errors=True)  # nobody else is left to do it
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        running.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, told_to_stop)
    try:
        keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    except Exception as error:
        write(Path(sys.argv[2]) / f"{sys.argv[1]}.failed", f"{type(error).__name__}: {error}")
        raise
