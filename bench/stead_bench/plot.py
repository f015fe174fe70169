"""Cost against size, as a chart. Requires matplotlib, which is not a dependency."""

from __future__ import annotations

import math
from collections import defaultdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

from stead_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from stead_bench.results import Row
    from stead_bench.trace import Fill

ACROSS = 3
"""Number of charts in a row."""

STYLES = {None: "-", 1000: "--", 10: ":"}
COLOURS = {"stead": "tab:blue", "peer": "tab:red", "bare": "tab:gray"}


def require() -> None:
    """Fail before any measurement if matplotlib is missing.

    Raises:
        BenchError: with the command that installs it.
    """
    if find_spec("matplotlib") is None:
        raise BenchError("a plot needs matplotlib: pip install 'stead-bench[plot]'")


def draw(rows: Sequence[Row], file: Path) -> None:
    """Draw median time over the number of providers into the PNG *file*: a chart per suite, both axes logarithmic."""
    from matplotlib.figure import Figure

    suites = list(dict.fromkeys(row.suite for row in rows))
    across = min(ACROSS, len(suites))
    down = math.ceil(len(suites) / across)
    figure = Figure(figsize=(7.0 * across, 5.5 * down), layout="constrained")
    for place, suite in enumerate(suites, 1):
        axes = figure.add_subplot(down, across, place)
        for (server, query, limit), points in sorted(_lines(rows, suite).items(), key=str):
            sizes, times = zip(*sorted(points), strict=True)
            label = f"{server}, {query}, limit {limit or 'none'}"
            style = STYLES.get(limit, "-.")
            axes.plot(sizes, times, style, marker="o", markersize=3, color=COLOURS[server], label=label)
        axes.set(xscale="log", yscale="log", xlabel="providers", ylabel="median, ms", title=suite)
        axes.grid(visible=True, which="both", alpha=0.2)
        axes.legend(fontsize="x-small")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="png", dpi=120)


def draw_trace(fills: Sequence[Fill], file: Path) -> None:
    """Draw what was given out over what was asked for into the PNG *file*: a chart per file of tasks.

    Published policies, of which only two points are known, are crosses.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(fill.tasks for fill in fills))
    across = min(ACROSS, len(names))
    figure = Figure(figsize=(7.0 * across, 5.0 * math.ceil(len(names) / across)), layout="constrained")
    for place, name in enumerate(names, 1):
        axes = figure.add_subplot(math.ceil(len(names) / across), across, place)
        for fill in (fill for fill in fills if fill.tasks == name):
            points = fill.curve or ((100.0, fill.at_100), (130.0, fill.at_130))
            style = "-" if fill.curve else "x"
            axes.plot(*zip(*points, strict=True), style, label=f"{fill.order}{'' if fill.curve else ' (published)'}")
        axes.set(xlabel="GPUs asked for, %", ylabel="GPUs given out, %", title=name, xlim=(75, 131), ylim=(70, 100))
        axes.grid(visible=True, alpha=0.2)
        axes.legend(fontsize="x-small", loc="lower right")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, format="png", dpi=120)


def _lines(rows: Iterable[Row], suite: str) -> dict[tuple[str, str, int | None], list[tuple[int, float]]]:
    """Points (providers, ms) of each line: server, query, limit."""
    lines: defaultdict[tuple[str, str, int | None], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row.suite == suite:
            for server in COLOURS:
                cost = getattr(row, server)
                if cost is not None:
                    lines[server, row.query, row.limit].append((row.providers, cost.median_ms))
    return lines
