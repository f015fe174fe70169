"""When a call is sent again, and after which pause."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from stead.client.errors import Unavailable, Unreachable

if TYPE_CHECKING:
    from stead.client.calls import Call
    from stead.client.errors import Refused

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
"""Seconds. The bound of the random pause doubles from the first to the longest."""


def random_pause(attempts: int, first: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> float:
    """Seconds to wait after *attempts* attempts and one more: random, so that clients that collided spread out.

    Args:
        first, longest: the bound of the first pause, and of all.
    """
    # A client that waits for days has too many attempts for a power of two that is a float.
    return random.uniform(0, min(first * 2 ** min(attempts, 32), longest))


class NotSent(Unreachable):
    """There was no connection, so the call was not done."""

    advice = "Check the URL and that the server runs."


def pause_before(
    call: Call, error: Refused, attempts: int, remaining: float, retry_after: float | None = None
) -> float | None:
    """Seconds until *call* is sent again after *error*; None if the error is final.

    Args:
        attempts: how often it was sent.
        remaining: seconds until the deadline.
        retry_after: what the server asked for.
    """
    if not isinstance(error, Unavailable) or not (call.is_repeatable or isinstance(error, NotSent)):
        return None
    # The random part is added, so that clients with the same Retry-After do not return at the same moment.
    pause = random_pause(attempts) + (retry_after or 0.0)
    return pause if pause < remaining else None


def retry_after(headers: dict[str, str]) -> float | None:
    """The seconds that the header field of this name asks for; None if it is missing or is a date."""
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None
