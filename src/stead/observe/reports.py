"""Reports of the workers' metrics: each worker writes a file, and one worker adds them up.

The directory is private to the service. A file is replaced atomically, once a second. The counters of an ended worker
are kept, since sums must not fall; its measurements are dropped.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import orjson

from stead.observe.tallies import Tallies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from stead.observe.tallies import Gauge, Labels

STALE_SECONDS = 60.0
"""The measurements of a worker that has written nothing for this time are dropped."""

_GONE = "gone.json"


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one worker, and when it was written (seconds since 1970)."""

    worker: str
    written: float
    counted: Sequence[tuple[str, Labels, list[float]]]
    measured: Sequence[tuple[str, Labels, float]]

    @property
    def age(self) -> float:
        """Age of the report in seconds."""
        return max(time.time() - self.written, 0.0)

    @property
    def is_stale(self) -> bool:
        """Whether its measurements are out of date."""
        return self.age > STALE_SECONDS


class Reports:
    """The reports in one directory. Thread-safe, as long as only one process reads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = f"{os.getpid()}-{time.time_ns()}.json"  # another process may reuse the pid later
        self._reading = Lock()

    def write(self, counted: Iterable[tuple[str, Labels, list[float]]], measured: Iterable[Gauge]) -> None:
        """Replace the report of this process.

        Raises:
            OSError
        """
        gauges = [(metric.name, labels, value) for metric, labels, value in measured]
        self._replace(self._own, {"written": time.time(), "counted": list(counted), "measured": gauges})

    def read(self) -> tuple[Tallies, list[Report]]:
        """The sum of all counters ever written here, and the reports of the running workers."""
        with self._reading:
            reports = {file: report for file in sorted(self._directory.glob("*.json")) if (report := _read(file))}
            ended = {file: report for file, report in reports.items() if report.is_stale and not _runs(file)}
            if any(file.name != _GONE for file in ended):
                self._fold(ended)
        sums = Tallies()
        for report in reports.values():
            sums.merge(report.counted)
        return sums, [report for report in reports.values() if not report.is_stale]

    def _fold(self, ended: Mapping[Path, Report]) -> None:
        """Merge the counters of ended workers into one file, so that the number of files stays bounded."""
        gone = Tallies()
        for report in ended.values():
            gone.merge(report.counted)
        # The sum before the deletions: if the process ends in between, counters are too high for once, but never fall.
        self._replace(_GONE, {"written": 0.0, "counted": list(gone), "measured": []})
        for file in ended:
            if file.name != _GONE:
                file.unlink(missing_ok=True)

    def peek(self) -> tuple[Tallies, list[Report]]:
        """As :meth:`read`, for any process at any time: it changes no file."""
        reports = [report for file in sorted(self._directory.glob("*.json")) if (report := _read(file))]
        sums = Tallies()
        for report in reports:
            sums.merge(report.counted)
        return sums, [report for report in reports if not report.is_stale]

    def _replace(self, name: str, content: object) -> None:
        draft = self._directory / f"{name}.draft"
        draft.write_bytes(orjson.dumps(content))
        draft.replace(self._directory / name)


def _read(file: Path) -> Report | None:
    """The report in *file*; None if it is gone or not a report."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        written = orjson.loads(file.read_bytes())
        counted = [(name, tuple(labels), values) for name, labels, values in written["counted"]]
        measured = [(name, tuple(labels), value) for name, labels, value in written["measured"]]
        return Report(file.stem.partition("-")[0], written["written"], counted, measured)
    return None


def _runs(file: Path) -> bool:
    """Whether the process that wrote *file* may still run. If another process reuses its pid, the file just stays."""
    try:
        os.kill(int(file.stem.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):  # ValueError: the merged file of ended workers has no pid
        return False
    except OSError:
        return True
    return True
