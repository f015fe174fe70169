"""The Site page in a browser: ``python -m stead_bench.pages [HOSTS …]`` (10,000 and 100,000 flat hosts).

Needs Playwright and Chromium. One worker serves, on SQLite, and the browser draws without a GPU. It measures the first
view (from the request of the page to the drawn grid; the minimum of three), the bytes before the data and of the data,
and how long redraws take: of all hosts at once, and of cells of 14 pixels while they scroll. With `--minutes`, hosts
are then created all the time, and it shows how the heap of the page grows.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

from stead_bench import filling, servers
from stead_bench.beside_big_queries import silent
from stead_bench.beside_streams import writing
from stead_bench.sites import Site

RUNS = 3
SCROLLS = 60

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
            grow(page, server.url, minutes)
        browser.close()
        return rows


def signed_in(browser: Any, url: str) -> Any:
    """A page of a new window that has signed in with a token, and has loaded nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    form = {"token": "admin", "next": "/ui/"}
    context.request.post(f"{url}/ui/sign-in", form=form, headers={"Origin": url}, max_redirects=0)
    return context.new_page()


def grow(page: Any, url: str, minutes: float) -> None:
    """Print the size of the heap while hosts change."""
    with writing(url, 20.0):
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            size = page.evaluate("(gc(), performance.memory.usedJSHeapSize)")
            print(f"{(end - time.monotonic()) / 60:5.1f} minutes left, heap {size / 1e6:.1f} MB")
            page.wait_for_timeout(min(60_000, minutes * 10_000))


if __name__ == "__main__":
    main()
