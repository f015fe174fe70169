"""What the catalog needs from the store. `service.service` connects the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.domain.changes import Changes, Moment


class Source(Protocol):
    """The database, as the catalog reads it."""

    def changes(self, since: Moment | None) -> Iterator[Changes]:
        """The changes after *since*: none, one difference, or everything if *since* is None or too old.

        Everything arrives in portions of whole trees. Ticks and rows are from one snapshot of the database, over all
        portions. So no change is missing, and none is partial.

        Raises:
            Unavailable: the database does not answer. The same *since* can be tried again.

        Source: "The write and refresh protocol", docs/protocol.md.
        """
        ...
