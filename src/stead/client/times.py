"""Times and spans as people write them, in the same forms in every option of the command line and in the library.

It is a module of its own because the command line reads options before it needs anything else of the client.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime, timedelta

from stead.client.errors import InvalidRequest

SPAN_FORMS = "a span such as 90s, 30m, 12h or 7d"
FORMS = f"{SPAN_FORMS}, or a time with a zone such as 2031-01-01T00:00:00Z"

_SPAN = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span(text: str) -> timedelta:
    """The span of ``90s``, ``30m``, ``12h`` or ``7d``.

    Raises:
        InvalidRequest: *text* is none.
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        raise InvalidRequest(f"{text!r} is not {SPAN_FORMS}")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def age(text: str) -> timedelta:
    """How long ago *text* is: a span back from now, or a time with a zone.

    Raises:
        InvalidRequest: *text* is neither.
    """
    if _SPAN.fullmatch(text):
        return span(text)
    return datetime.now(UTC) - datetime.fromisoformat(moment(text))


def elapsed() -> float:
    """Seconds since some moment, also those in which the machine slept, if the system counts them."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; its CLOCK_MONOTONIC stops while it sleeps


def seconds_of(length: float | timedelta) -> int:
    """The whole seconds of a lease of this length, rounded up.

    Raises:
        InvalidRequest: it is less than a second, or too long.
    """
    try:
        seconds = math.ceil(length.total_seconds() if isinstance(length, timedelta) else length)
    except (OverflowError, ValueError):  # infinity, and what is no number
        seconds = 0
    if seconds < 1:
        raise InvalidRequest(f"a lease of {length} is not possible; it has 1 s or more")
    return seconds


def moment(value: datetime | timedelta | str) -> str:
    """A time in the form of the API: of a time with a zone, of a span from now, or of a text with either.

    Raises:
        InvalidRequest: it is none of these, or too far away.
    """
    if isinstance(value, str):
        value = span(value) if _SPAN.fullmatch(value) else _time(value)
    try:
        if isinstance(value, timedelta):
            value = datetime.now(UTC).replace(microsecond=0) + value
    except OverflowError:
        raise InvalidRequest(f"{value} is too far away") from None
    if value.tzinfo is None:
        raise InvalidRequest(f"{value.isoformat()} has no time zone; {value.isoformat()}Z is in UTC")
    return value.isoformat().replace("+00:00", "Z")


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or len(text) <= len("2031-01-01"):  # a date alone is no time
        raise InvalidRequest(f"{text!r} is not {FORMS}")
    return time
