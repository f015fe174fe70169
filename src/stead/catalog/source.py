"""What the catalog reads through: it says here what it needs, and whoever keeps the truth happens to offer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stead.domain.changes import Changes, Moment


class Source(Protocol):
    """Where the truth is."""

    def changes(self, since: Moment | None) -> Changes | None:
        """What changed after *since*; everything if None or if the difference can not be told; None if nothing.

        Ticks and state are of one snapshot of the database: nothing torn, nothing missed.

        Raises:
            Unavailable: no answer. Nothing was changed; the same *since* may be tried again.

        Source: "The write and refresh protocol", docs/architecture.md.
        """
        ...
