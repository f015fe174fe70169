"""Counters and histograms of one process: recorded without a lock, and added up by the reader.

A request only appends a tuple to a queue: an append takes no lock and is thread-safe.
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
"""Maximum number of unread events. If nothing reads them, as after a fork, the oldest are dropped."""


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric. ``buckets`` are the upper bounds of a histogram, ascending, without infinity."""

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    help: str
    labels: Labels = ()
    buckets: tuple[float, ...] = ()


Gauge = tuple[Metric, Labels, float]
"""A current measurement."""


class Tallies:
    """Values by metric and labels. For a counter: the sum. For a histogram: the count of each bucket, then the count
    beyond the last bucket, then the sum of all values.
    """

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], list[float]] = {}

    def __iter__(self) -> Iterator[tuple[str, Labels, list[float]]]:
        for (name, labels), values in self._values.items():
            yield name, labels, values

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add *value*."""
        key = metric.name, labels
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = [0.0] * (len(metric.buckets) + 2 if metric.kind == "histogram" else 1)
        if metric.kind == "histogram":
            values[bisect_left(metric.buckets, value)] += 1
        values[-1] += value

    def merge(self, others: Iterable[tuple[str, Labels, list[float]]]) -> None:
        """Add the values of another process. Histograms with other buckets, from another version, are left out."""
        for name, labels, values in others:
            own = self._values.setdefault((name, labels), [0.0] * len(values))
            if len(own) == len(values):
                own[:] = map(sum, zip(own, values, strict=True))


class Recorder:
    """The events of this process. Thread-safe."""

    def __init__(self) -> None:
        self._events: deque[tuple[Metric, Labels, float]] = deque(maxlen=MOST_WAITING)
        self._tallies = Tallies()

    def record(self, metric: Metric, labels: Labels = (), value: float = 1.0) -> None:
        """Record an event; takes 0.1 µs."""
        self._events.append((metric, labels, value))

    def tallies(self) -> Tallies:
        """The sums of all events; only one thread at a time may call this."""
        events = self._events
        # Only the events of now, because requests append more meanwhile, and the loop must end.
        for _ in range(len(events)):
            self._tallies.add(*events.popleft())
        return self._tallies
