"""No token and no password is in any log, however much is logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.deploy.servers import free_port
from tests.servers.stead import STEAD, started

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.timeout(120)

LOUD = """[DEFAULT]
debug = true
default_log_levels =
[placement_database]
connection_debug = 100
"""

KEYSTONE = """auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:{port}/v3
www_authenticate_uri = http://127.0.0.1:{port}/v3
username = placement
password = SECRET-of-the-service-user
project_name = service
user_domain_name = Default
project_domain_name = Default
memcache_secret_key = SECRET-of-memcache
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
