"""Two servers of the Placement API for tests of commands: Stead, and one that has nothing beyond that API."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stead.testing.serving import placement
from tests.system.differential import released


@contextmanager
def stead_itself(_directory: Path) -> Iterator[tuple[str, str]]:
    """The URL and a token of Stead, empty and in this process; it has ended when the block has."""
    with placement() as url:
        yield str(url), "admin"


@contextmanager
def other_placement(directory: Path) -> Iterator[tuple[str, str]]:
    """The URL and a token of the released service; it has ended when the block has."""
    released.RELEASED.required_for("commands on the released service")
    with released.serving(directory) as port:
        yield f"http://127.0.0.1:{port}", "admin"
