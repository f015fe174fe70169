"""The live view of a site: sums, the fullest and the emptiest hosts, and what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.class_order import in_class_order
from stead.cli.forest import Amount, Provider, TreeGroup, amount_as_json, draw_groups, draw_sums, fill, natural, sums_of
from stead.cli.terminal import shorten
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

KEYS = "q quit   s sort   c class   / filter"
_LEAST_ROWS = 3
_MOST_CHANGES = 6
_LEAST_FRAME = 12  # lines


@dataclass(slots=True)
class View:
    """What the reader chose.

    Attributes:
        order: ``used``: the fullest and the emptiest hosts; ``name``: all hosts by name.
        resource_class: the class by which hosts are full; empty: the fullest of each host.
        pattern: only hosts with such names.
        typing: the pattern while it is typed, else None.
    """

    order: str = "used"
    resource_class: str = ""
    pattern: str = ""
    typing: str | None = None


@dataclass(slots=True)
class Frame:
    """What is shown: roots with the sums of their trees, claims per second, and recent changes."""

    roots: Sequence[Provider] = ()
    rate: float | None = None
    changes: list[str] = field(default_factory=list)
    time: str = ""


def visible(frame: Frame, view: View) -> list[Provider]:
    """The hosts that pass the filter; a filter without ``*`` matches a part of the name."""
    pattern = view.pattern if "*" in view.pattern else f"*{view.pattern}*"
    return [root for root in frame.roots if not view.pattern or fnmatchcase(root.name, pattern)]


def ordered(roots: Sequence[Provider], view: View) -> list[Provider]:
    """The hosts by name, or the fullest first."""
    by_name = sorted(roots, key=lambda root: natural(root.name))
    if view.order == "name":
        return by_name
    return sorted(by_name, key=lambda root: _fill(root, view), reverse=True)


def draw_frame(frame: Frame, view: View, width: int, height: int) -> list[Text]:
    """Up to *height* lines, none longer than *width* cells."""
    roots = visible(frame, view)
    sums = sums_of(roots)
    lines = [_title(frame, view, roots, width), Text()]
    lines += list(draw_sums(f"all {len(roots):,} hosts", sums, width))[: max(height // 3, 1)]
    changes = frame.changes[-_MOST_CHANGES:] if height > 2 * _LEAST_FRAME else []
    changes = changes[-max(height // 6, 1) :]
    below = [Text(), Text("changes", style="bold"), *(Text(shorten(printable(each), width)) for each in changes)]
    below = below if changes else []
    keys = Text(shorten(_prompt(view), width), style="dim")
    room = height - len(lines) - len(below) - 1
    lines += list(_hosts(ordered(roots, view), view, width, room))[: max(room, 0)]
    return [*lines, *below, keys][:height]


def _hosts(roots: list[Provider], view: View, width: int, room: int) -> Iterator[Text]:
    if view.order == "name" or len(roots) <= max(room - 3, _LEAST_ROWS):
        yield from _table("hosts", roots[: max(room - 3, _LEAST_ROWS)], width)
        return
    rows = max((room - 8) // 2, _LEAST_ROWS)
    yield from _table("fullest", roots[:rows], width)
    yield from _table("emptiest", roots[::-1][:rows], width)


def _table(title: str, roots: list[Provider], width: int) -> Iterator[Text]:
    yield Text()
    yield Text(title, style="bold")
    groups = [TreeGroup(1, root.is_disabled, [root.name], root.shown_amounts) for root in roots]
    if groups:
        yield from draw_groups(groups, width, of_hosts=True)


def _title(frame: Frame, view: View, roots: Sequence[Provider], width: int) -> Text:
    providers = sum(root.hidden + 1 for root in roots)
    rate = "" if frame.rate is None else f"   {frame.rate:.1f} claims/s"
    by = f" of {view.resource_class}" if view.resource_class else ""
    chosen = f"   sorted by {view.order}{by}" + (f"   filter {view.pattern}" if view.pattern else "")
    text = f"{frame.time} {len(roots):,} hosts, {providers:,} providers{rate}{chosen}"
    return Text(shorten(printable(text.strip()), width), style="bold")


def _prompt(view: View) -> str:
    return KEYS if view.typing is None else f"filter: {printable(view.typing)}"


def _fill(root: Provider, view: View) -> float:
    amounts = root.shown_amounts
    if view.resource_class:
        return fill([amounts[view.resource_class]]) if view.resource_class in amounts else -1.0
    return fill(amounts.values())


def press(view: View, key: str, classes: Sequence[str]) -> bool:
    """Change *view* as *key* says; returns whether the view goes on."""
    if view.typing is not None:
        _type(view, key)
        return True
    if key == "q":
        return False
    if key == "s":
        view.order = "name" if view.order == "used" else "used"
    elif key == "c":
        choices = ["", *classes]
        place = choices.index(view.resource_class) if view.resource_class in choices else -1
        view.resource_class = choices[(place + 1) % len(choices)]
    elif key == "/":
        view.typing = ""
    return True


def _type(view: View, key: str) -> None:
    text = view.typing or ""
    if key in ("\r", "\n"):
        view.pattern, view.typing = text, None
    elif key == "\x1b":
        view.typing = None
    elif key in ("\x7f", "\b"):
        view.typing = text[:-1]
    elif key.isprintable():
        view.typing = text + key


def frame_as_json(frame: Frame, view: View) -> dict[str, Any]:
    """One frame: all hosts in the order of the view."""
    roots = ordered(visible(frame, view), view)
    return {
        "claims_per_second": frame.rate,
        "totals": _amounts(sums_of(roots)),
        "hosts": [
            {"uuid": root.uuid, "name": root.name, "providers": root.hidden + 1, "sums": _amounts(root.shown_amounts)}
            for root in roots
        ],
    }


def _amounts(amounts: dict[str, Amount]) -> dict[str, dict[str, int]]:
    return {name: amount_as_json(amount) for name, amount in in_class_order(amounts).items()}
