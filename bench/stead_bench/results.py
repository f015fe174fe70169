"""The results, and their JSON form."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stead_bench.measure import Side


@dataclass(frozen=True)
class Cost:
    """The cost of one server for one row.

    Attributes:
        requests: number of timed requests.
        median_ms, p99_ms: from sending a request to reading the last byte.
        requests_per_second: of one client that sends one request after the other.
        cpu_ms: processor milliseconds of the server per request, all its processes and threads; None if unknown.
        kept_ms: median of requests that repeat the previous one without a claim in between.
    """

    requests: int
    median_ms: float
    p99_ms: float
    requests_per_second: float
    cpu_ms: float | None
    kept_ms: float | None

    @classmethod
    def of(cls, side: Side) -> Cost | None:
        """None if the server never answered."""
        if not side.seconds:
            return None
        return cls(
            requests=len(side.seconds),
            median_ms=_ms(median(side.seconds)),
            p99_ms=_ms(percentile(side.seconds, 0.99)),
            requests_per_second=round(len(side.seconds) / sum(side.seconds), 1),
            cpu_ms=_ms(side.cpu / len(side.seconds)) if side.pids else None,
            kept_ms=_ms(median(side.kept)) if side.kept else None,
        )


@dataclass(frozen=True)
class Row:
    """One query of one site with one limit.

    Attributes:
        providers: of the site.
        answers: candidates, or providers of a list.
        bytes: of Stead's first answer, which the bare application returns too.
        first_ms: of Stead's first answer.
        stead_memory_mib, peer_memory_mib: resident memory of the largest process; None if unknown.
        stead_to_bare: ratio of the medians.
        peer_to_stead, peer_to_stead_cpu: ratios of medians, and of processor time; None if there is no peer.
        peer_note: why the peer has no numbers.
        compared: how Stead's answers were compared with the peer's; None if they were not.
        differences: between the answers.
    """

    suite: str
    site: str
    size: int
    providers: int
    query: str
    limit: int | None
    answers: int | None = None
    bytes: int | None = None
    first_ms: float | None = None
    stead: Cost | None = None
    bare: Cost | None = None
    peer: Cost | None = None
    stead_memory_mib: float | None = None
    peer_memory_mib: float | None = None
    stead_to_bare: float | None = None
    peer_to_stead: float | None = None
    peer_to_stead_cpu: float | None = None
    peer_note: str | None = None
    compared: str | None = None
    differences: list[str] = field(default_factory=list)


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of *values* that at least *share* of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratio(dividend: Cost | None, divisor: Cost | None, quantity: str) -> float | None:
    """The *quantity* (a field of :class:`Cost`) of one server divided by another's, if both are known and nonzero."""
    over, under = getattr(dividend, quantity, None), getattr(divisor, quantity, None)
    return round(over / under, 2) if over is not None and under else None


def mib(size: int) -> float | None:
    """Bytes as MiB; None for nothing."""
    return round(size / 2**20, 1) if size else None


PACKAGES = ("stead", "httptools", "falcon", "numpy", "orjson", "sqlalchemy")


def machine() -> dict[str, Any]:
    """The machine and the software of the measurement."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "load_average_1m": round(os.getloadavg()[0], 2),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def write(file: Path, kind: str, **parts: Any) -> None:
    """Write *parts* to *file*, with the machine and the command line."""
    whole = {"kind": kind, "command": ["stead", *sys.argv[1:]], "machine": machine(), **parts}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole, indent=2, default=asdict) + "\n", encoding="utf-8")
