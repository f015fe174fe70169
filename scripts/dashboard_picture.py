"""Draw the panels of the Grafana dashboard: ``python -m scripts.dashboard_picture [FILE]`` (two minutes).

Needs Prometheus and matplotlib. A Prometheus scrapes a server that clients use, and the panels show what it recorded.
The panels, their queries, legends and units are those of :mod:`scripts.dashboard`, so the picture needs no Grafana.
"""

from __future__ import annotations

import math
import re
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from scripts.dashboard import ROWS
from stead.api.versions import NEWEST, NEWEST_STEAD
from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.api.client import Api, fresh_uuid, holding, http_door
from tests.system.deploy.prometheus import prometheus
from tests.system.deploy.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from scripts.dashboard import Panel
    from tests.system.deploy.prometheus import Prometheus

FILE = Path(__file__).parents[1] / "docs/pictures/dashboard.png"
HOSTS = 60
CLIENTS = 3
CLAIMED = 204
MOST_CONSUMERS = 150
"""Consumers of one client; then it releases one for each that it claims, so that use levels off."""

SECONDS = 100
ACROSS = 2
INTERVAL = "15s"
"""What stands for Grafana's interval of rates."""

CLASS = "VCPU"
FLAVORS = {"m1.large": 8, "m1.xlarge": 16, "whole-host": 64}
"""The amounts of flavors."""

FORMATS = {
    "percentunit": PercentFormatter(xmax=1.0, decimals=0),
    "s": EngFormatter(unit="s"),
    "bytes": EngFormatter(unit="B"),
}


def main() -> None:
    """Use a server, and draw what was recorded."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with TemporaryDirectory() as directory, ExitStack() as stack:
        place, port = Path(directory), free_port()
        configuration = write_configuration(place, f"sqlite:///{place}/placement.db")
        with configuration.open("a") as options:
            options.write("[stead]\nheadroom_metrics = true\n")
        server = stack.enter_context(started(configuration, workers=2, options=("--metrics", str(port))))
        scraper = stack.enter_context(prometheus(place, port))
        api = Api(http_door(server.url))
        hosts = [api.create_provider(inventories={CLASS: 64, "MEMORY_MB": 262_144}) for _ in range(HOSTS)]
        own = api.at(f"{NEWEST}, stead {NEWEST_STEAD}")
        for name, amount in FLAVORS.items():
            own.put(f"/flavors/{name}", {"query": f"resources={CLASS}:{amount}"}).expect(201)
        start = time.time()
        with clients(server.url, hosts):
            time.sleep(SECONDS)
        figure = drawn(scraper, start + 5, time.time())
    figure.savefig(file, format="png", dpi=80)


@contextmanager
def clients(url: str, hosts: list[Any]) -> Iterator[None]:
    """Clients that claim, release, read, and request too much; their load rises and falls."""
    stopped = threading.Event()

    def work(number: int) -> None:
        api, random, consumers = Api(http_door(url)), Random(number), list[str]()
        began = time.monotonic()
        while not stopped.wait(0.01 + 0.1 * (1 + math.sin((time.monotonic() - began) / 9 + number))):
            api.get(f"/allocation_candidates?resources={CLASS}:{random.choice((1, 4, 100))}&limit=10")
            consumer, amount = fresh_uuid(), random.choice((1, 2, 4, 65))
            answer = api.put(f"/allocations/{consumer}", holding((random.choice(hosts), {CLASS: amount})))
            if answer.status == CLAIMED:
                consumers.append(consumer)
            if len(consumers) > MOST_CONSUMERS:
                api.delete(f"/allocations/{consumers.pop(0)}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def drawn(scraper: Prometheus, start: float, end: float) -> Figure:
    """All panels, a row of the dashboard below the other."""
    lines = sum(math.ceil(len(panels) / ACROSS) for panels in ROWS.values())
    figure = Figure(figsize=(5.6 * ACROSS, 2.5 * lines), layout="constrained")
    grid = figure.add_gridspec(lines, ACROSS)
    line = 0
    for title, panels in ROWS.items():
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(grid[line + number // ACROSS, number % ACROSS])
            draw(axes, panel, scraper, start, end)
            if number == 0:
                axes.set_title(title, loc="left", fontsize="medium", color="tab:blue")
        line += math.ceil(len(panels) / ACROSS)
    return figure


def draw(axes: Axes, panel: Panel, scraper: Prometheus, start: float, end: float) -> None:
    """One panel: its series over the seconds of the run."""
    for query, legend in panel.queries:
        expression = query.replace("$resource_class", CLASS).replace("$__rate_interval", INTERVAL)
        for series in scraper.between(expression, start, end, 1.0):
            label = re.sub(r"{{(\w+)}}", lambda name, of=series["metric"]: of.get(name[1], ""), legend)  # type: ignore[misc]  # mypy infers no type of a default in a lambda
            seconds = [at - start for at, _ in series["values"]]
            values = [float(value) for _, value in series["values"]]
            if not any(values) and "{{" in legend:  # a state or reason that did not occur
                continue
            axes.plot(seconds, values, label=label.replace("$resource_class", CLASS), linewidth=1.2)
    axes.set_title(panel.title.replace("$resource_class", CLASS), fontsize="small", loc="center")
    axes.set_xlim(0, end - start)
    axes.set_ylim(bottom=0, top=panel.most)
    axes.grid(visible=True, alpha=0.25)
    axes.tick_params(labelsize="x-small")
    if panel.unit in FORMATS:
        axes.yaxis.set_major_formatter(FORMATS[panel.unit])
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="xx-small", loc="upper left")


if __name__ == "__main__":
    main()
