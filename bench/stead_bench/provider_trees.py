"""The cost of GET /provider_trees: ``python -m stead_bench.provider_trees [HOSTS]`` (10,000 trees of seven).

In this process, without a network: processor seconds of one request, the minimum of several runs, and the bytes of the
answer. For comparison, the requests of microversion 1.39 with the same information, for one host and, multiplied, for
all.
"""

from __future__ import annotations

import io
import logging
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import orjson
from rich.console import Console
from rich.table import Table

from stead.application import assemble, build_service
from stead.config import load
from stead_bench import filling
from stead_bench.sites import Site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from wsgiref.types import WSGIApplication

RUNS = 5
OWN = "placement 1.39, stead 1.1"
QUERIES = (
    "totals=true&depth=0",
    "totals=true&depth=0&limit=10000",
    "depth=0&limit=10000&fields=name,usages",
    "",
    "limit=10",
    "totals=true&limit=10",
    "name=*-numa1-gpu&limit=10",
    "columns=true",
    "columns=true&totals=true&depth=0&fields=name,traits,aggregates,disabled",
)


def main() -> None:
    """Measure and show."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    logging.disable()
    with TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/placement.db"
        providers = filling.make(url, Site("nested", hosts), _silent)
        file = Path(directory, "placement.conf")
        file.write_text(f"[placement_database]\nconnection = {url}\n[api]\nauth_strategy = noauth2\n")
        settings = load([file])
        service = build_service(settings)
        service.start()
        app = assemble(service, settings)
        table = Table("request", "CPU, ms", "bytes", title=f"{hosts:,} trees, {providers:,} providers")
        for query in QUERIES:
            seconds, size, _ = least(app, f"/provider_trees?{query}", OWN)
            table.add_row(f"/provider_trees?{query}", f"{seconds * 1e3:.1f}", f"{size:,}")
        seconds, size = whole(app)
        table.add_row("/provider_trees, all pages", f"{seconds * 1e3:.1f}", f"{size:,}")
        _, _, tag = least(app, "/provider_trees", OWN)
        seconds, size, _ = least(app, "/provider_trees", OWN, tag)
        table.add_row("/provider_trees, If-None-Match", f"{seconds * 1e3:.1f}", f"{size:,}")
        seconds, size = one_by_one(app)
        table.add_row("1.39, one tree", f"{seconds * 1e3:.1f}", f"{size:,}")
        table.add_row("1.39, all trees (multiplied)", f"{seconds * 1e3 * hosts:,.0f}", f"{size * hosts:,}")
        Console().print(table)
        service.close()


@contextmanager
def _silent(work: str, size: int) -> Iterator[Callable[[int], None]]:  # noqa: ARG001  # the names are those of a Watcher
    yield lambda _: None


def least(app: WSGIApplication, target: str, version: str, tag: str = "") -> tuple[float, int, str]:
    """Processor seconds of a GET in the best of all runs, the bytes of its body, and its ETag."""
    found = []
    for _ in range(RUNS):
        began = time.process_time()
        body, answered = ask(app, target, version, tag)
        found.append(time.process_time() - began)
    return min(found), len(body), answered


def whole(app: WSGIApplication) -> tuple[float, int]:
    """Processor seconds and bytes of all pages, from the first to the last."""
    seconds, size, target = 0.0, 0, "/provider_trees"
    while target:
        began = time.process_time()
        body, _ = ask(app, target, OWN)
        seconds += time.process_time() - began
        size += len(body)
        links = orjson.loads(body)["links"]
        target = links[0]["href"] if links else ""
    return seconds, size


def one_by_one(app: WSGIApplication) -> tuple[float, int]:
    """Processor seconds and bytes of the requests for everything about one tree at 1.39."""
    body, _ = ask(app, "/provider_trees?limit=1&fields=uuid", OWN)
    (tree,) = orjson.loads(body)["provider_trees"]
    targets = [f"/resource_providers?in_tree={tree['root_provider_uuid']}"]
    for provider in tree["providers"]:
        path = f"/resource_providers/{provider['uuid']}"
        targets += [f"{path}/{part}" for part in ("inventories", "usages", "traits", "aggregates")]
    measured = [least(app, target, "placement 1.39") for target in targets]
    return sum(seconds for seconds, _, _ in measured), sum(size for _, size, _ in measured)


def ask(app: WSGIApplication, target: str, version: str, tag: str = "") -> tuple[bytes, str]:
    """The body and the ETag of an administrator's GET, which must succeed."""
    path, _, query = target.partition("?")
    answered: list[tuple[str, list[tuple[str, str]]]] = []
    environ = {
        "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": query,
        "HTTP_ACCEPT": "application/json", "HTTP_X_AUTH_TOKEN": "admin:admin", "HTTP_OPENSTACK_API_VERSION": version,
        "HTTP_IF_NONE_MATCH": tag, "REMOTE_ADDR": "127.0.0.1", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr,
    }  # fmt: skip
    body = b"".join(app(environ, lambda status, headers, *_: answered.append((status, headers))))  # type: ignore[arg-type]  # a start_response whose write is never called
    status, headers = answered[0]
    if status[:3] not in ("200", "304"):
        raise RuntimeError(f"GET {target}: {status} {body!r}")
    return body, dict(headers).get("etag", "")


if __name__ == "__main__":
    main()
