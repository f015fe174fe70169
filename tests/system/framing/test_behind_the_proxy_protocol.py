"""`[stead] proxy_protocol_from` with a real HAProxy before a real server, with and without TLS."""

from __future__ import annotations

import os
import socket
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_configuration
from tests.servers.certificates import certified_for_localhost
from tests.servers.stead import started
from tests.system.deploy.servers import free_port, owned_by, program, running, somebody
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(180)]  # starts servers

DEFAULTS = """
defaults
 timeout connect 5s
 timeout client 30s
 timeout server 30s
 http-reuse always
"""
SECTION = """
listen {port}
 mode {mode}
 bind 127.0.0.1:{port}
 option httpchk GET /healthcheck
 server s 127.0.0.1:{upstream} check inter 200ms {sends} {tls}
"""
WAYS = [(mode, sends) for mode in ("http", "tcp") for sends in ("send-proxy", "send-proxy-v2")]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that a server of another user can reach."""
    with TemporaryDirectory(prefix="stead-framing-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_the_log_names_the_clients_of_haproxy(tls: bool, tmp_path: Path, place: Path) -> None:
    haproxy = program("haproxy", "haproxy")
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/p.db")
    with configuration.open("a") as file:
        file.write("\n[stead]\nproxy_protocol_from = 127.0.0.1\n")
    options, secured = [], ""
    if tls:
        certificate = certified_for_localhost(tmp_path)
        options = ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)]
        (place / "ca.pem").write_bytes(certificate.certificate.read_bytes())
        secured = f"ssl verify required ca-file {place}/ca.pem sni str(localhost) check-sni localhost"
    ports = [free_port() for _ in WAYS]
    with started(configuration, workers=1, options=options) as server:
        upstream = int(server.url.rpartition(":")[2])
        (place / "haproxy.cfg").write_text(
            DEFAULTS
            + "".join(
                SECTION.format(mode=mode, sends=sends, port=port, upstream=upstream, tls=secured)
                for (mode, sends), port in zip(WAYS, ports, strict=True)
            )
        )
        owned_by(somebody()[0], place)
        command = [haproxy, "-db", "-f", str(place / "haproxy.cfg")]
        clients = {
            f"127.0.0.{number}": (f"CUSTOM_OF_{number}", port) for number, port in enumerate([*ports, *ports], start=5)
        }
        with running(command, dict(os.environ), ports[0], place / "out", prefix=""):
            for address, (name, port) in [*clients.items(), *clients.items()]:
                with closing(HTTPConnection("127.0.0.1", port, timeout=30, source_address=(address, 0))) as connection:
                    connection.request("GET", f"/traits/{name}", headers={"X-Auth-Token": "admin"})
                    assert connection.getresponse().status == 404
        log = configuration.with_suffix(".log")
        for address, (name, _) in clients.items():
            wait_until(lambda name=name: log.read_text().count(f"/traits/{name}") == 2, log.read_text)
            lines = [line for line in log.read_text().splitlines() if f"/traits/{name}" in line]
            assert all(f" {address} " in line for line in lines), lines
        # Without the header, the connection of the same peer is closed.
        with socket.create_connection(("127.0.0.1", upstream), timeout=30) as client, suppress(ConnectionError):
            client.sendall(b"GET /healthcheck HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1) == b""
