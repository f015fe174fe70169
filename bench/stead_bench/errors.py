"""Errors that make a measurement impossible."""

from __future__ import annotations


class BenchError(Exception):
    """The measurement cannot start or continue; exit code 2."""


class Overdue(BenchError):
    """A server did not answer within the timeout."""


class Refused(BenchError):
    """A server answered with an error.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"{status} for {what}")
        self.status = status
