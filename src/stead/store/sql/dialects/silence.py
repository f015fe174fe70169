"""Connections to PostgreSQL that time out when a server is silent; libpq would wait forever.

The server's own limits do not help if the server, its disk or the network hangs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

R = TypeVar("R")


def connect(seconds: float, **how: Any) -> psycopg.Connection[Any]:
    """A connection that is closed, with an OperationalError, after the server was silent for *seconds*."""
    connection = _Impatient.connect(**how)
    connection.seconds = seconds
    return connection


class _Impatient(psycopg.Connection[Any]):
    seconds = float("inf")

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        try:
            return super().wait(_within(self.seconds, gen), *args, **kwargs)
        except _Silent:
            self.close()  # a late answer would otherwise be taken for that of the next query
            raise psycopg.OperationalError(f"the server was silent for {self.seconds:g} seconds") from None


class _Silent(Exception):
    """The server was silent for too long."""


def _within(seconds: float, gen: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
    """*gen*, which is told several times a second that no data has arrived, until the silence lasts *seconds*."""
    try:
        awaited, since = next(gen), time.monotonic()
        while True:
            ready = yield awaited
            if ready:
                since = time.monotonic()
            elif time.monotonic() - since > seconds:
                gen.close()
                raise _Silent
            awaited = gen.send(ready)
    except StopIteration as end:
        result: R = end.value
        return result
