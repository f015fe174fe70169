"""What the catalog needs from the store. `service.service` connects the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from stead.domain.changes import Changes, Moment, Totals
    from stead.domain.portion import Portion


class Source(Protocol):
    """The database, as the catalog reads it."""

    def changes(self, since: Moment | None) -> Iterator[Changes | Portion]:
        """The changes after *since*: none, one difference, or everything if *since* is None or too old.

        Everything arrives as `Changes` with all names, then in portions of providers. Ticks and rows are from one
        snapshot of the database, over all portions. So no change is missing, and none is partial.

        Raises:
            ConnectionLost: the connection broke. What has arrived is void; the same *since* is tried again at once.
            Unavailable: the database does not answer. The same *since* can be tried again.

        Source: "The write and refresh protocol", docs/protocol.md.
        """
        ...


class Resumable(Protocol):
    """The database, as a catalog reads it that begins with a stored snapshot."""

    def stored(self, moment: Moment | None) -> Mapping[str, Any] | None:
        """*moment* of the last refresh, and the server, as JSON values; None if it cannot be recognized later."""
        ...

    def resumed(self, stored: Mapping[str, Any]) -> tuple[Changes, Totals]:
        """The changes since a stored moment, with its new moment, and sums over the providers after them.

        Raises:
            Unfit: the changes since then are not known, or it is a moment of another database.
            Unavailable: the database does not answer.
        """
        ...
