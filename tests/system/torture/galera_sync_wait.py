"""``python -m tests.system.torture.galera_sync_wait``: what it costs to wait for the other nodes, on a cluster here.

The commit clock is read as every refresh reads it, by turns with ``wsrep_sync_wait`` 1 and 0, while nobody writes and
while another node is written to.
"""

from __future__ import annotations

import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stead.domain.provider import Inventory
from stead.store import inventories
from stead.store.protocol.clock import read_clock
from tests.rooms.store.books import Books, fresh_uuid
from tests.servers.galera import cluster
from tests.servers.programs import Unavailable
from tests.system.torture.galera import ClusteredDatabase

if TYPE_CHECKING:
    import sqlalchemy as sa

TIMES = 2000


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends, too
    with tempfile.TemporaryDirectory(prefix="stead-sync-wait-") as place, cluster(Path(place) / "lock") as nodes:
        database = ClusteredDatabase(nodes)
        near, far = Books(database.members[0].own_url), Books(database.members[1].own_url, upgrade=False)
        tell("nobody writes", near.store.reader)
        stop = threading.Event()
        writer = threading.Thread(target=claim_until, args=(far, stop))
        writer.start()
        tell("another node is written to", near.store.reader)
        stop.set()
        writer.join()
        for books in (near, far):
            books.close()
        database.close()
    return 0


def claim_until(books: Books, stop: threading.Event) -> None:
    provider = books.provider()
    books.service.write(inventories.add, provider, "VCPU", Inventory(10**6))
    while not stop.is_set():
        books.claim(fresh_uuid(), {provider: {"VCPU": 1}})


def tell(when: str, reader: sa.Engine) -> None:
    seconds: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(TIMES):
        for waits, taken in seconds.items():
            with reader.connect() as connection:
                connection.exec_driver_sql(f"SET SESSION wsrep_sync_wait = {waits}")
                began = time.perf_counter()
                read_clock(connection)
                taken.append(time.perf_counter() - began)
    without, waiting = (statistics.median(taken) for taken in seconds.values())
    print(f"{when}: {waiting * 1e6:.0f} µs instead of {without * 1e6:.0f} µs, {waiting / without:.1f} ×", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as unavailable:
        print(f"NOT MEASURED: {unavailable}")
        sys.exit(1)
