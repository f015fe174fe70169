"""The minimum that a WSGI application can do: it returns bytes from memory.

It serves the files ``0``, ``1`` … of the folder ``STEAD_BENCH_BODIES`` at ``/0``, ``/1`` …, with the headers that
Stead sent with them (``0.json``, a list of pairs). A new file is read at its first request.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FOLDER = "STEAD_BENCH_BODIES"

Answer = tuple[list[tuple[str, str]], bytes]

_answers: dict[str, Answer] = {}


def keep(folder: Path, number: int, headers: list[tuple[str, str]], body: bytes) -> str:
    """Store an answer for the application; returns its path."""
    (folder / f"{number}.json").write_text(json.dumps(headers), encoding="utf-8")
    (folder / str(number)).write_bytes(body)
    return f"/{number}"


def read(path: str) -> Answer:
    """The answer at *path*.

    Raises:
        FileNotFoundError: no answer is stored for it.
    """
    file = Path(os.environ[FOLDER], str(int(path.removeprefix("/"))))
    headers = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    return [(name, value) for name, value in headers], file.read_bytes()


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """The WSGI application."""
    path = environ["PATH_INFO"]
    if path not in _answers:
        _answers[path] = read(path)
    headers, body = _answers[path]
    start_response("200 OK", headers)
    return [body]
