"""``python -m stead_bench.start_cost TASK CONFIGURATION …``: one measurement of a service in this process.

Every task runs in a process that did nothing before, and writes one line of JSON:

* ``record CONFIGURATION STATEMENTS``: start the service and keep in a file what it read;
* ``driver CONFIGURATION STATEMENTS``: read the same with the driver alone;
* ``start CONFIGURATION``: start the service, and say what that took;
* ``refresh CONFIGURATION COUNT…``: start it, let so many providers change, and say what the next snapshot took.
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
    """What a start reads."""
    with recorded() as recording:
        build_service(settings).close()
    Path(file).write_bytes(pickle.dumps(recording.statements))
    return {"statements": len(recording.statements)}


def driver(settings: Settings, file: str) -> dict[str, Any]:
    """What the driver alone needs for it."""
    statements = pickle.loads(Path(file).read_bytes())  # which our own process wrote
    with opened(settings.database.url) as store:
        connection = store.reader.raw_connection()
        replay = play(connection, statements)
        connection.close()
    return {"seconds": replay.seconds, "rows": replay.rows}


def start(settings: Settings) -> dict[str, Any]:
    """What a start takes, imports left out."""
    before = processes.resident_bytes([os.getpid()])
    cpu, began = time.process_time(), time.perf_counter()
    service = build_service(settings)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = processes.resident_bytes([os.getpid()])
    service.close()
    return {"seconds": seconds, "cpu_seconds": cpu, "resident_bytes": memory, "resident_bytes_before": before}


def refresh(settings: Settings, *counts: str) -> dict[str, Any]:
    """What the snapshot after so many changed providers takes."""
    service = build_service(settings)
    with opened(settings.database.url) as store:
        ids = store.read(providers_with_inventory)
        _change(service, ids[:1])
        service.snapshot()  # whatever is done once, is done now
        connection = store.reader.raw_connection()
        refreshes = [_refresh(service, ids[: int(count)], lambda read: play(connection, read)) for count in counts]
        connection.close()
    service.close()
    return {"refreshes": refreshes, "idle_pause_ms": _idle_pause_ms()}


def _change(service: Service, ids: Sequence[int]) -> None:
    """Change an amount of each of these providers, all in one transaction of somebody who uses the service."""
    service.write(reserve_one_more, ids)


def _refresh(service: Service, ids: Sequence[int], again: Callable[[list[tuple[str, Any]]], Any]) -> dict[str, Any]:
    """Once alone, for the time, and once beside a reader, for the pause: who spins takes time from the other."""
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
    """A thread that reads from a snapshot without end, and how long it was kept from it at most, in seconds."""

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
            raise RuntimeError("nobody watched for pauses")
        self._stop = True
        self._thread.join()

    def _spin(self) -> None:
        last = time.perf_counter()
        while not self._stop:
            copy.copy(self._snapshot)  # reads all that it consists of; only the interpreter can make us wait
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now


def _idle_pause_ms() -> float:
    """What the same thread sees when nothing is refreshed: what the machine itself does to it."""
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
    """Do the task of the command line."""
    task, configuration, *arguments = sys.argv[1:]
    prepare_process()  # as a worker does
    print(json.dumps(TASKS[task](load([Path(configuration)]), *arguments)))


if __name__ == "__main__":
    main()
