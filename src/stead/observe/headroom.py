"""Metrics of flavors, in the text format of Prometheus: how many times each fits, as two bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.observe.capacity import escaped, family

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.domain.flavor import FlavorRoom

FLAVORS = (
    ("stead_headroom", "at_least", "Number of times that a flavor is known to fit."),
    ("stead_headroom_at_most", "at_most", "Number of times that a flavor fits at most."),
)
"""Name, attribute of `FlavorRoom` and meaning."""


def text_of_flavors(rooms: Iterable[FlavorRoom]) -> str:
    """The metrics of :data:`FLAVORS`; those of all trees have no label ``aggregate``."""
    labelled = []
    for room in rooms:
        aggregate = f',aggregate="{escaped(room.aggregate)}"' if room.aggregate else ""
        labelled.append((f'{{flavor="{escaped(room.flavor)}"{aggregate}}}', room))
    return "".join(
        family(name, meaning, (f"{name}{labels} {getattr(room, attribute):.17g}\n" for labels, room in labelled))
        for name, attribute, meaning in FLAVORS
    )
