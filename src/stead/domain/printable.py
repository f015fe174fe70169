"""Text for a terminal or a log: nothing in it can steer a terminal or end a line."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""*text* with whatever could steer a terminal (escapes, line breaks) shown as ``\x1b`` instead of sent."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def one_line(text: str) -> str:
    """*text* as one printable line."""
    return printable(" ".join(text.split()))
