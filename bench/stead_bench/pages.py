"""The Site page in a browser: ``python -m stead_bench.pages [HOSTS …]`` (10,000 and 100,000 flat hosts).

Needs Playwright and Chromium. One worker serves, on SQLite, and the browser draws without a GPU. It measures the first
view (from the request of the page to the drawn grid; the minimum of three), the bytes before the data and of the data,
and how long redraws take: of all hosts at once, and of cells of 14 pixels while they scroll. With `--minutes`,
consumers then claim and release 20 times per second, and it shows how the heaps of two pages grow.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from stead_bench import filling, servers
from stead_bench.beside_big_queries import silent
from stead_bench.beside_streams import HEADERS
from stead_bench.sites import Site, roomy

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 3
SCROLLS = 60

CLAIMS = 20.0
"""Claims per second; as many releases follow."""

HELD = 200
"""Consumers with allocations at the same time."""

HEAP = "(gc(), performance.memory.usedJSHeapSize)"

VIEW = """async () => {
  const drawn = () => globalThis.grid?.site && globalThis.grid.times.length;
  while (!drawn()) await new Promise(requestAnimationFrame);
  const entries = performance.getEntriesByType("resource");
  const isData = (entry) => entry.name.includes("/provider_trees");
  const bytes = (some) => some.reduce((sum, { transferSize }) => sum + transferSize, 0);
  return {
    milliseconds: performance.now(),
    before: bytes(entries.filter((entry) => !isData(entry)))
      + performance.getEntriesByType("navigation")[0].transferSize,
    data: bytes(entries.filter(isData)),
  };
}"""

SCROLL = """async ({ scrolls, cell }) => {
  grid.cell = cell;
  grid.arrange();
  await new Promise(requestAnimationFrame);
  grid.times.length = 0;
  const step = grid.view.scrollHeight / scrolls;
  for (let turn = 0; turn < scrolls; turn++) {
    grid.view.scrollTop = turn * step;
    grid.redraw();
    await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
  }
  return grid.times;
}"""


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hosts", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--minutes", type=float, default=0.0, help="of changes, to see whether the heap grows")
    options = parser.parse_args()
    table = Table("hosts", "first view, ms", "kB before data", "kB of data", "redraw p50, ms", "p95, ms", "cells")
    for hosts in options.hosts:
        for row in measured(hosts, options.minutes):
            table.add_row(*row)
    Console().print(table)


def measured(hosts: int, minutes: float) -> list[tuple[str, ...]]:
    """The rows of one size: all hosts visible, and cells of 14 pixels."""
    with TemporaryDirectory() as directory, ExitStack() as stack:
        folder = Path(directory)
        url = f"sqlite:///{folder}/placement.db"
        filling.make(url, Site("flat", hosts), silent)
        server = stack.enter_context(servers.stead(folder, url, servers.Serving(1), durable=False))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"],
        )
        views = []
        for _ in range(RUNS):
            page = signed_in(browser, server.url)
            page.goto(f"{server.url}/ui/")
            views.append(page.evaluate(VIEW))
        first = min(views, key=lambda view: float(view["milliseconds"]))
        rows: list[tuple[str, ...]] = []
        for cell in (0, 14):
            times = page.evaluate(SCROLL, {"scrolls": SCROLLS, "cell": cell})
            rows.append(
                (
                    f"{hosts:,}",
                    f"{first['milliseconds']:,.0f}",
                    f"{first['before'] / 1e3:,.0f}",
                    f"{first['data'] / 1e3:,.0f}",
                    f"{statistics.median(times):.1f}",
                    f"{statistics.quantiles(times, n=20)[18]:.1f}",
                    str(page.evaluate("grid.layout.cell")),
                )
            )
        if minutes:
            grow(page, server.url, Site("flat", hosts), minutes)
        browser.close()
        return rows


def signed_in(browser: Any, url: str) -> Any:
    """A page of a new window that has signed in with a token, and has loaded nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    form = {"token": "admin", "next": "/ui/"}
    context.request.post(f"{url}/ui/sign-in", form=form, headers={"Origin": url}, max_redirects=0)
    return context.new_page()


def grow(page: Any, url: str, site: Site, minutes: float) -> None:
    """Print the size of the heaps of the Site page and of an Activity page while consumers claim and release."""
    activity = page.context.new_page()
    activity.goto(f"{url}/ui/activity")
    pages = {"Site": page, "Activity": activity}
    with claiming(url, site):
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            heaps = [f"{name} {each.evaluate(HEAP) / 1e6:.2f} MB" for name, each in pages.items()]
            print(f"{(end - time.monotonic()) / 60:5.1f} minutes left, heap of {', of '.join(heaps)}", flush=True)
            page.wait_for_timeout(min(60_000, minutes * 10_000))
        assert page.evaluate("stead.live.status.value") == "live"
        assert page.evaluate("stead.live.site.whole(grid.className).used") > 0


@contextmanager
def claiming(url: str, site: Site) -> Iterator[None]:
    """Claim a unit on one host after the other, :data:`CLAIMS` times per second, and release each claim later."""
    stopped = threading.Event()
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port or 80)
    headers = {**HEADERS, "Content-Type": "application/json"}

    def send(method: str, consumer: str, body: object = None) -> None:
        content = None if body is None else json.dumps(body)
        connection.request(method, f"/allocations/{consumer}", content, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 204, answer.status

    def claim() -> None:
        consumers: deque[str] = deque()
        owner = {"consumer_generation": None, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
        for uuid, name in cycle(roomy(site)):
            if stopped.wait(1 / CLAIMS):
                break
            consumer = str(uuid4())
            send("PUT", consumer, {"allocations": {uuid: {"resources": {name: 1}}}, **owner})
            consumers.append(consumer)
            if len(consumers) > HELD:
                send("DELETE", consumers.popleft())
        connection.close()

    claimer = threading.Thread(target=claim)
    claimer.start()
    try:
        yield
    finally:
        stopped.set()
        claimer.join()


if __name__ == "__main__":
    main()
