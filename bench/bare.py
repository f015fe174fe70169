"""The least a WSGI application can do: it returns bytes that it has in memory.

The files ``0``, ``1`` … of the folder ``BENCH_BODIES`` are answered at ``/0``, ``/1`` …, with the headers that Stead
sends beside them (``0.json``, a list of pairs).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Answer = tuple[list[tuple[str, str]], bytes]


def answers(folder: Path) -> dict[str, Answer]:
    return {f"/{body.name}": answer(body) for body in folder.iterdir() if not body.suffix}


def answer(body: Path) -> Answer:
    headers = json.loads(body.with_suffix(".json").read_text(encoding="utf-8"))
    return [(name, value) for name, value in headers], body.read_bytes()


ANSWERS = answers(Path(os.environ["BENCH_BODIES"]))


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    headers, body = ANSWERS[environ["PATH_INFO"]]
    start_response("200 OK", headers)
    return [body]
