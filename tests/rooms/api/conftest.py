import os

import pytest

from stead.api.app import create_app
from stead.api.middleware import RequestLog
from stead.auth.authentication import authenticate
from stead.auth.policy import Policy
from stead.config import load
from tests.system.api.client import Api, wsgi_door


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Under `noauth2`, with nothing of this machine's configuration."""
    for variable in [*os.environ]:
        if variable.startswith(("OS_", "STEAD_", "XDG_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")
    return load(data_dir=tmp_path)


@pytest.fixture
def edge(settings):
    """The edge with nothing behind it: only what is decided before a service is asked can be tried."""
    return RequestLog(authenticate(create_app(None, Policy(settings.conf)), settings))


@pytest.fixture
def stranger(edge):
    """Somebody whom no rule allows anything: whatever comes past the gates is 403."""
    return Api(wsgi_door(edge), token="stranger", roles="")
