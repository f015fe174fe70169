"""Names of traits or of resource classes, by id and by name."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.domain.changes import NameRow


class Names:
    """One table of names; immutable."""

    def __init__(self, rows: Sequence[NameRow] = ()) -> None:
        self.rows: tuple[NameRow, ...] = tuple(sorted(rows))

    @cached_property
    def by_name(self) -> dict[str, NameRow]:
        """Rows by name."""
        return {row.name: row for row in self.rows}

    @cached_property
    def by_id(self) -> dict[int, NameRow]:
        """Rows by id."""
        return {row.id: row for row in self.rows}
