import os
from types import SimpleNamespace
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from stead.auth.authentication import Credentials, authenticate
from stead.config import load


@pytest.fixture(autouse=True)
def no_configuration_of_this_machine(monkeypatch, tmp_path):
    """Home is an empty directory and no variable of ours is set, so what a test sees is what it wrote."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable in [*os.environ]:
        if variable.startswith(("OS_", "STEAD_", "XDG_", "SNAP")):
            monkeypatch.delenv(variable)
    return home


@pytest.fixture
def settings(monkeypatch):
    """Make settings with a database nobody opens, from a configuration file and ``OS_…`` variables."""

    def make(file=None, **variables):
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite://")
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        return load([file] if file else None)

    return make


class Client:
    """Calls a WSGI application the way a server does and remembers what reached it."""

    def __init__(self, wrap):
        self.reached = None
        self.credentials = None
        self.accepted = 0
        self._app = validator(wrap(self._answer))

    def _answer(self, environ, start_response):
        self.reached = environ
        self.credentials = Credentials.of(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"reached"]

    def _accept(self):
        """What the queue of the server is told."""
        assert self.reached is None  # before the request does any work
        self.accepted += 1

    def get(self, path="/resource_providers", **headers):
        """Status code, headers and body of GET *path*; ``X_Auth_Token="t"`` is the header ``X-Auth-Token: t``."""
        environ = {
            "REQUEST_METHOD": "GET",
            "QUERY_STRING": "",
            "PATH_INFO": path,
            "SCRIPT_NAME": "" if path else "/placement",
        }
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        environ["wsgi_lanes.accept_credential"] = self._accept
        setup_testing_defaults(environ)
        if not path:
            environ["PATH_INFO"] = ""
        self.reached = self.credentials = None
        answer = {}

        def start_response(status, response_headers, exc_info=None):
            answer.update(status=int(status[:3]), headers={name.lower(): value for name, value in response_headers})

        body = self._app(environ, start_response)
        answer["body"] = b"".join(body)
        if hasattr(body, "close"):
            body.close()
        return SimpleNamespace(**answer)


@pytest.fixture
def client():
    """Put ``authenticate`` with the given settings before an application that answers 200, and call it."""
    return lambda chosen: Client(lambda app: authenticate(app, chosen))
