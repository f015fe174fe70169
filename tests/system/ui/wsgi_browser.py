"""A browser without a window: requests to a WSGI application, with one cookie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults


@dataclass
class Page:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def csrf(self) -> str:
        found = re.search(r'data-csrf="([0-9a-f]+)"', self.text)
        assert found
        return found[1]


class Browser:
    """A WSGI client with one cookie."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.service: Any = None
        self.cookie = ""

    def call(self, method: str, path: str, body: bytes = b"", **environ: str) -> Page:
        path, _, query = path.partition("?")
        sent: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        sent |= {"HTTP_ACCEPT": "text/html", "HTTP_HOST": "127.0.0.1:8778", "wsgi.input": BytesIO(body)}
        if body:
            sent |= {"CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": "application/x-www-form-urlencoded"}
        if self.cookie:
            sent["HTTP_COOKIE"] = self.cookie
        sent |= environ
        setup_testing_defaults(sent)
        started: list[Any] = []
        parts = self.app(sent, lambda status, headers, *_: started.append((status, headers)))
        text = b"".join(parts).decode()
        status, headers = started[-1]
        return Page(int(status[:3]), {name.lower(): value for name, value in headers}, text)

    def get(self, path: str, **environ: str) -> Page:
        return self.call("GET", path, **environ)

    def post(self, path: str, form: dict[str, str] | list[tuple[str, str]], **environ: str) -> Page:
        return self.call("POST", path, urlencode(form).encode(), **environ)

    def sign_in(self, token: str) -> Page:
        page = self.post("/ui/sign-in", {"token": token})
        self.cookie = page.headers.get("set-cookie", "").partition(";")[0]
        return page
