"""``stead serve`` as others see it: sockets, TLS, reloads. The application is a small one, as in test_serve."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import httpx2
import pytest

from tests.rooms.serve.test_serve import LONG_SECONDS, get, machine, one_line, until
from tests.servers.certificates import certified, certified_for_localhost
from tests.waiting import stays
from wsgi_lanes.bounds import Bounds

__all__ = ["machine"]  # a fixture

pytestmark = pytest.mark.timeout(300)  # each starts several processes of Python, and waits for some of them to end


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A certificate for localhost that signs itself, and its key."""
    return certified_for_localhost(tmp_path_factory.mktemp("tls"))


class TestUnixSocket:
    def test_requests_come_by_a_socket_for_owner_and_group(self, machine):
        path = machine.home / "stead.sock"
        service = machine.serve("--socket", str(path))
        assert service.url == f"unix://{path}"
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://stead/").json()["embedded"] is True
        assert path.stat().st_mode & 0o777 & ~0o660 == 0
        service.process.terminate()
        assert service.process.wait(timeout=LONG_SECONDS) == 0
        assert not path.exists()

    def test_what_an_earlier_service_left_behind_is_no_obstacle(self, machine):
        path = machine.home / "stead.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        machine.serve("--socket", str(path))

    def test_a_socket_in_use_is_one_line(self, machine):
        path = machine.home / "stead.sock"
        machine.serve("--socket", str(path))
        code, complaint = machine.run("--socket", str(path), STEAD_DATA_DIR=str(machine.home / "other"))
        assert (code, "is in use" in one_line(complaint)) == (1, True)

    def test_a_file_is_not_replaced_by_a_socket(self, machine):
        path = machine.config("[stead]\n")
        code, complaint = machine.run("--socket", str(path))
        assert (code, "is no socket" in one_line(complaint)) == (1, True)
        assert path.exists()


class TestTls:
    def test_requests_are_encrypted(self, machine, certificate):
        service = machine.serve("--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key))
        assert service.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=certificate.certificate)
        assert get(service.url, verify=trusting).status_code == 200

    def test_clients_must_show_a_certificate_if_it_is_said_who_signs_theirs(self, machine, certificate, tmp_path):
        file = str(certificate.certificate)
        own = ["--tls-certificate", file, "--tls-key", str(certificate.key)]
        service = machine.serve(*own, "--tls-client-ca", file)
        trusting = ssl.create_default_context(cafile=file)
        with pytest.raises(httpx2.TransportError):
            get(service.url, verify=trusting)
        client = certified(tmp_path, "basicConstraints=critical,CA:FALSE", by=certificate)
        trusting.load_cert_chain(client.certificate, client.key)
        assert get(service.url, verify=trusting).status_code == 200

    def test_a_renewed_certificate_is_taken_at_a_reload(self, machine, certificate):
        files = machine.home / "cert.pem", machine.home / "key.pem"
        files[0].write_bytes(certificate.certificate.read_bytes())
        files[1].write_bytes(certificate.key.read_bytes())
        service = machine.serve("--tls-certificate", str(files[0]), "--tls-key", str(files[1]))
        old = ssl.get_server_certificate(("127.0.0.1", int(service.url.rpartition(":")[2])))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=renewed",
             "-keyout", files[1], "-out", files[0]],
            check=True, capture_output=True,
        )  # fmt: skip
        service.process.send_signal(signal.SIGHUP)
        port = int(service.url.rpartition(":")[2])
        until(lambda: ssl.get_server_certificate(("127.0.0.1", port)) != old)

    def test_a_reload_without_a_certificate_changes_nothing(self, machine):
        mine = certified(machine.home, "subjectAltName=IP:127.0.0.1")
        service = machine.serve("--tls-certificate", str(mine.certificate), "--tls-key", str(mine.key))
        mine.certificate.write_text("half of it\n")
        service.process.send_signal(signal.SIGHUP)
        refused = next(line for line in iter(service.process.stderr.readline, "") if "nothing is reloaded" in line)
        assert "the certificate or its key cannot be used" in refused
        assert ssl.get_server_certificate(("127.0.0.1", int(service.url.rpartition(":")[2])))
        service.process.terminate()
        assert service.process.wait(timeout=LONG_SECONDS) == 0

    def test_a_key_of_another_certificate_is_one_line(self, machine, certificate):
        wrong = machine.home / "other.pem"
        subprocess.run(["openssl", "genrsa", "-out", wrong, "2048"], check=True, capture_output=True)
        code, complaint = machine.run("--tls-certificate", str(certificate.certificate), "--tls-key", str(wrong))
        assert (code, "cannot be used" in one_line(complaint)) == (1, True)

    def test_half_of_it_is_wrong_usage(self, machine, certificate):
        code, complaint = machine.run("--tls-certificate", str(certificate.certificate))
        assert (code, "--tls-key" in one_line(complaint)) == (2, True)


