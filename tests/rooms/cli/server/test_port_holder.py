"""Which process has a port, told to one who wants it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stead.cli.server import port_holder

HOLD = """
import os, socket, sys, time
six = ":" in sys.argv[1]
family = socket.AF_INET6 if six else socket.AF_INET
with socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=six) as taken:
    if sys.argv[2] == "forked" and os.fork() == 0:
        time.sleep(600)
    print(taken.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def hold():
    """Let another process listen at an address; its id, its name, and the port."""
    started = []

    def hold(address="127.0.0.1", how="alone"):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, address, how, "--password=hunter2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        port = int(process.stdout.readline())
        return process.pid, Path(f"/proc/{process.pid}/comm").read_text().strip(), port

    yield hold
    for process in started:
        os.killpg(process.pid, 9)
        process.communicate()


@pytest.mark.parametrize(
    ("taken", "asked"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("127.0.0.1", "::"), ("::1", "::1"), ("::1", "::"),
     ("::ffff:127.0.0.1", "127.0.0.1"), ("127.0.0.2", "127.0.0.2")],
)  # fmt: skip
def test_a_process_is_named_at_each_address_where_it_is_in_the_way(hold, taken, asked):
    pid, name, port = hold(taken)
    assert port_holder(asked, port) == f"process {pid} ({name})"


@pytest.mark.parametrize(
    ("taken", "asked"),
    [("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("::1", "0.0.0.0")],
)
def test_one_at_another_address_is_not(hold, taken, asked):
    _, _, port = hold(taken)
    assert port_holder(asked, port) is None


def test_a_free_port_has_no_holder():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert port_holder("127.0.0.1", port) is None


def test_of_a_server_and_its_workers_the_server_is_named(hold):
    pid, name, port = hold(how="forked")
    assert port_holder("127.0.0.1", port) == f"process {pid} ({name})"


def test_a_listener_is_named_before_its_clients(hold):
    pid, name, port = hold()
    with socket.create_connection(("127.0.0.1", port)):
        assert port_holder("127.0.0.1", port) == f"process {pid} ({name})"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_of_another_user_s_process_the_user_is_named():
    ask = (
        "import os, sys; from stead.cli.server import port_holder;"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); print(port_holder('127.0.0.1', int(sys.argv[1])))"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = [sys.executable, "-c", ask, str(taken.getsockname()[1])]
        assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "a process of root\n"


def test_a_name_that_moves_the_cursor_is_made_harmless(monkeypatch):
    own_name = Path("/proc/self/comm").read_text()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        try:
            Path("/proc/self/comm").write_text("a\x1b[2J\nb")
            assert port_holder("127.0.0.1", taken.getsockname()[1]) == f"process {os.getpid()} (a?[2J?b)"
        finally:
            Path("/proc/self/comm").write_text(own_name.strip())
