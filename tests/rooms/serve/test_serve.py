"""``stead serve`` as a process: how it starts, what it says, how it stops. The application is a small one."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from stead.cli.server import running
from tests.waiting import stays, wait_until

pytestmark = pytest.mark.timeout(300)  # each starts several processes of Python, and waits for some of them to end

LONG_SECONDS = 90
"""What one process is waited for, or one answer of it; longer than a service waits for its workers."""

APPLICATION = """
import json, os, pathlib, socket, sys, time
from stead.config import load

also = socket.socket(socket.AF_UNIX)  # as metrics do
also.bind(f"also-{os.getpid()}")
also.listen()

for seconds in os.environ.get("LOADING_SECONDS", "").split():
    try:
        loading = pathlib.Path(f"loading-{seconds}")
        loading.touch(exist_ok=False)
    except FileExistsError:  # another worker took so long
        continue
    time.sleep(float(seconds))
    loading.write_text(str(os.getpid()))
    break

def stick():
    while True:  # and hold the interpreter, as a fault in C would
        pass

def application(environ, start_response):
    if environ["PATH_INFO"] == "/stuck":
        sys.setswitchinterval(1000)
        stick()
    if environ["PATH_INFO"] == "/slow":
        pathlib.Path("slow-began").touch()
        while not pathlib.Path("slow-may-end").exists():
            time.sleep(0.01)
    settings = load()
    facts = {"pid": os.getpid(), "url": settings.database.url, "embedded": settings.embedded}
    body = json.dumps(facts).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
"""

COMMAND = """
import os, sys
from stead.cli import main
from stead.serve import main_process, supervisor

