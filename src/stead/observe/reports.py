"""How the workers of a service tell what they counted: each writes a file, and one of them adds all up.

The directory is theirs alone. A file is replaced whole, once a second. What a worker counted stays when it has ended,
or sums would fall; what it measured does not.
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
"""A worker that did not write for so long does not measure any more."""

_GONE = "gone.json"


@dataclass(frozen=True, slots=True)
class Report:
    """What one worker wrote, and when (seconds since 1970)."""

    worker: str
    written: float
    counted: Sequence[tuple[str, Labels, list[float]]]
    measured: Sequence[tuple[str, Labels, float]]

    @property
    def age(self) -> float:
        """Seconds."""
        return max(time.time() - self.written, 0.0)

    @property
    def is_stale(self) -> bool:
        """Whether it says nothing of now."""
        return self.age > STALE_SECONDS


class Reports:
    """The reports in one directory; safe under threads, as long as one process reads."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = f"{os.getpid()}-{time.time_ns()}.json"  # another process may get the same number later
        self._reading = Lock()

    def write(self, counted: Iterable[tuple[str, Labels, list[float]]], measured: Iterable[Gauge]) -> None:
        """Write the report of this process, in place of its last one.

        Raises:
            OSError
        """
        gauges = [(metric.name, labels, value) for metric, labels, value in measured]
        self._replace(self._own, {"written": time.time(), "counted": list(counted), "measured": gauges})

    def read(self) -> tuple[Tallies, list[Report]]:
        """The sum of what all counted that ever wrote here, and the reports of those who still do."""
        with self._reading:
            found = {file: report for file in sorted(self._directory.glob("*.json")) if (report := _read(file))}
            ended = {file: report for file, report in found.items() if report.is_stale and not _runs(file)}
            if any(file.name != _GONE for file in ended):
                self._fold(ended)
        sums = Tallies()
        for report in found.values():
            sums.merge(report.counted)
        return sums, [report for report in found.values() if not report.is_stale]

    def _fold(self, ended: Mapping[Path, Report]) -> None:
        """Keep what ended workers counted in one file, or there would be ever more of them."""
        gone = Tallies()
        for report in ended.values():
            gone.merge(report.counted)
        self._replace(_GONE, {"written": 0.0, "counted": list(gone), "measured": []})
        for file in ended:
            if file.name != _GONE:
                file.unlink(missing_ok=True)

    def _replace(self, name: str, content: object) -> None:
        draft = self._directory / f"{name}.draft"
        draft.write_bytes(orjson.dumps(content))
        draft.replace(self._directory / name)


def _read(file: Path) -> Report | None:
    """None if the file is gone, or none of ours."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = orjson.loads(file.read_bytes())
        counted = [(name, tuple(labels), values) for name, labels, values in found["counted"]]
        measured = [(name, tuple(labels), value) for name, labels, value in found["measured"]]
        return Report(file.stem.partition("-")[0], found["written"], counted, measured)
    return None


def _runs(file: Path) -> bool:
    """Whether the process that wrote *file* may still run; if another has its number, the file just stays."""
    try:
        os.kill(int(file.stem.partition("-")[0]), 0)
    except (ProcessLookupError, ValueError):  # the latter is the file of those that are gone
        return False
    except OSError:
        return True
    return True
