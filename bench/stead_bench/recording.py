"""Records the SELECT statements that some code sends to the driver, and replays them.

The cost of the replay is the driver's time to fetch the same rows: the lower bound for any loader.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.pool import PoolProxiedConnection

READS = ("SELECT", "WITH")


@dataclass
class Recording:
    """Statements with their parameters, and the driver's seconds to execute them, without fetching."""

    statements: list[tuple[str, Any]] = field(default_factory=list)
    execute_seconds: float = 0.0


@dataclass(frozen=True)
class Replay:
    """The time to execute the statements and to fetch all their rows."""

    seconds: float
    rows: int


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the reads of all engines of this process, in all threads, until the block ends."""
    recording = Recording()
    began = 0.0

    def before(*_: Any) -> None:
        nonlocal began
        began = time.perf_counter()

    def after(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        recording.execute_seconds += time.perf_counter() - began
        if not many and statement.lstrip().upper().startswith(READS):
            recording.statements.append((statement, parameters))

    sa.event.listen(Engine, "before_cursor_execute", before)
    sa.event.listen(Engine, "after_cursor_execute", after)
    try:
        yield recording
    finally:
        sa.event.remove(Engine, "before_cursor_execute", before)
        sa.event.remove(Engine, "after_cursor_execute", after)


def play(connection: PoolProxiedConnection, statements: list[tuple[str, Any]]) -> Replay:
    """Execute *statements* with the driver only, and fetch all rows."""
    rows = 0
    began = time.perf_counter()
    for statement, parameters in statements:
        cursor = connection.cursor()
        cursor.execute(statement, parameters)
        rows += len(cursor.fetchall())
        cursor.close()
    return Replay(time.perf_counter() - began, rows)