main_process.TARGET = sys.argv.pop(1)
supervisor.STOP_SECONDS = float(os.environ.get("STOP_SECONDS", supervisor.STOP_SECONDS))
main_process.DRAIN_SECONDS = float(os.environ.get("DRAIN_SECONDS", main_process.DRAIN_SECONDS))
main()
"""


class Machine:
    """A user with an empty home who runs commands."""

    def __init__(self, home):
        self.home = home
        self.data = home / "data"
        (home / "small_application.py").write_text(APPLICATION)
        (home / "broken_application.py").write_text("raise RuntimeError('cannot be imported')\n")
        (home / "command.py").write_text(COMMAND)
        path = os.pathsep.join([str(home), *filter(None, sys.path)])
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": path}
        self.started = []

    def start(self, *arguments, target="small_application:application", **environment):
        """Start ``stead serve`` in a session of its own, without waiting."""
        process = subprocess.Popen(
            [sys.executable, "command.py", target, "serve", "--port", "0", "--json", *arguments],
            cwd=self.home,
            env=self.environment | {"STEAD_DATA_DIR": str(self.data)} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def serve(self, *arguments, **environment):
        """Start ``stead serve`` and wait until it says that it listens."""
        process = self.start(*arguments, **environment)
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        facts = json.loads(line)
        return SimpleNamespace(process=process, facts=facts, url=facts["url"], note=self.data / "server.json")

    def run(self, *arguments, **environment):
        """Run ``stead serve`` to its end: exit code and stderr."""
        process = self.start(*arguments, **environment)
        _, complaint = process.communicate(timeout=LONG_SECONDS)
        return process.returncode, complaint

    def config(self, text, name="other.conf"):
        path = self.home / name
        path.write_text(text)
        return path


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for process in machine.started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def one_line(complaint):
    assert complaint.startswith("stead: "), complaint
    assert complaint.count("\n") == 1, complaint
    return complaint


def noted(service):
    """The URL and the process that the note in the data directory names."""
    note = json.loads(service.note.read_text())
    return note["url"], note["pid"]


until = partial(wait_until, seconds=LONG_SECONDS)
get = partial(httpx2.get, timeout=LONG_SECONDS)


def refuses(url):
    try:
        get(url)
    except httpx2.TransportError:
        return True
    return False


def test_an_embedded_service_says_where_it_listens_and_where_its_things_are(machine):
    service = machine.serve()
    link = service.facts.pop("web_interface")
    assert link.startswith(f"{service.url}/ui/sign-in?code=")
    assert service.facts == {
        "url": service.url,
        "data_dir": str(machine.data),
        "admin_token_file": str(machine.data / "admin-token"),
    }
    assert service.url.startswith("http://127.0.0.1:")
    assert noted(service) == (service.url, service.process.pid)
    answer = get(service.url).json()
    assert (answer["embedded"], answer["url"]) == (True, f"sqlite:///{machine.data}/stead.db")
    modes = {path.name: path.stat().st_mode & 0o077 for path in [machine.data, *machine.data.iterdir()]}
    assert set(modes.values()) == {0}


def test_the_token_is_shown_when_asked_for_only(machine):
    shown = machine.serve("--show-token")
    token = (machine.data / "admin-token").read_text().strip()
    assert shown.facts["admin_token"] == token
    shown.process.terminate()
    assert token not in "".join(shown.process.communicate(timeout=LONG_SECONDS))
    silent = machine.serve()
    silent.process.terminate()
    assert token not in json.dumps(silent.facts) + "".join(silent.process.communicate(timeout=LONG_SECONDS))


def test_an_interrupt_is_the_main_process_s_business(machine):
    service = machine.serve()
    worker = get(service.url).json()["pid"]
    os.kill(
        worker, signal.SIGINT
    )  # a terminal sends it to all; a worker that acts on it may hang at the SIGTERM after it
    assert stays(lambda: get(service.url).json()["pid"] == worker)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("send", "number"),
    [(os.kill, signal.SIGTERM), (os.kill, signal.SIGINT), (os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM)],
    ids=["SIGTERM", "SIGINT", "SIGINT to all, as from a terminal", "SIGTERM to all, as from systemd"],
)
def test_a_signal_stops_it_cleanly(machine, send, number):
    service = machine.serve("--workers", "2")
    send(service.process.pid, number)
    rest, complaint = service.process.communicate(timeout=LONG_SECONDS)
    assert (service.process.returncode, rest, complaint) == (0, "", "")
    assert not service.note.exists()
    assert refuses(service.url)


def test_requests_under_way_are_answered_before_it_stops(machine):
    service = machine.serve()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(get(f"{service.url}/slow").status_code), daemon=True)
    asking.start()
    until((machine.home / "slow-began").exists)
    service.process.terminate()
    until(lambda: refuses(service.url))
    (machine.home / "slow-may-end").touch()
    asking.join()
    assert answers == [200]
    assert service.process.wait(timeout=LONG_SECONDS) == 0


def test_a_port_in_use_is_one_line(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, complaint = machine.run("--port", str(port))
    assert code == 1
    assert f"port {port} of 127.0.0.1 is in use" in one_line(complaint)


def test_a_second_service_does_not_share_the_port_of_the_first(machine):
    service = machine.serve()
    port = service.url.rpartition(":")[2]
    code, complaint = machine.run("--port", port, STEAD_DATA_DIR=str(machine.home / "other"))
    assert (code, "is in use" in one_line(complaint)) == (1, True)
    assert get(service.url).status_code == 200


def test_a_second_service_on_a_data_directory_is_told_which_the_first_is(machine):
    first = machine.serve("--prefix", "/placement")
    for port in ("0", first.url.removesuffix("/placement").rpartition(":")[2]):
        code, complaint = machine.run("--port", port)
        assert code == 1
        assert f"in use by process {first.process.pid}, which listens on {first.url}" in one_line(complaint)
    assert noted(first) == (first.url, first.process.pid)
    first.process.terminate()
    assert first.process.wait(timeout=LONG_SECONDS) == 0
    second = machine.serve()
    assert noted(second) == (second.url, second.process.pid)


def test_a_data_directory_stays_the_first_service_s_over_a_reload(machine):
    service = machine.serve("--workers", "2")
    old = set()
    until(lambda: old.add(get(service.url).json()["pid"]) or len(old) == 2)
    service.process.send_signal(signal.SIGHUP)
    until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in old))
    assert f"process {service.process.pid}," in machine.run()[1]
    assert running(machine.data).url == service.url


def test_a_service_with_a_configuration_needs_no_directory_of_its_own(machine):
    file = machine.config(
        f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    machine.serve("--config-file", str(file))
    machine.serve("--config-file", str(file))
    assert not machine.data.exists()


@pytest.mark.costly
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_embedded_service_listens_on_this_machine_only(machine, host):
    code, complaint = machine.run("--host", host)
    assert (code, host in one_line(complaint)) == (2, True)
    assert not machine.data.exists()


def test_an_unknown_host_is_wrong_usage(machine):
    code, complaint = machine.run("--host", "no.such.host.invalid")
    assert (code, "no.such.host.invalid" in one_line(complaint)) == (2, True)


def test_a_configuration_without_connection_is_one_line(machine):
    code, complaint = machine.run("--config-file", str(machine.config("[api]\nauth_strategy = noauth2\n")))
    assert (code, "connection is required" in one_line(complaint)) == (1, True)
    assert not machine.data.exists()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("log_file = {home}/nowhere/x.log", "No such file or directory"),
        ("log_config_append = {home}/nowhere.ini", "nowhere.ini"),
        ("default_log_levels = stead=LOUD", "LOUD"),
    ],
)
def test_a_log_that_can_not_be_is_one_line(machine, option, reason):
    database = f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\n"
    file = machine.config(f"[DEFAULT]\n{option.format(home=machine.home)}\n{database}")
    code, complaint = machine.run("--config-file", str(file))
    assert (code, reason in one_line(complaint)) == (1, True)
    assert "cannot set up the log" in complaint


def test_a_deprecated_option_is_told_where_the_log_goes(machine):
    log = machine.home / "x.log"
    file = machine.config(
        f"[DEFAULT]\nlog_file = {log}\nauth_strategy = noauth2\n"
        f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\nsync_on_startup = true\n"
    )
    service = machine.serve("--config-file", str(file))
    service.process.terminate()
    assert service.process.communicate(timeout=LONG_SECONDS)[1] == ""
    assert 'Option "auth_strategy" from group "DEFAULT" is deprecated' in log.read_text()


def test_a_worker_that_knows_why_it_can_not_load_says_it_in_a_line(machine):
    (machine.home / "broken_application.py").write_text(
        "from stead.config import ConfigError\nraise ConfigError('[keystone_authtoken] is empty')\n"
    )
    process = machine.start(target="broken_application:application")
    _, complaint = process.communicate(timeout=LONG_SECONDS)
    assert one_line(complaint).endswith(" did not start: [keystone_authtoken] is empty\n")
    assert "Traceback" not in complaint
    assert process.returncode == 1


def test_a_database_without_tables_is_refused_with_the_command_that_helps(machine):
    file = machine.config(f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\n")
    code, complaint = machine.run("--config-file", str(file))
    assert (code, "stead db upgrade" in one_line(complaint)) == (1, True)


def test_a_database_that_cannot_be_reached_is_one_line_without_the_password(machine):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    url = f"postgresql://user:hunter2@127.0.0.1:{port}/placement"
    environment = {
        f"OS_PLACEMENT_DATABASE__{name}": value for name, value in (("CONNECTION", url), ("MAX_RETRIES", "0"))
    }
    code, complaint = machine.run(**environment)
    assert (code, "database does not answer: " in one_line(complaint)) == (1, True)
    assert "hunter2" not in complaint


def test_a_database_that_does_not_answer_yet_is_waited_for(machine):
    path = machine.home / "p.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        process = machine.start(
            OS_PLACEMENT_DATABASE__CONNECTION=f"sqlite:///{path}",
            OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP="true",
            OS_PLACEMENT_DATABASE__RETRY_INTERVAL="1",
        )
        assert f"{path}: database is locked; next attempt in 1 s" in process.stderr.readline()
    assert "url" in json.loads(process.stdout.readline())


def test_a_database_that_can_never_be_opened_is_not_waited_for(machine):
    path = machine.home / "nowhere" / "p.db"
    code, complaint = machine.run(OS_PLACEMENT_DATABASE__CONNECTION=f"sqlite:///{path}")
    assert (code, f"{path}: no such directory" in one_line(complaint)) == (1, True)


def test_the_workers_find_the_configuration_of_the_command_line(machine):
    url = f"sqlite:///{machine.home}/p.db"
    machine.config(
        "[placement_database]\nconnection = sqlite:////wrong.db\n", "placement.conf"
    )  # in the home directory
    file = machine.config(f"[placement_database]\nconnection = {url}\n")
    more = machine.home / "more"
    more.mkdir()
    (more / "sync.conf").write_text("[placement_database]\nsync_on_startup = true\n")
    service = machine.serve("--config-file", "other.conf", "--config-dir", "more", "--workers", "2")
    answer = get(service.url).json()
    assert (answer["url"], answer["embedded"]) == (url, False)
    assert file.exists()
    assert service.facts == {"url": service.url}
    assert not machine.data.exists()
    with sqlite3.connect(machine.home / "p.db") as database:
        assert database.execute("SELECT count(*) FROM resource_providers").fetchone() == (0,)
    database.close()


def test_an_application_that_cannot_be_loaded_ends_the_service(machine):
    code, complaint = machine.run("--workers", "2", target="broken_application:application")
    assert code == 1
    assert "cannot be imported" in complaint
    assert complaint.splitlines()[-1].endswith("did not start: exit status 1; see its output above")
    assert not (machine.data / "server.json").exists()


def test_a_worker_that_dies_is_replaced(machine):
    service = machine.serve()
    first = get(service.url).json()["pid"]
    os.kill(first, signal.SIGKILL)
    until(lambda: not refuses(service.url))
    assert get(service.url).json()["pid"] != first
    assert service.process.poll() is None


def test_workers_end_when_the_main_process_is_killed(machine):
    service = machine.serve("--workers", "2")
    service.process.kill()
    service.process.wait()
    until(lambda: refuses(service.url))


def test_a_worker_ends_if_the_main_process_is_killed_while_it_starts(machine):
    process = machine.start()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def workers():
        processes = [Path("/proc", child) for child in children.read_text().split()]
        return [each for each in processes if b"stead.serve.worker" in (each / "cmdline").read_bytes()]

    until(workers)
    (worker,) = workers()
    process.kill()
    process.wait()
    until(lambda: not worker.exists())


def test_the_data_directory_is_found_again_and_a_stale_note_is_replaced(machine):
    first = machine.serve()
    token = (machine.data / "admin-token").read_text()
    first.process.kill()
    first.process.wait()
    assert first.note.exists()
    second = machine.serve()
    assert noted(second) == (second.url, second.process.pid)
    assert (machine.data / "admin-token").read_text() == token
