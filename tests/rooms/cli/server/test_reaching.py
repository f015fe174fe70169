"""However an embedded server listens, the commands find it by its data directory, and by the URL that it shows."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from stead.cli.app import run
from stead.cli.errors import CommandError
from stead.cli.server import Endpoint, open_site
from stead.client.errors import InvalidRequest, Unreachable
from tests.rooms.serve.test_serve import machine
from tests.rooms.serve.test_serving import certificate
from tests.servers.certificates import certified

__all__ = ["certificate", "machine"]  # fixtures

pytestmark = pytest.mark.timeout(120)  # starts servers

REAL = "stead.wsgi:application"


def tree(capsys, *options):
    """How ``stead tree`` ends for the server that *options* name, and what it complains of."""
    return run([*options, "tree", "--json"]), capsys.readouterr().err


DONE = (0, "")


@pytest.mark.parametrize("prefix", [None, "/a/b"], ids=["", "below a prefix"])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("where", ["127.0.0.1", "::1", "socket"])
def test_a_command_finds_the_server_by_its_data_directory(machine, certificate, capsys, where, tls, prefix):
    options = ["--socket", str(machine.home / "a b#c%20.sock")] if where == "socket" else ["--host", where]
    if tls:
        options += ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)]
    if prefix:
        options += ["--prefix", prefix]
    service = machine.serve(*options, target=REAL)
    assert service.url.endswith(prefix or "")
    assert tree(capsys, "--data-dir", str(machine.data)) == DONE
    assert tree(capsys, "--data-dir", str(machine.data), "--url", service.url) == DONE
    if not tls:
        token = (machine.data / "admin-token").read_text().strip()
        assert tree(capsys, "--url", service.url, "--token", token) == DONE


class TestTls:
    def test_a_renewed_certificate_is_the_one_that_is_trusted(self, machine, capsys):
        names = certified(machine.home, "subjectAltName=DNS:elsewhere.example")
        machine.serve("--tls-certificate", str(names.certificate), "--tls-key", str(names.key), target=REAL)
        assert tree(capsys, "--data-dir", str(machine.data)) == DONE
        certified(machine.home, "subjectAltName=DNS:elsewhere.example")
        code, complaint = tree(capsys, "--data-dir", str(machine.data))  # it is not loaded yet
        assert (code, "certificate verify failed" in complaint) == (2, True)

    def test_a_certificate_that_its_issuer_gave_to_another_gets_no_token(self, machine, certificate, tmp_path):
        """The file has the issuer's certificate too, as servers send it."""
        (tmp_path / "own").mkdir()
        (tmp_path / "other").mkdir()
        own = certified(tmp_path / "own", "basicConstraints=critical,CA:FALSE", by=certificate)
        other = certified(tmp_path / "other", "basicConstraints=critical,CA:FALSE", by=certificate)
        chains = []
        for each in (own, other):
            chains.append(tmp_path / f"{each.certificate.parent.name}.pem")
            chains[-1].write_text(each.certificate.read_text() + certificate.certificate.read_text())
        service = machine.serve("--tls-certificate", str(chains[0]), "--tls-key", str(own.key), target=REAL)
        token = (machine.data / "admin-token").read_text().strip()
        with open_site(Endpoint(service.url, token, chains[0])) as api:
            assert api.request("GET", "/resource_providers") == {"resource_providers": []}
        other = Endpoint(service.url, token, chains[1])
        with open_site(other) as api, pytest.raises(Unreachable, match="verify failed"):
            api.request("GET", "/resource_providers")

    @pytest.mark.parametrize("text", [None, "", "no certificate"])
    def test_a_certificate_that_cannot_be_read_is_one_line(self, tmp_path, text):
        file = tmp_path / "cert.pem"
        if text is not None:
            file.write_text(text)
        with pytest.raises(CommandError, match="cannot read the server's certificate"):
            open_site(Endpoint("https://127.0.0.1:1", "secret", file))


class TestSockets:
    @pytest.mark.parametrize(
        ("made", "reason"),
        [(None, "no such file or directory"), ("file", "not a socket"), ("directory", "not a socket")],
    )
    @pytest.mark.parametrize("below", ["", "/placement"])
    def test_a_path_without_a_socket_is_one_line(self, tmp_path, made, reason, below):
        path = tmp_path / "stead.sock"
        if made == "file":
            path.touch()
        elif made == "directory":
            path.mkdir()
        with open_site(Endpoint(f"unix://{path}{below}", "secret")) as api, pytest.raises(Unreachable) as refused:
            api.request("GET", "/")
        assert reason in str(refused.value) or (below and made)

    @pytest.mark.parametrize("url", ["unix://stead.sock", "unix:stead.sock", "unix://", "unix:///"])
    def test_a_path_must_be_absolute(self, url):
        with pytest.raises(InvalidRequest):
            open_site(Endpoint(url, "secret"))

    def test_a_socket_that_nobody_listens_on_any_more_is_one_line(self, machine, capsys):
        path = machine.home / "stead.sock"
        service = machine.serve("--socket", str(path), "--prefix", "/placement", target=REAL)
        os.killpg(service.process.pid, signal.SIGKILL)
        service.process.wait()
        code, complaint = tree(capsys, "--url", f"unix://{quote(str(path))}/placement")
        assert (code, "connection refused" in complaint) == (2, True)


def test_a_server_in_front_of_openstack_is_found_by_the_url_that_it_shows(machine, capsys):
    """As docs/deployment.md has it for nginx: a socket, a prefix, and a configuration."""
    file = machine.config(
        f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    path = machine.home / "stead.sock"
    options = ["--socket", str(path), "--prefix", "/placement", "--config-file", str(file)]
    service = machine.serve(*options, target=REAL)
    assert service.url == f"unix://{path}/placement"
    assert tree(capsys, "--url", service.url, "--token", "admin") == DONE
    code, _ = tree(capsys, "--url", f"unix://{path}", "--token", "admin")  # the path is missing
    assert code != 0


def test_it_is_found_from_another_process_too(machine):
    """With nothing but the environment of the one that started it."""
    machine.serve("--socket", str(machine.home / "stead.sock"), "--prefix", "/placement", target=REAL)
    command = [sys.executable, "-c", "from stead.cli import main; main()", "tree", "--json"]
    environment = machine.environment | {"STEAD_DATA_DIR": str(machine.data)}
    printed = subprocess.run(command, env=environment, cwd=Path("/"), capture_output=True, text=True, check=False)
    assert (printed.returncode, printed.stderr) == (0, "")
