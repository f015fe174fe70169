"""Excerpts: the `repr` of a JSON value without its middle, produced without writing the whole text.

An error message repeats what a client sent. For a body of the maximum size, the full text would take more time and
memory than the request itself.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Container = dict[str, object] | list[object]

LIMIT = 1000
"""Maximum number of characters of a text that is shown completely."""


def shorten(text: str, limit: int = LIMIT) -> str:
    """*text* without its middle, if it has more than *limit* characters: it may repeat what a client sent."""
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


def excerpt(value: object, limit: int = LIMIT) -> str:
    """``shorten(repr(value), limit)`` of a JSON value, built from its first and last *limit* characters only."""
    head = "".join(_as_far_as(limit + 1, _pieces(value, limit, backwards=False)))
    if len(head) <= limit:
        return head
    tail = "".join(reversed(list(_as_far_as(limit // 2, _pieces(value, limit, backwards=True)))))
    return f"{head[: limit // 2]} … {tail[-limit // 2 :]}"


def _as_far_as(limit: int, pieces: Iterable[str]) -> Iterator[str]:
    """The first of *pieces*, until they have *limit* characters together."""
    missing = limit

    def is_missing(piece: str) -> bool:
        nonlocal missing
        was_missing = missing > 0
        missing -= len(piece)
        return was_missing

    return takewhile(is_missing, pieces)


def _pieces(value: object, most: int, *, backwards: bool) -> Iterator[str]:
    """The text of *value* in pieces; of a string longer than *most*, only the end that is written first.

    A list holds the open containers instead of recursion: clients can nest deeper than Python's recursion limit.
    """
    if not isinstance(value, dict | list):
        yield _leaf(value, most, backwards=backwards)
        return
    levels = [_members(value, most, backwards=backwards)]
    while levels:
        part = next(levels[-1], None)
        if part is None:
            levels.pop()
        elif isinstance(part, str):
            yield part
        else:
            levels.append(_members(part, most, backwards=backwards))


def _members(container: Container, most: int, *, backwards: bool) -> Iterator[str | Container]:
    """Texts, and nested containers, which the caller replaces with their own members."""

    def written(value: object) -> str | Container:
        return value if isinstance(value, dict | list) else _leaf(value, most, backwards=backwards)

    first, last = ("{", "}") if isinstance(container, dict) else ("[", "]")
    yield last if backwards else first
    separator = ""
    members: Any = container.items() if isinstance(container, dict) else container
    for member in reversed(members) if backwards else members:
        yield separator
        separator = ", "
        if isinstance(container, list):
            yield written(member)
        else:
            name, value = member
            yield from (written(value), ": ", written(name)) if backwards else (written(name), ": ", written(value))
    yield first if backwards else last


def _leaf(value: object, most: int, *, backwards: bool) -> str:
    if not isinstance(value, str) or len(value) <= most:
        return repr(value)
    # The whole string decides which quotes Python puts around it.
    if "'" in value and '"' not in value:
        quote, forced = '"', "'"
    else:
        quote, forced = "'", "'\""
    skipped = len(repr(forced)) - 1
    part = repr(forced + (value[-most:] if backwards else value[:most]))[skipped:-1]
    return part + quote if backwards else quote + part
