"""``make run``: what it says, and that nothing of it is left when it ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.docs.clean_checkout import NEEDED, make_checkout, plain_environment
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.timeout(180),  # runs `make run`
    NEEDED,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc"),
]

WELCOME_ENDS = "Ctrl-C stops it."


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("checkout"))


def own_terminal():
    """Run in the new process: its terminal is its own, and a hangup ends it even if the tests run under nohup."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT):  # which a shell ignores in what it starts in the background
        signal.signal(number, signal.SIG_DFL)


class Run:
    """``make run`` on a terminal of its own."""

    def __init__(self, checkout, *before, **environment):
        self.checkout = checkout
        self.said = ""
        self._closed = False
        self._all = set()
        self._terminal, end = pty.openpty()
        self.process = subprocess.Popen(
            [*before, "make", "run"], cwd=checkout, env=plain_environment(**{"PORT": "0", **environment}),
            stdin=end, stdout=end, stderr=end, start_new_session=True,
            preexec_fn=own_terminal,
        )  # fmt: skip
        os.close(end)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        try:
            while not self._closed:
                if select.select([self._terminal], [], [], 0.1)[0]:
                    self.said += os.read(self._terminal, 65536).decode().replace("\r\n", "\n")
        except OSError:  # as the end of a terminal is read
            pass
        os.close(self._terminal)

    def started(self):
        """Wait for the welcome."""
        until(lambda: WELCOME_ENDS in self.said or self.process.poll() is not None, lambda: self.said)
        assert WELCOME_ENDS in self.said, self.said
        note = json.loads((self.checkout / ".stead" / "server.json").read_text())
        self.url, self.server = note["url"], note["pid"]
        (self.script,) = children(self.process.pid)
        self._all = {self.server, self.script, *children(self.server)}
        return self

    def close_terminal(self):
        """As when its window is closed, or the connection to the machine breaks."""
        self._closed = True
        self._reader.join()

    def type(self, text):
        os.write(self._terminal, text)

    def ended(self):
        """Wait until its process is gone; the exit code, and what it said."""
        code = self.process.wait(60)
        self._reader.join(60)
        return code, self.said

    def left(self):
        """Which of its processes live."""
        return {pid for pid in self._all if Path(f"/proc/{pid}").exists()}

    def clean_up(self):
        for kill, number in [(os.killpg, self.process.pid), *((os.kill, pid) for pid in self._all)]:
            with suppress(ProcessLookupError):
                kill(number, signal.SIGKILL)
        self.process.wait()
        self.close_terminal()


def children(pid):
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


until = partial(wait_until, seconds=90)


@pytest.fixture
def make_run(checkout):
    runs = []

    def make_run(*before, **environment):
        runs.append(Run(checkout, *before, **environment))
        return runs[-1]

    yield make_run
    for each in runs:
        each.clean_up()


