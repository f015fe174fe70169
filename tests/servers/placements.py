"""Two servers of the Placement API for tests of commands: Stead, and one that has nothing beyond that API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.differential import released


@contextmanager
def stead_itself(directory: Path) -> Iterator[tuple[str, str]]:
    """The URL and a token of Stead on SQLite; it has ended when the block has."""
    with started(write_configuration(directory, f"sqlite:///{directory}/stead.db"), workers=1) as server:
        yield server.url, server.token


@contextmanager
def other_placement(directory: Path) -> Iterator[tuple[str, str]]:
    """The URL and a token of the released service; it has ended when the block has."""
    released.RELEASED.required_for("commands on the released service")
    with released.serving(directory) as port:
        yield f"http://127.0.0.1:{port}", "admin"