def queued(url):
    """How many connections to the server at *url* it has not accepted yet. Source: the tables in /proc/net.

    A connection has no socket, and so no number of one, until it is accepted.
    """
    is_unix = url.startswith("unix://")
    lines = Path("/proc/net/unix" if is_unix else "/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    if is_unix:
        return sum(row[7:] == [url.removeprefix("unix://")] and row[6] == "0" for row in rows)
    port, established = f":{int(url.rpartition(':')[2]):04X}", "01"
    return sum(row[1].endswith(port) and row[3] == established and row[9] == "0" for row in rows)


class Asking:
    """Clients that ask without a pause, each request on a connection of its own, and what went wrong.

    Those who keep their connection take another one only when they were told to.
    """

    def __init__(self, url, clients=4, keep=False):
        self._where = url.removeprefix("http://").rpartition(":")
        self._keep = keep
        self._stop = False
        self.answers, self.failures = [], []
        self._threads = [threading.Thread(target=self._ask) for _ in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop = True
        for thread in self._threads:
            thread.join()

    def _ask(self):
        connection = HTTPConnection(self._where[0], int(self._where[2]), timeout=LONG_SECONDS)
        while not self._stop:
            try:
                connection.request("GET", "/")
                self.answers.append(json.loads(connection.getresponse().read())["pid"])
            except Exception as error:
                self.failures.append(repr(error))
                connection.close()
            if not self._keep:
                connection.close()
        connection.close()


def test_a_reload_replaces_the_workers_and_loses_no_request(machine):
    service = machine.serve("--workers", "2")
    old = set()
    until(lambda: old.add(get(service.url).json()["pid"]) or len(old) == 2)
    with Asking(service.url) as asking:
        service.process.send_signal(signal.SIGHUP)
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in old))
        so_far = len(asking.answers)
        until(lambda: len(asking.answers) > so_far + 20)
    assert asking.failures == []
    assert not old & set(asking.answers[so_far + 4 :])  # but for the one that each client was waiting for


def test_a_reload_takes_nobody_s_connection_away(machine):
    service = machine.serve("--workers", "2")
    old = set()
    until(lambda: old.add(get(service.url).json()["pid"]) or len(old) == 2)
    with Asking(service.url, clients=8, keep=True) as asking:
        until(lambda: len(asking.answers) > 200)
        service.process.send_signal(signal.SIGHUP)
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in old))
        so_far = len(asking.answers)
        until(lambda: len(asking.answers) > so_far + 20)
    assert asking.failures == []
    service.process.terminate()
    assert service.process.communicate(timeout=LONG_SECONDS)[1] == ""  # that somebody left was to be expected


def test_a_worker_leaves_when_its_own_successor_has_loaded(machine):
    service = machine.serve("--workers", "2", LOADING_SECONDS="0.1 2 4")
    first = get(service.url).json()["pid"]
    service.process.send_signal(signal.SIGHUP)  # while the second one still loads
    until(lambda: not Path(f"/proc/{first}").exists())
    assert (machine.home / "loading-4").read_text()


def test_a_worker_that_dies_while_its_successor_loads_is_replaced_once(machine):
    service = machine.serve(LOADING_SECONDS="0.1 1 0.2")
    first = get(service.url).json()["pid"]
    service.process.send_signal(signal.SIGHUP)
    until((machine.home / "loading-1").exists)
    os.kill(first, signal.SIGKILL)
    second = get(service.url).json()["pid"]
    assert stays(lambda: get(service.url).json()["pid"] == second)
    assert not (machine.home / "loading-0.2").exists()


