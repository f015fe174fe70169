"""The spellings of a UUID that clients may use: lenient in bodies and paths, strict in some queries."""

from __future__ import annotations

import re

_HEX = re.compile(r"[0-9a-f]{32}")
_STRICT = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def normalised(text: str) -> str | None:
    """The stored form, lower case with hyphens, of a UUID in any spelling; None if *text* is not a UUID.

    Accepted are any case, hyphens anywhere or nowhere, surrounding braces, and the prefix ``urn:uuid:``.
    """
    digits = text.lower().removeprefix("urn:").removeprefix("uuid:").strip("{}").replace("-", "")
    if not _HEX.fullmatch(digits):
        return None
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_like(text: str) -> bool:
    """Whether *text* is a UUID in any spelling."""
    return normalised(text) is not None


def is_strict(text: str) -> bool:
    """Whether *text* is a UUID of 36 characters with the hyphens in their places, in any case."""
    return _STRICT.fullmatch(text) is not None
