"""What the catalog reads through: it says here what it needs, and whoever keeps the truth happens to offer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.domain.changes import Changes, Moment


class Source(Protocol):
    """Where the truth is."""

    def changes(self, since: Moment | None) -> Iterator[Changes]:
        """What changed after *since*: nothing, one difference, or, if it can not be told or is None, everything.

        Everything comes in portions, whole trees in each, to be added to each other. Ticks and state are of one
        snapshot of the database, portions included: nothing torn, nothing missed.

        Raises:
            Unavailable: no answer. Nothing was changed; the same *since* may be tried again.

        Source: "The write and refresh protocol", docs/protocol.md.
        """
        ...
