"""The flavors of the Site page: how many times each still fits, and what runs out first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stead.ui.views.ask import limit_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from stead.domain.flavor import Flavor
    from stead.service.flavors import Found

AT_ONCE = 20
"""Flavors that the page shows at once. It folds the others."""

NOT_COUNTED = "not counted yet: the work for one request was used up"


class Row(NamedTuple):
    """One flavor. ``problem``, if it is not empty, says why the numbers are unknown; ``limits`` are in words.

    ``is_complete``: the work for one request sufficed, so ``at_most`` is near.
    """

    name: str
    description: str
    at_least: int = 0
    at_most: int = 0
    limits: Sequence[str] = ()
    is_complete: bool = True
    problem: str = ""


class Rows(NamedTuple):
    """The scarcest flavor first, then those with a problem. ``goes_on``: other flavors exist."""

    rows: Sequence[Row]
    goes_on: bool


def rows(flavors: Iterable[Flavor], headrooms: Mapping[str, Found], *, goes_on: bool) -> Rows:
    """The rows of *flavors*. *headrooms* has the headrooms, or the reasons why there are none, by name."""
    made = [_row(flavor, headrooms.get(flavor.name, NOT_COUNTED)) for flavor in flavors]
    return Rows(sorted(made, key=lambda row: (row.problem != "", row.at_least, row.at_most, row.name)), goes_on)


def _row(flavor: Flavor, headroom: Found) -> Row:
    if isinstance(headroom, str):
        return Row(flavor.name, flavor.description, problem=headroom)
    limits = [limit_words(limit.by) for limit in headroom.limited_by]
    return Row(flavor.name, flavor.description, headroom.at_least, headroom.at_most, limits, headroom.is_complete)
