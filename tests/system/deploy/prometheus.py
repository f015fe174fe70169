"""A Prometheus that scrapes a running service."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.system.deploy.servers import SAMPLES, free_port, program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RULES = SAMPLES / "prometheus-rules.yaml"


class Prometheus:
    """The HTTP API of the server; an answer without series if it does not answer."""

    def __init__(self, url: str) -> None:
        self._url = url

    def now(self, expression: str) -> list[Any]:
        """The series that *expression* selects now."""
        return self._series("query", query=expression)

    def between(self, expression: str, start: float, end: float, step: float) -> list[Any]:
        """The series of *expression* from *start* to *end*, which are seconds since the epoch."""
        return self._series("query_range", query=expression, start=start, end=end, step=step)

    def _series(self, path: str, **parameters: object) -> list[Any]:
        url = f"{self._url}/api/v1/{path}?{urlencode(parameters)}"
        with suppress(OSError), closing(urlopen(url, timeout=30)) as answer:
            series: list[Any] = json.load(answer)["data"]["result"]
            return series
        return []


@contextmanager
def prometheus(directory: Path, target: int) -> Iterator[Prometheus]:
    """A Prometheus that scrapes port *target* each second and evaluates the alert rules."""
    port = free_port()
    file = directory / "prometheus.yml"
    scraping = f"[{{job_name: stead, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}]"
    file.write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\nscrape_configs: {scraping}\n"
    )
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus", "prometheus"),
                f"--config.file={file}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(timeout=60)
