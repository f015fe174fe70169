"""The cost of observation for a request: ``python -m stead_bench.watching``.

In this process, without a network: microseconds of a request for the root document and of a small query for candidates,
without observation, with metrics, and with a log line of either form: the minimum of seven runs of 1,500.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from oslo_log.formatters import ContextFormatter
from rich.console import Console
from rich.table import Table

from stead.application import assemble, build_service
from stead.config import load
from stead.observe import metrics
from stead.observe.log import JsonLines
from stead.observe.metrics import Recorder

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

RUNS, REQUESTS = 7, 1500
PROVIDER = "/resource_providers/11111111-1111-4111-8111-111111111111"


def main() -> None:
    """Measure and show."""
    with TemporaryDirectory() as directory:
        file = Path(directory, "placement.conf")
        file.write_text(
            f"[placement_database]\nconnection = sqlite:///{directory}/placement.db\nsync_on_startup = true\n"
            "[api]\nauth_strategy = noauth2\n"
        )
        settings = load([file])
        service = build_service(settings)
        plain, measured = (
            assemble(service, settings, SimpleNamespace(watchers=watchers))  # type: ignore[arg-type]  # all it asks for
            for watchers in ([], [metrics.RequestMetrics(Recorder())])
        )
        ask(plain, "POST", "/resource_providers", {"uuid": PROVIDER[-36:], "name": "host"})
        room = {"VCPU": {"total": 4}}
        ask(plain, "PUT", f"{PROVIDER}/inventories", {"resource_provider_generation": 0, "inventories": room})
        log = logging.getLogger("placement.requestlog")
        log.propagate = False
        with Path("/dev/null").open("w") as nowhere:
            handler = logging.StreamHandler(nowhere)
            log.addHandler(handler)
            table = Table("watched by", "root document, µs", "candidates, µs", title="A request in this process")
            for name, app, formatter in (
                ("nothing", plain, None),
                ("metrics", measured, None),
                ("a line of text", plain, ContextFormatter(config=settings.conf, version="")),
                ("a line of JSON", plain, JsonLines()),
            ):
                log.setLevel(logging.INFO if formatter else logging.WARNING)
                handler.setFormatter(formatter)
                table.add_row(name, f"{least(app, '/'):.0f}", f"{least(app, '/allocation_candidates'):.0f}")
        Console().print(table)
        service.close()


def least(app: WSGIApplication, path: str) -> float:
    """Microseconds of a GET, in the fastest of all runs."""
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _ in range(REQUESTS):
            ask(app, "GET", path)
        seconds.append((time.perf_counter() - began) / REQUESTS)
    return min(seconds) * 1e6


def ask(app: WSGIApplication, method: str, path: str, body: Any = None) -> None:
    """One request of an administrator, which must succeed."""
    sent = b"" if body is None else json.dumps(body).encode()
    statuses = []
    environ = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path,
        "QUERY_STRING": "resources=VCPU:1" if "candidates" in path else "",
        "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(sent)), "HTTP_ACCEPT": "application/json",
        "HTTP_X_AUTH_TOKEN": "admin:admin", "HTTP_OPENSTACK_API_VERSION": "placement 1.39",
        "REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(sent), "wsgi.errors": sys.stderr,
    }  # fmt: skip
    answer = b"".join(app(environ, lambda status, *_: statuses.append(status)))  # type: ignore[arg-type]  # a start_response whose write is never called
    if not statuses[0].startswith("2"):
        raise RuntimeError(f"{method} {path}: {statuses[0]} {answer!r}")


if __name__ == "__main__":
    main()
