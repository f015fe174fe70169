"""``stead top`` and ``stead watch``: the live view at every usual size, its keys, and a server that restarts."""

import fcntl
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
import threading
from itertools import count

import pytest
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.top import Frame, View, draw_frame, ordered, press, visible
from tests.conftest import write_configuration
from tests.rooms.cli.test_tree_summary import roots
from tests.servers.placements import stead_itself
from tests.servers.stead import started
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.one_database

STEAD = [sys.executable, "-c", "from stead.cli import main; main()"]
SITE = "providers:\n" + "".join(f"- {{name: host-{number}, inventories: {{VCPU: 8}}}}\n" for number in range(1, 9))


def frame(hosts=1000):
    changes = [f"18:59:{number:02} provider compute-{number:04}: 4 / 16 VCPU {'x' * 300}" for number in range(30)]
    return Frame(roots(hosts) if hosts else [], 12.5, changes, "18:59:11")


@pytest.mark.parametrize("size", [(40, 24), (80, 24), (120, 40), (200, 60), (80, 5), (10, 3)])
@pytest.mark.parametrize("hosts", [0, 8, 1000])
@pytest.mark.parametrize("order", ["used", "name"])
def test_a_frame_fits_the_terminal(size, hosts, order):
    width, height = size
    lines = [line.plain for line in draw_frame(frame(hosts), View(order), width, height)]
    assert len(lines) <= height
    assert [line for line in lines if cell_len(line) > width] == [] or width < 40
    if height >= 24:
        assert lines[-1].startswith("q quit")
        assert f"{hosts:,} hosts" in lines[0]


def test_a_frame_has_the_fullest_and_the_emptiest_hosts_and_the_latest_changes():
    text = "\n".join(line.plain for line in draw_frame(frame(), View(), 120, 40))
    assert "12.5 claims/s" in text
    fullest, emptiest = text.index("fullest"), text.index("emptiest")
    assert fullest < text.index("compute-0010") < emptiest  # hosts with GPUs are full to 75 %
    assert "18:59:29" in text
    assert "18:59:01" not in text


def test_a_frame_has_what_the_flavors_cannot_use():
    shown = frame()
    shown.stranded = {"VCPU": 0, "VGPU": 1200}
    lines = [line.plain for line in draw_frame(shown, View(), 120, 40)]
    assert "stranded for the flavors: 1,200 VGPU" in lines


