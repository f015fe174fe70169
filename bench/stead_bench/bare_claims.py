"""The minimum that a program can do for a claim: write the rows that Stead writes, and commit.

It uses the driver directly, reads nothing, checks nothing and knows every id. Stead's additional cost is HTTP, JSON,
the reads that a decision needs, locks, checks, and the layers between Stead and the driver.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from stead_bench.errors import BenchError
from stead_bench.tables import SLOTS, class_ids, owner_ids, provider_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead.store.protocol.store import Store
    from stead_bench.claims_site import Taken

OWNER = "bench-bare"
"""The project, user and consumer type of all claims here."""

MOST_RETRIES = 100

Places = list[tuple[int, list[int]]]
"""The providers and classes of a claim, by ids, one unit each, in the order in which providers are locked."""


class BareClaims:
    """Claims from some providers; a connection for each client."""

    def __init__(self, store: Store, every: Sequence[Taken]) -> None:
        """Look up the ids of all places, and create the owner."""
        self._store = store
        self._owner = owner_ids(store, OWNER)
        self._ids = provider_ids(store, {uuid for taken in every for uuid in taken})
        self._classes = class_ids(store, {name for taken in every for of_one in taken.values() for name in of_one})

    def client(self, number: int) -> BareClient:
        """A client with its own connection, configured like Stead's."""
        return BareClient(self._store, self._owner, number % SLOTS)

    def places(self, taken: Taken) -> Places:
        """*taken* with ids instead of names."""
        return sorted((self._ids[uuid], [self._classes[name] for name in of_one]) for uuid, of_one in taken.items())


class BareClient:
    """One connection. Not thread-safe."""

    def __init__(self, store: Store, owner: tuple[int, int, int], slot: int) -> None:
        """Connect. Each client uses its own slot of the clock, as long as there are enough slots."""
        dialect = store.writer.dialect
        self._pooled = store.writer.raw_connection()
        self._connection: Any = self._pooled.driver_connection
        self._error = dialect.loaded_dbapi.Error
        self._owner, self._slot = owner, slot
        self._is_file = not store.dialect.locks_rows
        self._one = store.dialect.marker
        self.retries = 0

    def close(self) -> None:
        """Release the connection."""
        self._pooled.close()

    def claim(self, places: Places) -> None:
        """Claim *places* for a new consumer, durably.

        Raises:
            BenchError: the database rejects the write.
        """
        for _ in range(MOST_RETRIES):
            cursor = self._connection.cursor()
            try:
                self._write(cursor, places)
            except self._error as error:  # a deadlock, or a file that is busy
                self._connection.rollback()
                self.retries += 1
                complaint = error
            else:
                return
            finally:
                cursor.close()
        raise BenchError(f"the bare program could not commit: {complaint}")

    def _write(self, cursor: Any, places: Places) -> None:
        mark, now, consumer = self._one, datetime.now(UTC).replace(tzinfo=None).isoformat(" "), str(uuid4())
        ids = [provider for provider, _ in places]
        marks = ", ".join([mark] * len(ids))
        taken = [(provider, class_id) for provider, classes in places for class_id in classes]
        rows = ", ".join([f"({mark}, {mark}, {mark}, 1, {mark})"] * len(taken))
        if self._is_file:
            cursor.execute("BEGIN IMMEDIATE")
        cursor.execute(
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used, created_at) "
            f"VALUES {rows}",
            tuple([part for provider, class_id in taken for part in (provider, consumer, class_id, now)]),
        )
        cursor.execute(
            f"UPDATE resource_providers SET generation = generation + 1, updated_at = {mark} WHERE id IN ({marks})",
            (now, *ids),
        )
        cursor.execute(
            f"UPDATE stead_usage SET used = used + 1, generation = generation + 1 WHERE provider_id IN ({marks})",
            tuple(ids),
        )
        cursor.execute(
            "INSERT INTO consumers (uuid, project_id, user_id, consumer_type_id, generation, created_at) "
            f"VALUES ({mark}, {mark}, {mark}, {mark}, 1, {mark})",
            (consumer, *self._owner, now),
        )
        cursor.execute(
            f"UPDATE stead_clock SET tick = tick + 1, stamp = {mark} WHERE slot = {mark}",
            (secrets.randbits(62), self._slot),
        )
        cursor.execute(
            f"UPDATE stead_usage_change SET slot = {mark}, tick = (SELECT tick FROM stead_clock WHERE slot = {mark}) "
            f"WHERE provider_id IN ({marks})",
            (self._slot, self._slot, *ids),
        )
        cursor.execute(
            "INSERT INTO stead_change_log (slot, tick, uuid, kind) "
            f"VALUES ({mark}, (SELECT tick FROM stead_clock WHERE slot = {mark}), {mark}, 1)",
            (self._slot, self._slot, consumer),
        )
        self._commit(cursor)

    def _commit(self, cursor: Any) -> None:
        if self._is_file:
            cursor.execute("COMMIT")
        else:
            self._connection.commit()
