"""``stead.wsgi:application`` under a WSGI server that is not ours, configured as operators configure it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.system.api.client import NEWEST

SERVER = """
from wsgiref.simple_server import make_server
from stead.wsgi import application
with make_server("127.0.0.1", 0, application) as server:
    print(server.server_port, flush=True)
    server.handle_request()
"""

FORKING_SERVER = """
import os
from wsgiref.simple_server import make_server
from stead.wsgi import application
with make_server("127.0.0.1", 0, application) as server:
    print(server.server_port, flush=True)
    if os.fork():
        os.wait()
    else:
        server.handle_request()
"""


@pytest.mark.parametrize("program", [SERVER, FORKING_SERVER], ids=["alone", "forked after loading"])
def test_another_server_finds_the_configuration_and_serves(tmp_path: Path, program: str) -> None:
    (tmp_path / "placement.conf").write_text("[api]\nauth_strategy = noauth2\n")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OS_PLACEMENT_CONFIG_DIR": str(tmp_path),
        "OS_PLACEMENT_DATABASE__CONNECTION": f"sqlite:///{tmp_path}/placement.db",
        "OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP": "true",
    }
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, server.communicate()[1]
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {NEWEST}"}
        with urlopen(Request(f"http://127.0.0.1:{port}/resource_providers", headers=headers), timeout=30) as answer:
            assert json.load(answer) == {"resource_providers": []}
            assert answer.headers["openstack-api-version"] == f"placement {NEWEST}"
