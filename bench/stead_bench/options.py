"""Options that several commands share, and the objects that they describe."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead_bench.peer import Peer

RESULTS = Path("bench/results")

Out = Annotated[Path, typer.Option(help="File for the JSON.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Draw tables as Markdown does.")]
Seed = Annotated[int, typer.Option(help="Seed of the differences between hosts.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of each worker.")]
Workers = Annotated[int, typer.Option(min=1, help="Worker processes of the servers that are started.")]
PeerUrl = Annotated[str | None, typer.Option("--peer", help="URL of the server to compare with.")]
PeerPid = Annotated[
    list[int] | None, typer.Option(help="Process of the peer, for its processor time; may be repeated.")
]
PeerCommand = Annotated[
    str | None,
    typer.Option(
        help="Command that runs the peer in the foreground. A peer that does not answer in time is restarted."
    ),
]
PeerToken = Annotated[str, typer.Option(help="Token of the peer.")]
PeerDatabase = Annotated[
    str | None, typer.Option(help="URL of the peer's database, to write sites straight into it; else its API is used.")
]
PeerLoaded = Annotated[bool, typer.Option("--peer-loaded", help="The peer has the site already.")]


@contextmanager
def refusing() -> Iterator[None]:
    """End the command with one line if Stead or the benchmark raises one of its own errors."""
    from stead.domain.errors import SteadError
    from stead_bench.errors import BenchError

    try:
        yield
    except SteadError as error:
        raise BenchError(str(error)) from error


@contextmanager
def peer_of(
    url: str | None,
    *,
    pids: list[int] | None,
    command: str | None,
    token: str,
    database: str | None,
    loaded: bool,
    patience: float,
) -> Iterator[Peer | None]:
    """The peer that the options name, started if necessary; None if they name none.

    Raises:
        BenchError: it does not start.
    """
    if url is None:
        yield None
        return
    from stead_bench.peer import Peer
    from stead_bench.servers import Server, Started

    with tempfile.TemporaryDirectory(prefix="stead-bench-peer-") as folder:
        started = Started(command, url, Path(folder, "peer.log")) if command is not None else None
        peer = Peer(Server("peer", url, token, tuple(pids or ()), database, patience), started, loaded)
        try:
            peer.start()
            yield peer
        finally:
            peer.stop()
