"""Counters and histograms of one process: recorded without a lock, added up by whoever reads them.

A request appends a tuple to a queue, which is all it pays: an append takes no lock and loses nothing under threads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Labels = tuple[str, ...]

MOST_WAITING = 200_000
"""Events; where nobody reads them any more, as after a fork, the oldest go."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """What is measured. ``buckets`` are the upper bounds of a histogram, ascending, without infinity."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    help: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


Gauge = tuple[Metric, Labels, float]
"""What something measures now."""


class Tallies:
    """Values by metric and labels: the sum of a counter; of a histogram the count of each bucket and of what is beyond
    the last, then the sum of all values.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], list[float]] = {}

    def __iter__(self) -> Iterator[tuple[str, Labels, list[float]]]:
        for (name, labels), values in self._values.items():
            yield name, labels, values

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """Count *value* in."""
        key = metric.name, labels
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = [0.0] * (len(metric.buckets) + 2 if metric.kind == "histogram" else 1)
        if metric.kind == "histogram":
            values[bisect_left(metric.buckets, value)] += 1
        values[-1] += value

    def merge(self, others: Iterable[tuple[str, Labels, list[float]]]) -> None:
        """Add what another process counted; of another version perhaps, whose buckets differ: that is left out."""
        for name, labels, values in others:
            own = self._values.setdefault((name, labels), [0.0] * len(values))
            if len(own) == len(values):
                own[:] = map(sum, zip(own, values, strict=True))


class Recorder:
    """What happened in this process; safe under threads."""

    def __init__(self) -> None:
        self._events: deque[tuple[Metric, Labels, float]] = deque(maxlen=MOST_WAITING)
        self._tallies = Tallies()

    def record(self, metric: Metric, labels: Labels = (), value: float = 1.0) -> None:
        """Say that something happened; takes a tenth of a microsecond."""
        self._events.append((metric, labels, value))

    def tallies(self) -> Tallies:
        """All that happened; to be called by one thread at a time."""
        events = self._events
        for _ in range(len(events)):
            self._tallies.add(*events.popleft())
        return self._tallies
