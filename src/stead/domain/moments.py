"""Conversion of times to text: RFC 3339 in UTC. Everywhere else, times are whole seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime


def in_utc(seconds: int) -> str:
    """A time as text, such as ``2026-11-22T18:10:44Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_text(text: str) -> int:
    """Parse a time with a zone (``Z`` or an offset); fractions of a second are cut off.

    Raises:
        ValueError: *text* is not such a time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return int(moment.timestamp())
