"""The cost of a scrape of the capacity metrics: ``python -m stead_bench.capacity_metrics [HOSTS]`` (10,000 hosts).

In this process, without a network: processor time in ms, the minimum of several runs, and the bytes of the text.
"""

from __future__ import annotations

import gzip
import logging
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, get_args

from rich.console import Console
from rich.table import Table

from stead.application import build_service
from stead.config import load
from stead.config.settings import CapacityMetrics
from stead.observation import capacity_text
from stead_bench import filling
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNS = 5


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    logging.disable()
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/placement.db"
        filling.make(url, Site("flat", hosts), _silent)
        file = Path(directory, "placement.conf")
        file.write_text(f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n")
        service = build_service(load([file]))
        table = Table("capacity_metrics", "CPU, ms", "bytes", "compressed", title=f"{hosts:,} hosts")
        for level in get_args(CapacityMetrics):
            seconds, text = min(_timed(partial(capacity_text, service, level, ())) for _ in range(RUNS))
            small = len(gzip.compress(text.encode(), compresslevel=1))
            table.add_row(level, f"{seconds * 1e3:.1f}", f"{len(text):,}", f"{small:,}")
        Console().print(table)
        service.close()


@contextmanager
def _silent(work: str, size: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # the names are those of a Watcher
    yield lambda _: None


def _timed(make: Callable[[], str]) -> tuple[float, str]:
    began = time.process_time()
    text = make()
    return time.process_time() - began, text


if __name__ == "__main__":
    main()
