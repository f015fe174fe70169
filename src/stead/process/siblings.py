"""The workers of one ``stead serve``, as its main process last counted them, for the workers that report it.

The main process writes to a file in memory that all workers inherit. A worker reads it for each health check and each
scrape, so both are current, and neither needs a message from a process that may be busy.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZE = 4096
"""Bytes of the file: one page, always written whole."""

ATTEMPTS = 3
"""Number of times that a reader tries: a write may change the page while it is read."""

_file: int | None = None


@dataclass(frozen=True, slots=True)
class Siblings:
    """The workers of a service.

    Attributes:
        states: number of workers by state: `serving`, `starting`, `ending`, and `missing` of the configured number.
        failures: number of workers that failed since the start, by cause.
        problem: why workers are missing, in one line; None if all serve.
    """

    states: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    problem: str | None = None


def write(file: int, siblings: Siblings) -> None:
    """Replace the content of *file*, a descriptor."""
    os.pwrite(file, json.dumps(asdict(siblings)).encode()[:SIZE].ljust(SIZE), 0)


def join(file: int) -> None:
    """Read the siblings of this process from *file*, a descriptor, from now on."""
    global _file  # noqa: PLW0603 - of the process, as its descriptors are
    _file = file


def siblings() -> Siblings | None:
    """The present state; None if another program started this process, which then knows of no siblings."""
    if _file is None:
        return None
    for _ in range(ATTEMPTS):
        with suppress(OSError, ValueError, TypeError):
            return Siblings(**json.loads(os.pread(_file, SIZE, 0)))
    return None
