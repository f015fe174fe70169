"""``python -m tests.system.framing STREAMS [FIRST]``: compare many streams, a tenth also with nginx and uWSGI."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial, update_wrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from rich.progress import track

from lanes_testing.comparison import disagreement
from lanes_testing.messages import stream_of
from lanes_testing.readers import Reading, by_gunicorn, by_h11, by_server
from tests.system.framing.servers import nginx_as_reader, uwsgi

if TYPE_CHECKING:
    from collections.abc import Callable


def main(streams: int, first: int = 0) -> int:
    """The number of streams that Stead and the strictest reader understand differently."""
    wrong = 0
    with TemporaryDirectory(prefix="stead-framing-") as name, ExitStack() as stack:
        Path(name).chmod(0o755)
        compared: dict[str, Callable[[bytes], Reading]] = {}
        for server in (nginx_as_reader, uwsgi):
            try:
                reader = partial(by_server, stack.enter_context(server(Path(name))))
                compared[server.__name__] = update_wrapper(reader, server)
            except pytest.skip.Exception as why:
                print(f"NOT COMPARED with {server.__name__}: {why}")
        for number in track(range(first, first + streams), "streams"):
            stream, servers = stream_of(number), []
            if number % 10 == 0:
                # uWSGI reads one request of a connection, and no chunks.
                names = ["nginx_as_reader"] if b"chunked" in stream.lower() else list(compared)
                servers = [compared[name] for name in names if name in compared]
            shown = disagreement(stream, [by_h11, by_gunicorn], servers)
            if shown:
                wrong += 1
                print(f"{number}: {shown}")
    print(f"{streams} streams, {wrong} read in another way than the strictest reader reads them")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
