"""Timestamps: naive UTC in SQL, whole seconds since 1970 everywhere else."""

from __future__ import annotations

from datetime import UTC, datetime


def seconds(moment: datetime | None) -> int:
    """Seconds since 1970 of a naive UTC time; 0 if an old row has none."""
    return int(moment.replace(tzinfo=UTC).timestamp()) if moment is not None else 0
