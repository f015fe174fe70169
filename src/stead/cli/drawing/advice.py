"""Draws a plan that makes room for a request: what it gains, and its moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from stead.cli.drawing.what_if import draw_plan
from stead.cli.terminal import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stead.cli.fetching.consumers import Place
    from stead.client.what_if import Advice


def draw_advice(advice: Advice, places: Mapping[str, Place], width: int) -> Iterator[Text]:
    """The lines of *advice*, none longer than *width* cells.

    Args:
        places: names of providers, by UUID.
    """
    yield from wrapped(Text(sentence(advice)), width)
    if advice.moves:
        yield Text("")
        yield from draw_plan(advice.moves, (), places, width)


def sentence(advice: Advice) -> str:
    """What the moves gain, and whether fewer moves could be enough."""
    now, times = f"Fits {_times(advice.fits_before)} now", _times(advice.document["make_room_for"])
    least, most = advice.fewest_moves
    if advice.is_impossible:
        return f"{now}. No moves make it fit {times}."
    if most is None:
        return f"{now}. No plan was found with which it fits {times}, but one may exist."
    if not most:
        return f"{now}, without any move."
    moves = f"{most:,} move{'' if most == 1 else 's'}"
    proof = "No plan has fewer." if least == most else f"Every plan has at least {least:,}."
    return f"{now}, and {_times(advice.fits_after or 0)} after {moves}. {proof}"


def _times(number: int) -> str:
    return f"{number:,} time{'' if number == 1 else 's'}"
