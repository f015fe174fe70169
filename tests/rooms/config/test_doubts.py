"""Options that have no effect: mistakes are named with what was probably meant, and other programs' options are not."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stead.config import ConfigError, load

if TYPE_CHECKING:
    from pathlib import Path

DATABASE = "[placement_database]\nconnection = sqlite://\n"

DEPLOYED = {
    "containers": """
        [DEFAULT]
        debug = False
        log_dir = /var/log/kolla/placement
        log_file = placement-api.log
        state_path = /var/lib/placement
        [api]
        auth_strategy = noauth2
        [cache]
        backend = oslo_cache.memcache_pool
        enabled = True
        memcache_servers = 192.0.2.1:11211
        [keystone_authtoken]
        service_type = placement
        www_authenticate_uri = http://192.0.2.1:5000
        auth_url = http://192.0.2.1:5000
        auth_type = password
        username = placement
        password = secret
        memcache_security_strategy = ENCRYPT
        [oslo_concurrency]
        lock_path = /var/lib/placement/tmp
        [oslo_middleware]
        enable_proxy_headers_parsing = True
        max_request_body_size = 114688
        [oslo_policy]
        enforce_scope = True
        policy_file = policy.yaml
        [placement]
        randomize_allocation_candidates = true
        [placement_database]
        connection_recycle_time = 10
        max_pool_size = 1
        max_retries = -1
    """,
    "packages": """
        [DEFAULT]
        tempdir = /tmp
        use_syslog = false
        rpc_response_timeout = 60
        [audit_middleware_notifications]
        driver = noop
        [cors]
        allowed_origin = https://horizon.example.org
        [healthcheck]
        backends = disable_by_file
        [oslo_messaging_notifications]
        driver = noop
        [oslo_reports]
        log_dir = /var/log
        [profiler]
        enabled = false
        hmac_keys = SECRET_KEY
        [placement_database]
        slave_connection = sqlite://
        mysql_sql_mode = TRADITIONAL
        [vault]
        root_token_id = none
    """,
}


def warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    file = tmp_path / "placement.conf"
    file.write_text("\n".join(line.strip() for line in text.splitlines()) + "\n" + DATABASE)
    caplog.clear()
    load([file])
    return [
        record.getMessage().replace(str(file), "FILE")
        for record in caplog.records
        if record.name.startswith("stead.config") and record.levelno == logging.WARNING
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[steed]\nmax_queue = 3\nidle_timeout = 4",
            "Stead reads no section [steed] (FILE), so it has no effect. Did you mean stead?",
        ),
        (
            "[api]\nauth_stratgy = noauth2",
            "[api] has no option auth_stratgy (FILE), so it has no effect. Did you mean auth_strategy?",
        ),
        (
            "[placement_databse]\nconnection = sqlite://",
            "Stead reads no section [placement_databse] (FILE), so it has no effect. Did you mean placement_database?",
        ),
        (
            "[placement_database]\nmax_pool_sizes = 3",
            "[placement_database] has no option max_pool_sizes (FILE), so it has no effect. "
            "Did you mean max_pool_size?",
        ),
        (
            "[DEFAULT]\nlog_fille = x",
            "[DEFAULT] has no option log_fille (FILE), so it has no effect. Did you mean log_file?",
        ),
        ("[placement]\nxyz = 1", "[placement] has no option xyz (FILE), so it has no effect."),
        ("[weather]\nrain = 1", "Stead reads no section [weather] (FILE), so it has no effect."),
    ],
)
def test_a_mistake_is_named_once_with_what_was_meant(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    assert warnings(tmp_path, caplog, text) == [said]


def test_variables_are_looked_at_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_API__AUTH_STRATGY", "noauth2")
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "noauth2")
    monkeypatch.setenv("OS_OTHER_PROGRAM__COLOUR", "red")
    said = "[api] has no option auth_stratgy (OS_API__AUTH_STRATGY), so it has no effect. Did you mean auth_strategy?"
    assert warnings(tmp_path, caplog, "") == [said]


@pytest.mark.parametrize("deployment", DEPLOYED)
def test_a_file_of_an_existing_deployment_is_quiet(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, deployment: str
) -> None:
    assert warnings(tmp_path, caplog, DEPLOYED[deployment]) == []


@pytest.mark.parametrize("command", [["db", "check"], ["audit"], ["serve", "--port", "0"]], ids=" ".join)
@pytest.mark.one_database
def test_each_command_that_reads_the_configuration_says_it(tmp_path: Path, command: list[str]) -> None:
    """Before the error to which the mistake leads, as that of the missing connection here."""
    file = tmp_path / "placement.conf"
    file.write_text("[placement_databse]\nconnection = sqlite://\n")
    done = subprocess.run(
        [sys.executable, "-c", "from stead.cli import main; main()", *command, "--config-file", str(file)],
        capture_output=True,
        text=True,
    )
    lines = done.stderr.splitlines()
    assert done.returncode != 0
    assert "Did you mean placement_database?" in lines[0]
    assert "connection is required" in lines[-1]


def test_a_data_directory_beside_a_configuration_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(DATABASE)
    with pytest.raises(ConfigError, match=f"data directory {tmp_path} is for a service without.*{file} is one"):
        load([file], data_dir=tmp_path)


@pytest.mark.one_database
def test_the_command_refuses_it_but_not_what_the_environment_says(tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = sqlite:///{tmp_path}/p.db\n")
    stead = [sys.executable, "-c", "from stead.cli import main; main()"]
    check = ["db", "upgrade", "--config-file", str(file)]
    refused = subprocess.run([*stead, "--data-dir", str(tmp_path), *check], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.startswith("stead: data directory ")
    assert not (tmp_path / "p.db").exists()
    done = subprocess.run([*stead, *check], env={"STEAD_DATA_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
