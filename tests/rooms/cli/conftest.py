"""A Placement server that plays canned answers on loopback, and the command line pointed at it."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from stead.cli.app import run
from stead.cli.arguments import Options, use_options
from tests.rooms.cli.placement.deployment import Deployment


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class CannedServer:
    """Answers each ``METHOD path`` with what was canned for it, in turn, the last one for ever; 404 for the rest."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, float] = field(default_factory=dict)
    """How long a call takes."""

    def can(self, call: str, body: Any = None, status: int = 200) -> None:
        self.answers[call].append((status, body))

    def refuse(self, call: str, status: int, detail: str, code: str = "placement.undefined_code") -> None:
        error = {"status": status, "title": "-", "detail": f"A sentence.\n\n {detail}  ", "code": code}
        self.can(call, {"errors": [error]}, status)

    def answer(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        time.sleep(self.seconds.get(f"{asked.method} {asked.path}", 0))
        canned = self.answers.get(f"{asked.method} {asked.path}") or [(404, {"errors": [{"detail": "not canned"}]})]
        return canned.pop(0) if len(canned) > 1 else canned[0]

    def calls(self, method: str = "") -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked if asked.method.startswith(method)]


def _handler(server: CannedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, unquote(self.path), headers, json.loads(sent) if sent else None)
            status, body = server.answer(asked)
            if status == 0:  # hang up without a word
                return
            raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815  # http.server looks for these

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client may leave before its answer; what it makes of that is what the tests look at."""


@contextmanager
def canned_server() -> Iterator[CannedServer]:
    canned = CannedServer()
    with _Server(("127.0.0.1", 0), _handler(canned)) as http:
        canned.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield canned
        http.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with canned_server() as canned:
        yield canned


@pytest.fixture(autouse=True)
def own_environment(monkeypatch, tmp_path):
    """No server, token, data directory or terminal of the person who runs the tests."""
    for name in ("STEAD_URL", "STEAD_TOKEN", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("STEAD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("STEAD_ALIASES", str(tmp_path / "aliases.json"))
    use_options(Options())
    yield
    use_options(Options())


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def stead(server, capsys):
    """``stead("tree", "--json")`` against the canned server."""

    def call(*arguments: str, url: str = server.url) -> Ran:
        code = run(["--url", url, "--token", "secret", *arguments])
        return Ran(code, *capsys.readouterr())

    return call


@pytest.fixture
def deployment(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A deployment of OpenStack Placement that its own tools and those of Stead find."""
    monkeypatch.delenv("OS_PLACEMENT_DATABASE__CONNECTION", raising=False)
    deployment = Deployment(tmp_path, database_url)
    yield deployment
    deployment.store.close()
