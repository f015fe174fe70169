"""Conversion of times to text: RFC 3339 in UTC. Everywhere else, times are whole seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime

_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The first and the last second of the years 1 to 9999 in UTC, which RFC 3339 can write."""


def in_utc(seconds: int) -> str:
    """A time as text, such as ``2026-11-22T18:10:44Z``; the nearest one of the years 1 to 9999."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_text(text: str) -> int:
    """Parse a time with a zone (``Z`` or an offset); fractions of a second are cut off.

    Raises:
        ValueError: *text* is not such a time, or is outside the years 1 to 9999 in UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    seconds = int(moment.timestamp())
    if not _FIRST <= seconds <= _LAST:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC")
    return seconds
