"""Durations in options, such as ``90s``, ``30m``, ``12h``, ``7d``, and in tables."""

from __future__ import annotations

import re
from datetime import timedelta

from stead.cli.errors import CommandError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def read_age(option: str, text: str) -> timedelta:
    """Parse a duration.

    Raises:
        CommandError: *text* is not a duration; the message names *option*.
    """
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if match is None:
        raise CommandError(f"{option} {text}: expected a span such as 90s, 30m, 12h or 7d")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def age_text(age: timedelta) -> str:
    """The duration in its largest whole unit: ``3d``."""
    seconds = max(int(age.total_seconds()), 0)
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{seconds // _SECONDS[unit]}{unit}"
