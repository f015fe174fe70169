"""Pages: a part of a long list, in the order of uuids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """At most ``limit`` items whose uuids come after ``marker``, which need not exist; None: no bound."""

    limit: int | None = None
    marker: str | None = None

    def __bool__(self) -> bool:
        return self.limit is not None or self.marker is not None
