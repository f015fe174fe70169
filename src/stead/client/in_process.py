"""A WSGI application called as a function: no socket, no HTTP."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from stead.client.calls import Reply
from stead.client.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

    from stead.client.calls import Call


def answer(application: WSGIApplication, call: Call, headers: dict[str, str]) -> Reply:
    """What *application* answers.

    Raises:
        Unreachable: the application broke the connection, as fault injection does.
    """
    started: list[Any] = []

    def start_response(status: str, fields: list[tuple[str, str]], _exc_info: Any = None) -> Callable[[bytes], object]:
        started[:] = [status, fields]
        return lambda _part: None

    try:
        parts = application(_environ(call, headers), start_response)
        try:
            content = b"".join(parts)
        finally:
            getattr(parts, "close", lambda: None)()
    except ConnectionError as error:
        raise Unreachable(0, f"the connection broke: {error}") from error
    status, fields = started
    return Reply(int(status[:3]), {name.lower(): value for name, value in fields}, content)


def _environ(call: Call, headers: dict[str, str]) -> dict[str, Any]:
    path, _, query = call.target.partition("?")
    content = call.content
    environ: dict[str, Any] = {
        "REQUEST_METHOD": call.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": _decoded(path),
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "0",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(content or b""),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ["CONTENT_TYPE" if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    if content is not None:
        environ["CONTENT_LENGTH"] = str(len(content))
    return environ


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(path).decode("latin-1")  # PEP 3333: bytes in the guise of Latin-1
