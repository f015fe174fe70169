"""What `stead topology` reads may have no end: a device, a pipe whose writer never stops, the wrong file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stead.topology.document import MAX_BYTES as MAX_SITE_BYTES
from stead.topology.machine import MAX_BYTES
from tests.checkout import ROOT

_STEAD = "from stead.cli import main; main()"
_BOUNDED = (
    "import resource, sys; room = int(sys.argv.pop(1));resource.setrlimit(resource.RLIMIT_AS, (room, room));" + _STEAD
)  # so that a reader that does not stop ends at once, instead of with the machine's memory

LIMITS = {"hwloc": MAX_BYTES, "apply": MAX_SITE_BYTES}
ADVICE = {"hwloc": "", "apply": "; split it into several files, which form one site"}


def run(command: str, path: str, stdin: int = subprocess.DEVNULL) -> tuple[int, str, str]:
    """What the command does with memory for four times its limit."""
    room = 4 * LIMITS[command] + (1 << 30)
    done = subprocess.run(
        [sys.executable, "-c", _BOUNDED, str(room), "topology", command, path],
        stdin=stdin, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def require_refusal(command: str, called: str, said: tuple[int, str, str]) -> None:
    mebibytes = LIMITS[command] // (1 << 20)
    assert said == (2, "", f"stead: {called}: larger than {mebibytes} MiB{ADVICE[command]}\n")


@pytest.mark.parametrize("command", LIMITS)
def test_a_device_without_an_end_is_refused(command: str):
    require_refusal(command, "/dev/zero", run(command, "/dev/zero"))


@pytest.mark.parametrize("command", LIMITS)
def test_standard_input_without_an_end_is_refused(command: str):
    with Path("/dev/zero").open("rb") as endless:
        require_refusal(command, "standard input", run(command, "-", endless.fileno()))


@pytest.mark.parametrize("command", LIMITS)
def test_a_pipe_whose_writer_never_stops_is_refused(command: str, tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", 'exec cat /dev/zero > "$1"', "sh", str(pipe)], stderr=subprocess.DEVNULL)
    try:
        require_refusal(command, str(pipe), run(command, str(pipe)))
        assert writer.wait(30) != 0, "the reader has closed its end"
    finally:
        writer.kill()
        writer.wait()


@pytest.mark.parametrize("command", LIMITS)
def test_a_file_beyond_any_memory_is_refused(command: str, tmp_path: Path):
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no room on the disk
    require_refusal(command, str(huge), run(command, str(huge)))


@pytest.mark.parametrize("command", LIMITS)
def test_closed_standard_input_is_said(command: str):
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", _STEAD, "topology", command, "-"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stdout, closed.stderr) == (2, "", "stead: standard input is closed\n")


def test_a_pipe_that_delivers_in_pieces_is_read_to_its_end(tmp_path: Path):
    sample = ROOT / "samples" / "site" / "small.xml"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = 'exec > "$2"; head -c 700 "$1"; tail -c +701 "$1"'
    with subprocess.Popen(["sh", "-c", script, "sh", str(sample), str(pipe)]) as writer:
        done = subprocess.run(
            [sys.executable, "-c", _STEAD, "topology", "hwloc", str(pipe), "--name", "h"],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert writer.wait(30) == 0
    assert done.returncode == 0
    assert "name: h_NUMA0" in done.stdout
