"""The cost of processes, from ``/proc`` (Linux): processor time and resident memory."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024


def family(pids: Iterable[int]) -> list[int]:
    """These processes and all their descendants that still run."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process in _PROC.glob("[0-9]*"):
        fields = _stat(process)
        if fields:
            children[int(fields[1])].append(int(process.name))
    tree: list[int] = []
    waiting = [pid for pid in pids if (_PROC / str(pid)).exists()]
    while waiting:
        pid = waiting.pop()
        if pid not in tree:
            tree.append(pid)
            waiting += children[pid]
    return sorted(tree)


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor seconds of all threads of these processes so far.

    Source: ``schedstat``, whose first number is nanoseconds on a processor. If the kernel does not provide it, the
    much coarser clock ticks of ``stat``.
    """
    return sum(_of_thread(thread) for pid in pids for thread in _threads(pid))


def resident_bytes(pids: Iterable[int]) -> int:
    """The memory of the largest of these processes: of a server, that is a worker."""
    return max((_kib_of("status", "VmRSS", pid) * _KIB for pid in pids), default=0)


def proportional_bytes(pids: Iterable[int]) -> int:
    """The memory of all these processes together: a page that n of them share counts 1/n for each."""
    return sum(_kib_of("smaps_rollup", "Pss", pid) for pid in pids) * _KIB


def _threads(pid: int) -> Iterator[Path]:
    try:
        yield from (_PROC / str(pid) / "task").iterdir()
    except (FileNotFoundError, ProcessLookupError):
        return  # it ended


def _of_thread(thread: Path) -> float:
    try:
        return int((thread / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        fields = _stat(thread)
        return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _stat(process: Path) -> list[str]:
    """The fields after the name, which may contain blanks and brackets: state, parent, …; empty if it has ended."""
    try:
        return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kib_of(file: str, field: str, pid: int) -> int:
    """A number of KiB in a file of a process; 0 if the process has ended."""
    try:
        lines = (_PROC / str(pid) / file).read_text(encoding="utf-8", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
