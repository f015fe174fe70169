"""``python -m stead_bench.start_cost TASK CONFIGURATION …``: one measurement of a service in this process.

Every task runs in a new process, and prints one line of JSON:

* ``record CONFIGURATION STATEMENTS``: start the service and store its reads in a file;
* ``driver CONFIGURATION STATEMENTS``: repeat these reads with the driver alone;
* ``start CONFIGURATION``: start the service, and report the cost;
* ``refresh CONFIGURATION COUNT…``: start it, change COUNT providers, and report the cost of the next snapshot.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from stead.application import build_service, prepare_process
from stead.config import load
from stead_bench import processes
from stead_bench.recording import play, recorded
from stead_bench.tables import opened, providers_with_inventory, reserve_one_more

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stead.config import Settings
    from stead.service.service import Service


def record(settings: Settings, file: str) -> dict[str, Any]:
    """The reads of a start."""
    with recorded() as recording:
        build_service(settings).close()
    Path(file).write_bytes(pickle.dumps(recording.statements))
    return {"statements": len(recording.statements)}


def driver(settings: Settings, file: str) -> dict[str, Any]:
    """The driver's cost of these reads."""
    statements = pickle.loads(Path(file).read_bytes())  # safe: our own process wrote the file
    with opened(settings.database.url) as store:
        connection = store.reader.raw_connection()
        replay = play(connection, statements)
        connection.close()
    return {"seconds": replay.seconds, "rows": replay.rows}


def start(settings: Settings) -> dict[str, Any]:
    """The cost of a start, without imports."""
    before = processes.resident_bytes([os.getpid()])
    cpu, began = time.process_time(), time.perf_counter()
    service = build_service(settings)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = processes.resident_bytes([os.getpid()])
    service.close()
    return {"seconds": seconds, "cpu_seconds": cpu, "resident_bytes": memory, "resident_bytes_before": before}


def refresh(settings: Settings, *counts: str) -> dict[str, Any]:
    """The cost of the snapshot after *counts* changed providers, each."""
    service = build_service(settings)
    with opened(settings.database.url) as store:
        ids = store.read(providers_with_inventory)
        _change(service, ids[:1])
        service.snapshot()  # so that one-time work does not count
        connection = store.reader.raw_connection()
        refreshes = [_refresh(service, ids[: int(count)], lambda read: play(connection, read)) for count in counts]
        connection.close()
    service.close()
    return {"refreshes": refreshes, "idle_pause_ms": _idle_pause_ms()}


def _change(service: Service, ids: Sequence[int]) -> None:
    """Change an amount of each of these providers, all in one transaction, as another client would."""
    service.write(reserve_one_more, ids)


def _refresh(service: Service, ids: Sequence[int], again: Callable[[list[tuple[str, Any]]], Any]) -> dict[str, Any]:
    """Measure once alone, for the time, and once beside a reader, for the pause: the reader takes processor time."""
    _change(service, ids)
    with recorded() as recording:
        began = time.perf_counter()
        old = service.snapshot()
        seconds = time.perf_counter() - began
    replay = again(recording.statements)
    _change(service, ids)
    with _Spinning(old) as spinning:
        new = service.snapshot()
    if new is old:
        raise RuntimeError("nothing was refreshed")
    return {
        "providers": len(ids),
        "seconds": seconds,
        "execute_seconds": recording.execute_seconds,
        "driver_seconds": replay.seconds,
        "rows": replay.rows,
        "longest_pause_ms": spinning.longest * 1e3,
    }


class _Spinning:
    """A thread that continuously reads from a snapshot; records its longest pause in seconds."""

    def __init__(self, snapshot: object) -> None:
        self._snapshot = snapshot
        self._stop = False
        self._thread = threading.Thread(target=self._spin)
        self.longest = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._thread.is_alive():
            raise RuntimeError("the thread that measures pauses has ended")
        self._stop = True
        self._thread.join()

    def _spin(self) -> None:
        last = time.perf_counter()
        while not self._stop:
            copy.copy(self._snapshot)  # reads the whole object; only the interpreter can delay it
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now


def _idle_pause_ms() -> float:
    """The longest pause of the same thread without a refresh: disturbances of the machine."""
    with _Spinning(object()) as spinning:
        time.sleep(1.0)
    return spinning.longest * 1e3


TASKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "record": record,
    "driver": driver,
    "start": start,
    "refresh": refresh,
}


def main() -> None:
    """Run the task of the command line."""
    task, configuration, *arguments = sys.argv[1:]
    prepare_process()  # like a worker
    print(json.dumps(TASKS[task](load([Path(configuration)]), *arguments)))


if __name__ == "__main__":
    main()
