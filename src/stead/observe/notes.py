"""Facts about a request, collected for the log, the metrics and the traces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from wsgiref.types import WSGIEnvironment

NOTES_KEY = "stead.notes"
"""The environ key of the notes. It is absent if there are no watchers."""

Marks = list[tuple[str, float]]
"""Phases in the order in which they ended, each with the time of its end on ``time.perf_counter``."""


class Notes:
    """The facts about one request. Unknown facts keep their defaults.

    ``began`` and ``ended`` are of ``time.perf_counter``; ``began_wall`` is in nanoseconds since 1970. ``route`` is the
    template of the path, None if no route matched or routing was not reached. ``error`` names the exception. ``claims``
    counts the consumers whose allocations the request writes. ``marks`` starts with the beginning of the first phase.
    """

    __slots__ = (
        "began",
        "began_wall",
        "bytes",
        "candidates",
        "claims",
        "ended",
        "error",
        "is_cut",
        "marks",
        "microversion",
        "phases_began",
        "project",
        "route",
        "status",
    )

    def __init__(self) -> None:
        self.began_wall = time.time_ns()
        self.began = self.ended = self.phases_began = time.perf_counter()
        self.route: str | None = None
        self.status = 0
        self.bytes: int | None = None
        self.microversion: str | None = None
        self.project: str | None = None
        self.error: str | None = None
        self.claims = 0
        self.candidates: int | None = None
        self.is_cut = False
        self.marks: Marks = []

    @property
    def seconds(self) -> float:
        """Duration from the arrival to the answer."""
        return self.ended - self.began

    def spans(self) -> Iterable[tuple[str, float, float]]:
        """Every phase with its start and its end."""
        begin = self.phases_began
        for name, end in self.marks:
            yield name, begin, end
            begin = end

    def phases(self) -> dict[str, float]:
        """Seconds by phase; repeated phases are added up."""
        seconds: dict[str, float] = {}
        for name, begin, end in self.spans():
            seconds[name] = seconds.get(name, 0.0) + end - begin
        return seconds

    def facts(self) -> dict[str, Any]:
        """The known facts, under the names of the log's fields."""
        facts: dict[str, Any] = {"status": self.status, "seconds": round(self.seconds, 6)}
        for name in ("route", "bytes", "microversion", "project", "error", "candidates"):
            value = getattr(self, name)
            if value is not None:
                facts[name] = value
        if self.claims:
            facts["claims"] = self.claims
        if self.is_cut:
            facts["incomplete"] = True
        if self.marks:
            facts["phases"] = {name: round(seconds, 6) for name, seconds in self.phases().items()}
        return facts


Watcher = Callable[["WSGIEnvironment", Notes], None]
"""Called for every request when its answer is known."""


def tell(watchers: Sequence[Watcher], environ: WSGIEnvironment, notes: Notes) -> None:
    """Call all *watchers* for a request that has its answer."""
    notes.ended = time.perf_counter()
    for watcher in watchers:
        watcher(environ, notes)
