"""The errors of commands, and their exit codes.

    CommandError            2, wrong usage or refused
    └── Negative            1, the answer is no: nothing fits, not found, in conflict

:func:`stead.cli.server.connect` makes them of the errors of the library: 1 for 404 and 409, else 2.

``stead.cli.main`` prints ``str(error)`` as one line on stderr and exits with ``error.exit_code``.
"""

from __future__ import annotations

NO = 1
REFUSED = 2


class CommandError(Exception):
    """The command was used incorrectly or refused; the message is for the user."""

    exit_code = REFUSED


class Negative(CommandError):
    """The command completed, and the answer is no."""

    exit_code = NO