def test_one_view_of_a_large_site_is_short(tmp_path, capsys):
    hosts = "".join(f"- {{name: host-{number:03}, inventories: {{VCPU: 8}}}}\n" for number in range(100))
    (tmp_path / "site.yaml").write_text(f"providers:\n{hosts}")
    with stead_itself(tmp_path) as (url, token):
        assert run(["--url", url, "--token", token, "topology", "apply", str(tmp_path / "site.yaml")]) == 0
        capsys.readouterr()
        assert run(["--url", url, "--token", token, "top", "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "100 hosts" in lines[0]
    assert {"fullest", "emptiest"} <= set(lines)
    assert 30 < len(lines) <= 50


def test_keys_sort_filter_and_quit():
    view, site = View(), frame()
    assert press(view, "c", ["MEMORY_MB", "PCPU"])
    assert view.resource_class == "MEMORY_MB"
    fullest = ordered(site.roots, view)[0].sums["MEMORY_MB"].used
    assert fullest == max(root.sums["MEMORY_MB"].used for root in site.roots)
    for expected in ("PCPU", ""):
        press(view, "c", ["MEMORY_MB", "PCPU"])
        assert view.resource_class == expected
    press(view, "s", [])
    assert [root.name for root in ordered(site.roots, view)][:2] == ["compute-0001", "compute-0002"]
    for key in "/00x\x7f7\r":
        assert press(view, key, [])
    assert view.pattern == "007"
    assert {root.name for root in visible(site, view)} == {"compute-0007", *(f"compute-007{n}" for n in range(10))}
    for key in "/q\x1b":
        assert press(view, key, [])
    assert (view.pattern, view.typing) == ("007", None)
    assert not press(view, "q", [])


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("top")
    with stead_itself(directory) as (url, token):
        (directory / "site.yaml").write_text(SITE)
        assert run(["--url", url, "--token", token, "topology", "apply", str(directory / "site.yaml")]) == 0
        yield ["--url", url, "--token", token]


def test_without_a_terminal_one_view_is_printed(address, capsys):
    capsys.readouterr()
    assert run([*address, "claim", "resources=VCPU:8", "--project", "p", "--user", "u", "--consumer-name", "a"]) == 0
    capsys.readouterr()
    assert run([*address, "top"]) == 0
    out = capsys.readouterr().out
    assert "8 hosts, 8 providers" in out
    assert "8 / 64" in out
    assert "stranded" not in out  # without flavors
    assert run([*address, "flavors", "set", "large", "resources=VCPU:5"]) == 0
    capsys.readouterr()
    assert run([*address, "top"]) == 0
    assert "stranded for the flavors: 21 VCPU" in capsys.readouterr().out  # 3 of each of seven hosts
    assert run([*address, "flavors", "delete", "large"]) == 0
    capsys.readouterr()
    assert run([*address, "top", "--filter", "host-1", "--json"]) == 0
    assert re.findall('"name": "(.*)"', capsys.readouterr().out) == ["host-1"]
    assert run([*address, "release", "a"]) == 0


def test_on_a_terminal_the_view_follows_the_server_until_q(address):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    with subprocess.Popen(
        [*STEAD, *address, "top", "--interval", "0.2"],
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        env={**{key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}, "TERM": "xterm"},
    ) as top:
        shown = bytearray()
        reading = threading.Thread(target=_read_into, args=(ours, shown))
        reading.start()
        wait_until(lambda: b"8 hosts" in shown)
        assert run([*address, "claim", "resources=VCPU:4", "--project", "p", "--user", "u", "--type", "JOB"]) == 0
        wait_until(lambda: b"JOB of project p" in shown)
        os.write(ours, b"/host-3\r")
        wait_until(lambda: b"filter host-3" in shown)
        os.write(ours, b"q")
        assert top.wait(PATIENCE_SECONDS) == 0
        os.close(theirs)
        reading.join()
    os.close(ours)


def _read_into(terminal, shown):
    try:
        while piece := os.read(terminal, 65536):
            shown += piece
    except OSError:
        pass


@pytest.mark.timeout(120)  # starts two servers
def test_watch_goes_on_after_a_restart_of_the_server_and_misses_nothing(tmp_path):
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/stead.db")
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = str(reserved.getsockname()[1])
    asking = ["--url", f"http://127.0.0.1:{port}", "--token", "admin"]
    with started(configuration, workers=1, options=("--port", port)):
        watching = subprocess.Popen([*STEAD, *asking, "watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines, errors = bytearray(), bytearray()
        threads = [
            threading.Thread(target=_read_into, args=(watching.stdout.fileno(), lines)),
            threading.Thread(target=_read_into, args=(watching.stderr.fileno(), errors)),
        ]
        for thread in threads:
            thread.start()

        probes = count()

        def is_watching():
            assert run([*asking, "provider", "create", f"probe-{next(probes)}"]) == 0
            return b"provider probe-" in lines

        wait_until(is_watching)
    wait_until(lambda: b"trying again" in errors)
    with started(configuration, workers=1, options=("--port", port)):
        assert run([*asking, "provider", "create", "after", "--inventory", "VCPU=8"]) == 0
        wait_until(lambda: b"provider after: 0 / 8 VCPU" in lines)
        watching.terminate()
        watching.wait(PATIENCE_SECONDS)
        for thread in threads:
            thread.join()
        watching.stdout.close()
        watching.stderr.close()
