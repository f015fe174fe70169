"""A site as a table for spreadsheets: a row for each inventory, or for each allocation.

Characters that control a terminal or end a line are escaped. Text that a spreadsheet would run as a formula has an
apostrophe before it, which spreadsheets do not show.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from stead.domain.printable import printable
from stead.topology.site import top_down

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TextIO

    from stead.topology.site import Site

COLUMNS = (
    "name", "uuid", "parent", "resource_class", "total", "reserved", "min_unit", "max_unit", "step_size",
    "allocation_ratio", "traits", "aggregates",
)  # fmt: skip
ALLOCATION_COLUMNS = ("consumer", "project", "user", "consumer_type", "provider", "resource_class", "used")


_FORMULA = ("=", "+", "-", "@")
"""First characters of formulas. Source: "CSV Injection" of OWASP, whose others are control characters."""


def _cell(text: str) -> str:
    return f"'{printable(text)}" if text.startswith(_FORMULA) else printable(text)


def write_inventories(site: Site, file: TextIO) -> None:
    """A row for each inventory, and one for each provider that has none; lists are separated by spaces."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for name in top_down({name: described.parent for name, described in site.providers.items()}):
        described = site.providers[name]
        provider = (_cell(described.name), described.uuid or "", _cell(described.parent or ""))
        sets = (" ".join(sorted(described.traits)), " ".join(sorted(described.aggregates)))
        for resource_class, inventory in sorted(described.inventories.items()):
            amounts = (
                inventory.total,
                inventory.reserved,
                inventory.min_unit,
                inventory.max_unit,
                inventory.step_size,
                inventory.allocation_ratio,
            )
            rows.writerow((*provider, resource_class, *amounts, *sets))
        if not described.inventories:
            rows.writerow((*provider, *("",) * 7, *sets))


def write_allocations(
    holders: Iterable[tuple[tuple[str, str, str, str], Mapping[str, Mapping[str, int]]]], file: TextIO
) -> None:
    """A row for each allocation.

    Args:
        holders: of each consumer uuid, project, user and type, and amounts by provider and class.
    """
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(ALLOCATION_COLUMNS)
    for identity, allocations in holders:
        for provider, amounts in sorted(allocations.items()):
            for resource_class, used in sorted(amounts.items()):
                rows.writerow((*map(_cell, identity), _cell(provider), resource_class, used))
