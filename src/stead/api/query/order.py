"""``order_by``: which candidates come first.

Source: "Order", docs/api.md.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stead.api.query.values import BAD_VALUE
from stead.domain.errors import InvalidQuery
from stead.domain.names import RESOURCE_CLASS_NAME
from stead.domain.order import PACK, SPREAD, ByAmount, ByShare, Drawn

if TYPE_CHECKING:
    from stead.domain.order import Order

HEAVIEST = 1_000_000
"""Maximum weight. A larger one would leave no significant digits to the others."""

_WORDS: dict[str, Order] = {"pack": PACK, "spread": SPREAD, "random": Drawn()}
_DIRECTIONS = {"asc": -1, "desc": 1}
_CLASS = re.compile(RESOURCE_CLASS_NAME)
_WEIGHT = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})", re.ASCII)


def parse_order(value: str | None) -> Order | None:
    """The order that the value of ``order_by`` states; None without a value.

    Raises:
        InvalidQuery: malformed.
    """
    if value is None:
        return None
    order = _WORDS.get(value) or _list(value)
    if order is None:
        raise InvalidQuery(
            "Invalid query string parameters: Expected 'order_by' parameter to be pack, spread, random, "
            f"CLASS:asc,CLASS:desc or CLASS:WEIGHT,CLASS:WEIGHT. Got: {value}",
            BAD_VALUE,
        )
    return order


def _list(value: str) -> Order | None:
    """The order of a list of classes; None if it is malformed."""
    pairs = [element.strip().partition(":") for element in value.split(",")]
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names) or not all(map(_CLASS.fullmatch, names)):
        return None
    said = [text for _, _, text in pairs]
    if all(text in _DIRECTIONS for text in said):
        return ByAmount({name: _DIRECTIONS[text] for name, text in zip(names, said, strict=True)})
    if not all(map(_WEIGHT.fullmatch, said)):
        return None
    weights = {name: float(text) for name, text in zip(names, said, strict=True)}
    return ByShare(weights) if all(0 < abs(weight) <= HEAVIEST for weight in weights.values()) else None
