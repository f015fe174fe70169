"""What a command says when it cannot do what was asked, and the exit code that goes with it.

    CommandError            2, wrong usage or refused
    ├── Negative            1, the answer is no: nothing fits, not found, in conflict
    ├── Unreachable         2, no server answered
    └── ApiError            1 or 2, by the status the server answered with

``stead.cli.main`` prints ``str(error)`` as one line on stderr and exits with ``error.exit_code``.
"""

from http import HTTPStatus

NO = 1
REFUSED = 2

_STATUSES_THAT_MEAN_NO = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})


class CommandError(Exception):
    """The command was used wrongly or refused; the message is for the person who typed it."""

    exit_code = REFUSED


class Negative(CommandError):
    """The command did its work and the answer is no."""

    exit_code = NO


class Unreachable(CommandError):
    """No server answered at this URL, or what answered does not speak the Placement API."""


class ApiError(CommandError):
    """The server refused.

    Attributes:
        status: the HTTP status.
        code: ``errors[0].code``, for example ``placement.concurrent_update``; empty if the server sent none.
        detail: the last line of ``errors[0].detail``, which is where the service puts its reason.
    """

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # the status decides, per instance
        """1 if the thing is not there or somebody was faster, else 2."""
        return NO if self.status in _STATUSES_THAT_MEAN_NO else REFUSED

    @property
    def is_conflict(self) -> bool:
        """Whether somebody else was faster; asking again may succeed."""
        return self.status == HTTPStatus.CONFLICT

    def __str__(self) -> str:
        return f"{self.detail} ({self.status})"
