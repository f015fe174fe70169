"""Names for people beside UUIDs: the file that ``stead alias`` writes, and the pages of the web interface read too."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class NoAliases(ValueError):
    """A file is not one of aliases."""


def file_of_user() -> Path | None:
    """The file in ``STEAD_ALIASES``, or that of this user; None if the user has no home directory."""
    chosen = os.environ.get("STEAD_ALIASES")
    if chosen:
        return Path(chosen)
    from platformdirs import user_config_dir

    try:
        return Path(user_config_dir("stead")) / "aliases.json"
    except RuntimeError:
        return None


def read(path: Path | None) -> Mapping[str, str]:
    """The names in *path* by UUID; none if there is no such file. It is read again when it changed.

    Raises:
        NoAliases: it is something else, or cannot be read.
    """
    if path is None:
        return {}
    try:
        status = path.stat()
    except OSError:
        return {}
    return _read(path, (status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=4)
def _read(path: Path, _mark: tuple[int, int]) -> Mapping[str, str]:
    try:
        names = json.loads(path.read_bytes())
        return {str(uuid): str(name) for uuid, name in names.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise NoAliases(f"{path}: cannot be read as aliases; correct or remove it: {error}") from error


def named_in(value: object, names: Mapping[str, str]) -> dict[str, str]:
    """The UUIDs in *value*, of JSON, that have *names*."""
    return {text: names[text] for text in _texts(value) if text in names} if names else {}


def _texts(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
