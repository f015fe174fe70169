"""What makes a measurement impossible, in words for the person who asked for it."""

from __future__ import annotations


class BenchError(Exception):
    """The measurement cannot be made, or not go on; exit code 2."""


class Overdue(BenchError):
    """A server took longer for an answer than we have patience."""


class Refused(BenchError):
    """A server answered with an error.

    Attributes:
        status: the HTTP status.
    """

    def __init__(self, status: int, what: str) -> None:
        super().__init__(f"{status} for {what}")
        self.status = status
