"""One-time codes, with which the owner of an embedded service signs in to the web interface.

A code is a file in the data directory, named after the code's digest, so that any process of the service can accept it,
and only once: removing the file is what accepts it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from stead.auth.private_files import private_directory, replace_privately

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 3600
"""For how long a code is valid."""

_DIRECTORY = "sign-in-codes"


def new_code(data_dir: Path) -> str:
    """A new code of 192 bits, valid for :data:`SECONDS`. Removes expired ones.

    Raises:
        OSError: the data directory cannot be written.
    """
    directory = data_dir / _DIRECTORY
    private_directory(directory)
    for file in directory.iterdir():
        with suppress(FileNotFoundError):
            if _is_expired(file):
                file.unlink()
    code = secrets.token_urlsafe(24)
    replace_privately(directory / _digest(code), "")
    return code


def accept(data_dir: Path, code: str) -> bool:
    """Whether *code* is valid; from now on it is not."""
    file = data_dir / _DIRECTORY / _digest(code)
    try:
        is_expired = _is_expired(file)
        file.unlink()  # of several requests at once, one removes it
    except OSError:
        return False
    return not is_expired


def _is_expired(file: Path) -> bool:
    return time.time() - file.stat().st_mtime > SECONDS


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
