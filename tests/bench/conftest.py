"""``stead-bench`` as somebody runs it: the command, its exit code, and the JSON it writes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stead_bench import filling, servers
from stead_bench.app import run
from stead_bench.servers import Server, Serving
from stead_bench.sites import Site


@contextmanager
def unwatched(_work: str, _size: int) -> Iterator[Callable[[int], None]]:
    yield lambda _: None


@contextmanager
def serving(folder: Path, site: Site | None) -> Iterator[Server]:
    """A Stead of its own, with *site* if there is one."""
    folder.mkdir()
    url = f"sqlite:///{folder}/stead.db"
    if site is not None:
        filling.make(url, site, unwatched)
    with servers.stead(folder, url, Serving(), durable=False) as server:
        yield server


@dataclass
class Ran:
    code: int
    out: str
    err: str
    file: Path

    @property
    def json(self) -> Any:
        return json.loads(self.file.read_text())


@pytest.fixture
def bench(tmp_path, capfd):
    """``bench("load", "--providers", "10")``."""

    def call(*arguments: str) -> Ran:
        file = tmp_path / "results" / "out.json"
        code = run([*arguments, "--out", str(file)])
        return Ran(code, *capfd.readouterr(), file)

    return call