ENDS = {
    "Ctrl-C": lambda run: run.type(b"\x03"),
    "the terminal is closed": Run.close_terminal,
    "SIGTERM to make": lambda run: os.kill(run.process.pid, signal.SIGTERM),
    "SIGTERM to the script": lambda run: os.kill(run.script, signal.SIGTERM),
    "SIGTERM to all": lambda run: os.killpg(run.process.pid, signal.SIGTERM),
    "SIGHUP to all": lambda run: os.killpg(run.process.pid, signal.SIGHUP),
    "SIGHUP and SIGTERM": lambda run: [os.kill(run.script, each) for each in (signal.SIGHUP, signal.SIGTERM) * 3],
    "SIGKILL of make": lambda run: os.kill(run.process.pid, signal.SIGKILL),
    "SIGKILL of the script": lambda run: os.kill(run.script, signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_nothing_of_it_survives_its_end(make_run, end):
    run = make_run().started()
    end(run)
    until(lambda: not run.left(), run.left, seconds=45)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(run.url)
    assert not (run.checkout / ".stead" / "server.json").exists()


def test_nothing_survives_an_end_before_the_welcome(make_run):
    run = make_run()
    until(lambda: (run.checkout / ".stead" / "server.json").exists())
    server = json.loads((run.checkout / ".stead" / "server.json").read_text())["pid"]
    run.process.terminate()
    until(lambda: not Path(f"/proc/{server}").exists(), seconds=45)


def test_who_starts_it_with_nohup_may_close_the_terminal(make_run):
    run = make_run("sh", "-c", "trap '' HUP; exec \"$@\"", "as nohup does").started()
    run.close_terminal()
    assert httpx2.get(run.url).status_code == 200
    os.kill(run.script, signal.SIGTERM)
    until(lambda: not run.left(), run.left, seconds=45)


def test_the_welcome_is_what_one_sees_and_the_log_is_in_the_file_that_it_names(make_run):
    run = make_run().started()
    shown = [line.removesuffix("\r") for line in run.said.split("\n")]  # a progress bar draws one line many times
    assert len(shown) < 30, run.said
    assert not any("HTTP/1.1" in line or "INFO" in line for line in shown)
    (name,) = re.findall(r"^ +log +(\S+)$", run.said, re.MULTILINE)
    log = run.checkout / name
    assert '"PUT /provider_trees' in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert (run.checkout / ".stead" / "admin-token").read_text().strip() not in log.read_text()


def test_the_commands_of_the_welcome_fit_80_columns_and_claim_a_gpu(make_run):
    run = make_run().started()
    _, _, trying = run.said.partition("in this directory:")
    commands = trying.partition(WELCOME_ENDS)[0].replace("\\\n", "").split("\n")
    assert [line for line in trying.splitlines() if len(line) > 80] == []
    outputs = [
        subprocess.run(
            command, shell=True, cwd=run.checkout, env=plain_environment(COLUMNS="80"), capture_output=True, text=True,
            check=True,
        ).stdout for command in commands if command.strip()
    ]  # fmt: skip
    assert len(outputs) == 3
    assert "1 PGPU" in outputs[1]
    assert "claimed for consumer" in outputs[2]
    assert [line for output in outputs for line in output.splitlines() if len(line) > 80] == []


def test_a_second_one_says_where_the_first_listens_and_leaves_its_log(make_run):
    first = make_run().started()
    log = first.checkout / ".stead" / "serve.log"
    before = log.read_text()
    code, said = make_run().ended()
    assert code != 0
    assert f"process {first.server}, which listens on {first.url}" in said
    assert f"kill {first.server}" in said
    assert log.read_text().startswith(before)
    assert httpx2.get(first.url).status_code == 200


def test_a_port_in_use_names_the_process_that_has_it_and_another_port(make_run):
    program = (
        "import socket, sys; taken = socket.create_server(('127.0.0.1', 0));"
        "print(taken.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "--password=hunter2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        port = other.stdout.readline().strip()
        name = Path(f"/proc/{other.pid}/comm").read_text().strip()
        code, said = make_run(PORT=port).ended()
        other.stdin.close()
    assert code != 0
    assert f"port {port} of 127.0.0.1 is in use by process {other.pid} ({name})" in said
    assert "make run PORT=8778" in said
    assert "hunter2" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize("port", ["x", "-1", "65536", "²"])
def test_a_port_that_is_none_is_one_line(make_run, port):
    code, said = make_run(PORT=port).ended()
    assert code != 0
    assert f"make run: PORT={port} is not a port. Use a number from 0 (any free port) to 65535\n" in said


def test_the_port_that_is_asked_for_is_the_one_that_it_gets(make_run):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert make_run(PORT=str(port)).started().url == f"http://127.0.0.1:{port}"


def test_make_lists_the_variable_that_sets_the_port(checkout):
    listed = subprocess.run(["make"], cwd=checkout, env=plain_environment(), capture_output=True, text=True, check=True)
    (line,) = (line for line in listed.stdout.splitlines() if line.startswith("  make run "))
    assert "PORT=" in line


def test_a_server_that_cannot_start_shows_the_end_of_its_log(make_run, checkout):
    broken = checkout / ".stead" / "tokens.json"
    contents = broken.read_text()
    broken.write_text("{")
    try:
        code, said = make_run().ended()
    finally:
        broken.write_text(contents)
    assert code != 0
    assert f"token file {broken}" in said
    assert ".stead/serve.log" in said
