"""``flavor=NAME`` in a candidate query: the query that is stored under this name, and what restricts it further.

Source: "Flavors", docs/api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stead.api.bodies import ONE_LINE
from stead.api.query.pairs import Pairs
from stead.api.query.values import BAD_VALUE
from stead.api.versions import S
from stead.domain.errors import InvalidQuery, UnknownFlavor
from stead.domain.flavor import FLAVOR_NAME, FLAVOR_NAME_LENGTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.api.versions import Step
    from stead.domain.flavor import Flavor

    Flavors = Callable[[str], Flavor | None]
    """Finds a flavor by its name."""

NAME: dict[str, Any] = {
    "type": "string",
    "pattern": FLAVOR_NAME,
    "maxLength": FLAVOR_NAME_LENGTH,
    "format": ONE_LINE,
}
KEYS: dict[str, tuple[Step, dict[str, Any]]] = {"flavor": (S.PROVIDER_TREES, NAME)}
"""The key, with its first version and the schema of its value."""

RESTRICTING = frozenset({"required", "member_of", "root_member_of"})
"""Parameters that may be given beside a flavor, and in the flavor too: all of them must hold."""

BESIDE = RESTRICTING | {"root_required", "in_tree", "in_subtree", "order_by", "limit"}
"""Parameters that may be given beside a flavor. All others describe the request itself."""

NOT_STORED = ("flavor", "limit", "marker")
"""Parameters that a flavor cannot have."""


def with_flavor(pairs: Pairs, flavors: Flavors | None) -> Pairs:
    """*pairs* with the query of the flavor that they name in its place.

    Raises:
        InvalidQuery: a flavor cannot be given here, or not with another of the parameters.
        UnknownFlavor
    """
    names = pairs.all("flavor")
    if not names:
        return pairs
    pairs.require_single(["flavor"])
    if flavors is None:
        raise InvalidQuery("flavor cannot be used here.", BAD_VALUE)
    others = [pair for pair in pairs if pair[0] != "flavor"]
    for key, _ in others:
        if key not in BESIDE:
            raise InvalidQuery(f"flavor and {key} cannot be used together.", BAD_VALUE)
    flavor = flavors(names[0])
    if flavor is None:
        raise UnknownFlavor(names[0])
    stored = list(Pairs.read(flavor.query))
    for key in dict(others):
        if key not in RESTRICTING and any(key == stored_key for stored_key, _ in stored):
            raise InvalidQuery(f"{key} is given in the query and in flavor {flavor.name}.", BAD_VALUE)
    return Pairs([*stored, *others])


def require_storable(pairs: Pairs) -> None:
    """Refuse parameters that a flavor cannot have.

    Raises:
        InvalidQuery: names the first one.
    """
    for key in NOT_STORED:
        if pairs.all(key):
            raise InvalidQuery(f"{key} cannot be part of a flavor.", BAD_VALUE)
