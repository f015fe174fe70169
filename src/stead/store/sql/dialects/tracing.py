"""Adds the place in the code to each statement, as a comment at its end: implements ``connection_trace``.

A database's own list of slow or running statements then shows the place.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from types import FrameType

    from sqlalchemy.engine import Engine

_HOUSE = str(Path(__file__).parents[3])
_MECHANICS = (f"{_HOUSE}/store/sql/", f"{_HOUSE}/store/among.py")
"""Files that run all statements; the caller above them is the place."""


def name_places(engine: Engine) -> None:
    """Make every statement of *engine* name its place."""
    sa.event.listen(engine, "before_cursor_execute", _with_place, retval=True)


def _with_place(  # the signature is that of SQLAlchemy's event
    _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
) -> tuple[str, Any]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - what `inspect` and `traceback` do costs more than the statement
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_HOUSE) and not file.startswith(_MECHANICS):
            place = f"stead{file.removeprefix(_HOUSE)}:{frame.f_lineno} {frame.f_code.co_name}"
            return f"{statement} /* {place} */", parameters
        frame = frame.f_back
    return statement, parameters