class TestAWorkerThatLeaves:
    """One of its own, with the successor that everybody else gets. It has been told when the successor answers."""

    @pytest.fixture(params=["port", "unix socket", "tls"])
    def connected(self, request, machine, certificate):
        """A function that makes a connection, to which nothing was sent."""
        options = {
            "port": [],
            "unix socket": ["--socket", str(machine.home / "stead.sock")],
            "tls": ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)],
        }[request.param]
        machine.service = machine.serve(*options, DRAIN_SECONDS="600")

        def connect():
            if request.param == "unix socket":
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(machine.home / "stead.sock"))
            else:
                connection = socket.create_connection(("127.0.0.1", int(machine.service.url.rpartition(":")[2])))
            if request.param == "tls":
                trusting = ssl.create_default_context(cafile=certificate.certificate)
                connection = trusting.wrap_socket(connection, server_hostname="localhost")
            connection.settimeout(LONG_SECONDS)
            return connection

        return connect

    def asked(self, connection):
        """The process that answers on *connection*, and whether it says that the connection ends."""
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = HTTPResponse(connection)
        answer.begin()
        return json.loads(answer.read())["pid"], answer.getheader("Connection")

    def asked_anew(self, connect):
        with connect() as connection:
            return self.asked(connection)[0]

    def test_answers_those_who_came_before_and_nobody_else(self, machine, connected):
        with connected() as busy, connected() as silent:
            worker, ends = self.asked(busy)
            assert ends is None
            until(lambda: not queued(machine.service.url))  # it has taken the silent one, too
            machine.service.process.send_signal(signal.SIGHUP)
            until(lambda: self.asked_anew(connected) != worker)
            until(lambda: self.asked(busy)[1] == "close")
            assert worker not in {self.asked_anew(connected) for _ in range(50)}
            assert self.asked(silent) == (worker, "close")

    def test_stops_at_once_with_the_service(self, machine, connected):
        worker = self.asked_anew(connected)
        machine.service.process.send_signal(signal.SIGHUP)
        until(lambda: self.asked_anew(connected) != worker)
        machine.service.process.terminate()
        assert machine.service.process.wait(timeout=LONG_SECONDS) == 0
        assert not Path(f"/proc/{worker}").exists()


def test_a_reload_of_what_can_not_be_loaded_changes_nothing(machine):
    service = machine.serve()
    worker = get(service.url).json()["pid"]
    (machine.home / "small_application.py").write_text("raise RuntimeError('a mistake')\n")
    service.process.send_signal(signal.SIGHUP)
    lines = iter(service.process.stderr.readline, "")
    assert any("nothing is reloaded" in line for line in lines)
    assert get(service.url).json()["pid"] == worker
    service.process.terminate()
    assert service.process.wait(timeout=LONG_SECONDS) == 0


def test_a_hang_up_of_the_terminal_is_the_main_process_s_business(machine):
    service = machine.serve()
    worker = get(service.url).json()["pid"]
    os.kill(worker, signal.SIGHUP)
    assert stays(lambda: get(service.url).json()["pid"] == worker)


def test_systemd_is_told_when_requests_are_answered(machine):
    path = machine.home / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(LONG_SECONDS)
        machine.serve(NOTIFY_SOCKET=str(path))
        assert manager.recv(100) == b"READY=1"


def test_a_port_of_the_metrics_in_use_is_one_line(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, complaint = machine.run("--metrics", str(taken.getsockname()[1]))
    assert (code, "is in use" in one_line(complaint)) == (1, True)


@pytest.mark.parametrize("at", ["", "0.0.0.0:", "127.0.0.1:"])
def test_one_port_for_requests_and_metrics_is_one_line(machine, at):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    code, complaint = machine.run("--port", str(port), "--metrics", f"{at}{port}")
    assert (code, "is asked for twice" in one_line(complaint)) == (1, True)


def test_idle_connections_are_kept_for_longer_than_clients_keep_them():
    """Some clients take a connection that was closed for an empty answer; proxies keep theirs for 60 or 75 s."""
    assert Bounds().idle_timeout > 75


@pytest.mark.torture  # it takes as long as it says
@pytest.mark.timeout(200)  # 80 of them idle
def test_a_connection_that_was_idle_for_80_seconds_still_answers(machine):
    service = machine.serve()
    host, _, port = service.url.removeprefix("http://").rpartition(":")
    connection = HTTPConnection(host, int(port))
    for pause in (0, 80):
        time.sleep(pause)
        used = connection.sock
        connection.request("GET", "/")
        assert connection.getresponse().read()
        assert used is None or connection.sock is used
    connection.close()


def test_a_worker_that_does_not_answer_is_replaced_and_its_stacks_are_logged(machine):
    service = machine.serve(OS_STEAD__WORKER_TIMEOUT="2", STOP_SECONDS="3")
    worker = httpx2.get(service.url).json()["pid"]
    with pytest.raises(httpx2.RemoteProtocolError):
        httpx2.get(f"{service.url}/stuck", timeout=50)  # nothing reads stderr meanwhile: what is logged fits in a pipe
    until(lambda: httpx2.get(service.url, timeout=30).json()["pid"] != worker)
    service.process.terminate()
    _, logged = service.process.communicate(timeout=LONG_SECONDS)
    assert f"worker {worker} has not answered" in logged
    for told in logged.split("its threads were at:\n")[1:]:
        stacks = [frames for text in told.split("\n\n") if (frames := text.partition("\n")[2]).startswith("  File")]
        assert any("in stick" in frames for frames in stacks)
        assert len({*stacks}) == len(stacks)
