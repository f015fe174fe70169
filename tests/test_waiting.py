"""Tests wait for states, and end: what is refused in them, and what becomes of one that hangs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.waiting import TimedOut, stays, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
FOLDERS = (HERE, HERE.parent / "distributions" / "wsgi-lanes" / "tests")

MARK = re.compile(r"mark\.timeout\(([0-9.]+)")
DEFAULT_SECONDS = 60

MAY_SLEEP = {
    "waiting.py": "the one place that waits",
    "../distributions/wsgi-lanes/tests/lanes_testing/waiting.py": "the same, for tests that use nothing of Stead's",
    "../distributions/wsgi-lanes/tests/test_admission.py": "pauses of random length, so that threads meet anywhere",
    "../distributions/wsgi-lanes/tests/test_turns.py": "connections become overdue together, which no state shows",
    "system/hostile/runs.py": "probes beside an attack that lasts for as long as the caller says",
    "system/torture/run.py": "clients and faults run beside each other for as long as the caller says",
    "system/torture/site.py": "a server is stopped for a time that is drawn: the fault is how long it takes",
    "system/torture/galera.py": "likewise a node",
    "rooms/cli/conftest.py": "a server whose answers take as long as a test says",
    "rooms/serve/test_kept_connections.py": "half a millisecond between two segments; its length does not matter",
    "rooms/serve/test_serving.py": "`make torture` alone: a connection that was idle for 80 seconds",
}
"""Files in which `sleep` may be called, each with the reason. All others use tests/waiting.py."""


def _tests() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from folder.rglob("*.py")


def _name(path: Path) -> str:
    return os.path.relpath(path, HERE)


def sleeps(source: str) -> Iterator[int]:
    """The lines on which *source* calls, or imports, a function of the name `sleep`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = node.func
            if "sleep" in (getattr(called, "attr", None), getattr(called, "id", None)):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and "sleep" in {name.name for name in node.names}:
            yield node.lineno


def test_no_test_sleeps() -> None:
    sleeping = {
        f"{_name(path)}:{line}"
        for path in _tests()
        if _name(path) not in MAY_SLEEP
        for line in sleeps(path.read_text())
    }
    assert not sleeping, "wait for a state instead, with tests.waiting.wait_until"


def test_each_file_that_may_sleep_does() -> None:
    assert [name for name in MAY_SLEEP if not list(sleeps((HERE / name).read_text()))] == []


@pytest.mark.parametrize("source", ["import time\ntime.sleep(1)", "from time import sleep", "await asyncio.sleep(0)"])
def test_every_way_to_sleep_is_found(source: str) -> None:
    assert list(sleeps(source))


def test_each_timeout_that_is_longer_than_the_default_says_why() -> None:
    silent = [
        f"{_name(path)}:{number}"
        for path in _tests()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (mark := MARK.search(line)) and float(mark[1]) > DEFAULT_SECONDS and "#" not in line[mark.end() :]
    ]
    assert silent == []


def test_a_wait_gives_the_first_true_value() -> None:
    values = iter([0, "", "here", "later"])
    assert wait_until(lambda: next(values)) == "here"


def test_a_wait_looks_once_more_after_its_deadline() -> None:
    """A process that did not run for a while has not missed what happened meanwhile."""
    looks: list[float] = []

    def condition() -> bool:
        looks.append(time.monotonic())
        while time.monotonic() < looks[0] + 0.1:
            pass
        return len(looks) > 1

    assert wait_until(condition, seconds=0.05)


def test_a_wait_says_what_did_not_happen() -> None:
    with pytest.raises(TimedOut, match="the door stays shut"):
        wait_until(lambda: False, "the door stays shut", seconds=-1)
    with pytest.raises(TimedOut, match="3 of 4"):
        wait_until(lambda: False, lambda: f"{3} of 4", seconds=0.05)


def test_what_stays_is_looked_at_more_than_once() -> None:
    values = iter([True, False])
    assert not stays(lambda: next(values))
    assert stays(lambda: True, seconds=0.02)


HANGING = {
    "the main thread": "threading.Event().wait()",
    "a thread of a pool": "with ThreadPoolExecutor(1) as pool: pool.submit(threading.Event().wait).result()",
}
SAMPLE = """
import threading
from concurrent.futures import ThreadPoolExecutor
import pytest

@pytest.mark.timeout(2)
def test_that_hangs():
    {statement}
"""


@pytest.mark.timeout(180)  # starts up to 3 processes of Python and waits for the timeouts of the sample
@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("statement", HANGING.values(), ids=HANGING)
def test_a_test_that_hangs_fails(tmp_path: Path, statement: str, workers: str) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE.format(statement=statement))
    (tmp_path / "conftest.py").write_text("from tests import timeouts\ntimeouts.GRACE_SECONDS = 3.0\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout_method = signal\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.timeouts", "-p", "no:cacheprovider", "-n", workers, "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "test_that_hangs" in said
    assert "Timeout" in said
