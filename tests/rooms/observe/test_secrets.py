"""No token and no password is in any log, however much is logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.servers.stead import STEAD, started
from tests.system.deploy.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)  # starts servers

LOUD = """[DEFAULT]
debug = true
default_log_levels =
[placement_database]
connection_debug = 100
"""

KEYSTONE = """auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = http://somebody:SECRET-of-auth-url@127.0.0.1:{port}/v3
www_authenticate_uri = http://somebody:SECRET-of-uri@127.0.0.1:{port}/v3
username = placement
password = SECRET-of-the-service-user
project_name = service
user_domain_name = Default
project_domain_name = Default
memcache_secret_key = SECRET-of-memcache
memcache_password = SECRET-of-sasl
http_request_max_retries = 0
http_connect_timeout = 1
"""

SENT = {"X-Auth-Token": "SECRET-token", "X-Service-Token": "SECRET-service-token", "Cookie": "a=SECRET-cookie"}


def ask(url: str, headers: Mapping[str, str]) -> int:
    try:
        with urlopen(Request(url, headers=dict(headers)), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        error.close()
        return error.code


class Keystone(BaseHTTPRequestHandler):
    """Lets the service log in, and then says that its token is worth nothing."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, body = 404, {"error": {"code": 404, "message": "none", "title": "Not Found"}}
        if self.path.rstrip("/") == "/v3":
            link = {"href": f"http://{self.headers['Host']}/v3/", "rel": "self"}
            status, body = 200, {"version": {"id": "v3.14", "status": "stable", "links": [link]}}
        elif self.command == "POST":
            user = {"id": "u", "name": "placement", "domain": {"id": "default", "name": "Default"}}
            at = {
                "interface": "internal",
                "region": "R",
                "region_id": "R",
                "id": "e",
                "url": f"http://{self.headers['Host']}",
            }
            service = {"endpoints": [at], "type": "identity", "id": "i", "name": "keystone"}
            token = {
                "methods": ["password"],
                "user": user,
                "roles": [{"id": "r", "name": "service"}],
                "catalog": [service],
            }
            times = {"expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z"}
            status, body = 201, {"token": {**token, **times, "audit_ids": ["a"]}}
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("X-Subject-Token", "SECRET-token-of-the-service")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = _answer  # noqa: N815 - http.server looks for these

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def keystone() -> Iterator[int]:
    """The port of a Keystone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Keystone) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("json_lines", [False, True], ids=["text", "json"])
def test_no_library_logs_what_it_tells_keystone(tmp_path: Path, keystone: int, json_lines: bool) -> None:
    configuration = tmp_path / "placement.conf"
    configuration.write_text(
        f"{LOUD}connection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
        f"[api]\n{KEYSTONE.format(port=keystone)}[stead]\nlog_json = {json_lines}\n"
    )
    with started(configuration, workers=1) as server:
        assert ask(f"{server.url}/resource_providers", SENT) in (401, 503)
    log = configuration.with_suffix(".log").read_text()
    assert "keystoneauth" in log
    assert "SECRET" not in log, [line for line in log.splitlines() if "SECRET" in line]


@pytest.mark.parametrize(("strategy", "json_lines"), [("keystone", False), ("token", True), ("noauth2", False)])
def test_a_service_does_not_log_what_it_was_sent(tmp_path: Path, strategy: str, json_lines: bool) -> None:
    configuration = tmp_path / "placement.conf"
    api = KEYSTONE.format(port=free_port()) if strategy == "keystone" else f"auth_strategy = {strategy}\n"
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({"tokens": []}))
    configuration.write_text(
        f"{LOUD}connection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n[api]\n{api}"
        f"[stead]\ntoken_file = {tokens}\nlog_json = {json_lines}\n"
        "[cors]\nallowed_origin = https://example.org,https://somebody:SECRET-of-origin@example.com\n"
    )
    sent = SENT if strategy != "noauth2" else {**SENT, "X-Auth-Token": "admin"}  # there it is a name, no secret
    with started(configuration, workers=1) as server:
        statuses = {ask(f"{server.url}{path}", sent) for path in ("/resource_providers?name=a", "/resource_providers")}
    assert statuses == {"keystone": {503}, "token": {401}, "noauth2": {200}}[strategy]
    log = configuration.with_suffix(".log").read_text()
    assert "DEBUG" in log
    assert "/resource_providers" in log
    assert "cors.allowed_origin " in log
    assert "https://somebody:***@example.com" in log
    assert "SECRET" not in log


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://placement:SECRET-word@127.0.0.1:{port}/placement",
        "mysql+pymysql://placement:SECRET-word@127.0.0.1:{port}/placement",
        "postgresql://placement@127.0.0.1:{port}/placement?password=SECRET-word",
        "nonsense://placement:SECRET-word@127.0.0.1/placement",
    ],
    ids=lambda url: url.partition(":")[0] + ("?" if "?" in url else ""),
)
def test_a_database_that_can_not_be_reached_is_named_without_its_password(tmp_path: Path, url: str) -> None:
    configuration = tmp_path / "placement.conf"
    configuration.write_text(
        f"{LOUD}connection = {url.format(port=free_port())}\nmax_retries = 1\nretry_interval = 0\n"
        "connection_parameters = password=SECRET-parameter&application_name=x\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    commands = (
        [*STEAD, "serve", "--port", "0", "--config-file", str(configuration)],
        [sys.executable, "-c", "import stead.wsgi"],
    )
    for command in commands:
        done = subprocess.run(
            command,
            env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode != 0
        assert done.stderr
        assert "SECRET" not in done.stdout + done.stderr
