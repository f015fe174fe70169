"""Text for a terminal or a log, without characters that control a terminal or end a line."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""*text* with control characters (escapes, line breaks) shown as ``\x1b`` instead."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """*text* as one printable line."""
    return printable(" ".join(text.split()))
